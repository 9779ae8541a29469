package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Whereabouts is where a connection ends, whatever host name, address, socket or pooler
// it was made through. Two equal ones are one database.
type Whereabouts struct {
	// System is the cluster's system identifier; a standby and a physical copy have the
	// same, so that a copy made from production still counts as production.
	System string
	// Database is the oid of the database in that cluster and its name.
	Database string
}

// Locate asks the server where the connection ends. It reads in one statement and
// changes nothing. Refusals are *authority.Error, as those of a store.
func Locate(ctx context.Context, server Server) (Whereabouts, error) {
	at, err := locate(ctx, server)
	return at, answerAs("locate", "", err, unreadable)
}

func locate(ctx context.Context, server Server) (at Whereabouts, err error) {
	server.fill()
	l, err := newLink(server)
	if err != nil {
		return at, err
	}
	conn, err := pgx.ConnectConfig(ctx, l.config.ConnConfig)
	if err != nil {
		return at, &connectError{err}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `SELECT c.system_identifier::text, d.oid::text || ':' || d.datname
		FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()`).Scan(&at.System, &at.Database)
	return at, err
}

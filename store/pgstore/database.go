package pgstore

import (
	"database/sql"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Database opens the server for a reader that brings its own statements and shares
// nothing with this store: a verifier. Nothing is connected to before the first of them.
// Refused is a connection string that cannot be understood (ReasonDSN).
func (s Server) Database() (*sql.DB, error) {
	s.fill()
	config, err := parse(s)
	if err != nil {
		return nil, refuse(authority.ClassFailed, ReasonDSN, "the connection string cannot be understood").Field("dsn")
	}
	return stdlib.OpenDB(*config.ConnConfig), nil
}

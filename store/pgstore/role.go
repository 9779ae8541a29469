package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// SessionRole is the role that the server has authenticated a connection as. A role taken
// on afterwards (SET ROLE) does not count: the server would let many take on the same.
func SessionRole(ctx context.Context, server Server) (role string, err error) {
	err = administer(ctx, server, "session role", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT session_user::text").Scan(&role)
	})
	return role, answerAs("open", "", err, unreadable)
}

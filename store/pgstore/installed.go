package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
)

// InstalledIdentity is the identity of a database, empty when LoopX's schema is not
// there. It needs no tenant: the identity belongs to the database and not to a Goal.
func InstalledIdentity(ctx context.Context, server Server) (authority.Identity, error) {
	var identity authority.Identity
	err := administer(ctx, server, "read identity", func(ctx context.Context, conn *pgx.Conn) error {
		var there bool
		if err := conn.QueryRow(ctx, "SELECT to_regclass('loopx_control_plane.authority_store_metadata') IS NOT NULL").Scan(&there); err != nil || !there {
			return err
		}
		err := conn.QueryRow(ctx, "SELECT store_identity FROM loopx_control_plane.authority_store_metadata WHERE singleton").Scan(&identity)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return identity, answerAs("identity", "", err, unreadable)
}

package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Reasons of a rotation, as LoopX spells them, and one of this tool's.
const (
	// ReasonInvalidIdentity: one of the identities is malformed.
	ReasonInvalidIdentity authority.Reason = "invalid_store_identity"
	// ReasonIdentityUnchanged: the new identity is the old one.
	ReasonIdentityUnchanged authority.Reason = "store_identity_unchanged"
	// ReasonRotationUnknown: whether the identity was rotated is not known.
	ReasonRotationUnknown authority.Reason = "store_identity_rotation_outcome_unknown"
	// ReasonMigrationOpen: a fence or a candidate stands in the database.
	ReasonMigrationOpen authority.Reason = "migration_open"
)

// RotatePlan gives a restored database an identity of its own, so that every revision
// handed out before the restore is refused. No row of a Goal is written.
func RotatePlan(expected, next authority.Identity) (Plan, error) {
	err := checkRotation(expected, next)
	return Plan{Title: "rotate identity", SQL: []string{
		"SELECT pg_advisory_xact_lock(5522768808912313929);\n",
		fmt.Sprintf("UPDATE loopx_control_plane.authority_store_metadata SET store_identity = '%s'\n"+
			"    WHERE singleton = TRUE AND store_identity = '%s';\n", next, expected),
	}}, answerAs("rotate", "", err, unwritten)
}

func checkRotation(expected, next authority.Identity) error {
	switch {
	case !expected.Valid(authority.KindPostgreSQL), !next.Valid(authority.KindPostgreSQL):
		return refuse(authority.ClassFailed, ReasonInvalidIdentity, "PostgreSQL store identities must match postgresql:<32 lowercase hex>").Field("store_identity")
	case expected == next:
		return refuse(authority.ClassFailed, ReasonIdentityUnchanged, "PostgreSQL store identity rotation requires a new incarnation").Field("store_identity")
	}
	return nil
}

// RotateIdentity does what RotatePlan says, as the owner of the metadata, alone: commits in
// flight end first. Refused are another identity than the expected one, and any fence or
// candidate in the database (ReasonMigrationOpen, with how many): a migration's manifest
// holds the old identity. Fences of Goals that were set aside do not count.
func RotateIdentity(ctx context.Context, server Server, expected, next authority.Identity) error {
	err := checkRotation(expected, next)
	if err == nil {
		err = administer(ctx, server, "rotate identity", func(ctx context.Context, conn *pgx.Conn) error {
			return rotate(ctx, conn, expected, next)
		})
	}
	said := uncertainAdmin(err)
	if class, _ := authority.DraftReason(said); class == authority.ClassAmbiguous {
		said = refuse(class, ReasonRotationUnknown, "whether the identity was rotated is unknown; read it before any retry").Because(err)
	}
	return answerAs("rotate", "", said, unwritten)
}

func rotate(ctx context.Context, conn *pgx.Conn, expected, next authority.Identity) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_xact_lock(5522768808912313929)"); err != nil {
		return err
	}
	if err := metadataIs(ctx, conn, expected); err != nil {
		if _, reason := authority.DraftReason(err); reason == ReasonIdentityMismatch {
			return refuse(authority.ClassFailed, reason, "PostgreSQL store identity does not match the expected database incarnation").Field("store_identity")
		}
		return err
	}
	var installed bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('loopx_control_plane.loopx_migrate_fences') IS NOT NULL").Scan(&installed); err != nil {
		return err
	}
	if installed {
		var open int64
		err := conn.QueryRow(ctx, `SELECT count(*) FROM loopx_control_plane.loopx_migrate_fences AS f WHERE f.state <> 'open'
			AND NOT (f.state = 'fenced' AND EXISTS (SELECT 1 FROM loopx_control_plane.loopx_migrate_quarantine AS q
				WHERE q.tenant_id = f.tenant_id AND q.goal_id = f.goal_id AND q.fence_id = f.fence_id AND q.restored_at IS NULL))`).Scan(&open)
		if err != nil {
			return err
		}
		if open > 0 {
			return refuse(authority.ClassFailed, ReasonMigrationOpen,
				fmt.Sprintf("%d goals are fenced or under construction; finish their migrations first", open)).Field("loopx_migrate_fences")
		}
	}
	_, err := conn.Exec(ctx, "UPDATE loopx_control_plane.authority_store_metadata SET store_identity = $1 WHERE singleton = TRUE", string(next))
	return err
}

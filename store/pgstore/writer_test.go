package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/loopx-project/loopx-migrate/authority"
)

// writer sends the statements that LoopX's adapter was seen to send, one by one, in its
// order, so that a test can stop between any two of them.
type writer struct {
	t         testing.TB
	conn      *pgx.Conn
	tenant    string
	goal      string
	isolation string // of BEGIN; LoopX names none and gets the role's default
}

// loopx connects as the role LoopX would use.
func (b *bench) loopx(t testing.TB, goal, isolation string) *writer {
	t.Helper()
	return &writer{t: t, conn: b.Connect(t, b.runtime), tenant: "tenant-a", goal: goal, isolation: isolation}
}

// steps of a commit, as far as a test wants to stop before one.
const (
	stepBegin = iota
	stepTenant
	stepLock
	stepMetadata
	stepEmptyHead
	stepHead
	stepOperation
	stepCommit
	stepEvents
	stepReceipts
	stepMove
	stepCOMMIT
	stepsEnd
)

// run sends the steps from..to-1 of a commit that takes cursor n. The first error ends it.
func (w *writer) run(from, to int, n int64, operation string) error {
	ctx := context.Background()
	projection := fmt.Sprintf(`{"last": %q}`, operation)
	for step := from; step < to; step++ {
		var err error
		switch step {
		case stepBegin:
			_, err = w.conn.Exec(ctx, "BEGIN"+w.isolation)
		case stepTenant:
			err = w.sees("SELECT set_config('loopx.tenant_id', $1, TRUE) AS tenant_id", w.tenant)
		case stepLock:
			err = w.sees("SELECT pg_advisory_xact_lock_shared($1::bigint)", "5522768808912313929")
		case stepMetadata:
			err = w.sees("SELECT schema_version, store_identity FROM loopx_control_plane.authority_store_metadata WHERE singleton = TRUE")
		case stepEmptyHead:
			_, err = w.conn.Exec(ctx, `INSERT INTO loopx_control_plane.authority_heads (tenant_id, goal_id, provider_revision, cursor, head)
				VALUES ($1, $2, 0, 0, NULL) ON CONFLICT (tenant_id, goal_id) DO NOTHING`, w.tenant, w.goal)
		case stepHead:
			err = w.sees(`SELECT provider_revision::text AS provider_revision, cursor::text AS cursor, head
				FROM loopx_control_plane.authority_heads WHERE tenant_id = $1 AND goal_id = $2 FOR UPDATE`, w.tenant, w.goal)
		case stepOperation:
			err = w.sees(`SELECT cursor::text AS cursor, provider_revision::text AS provider_revision
				FROM loopx_control_plane.authority_commits WHERE tenant_id = $1 AND goal_id = $2 AND operation_id = $3`, w.tenant, w.goal, operation)
		case stepCommit:
			_, err = w.conn.Exec(ctx, `INSERT INTO loopx_control_plane.authority_commits (tenant_id, goal_id, cursor, provider_revision, operation_id, projection)
				VALUES ($1, $2, $3::bigint, $4::bigint, $5, $6::jsonb)`, w.tenant, w.goal, n, n, operation, projection)
		case stepEvents:
			_, err = w.conn.Exec(ctx, `INSERT INTO loopx_control_plane.authority_events (tenant_id, goal_id, cursor, event_index, event)
				VALUES ($1, $2, $3::bigint, $4, $5::jsonb)`, w.tenant, w.goal, n, 0, `{"kind": "loopx"}`)
		case stepReceipts:
			_, err = w.conn.Exec(ctx, `INSERT INTO loopx_control_plane.authority_receipts (tenant_id, goal_id, cursor, receipt_index, receipt)
				VALUES ($1, $2, $3::bigint, $4, $5::jsonb)`, w.tenant, w.goal, n, 0, `{"status": "applied"}`)
		case stepMove:
			_, err = w.conn.Exec(ctx, `UPDATE loopx_control_plane.authority_heads SET provider_revision = $3::bigint, cursor = $4::bigint,
				head = $5::jsonb, updated_at = transaction_timestamp()
				WHERE tenant_id = $1 AND goal_id = $2 AND provider_revision = $6::bigint`, w.tenant, w.goal, n, n, projection, n-1)
		case stepCOMMIT:
			_, err = w.conn.Exec(ctx, "COMMIT")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sees runs a query and reads its rows.
func (w *writer) sees(query string, args ...any) error {
	rows, err := w.conn.Query(context.Background(), query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return rows.Err()
}

// commit sends a whole commit.
func (w *writer) commit(n int64, operation string) error {
	err := w.run(stepBegin, stepsEnd, n, operation)
	if err != nil {
		_, _ = w.conn.Exec(context.Background(), "ROLLBACK") // as LoopX does, whatever happened
	}
	return err
}

// fencedBy reports whether an error is what LoopX gets from a fence.
func fencedBy(err error, id string) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Message == "loopx_migrate_fence:"+id
}

// TestLoopXCommitsAreSealed: what LoopX's statements write is sealed, audited, and named
// when it is edited.
func TestLoopXCommitsAreSealed(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	for name, isolation := range map[string]string{"read committed": "", "repeatable read": " ISOLATION LEVEL REPEATABLE READ"} {
		t.Run(name, func(t *testing.T) {
			w := b.loopx(t, s.GoalID(), isolation)
			n := int64(0)
			if head, err := s.Load(t.Context()); err == nil {
				n = int64(head.Cursor)
			}
			for i := range int64(3) {
				if err := w.commit(n+i+1, fmt.Sprintf("%s-%d", strings.ReplaceAll(name, " ", "-"), i)); err != nil {
					t.Fatal(err)
				}
			}
			lineage := audited(t, s)
			if int64(lineage.End.Cursor) != n+3 {
				t.Errorf("the audit ends at %s", lineage.End.Cursor)
			}
			on := authority.Applied{Cursor: lineage.End.Cursor, Revision: lineage.End.Revision}
			commit(t, s, on, "ours-after-"+isolation)
		})
	}
	b.Exec(t, `UPDATE loopx_control_plane.authority_receipts SET receipt = '{"status": "forged"}' WHERE cursor = 2`)
	_, err := s.Audit(t.Context(), nil, nil)
	if e := requireReason(t, "audit", err, authority.ClassFailed, authority.ReasonDefect); e.Cursor != 2 || e.Field != "authority_receipts[0].receipt" {
		t.Errorf("it names %v", e)
	}
}

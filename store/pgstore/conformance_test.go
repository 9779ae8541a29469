package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/storetest"
)

func TestConformance(t *testing.T) {
	// Two databases in turn, so that "another store" is of another identity.
	databases := []*bench{installed(t), withRoles(t, pgtest.New(t))}
	databases[1].install(t, "postgresql:22222222222222222222222222222222")
	turn := 0
	storetest.Run(t, storetest.Harness{
		Kind: authority.KindPostgreSQL,
		New: func(t testing.TB) authority.Store {
			turn++
			b := databases[turn%2]
			return openFor(t, Options{Server: Server{DSN: b.DSN(b.operator)}, Tenant: "tenant-a", GoalID: freshGoal(), Mode: ReadWrite})
		},
		Reopen:   func(t testing.TB, store authority.Store) authority.Store { return openFor(t, store.(*Store).options) },
		Snapshot: func(t testing.TB, store authority.Store) fixture.Tree { return fixture.Tree(contents(t, store)) },
		Rewrite:  func(t testing.TB, store authority.Store) { rewriteLast(t, store.(*Store)) },
		Differences: storetest.Differences{
			ExpectedMustHaveShape: true,
			// LoopX does not count the expected revision here; the suite does.
			CapacityBytes:           Capacity + len(`"expected_provider_revision":null,`),
			RefusesNULAndSurrogates: true,
		},
	})
}

func openFor(t testing.TB, o Options) authority.Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asAdmin connects the superuser to a store's database.
func asAdmin(t testing.TB, s *Store) *pgx.Conn {
	t.Helper()
	config := s.link.config.ConnConfig.Copy()
	config.User = pgtest.Admin
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // its end means nothing
	return conn
}

// contents is everything the database holds of a Goal, also where the store does not
// look, but for the time when its fence was turned.
func contents(t testing.TB, store authority.Store) (all string) {
	t.Helper()
	conn := asAdmin(t, store.(*Store))
	for _, table := range []string{"authority_heads", "authority_commits", "authority_events", "authority_receipts", "loopx_migrate_seals", "loopx_migrate_fences"} {
		var text *string
		err := conn.QueryRow(context.Background(), "SELECT string_agg((to_jsonb(t) - 'changed_at')::text, E'\n' ORDER BY t::text) FROM loopx_control_plane."+table+
			" AS t WHERE t.goal_id = $1", store.GoalID()).Scan(&text)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		if text != nil {
			all += *text + "\n"
		}
	}
	return all
}

// rewriteLast replaces the newest row as a superuser can who knows of the seals.
func rewriteLast(t testing.TB, s *Store) {
	t.Helper()
	head, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	conn := asAdmin(t, s)
	for _, statement := range []string{
		"UPDATE loopx_control_plane.authority_commits SET projection = '{\"forged\": true}' WHERE tenant_id = $1 AND goal_id = $2 AND cursor = $3",
		"UPDATE loopx_control_plane.authority_heads SET head = '{\"forged\": true}' WHERE tenant_id = $1 AND goal_id = $2 AND cursor = $3",
		"DELETE FROM loopx_control_plane.loopx_migrate_seals WHERE tenant_id = $1 AND goal_id = $2 AND cursor = $3",
		`SELECT loopx_control_plane.loopx_migrate_seal_rows($1, $2, $3 - 1, $3, (SELECT updated_at FROM loopx_control_plane.authority_heads
			WHERE tenant_id = $1 AND goal_id = $2), 'commit')`,
	} {
		if _, err := conn.Exec(context.Background(), statement, s.Tenant(), s.GoalID(), int64(head.Cursor)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Audit(context.Background(), nil, nil); err != nil {
		t.Fatalf("the forgery is not one, the audit finds it: %v", err)
	}
}

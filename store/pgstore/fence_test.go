package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

var isolations = map[string]string{"read committed": " ISOLATION LEVEL READ COMMITTED", "repeatable read": " ISOLATION LEVEL REPEATABLE READ",
	"serializable": " ISOLATION LEVEL SERIALIZABLE"}

// TestFenceRace stops a writer that uses LoopX's statements before each of its steps,
// engages the fence, and lets it go on. Either the writer has locked the head: then the
// fence waits and meets its commit; or it fails. There is no third way.
func TestFenceRace(t *testing.T) {
	b := installed(t)
	for name, isolation := range isolations {
		for step := stepBegin; step <= stepCOMMIT; step++ {
			t.Run(fmt.Sprintf("%s/before step %d", name, step), func(t *testing.T) {
				s := b.store(t, freshGoal())
				on := history(t, s, 2)
				w := b.loopx(t, s.GoalID(), isolation)
				if err := w.run(stepBegin, step, 3, "in-flight"); err != nil {
					t.Fatal(err)
				}
				if step <= stepHead {
					requireFencedOut(t, s, w, step, on)
					return
				}
				requireWaitedFor(t, b, s, w, step, on)
			})
		}
	}
}

// requireFencedOut: the fence does not wait for a writer that has no lock yet, and that
// writer then fails, also with its old snapshot.
func requireFencedOut(t *testing.T, s *Store, w *writer, step int, on authority.Applied) {
	t.Helper()
	if err := s.EngageFence(t.Context(), "fence-1", on); err != nil {
		t.Fatalf("engage: %v", err)
	}
	if err := w.run(step, stepsEnd, 3, "in-flight"); err == nil {
		t.Error("the writer came through")
	}
	if end := audited(t, s).End; end.Cursor != on.Cursor {
		t.Errorf("the history ends at %s behind the fence", end.Cursor)
	}
}

// requireWaitedFor: the fence waits for a writer that holds the head, and is then told
// that the head has moved.
func requireWaitedFor(t *testing.T, b *bench, s *Store, w *writer, step int, on authority.Applied) {
	t.Helper()
	engaged := make(chan error, 1)
	go func() { engaged <- s.EngageFence(context.Background(), "fence-1", on) }()
	awaitBlocked(t, b, w.conn)
	if err := w.run(step, stepsEnd, 3, "in-flight"); err != nil {
		t.Fatalf("the writer that held the head failed: %v", err)
	}
	e := requireReason(t, "engage", <-engaged, authority.ClassConflict, authority.ReasonRevisionMismatch)
	if e.Current.Cursor != 3 {
		t.Errorf("the conflict says %+v", e.Current)
	}
	if err := s.EngageFence(t.Context(), "fence-1", e.Current); err != nil {
		t.Fatalf("engage on the new head: %v", err)
	}
	if err := w.commit(4, "late"); !fencedBy(err, "fence-1") {
		t.Errorf("a writer behind the fence: %v", err)
	}
	if end := audited(t, s).End; end.Cursor != 3 {
		t.Errorf("the history ends at %s behind the fence", end.Cursor)
	}
}

// awaitBlocked returns when somebody waits for a lock that conn holds.
func awaitBlocked(t *testing.T, b *bench, conn *pgx.Conn) {
	t.Helper()
	looker := b.Connect(t, pgtest.Admin)
	pid := int32(conn.PgConn().PID())
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		var waiting bool
		err := looker.QueryRow(context.Background(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity
			WHERE datname = current_database() AND $1 = ANY (pg_blocking_pids(pid)))`, pid).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting {
			return
		}
	}
	t.Fatal("nobody waits")
}

// TestFenceStops: every write of every kind fails with the fence id while reads go on, and
// lifting it leaves everything as it was.
func TestFenceStops(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 2)
	before := contents(t, s)
	if err := s.EngageFence(t.Context(), "fence-1", on); err != nil {
		t.Fatal(err)
	}
	if err := s.EngageFence(t.Context(), "fence-1", on); err != nil {
		t.Errorf("the same fence again: %v", err)
	}
	requireReason(t, "another fence", s.EngageFence(t.Context(), "fence-2", on), authority.ClassConflict, ReasonFenceHeld)
	requireReason(t, "lift another", s.LiftFence(t.Context(), "fence-2"), authority.ClassConflict, ReasonFenceHeld)
	requireReason(t, "no fence id", s.EngageFence(t.Context(), "a b", on), authority.ClassFailed, ReasonFenceID)
	if id, engaged, err := s.Fence(t.Context()); id != "fence-1" || !engaged || err != nil {
		t.Errorf("fence: %q %t %v", id, engaged, err)
	}
	_, err := s.Commit(t.Context(), request(on, "op-3"))
	requireReason(t, "our commit", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	requireReason(t, "our check", s.CheckCommit(t.Context(), request(on, "op-3")), authority.ClassFailed, authority.ReasonTransactionFailed)
	if err := b.loopx(t, s.GoalID(), "").commit(3, "op-3"); !fencedBy(err, "fence-1") {
		t.Errorf("LoopX's commit: %v", err)
	}
	requireSuperuserStopped(t, b, s.GoalID())
	if end := audited(t, s).End; end.Cursor != 2 {
		t.Errorf("audit behind the fence ends at %s", end.Cursor)
	}
	if err := s.LiftFence(t.Context(), "fence-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.LiftFence(t.Context(), "fence-1"); err != nil {
		t.Errorf("lift again: %v", err)
	}
	if after := contents(t, s); after != before {
		t.Errorf("lifting left:\n%s\nwas\n%s", after, before)
	}
	commit(t, s, on, "op-3")
}

// requireSuperuserStopped: who forgets about the fence is stopped too, whatever role, also
// in replica mode and by TRUNCATE.
func requireSuperuserStopped(t *testing.T, b *bench, goal string) {
	t.Helper()
	conn := b.Connect(t, pgtest.Admin)
	for _, sql := range []string{
		`UPDATE loopx_control_plane.authority_heads SET updated_at = now() WHERE goal_id = '` + goal + `'`,
		`DELETE FROM loopx_control_plane.authority_heads WHERE goal_id = '` + goal + `'`,
		`UPDATE loopx_control_plane.authority_commits SET projection = '{}' WHERE goal_id = '` + goal + `'`,
		`DELETE FROM loopx_control_plane.authority_events WHERE goal_id = '` + goal + `'`,
		`INSERT INTO loopx_control_plane.authority_receipts VALUES ('tenant-a', '` + goal + `', 1, 9, '{}')`,
		`TRUNCATE loopx_control_plane.authority_heads CASCADE`,
		`SET session_replication_role = replica; DELETE FROM loopx_control_plane.authority_receipts WHERE goal_id = '` + goal + `'`,
		`SET session_replication_role = origin; SELECT set_config('loopx_migrate.pass', 'fence-x', false); DELETE FROM loopx_control_plane.authority_receipts WHERE goal_id = '` + goal + `'`,
	} {
		if _, err := conn.PgConn().Exec(context.Background(), sql).ReadAll(); !fencedBy(err, "fence-1") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestFenceOfAGoalThatIsNotThere keeps the first commit out.
func TestFenceOfAGoalThatIsNotThere(t *testing.T) {
	b := installed(t)
	for name, isolation := range isolations {
		t.Run(name, func(t *testing.T) {
			s := b.store(t, freshGoal())
			w := b.loopx(t, s.GoalID(), isolation)
			if err := w.run(stepBegin, stepEmptyHead, 1, "first"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := s.EngageFence(t.Context(), "fence-1", authority.Applied{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.run(stepEmptyHead, stepsEnd, 1, "first"); err == nil {
				t.Error("the first commit came through")
			}
			_, err := s.Load(t.Context())
			requireReason(t, "load", err, authority.ClassMissing, authority.ReasonNone)
			audited(t, s)
		})
	}
}

// TestFenceNeedsItsTriggers: without one of them nothing is claimed.
func TestFenceNeedsItsTriggers(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 1)
	b.Exec(t, "ALTER TABLE loopx_control_plane.authority_events DISABLE TRIGGER loopx_migrate_gate")
	requireReason(t, "engage", s.EngageFence(t.Context(), "fence-1", on), authority.ClassFailed, ReasonNotInstalled)
	if _, engaged, err := s.Fence(t.Context()); engaged || err != nil {
		t.Errorf("engaged %t, %v", engaged, err)
	}
	db := pgtest.New(t)
	loadDump(t, db)
	bare := openStore(t, Options{Server: Server{DSN: db.DSN(pgtest.Admin)}, Tenant: fixtureTenant, GoalID: fixtureGoal, Mode: ReadWrite})
	requireReason(t, "engage without install", bare.EngageFence(t.Context(), "fence-1", on), authority.ClassFailed, ReasonNotInstalled)
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// through opens a Goal behind a proxy.
func (b *bench) through(t testing.TB, p *pgtest.Proxy, goal string) *Store {
	t.Helper()
	return openStore(t, Options{Server: Server{DSN: b.URL(b.operator, p.Port()), SettleWait: 20 * time.Second}, Tenant: "tenant-a", GoalID: goal, Mode: ReadWrite})
}

// TestCommitAnswerLost is case 60: the connection breaks before, during and after COMMIT.
// The outcome is looked up, told as it is, and a retry finds it.
func TestCommitAnswerLost(t *testing.T) {
	b := installed(t)
	for name, try := range map[string]struct {
		fate      pgtest.Fate
		committed bool
	}{"before": {pgtest.LoseCommit, false}, "after": {pgtest.LoseAnswer, true}, "during": {pgtest.Cut, true}} {
		t.Run(name, func(t *testing.T) {
			p := pgtest.NewProxy(t, b.Cluster, func(n int) pgtest.Fate {
				if n == 2 {
					return try.fate
				}
				return pgtest.Deliver
			})
			s := b.through(t, p, freshGoal())
			on := history(t, s, 1)
			applied, err := s.Commit(t.Context(), request(on, "op-x"))
			if name == "during" && err != nil {
				try.committed = false // the server may have noticed the broken connection first
			}
			if try.committed != (err == nil) {
				t.Fatalf("commit: %+v, %v", applied, err)
			}
			if err != nil {
				requireReason(t, "commit", err, authority.ClassFailed, authority.ReasonTransactionFailed)
			}
			direct := b.store(t, s.GoalID())
			receipt, err := direct.Receipt(t.Context(), "op-x")
			if try.committed != (err == nil) || try.committed && receipt.Cursor != applied.Cursor {
				t.Errorf("the receipt says %+v, %v", receipt, err)
			}
			_, err = s.Commit(t.Context(), request(on, "op-x"))
			if try.committed {
				requireReason(t, "retry", err, authority.ClassConflict, authority.ReasonRevisionMismatch)
			} else if err != nil {
				t.Errorf("retry: %v", err)
			}
			if end := audited(t, direct).End; end.Cursor != 2 {
				t.Errorf("the history ends at %s", end.Cursor)
			}
		})
	}
}

// TestOutcomeUnknown: when nobody can be asked, the answer is ambiguous and nothing else.
func TestOutcomeUnknown(t *testing.T) {
	b := installed(t)
	var p *pgtest.Proxy
	p = pgtest.NewProxy(t, b.Cluster, func(n int) pgtest.Fate {
		if n == 2 {
			p.Close()
			return pgtest.LoseAnswer
		}
		return pgtest.Deliver
	})
	s := openStore(t, Options{Server: Server{DSN: b.URL(b.operator, p.Port()), SettleWait: 500 * time.Millisecond, ConnectWait: time.Second},
		Tenant: "tenant-a", GoalID: freshGoal(), Mode: ReadWrite})
	on := history(t, s, 1)
	_, err := s.Commit(t.Context(), request(on, "op-x"))
	if e := requireReason(t, "commit", err, authority.ClassAmbiguous, authority.ReasonOutcomeUnknown); e.OperationID != "op-x" {
		t.Errorf("it names %q", e.OperationID)
	}
	_, err = s.Commit(t.Context(), request(on, "op-y"))
	requireReason(t, "commit without a server", err, authority.ClassFailed, authority.ReasonConnectionUnavailable)
	_, err = s.Load(t.Context())
	requireReason(t, "load without a server", err, authority.ClassUnavailable, authority.ReasonReadUnavailable)
	_, err = s.Identity(t.Context())
	requireReason(t, "identity without a server", err, authority.ClassUnavailable, authority.ReasonIdentityUnavailable)
	if receipt, err := b.store(t, s.GoalID()).Receipt(t.Context(), "op-x"); err != nil || receipt.Cursor != 2 {
		t.Errorf("the receipt says %+v, %v", receipt, err)
	}
}

// TestServerKilledAroundCommit kills the server before and after it has been told to
// commit, starts it again, and expects the truth.
func TestServerKilledAroundCommit(t *testing.T) {
	c := pgtest.Own(t)
	b := installedOn(t, c.Database(t))
	for name, fate := range map[string]pgtest.Fate{"before": pgtest.LoseCommit, "after": pgtest.LoseAnswer} {
		t.Run(name, func(t *testing.T) {
			var restarted sync.WaitGroup
			p := pgtest.NewProxy(t, c, func(n int) pgtest.Fate {
				if n != 2 {
					return pgtest.Deliver
				}
				restarted.Go(func() {
					c.Kill()
					if err := c.Start(); err != nil {
						t.Error(err)
					}
				})
				return fate
			})
			s := b.through(t, p, freshGoal())
			on := history(t, s, 1)
			applied, err := s.Commit(t.Context(), request(on, "op-x"))
			restarted.Wait()
			receipt, looked := b.store(t, s.GoalID()).Receipt(t.Context(), "op-x")
			switch {
			case err == nil && (looked != nil || receipt.Cursor != applied.Cursor):
				t.Errorf("it was said to be applied at %s; the receipt: %+v, %v", applied.Cursor, receipt, looked)
			case err != nil && !errors.Is(looked, authority.ErrMissing):
				t.Errorf("it was said to have failed (%v); the receipt: %+v, %v", err, receipt, looked)
			case errors.Is(err, authority.ErrAmbiguous):
				t.Errorf("not settled: %v", err)
			}
			// The pool's connections died with the server; the next answer must not care.
			if _, err := s.Load(t.Context()); err != nil {
				t.Errorf("load after the restart: %v", err)
			}
			audited(t, s)
		})
	}
}

// TestBackendKilled is case 65: the backend that holds the locks of a commit is
// terminated. The run ends with a typed error and no lock stays behind.
func TestBackendKilled(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 1)
	w := b.loopx(t, s.GoalID(), "")
	if err := w.run(stepBegin, stepCommit, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	outcome := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), request(on, "op-2"))
		outcome <- err
	}()
	awaitBlocked(t, b, w.conn)
	killed := b.Text(t, `SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'loopx-migrate' AND wait_event_type = 'Lock'`)
	if killed != "1" {
		t.Fatalf("%s backends were waiting", killed)
	}
	requireReason(t, "commit", <-outcome, authority.ClassFailed, authority.ReasonTransactionFailed)
	if err := w.run(stepCommit, stepsEnd, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	if left := b.Text(t, "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); left != "0" {
		t.Errorf("%s advisory locks are left", left)
	}
	// A broken connection never serves again: all of these come through.
	for range 2 * DefaultConnections {
		if head, err := s.Load(t.Context()); err != nil || head.Cursor != 2 {
			t.Errorf("load: %+v, %v", head, err)
		}
	}
}

// TestImporterKilled is case 65 for an importer: its backends are terminated in the middle
// of a load. It ends with a typed error, leaves no lock, and another goes on.
func TestImporterKilled(t *testing.T) {
	b := installed(t)
	o := b.candidate(b.operator, freshGoal())
	c := createCandidate(t, o)
	load(t, c, historyRows(64))
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := b.loopx(t, o.GoalID, "") // holds the head, so that the importer waits
	if err := w.run(stepBegin, stepOperation, 65, "holder"); err != nil {
		t.Fatal(err)
	}
	load(t, c, historyRows(128))
	awaitBlocked(t, b, w.conn)
	b.Text(t, `SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'loopx-migrate'`)
	requireReason(t, "flush", c.Flush(t.Context()), authority.ClassFailed, authority.ReasonTransactionFailed)
	if err := w.conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := OpenCandidate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c, 128)
	if lineage := audited(t, b.store(t, o.GoalID)); lineage.Logical != logicalOf(historyRows(128)) {
		t.Error("the candidate holds something else")
	}
	if left := b.Text(t, "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); left != "0" {
		t.Errorf("%s advisory locks are left", left)
	}
}

// TestLockWait: a commit that waits too long for another writer fails and leaves nothing.
func TestLockWait(t *testing.T) {
	b := installed(t)
	s := openStore(t, Options{Server: Server{DSN: b.DSN(b.operator), LockWait: 50 * time.Millisecond}, Tenant: "tenant-a", GoalID: freshGoal(), Mode: ReadWrite})
	on := history(t, s, 1)
	w := b.loopx(t, s.GoalID(), "")
	if err := w.run(stepBegin, stepOperation, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Commit(t.Context(), request(on, "op-2"))
	requireReason(t, "commit", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	requireReason(t, "fence", s.EngageFence(t.Context(), "fence-1", on), authority.ClassFailed, authority.ReasonTransactionFailed)
	if err := w.run(stepOperation, stepsEnd, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	if _, engaged, err := s.Fence(t.Context()); engaged || err != nil {
		t.Errorf("engaged %t, %v", engaged, err)
	}
}

// TestPoolExhausted: views hold connections; who gets none in time is told so.
func TestPoolExhausted(t *testing.T) {
	b := installed(t)
	s := openStore(t, Options{Server: Server{DSN: b.DSN(b.operator), Connections: 1, ConnectWait: 100 * time.Millisecond},
		Tenant: "tenant-a", GoalID: freshGoal(), Mode: ReadWrite})
	on := history(t, s, 1)
	view, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Load(t.Context())
	requireReason(t, "load", err, authority.ClassUnavailable, authority.ReasonReadUnavailable)
	_, err = s.Commit(t.Context(), request(on, "op-2"))
	requireReason(t, "commit", err, authority.ClassFailed, authority.ReasonConnectionUnavailable)
	if err := view.Close(); err != nil {
		t.Fatal(err)
	}
	commit(t, s, on, "op-2")
}

// TestCancelledWhileWaiting: a context that ends before COMMIT leaves nothing, one that
// ends behind it changes nothing.
func TestCancelledWhileWaiting(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 1)
	w := b.loopx(t, s.GoalID(), "")
	if err := w.run(stepBegin, stepOperation, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() {
		_, err := s.Commit(ctx, request(on, "op-2"))
		outcome <- err
	}()
	awaitBlocked(t, b, w.conn)
	cancel()
	err := <-outcome
	if class, _ := authority.ReasonOf(err); class != authority.ClassFailed || !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	if err := w.run(stepOperation, stepsEnd, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	behind, stop := context.WithCancel(t.Context())
	p := pgtest.NewProxy(t, b.Cluster, func(n int) pgtest.Fate {
		stop()
		return pgtest.Deliver
	})
	head, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := b.through(t, p, s.GoalID())
	if _, err := late.Commit(behind, request(authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, "op-3")); err != nil {
		t.Errorf("a context that ended with COMMIT on its way: %v", err)
	}
	if end := audited(t, s).End; end.Cursor != 3 {
		t.Errorf("the history ends at %s", end.Cursor)
	}
}

// TestRestoredIncarnation is case 62: the tables are set back to an earlier cursor.
func TestRestoredIncarnation(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 2)
	on = commit(t, s, commit(t, s, on, "op-3"), "op-4")
	seen := audited(t, s).End
	goal := s.GoalID()
	for _, how := range []string{"rows", "rows and seals"} {
		sql := fmt.Sprintf(`DELETE FROM loopx_control_plane.authority_commits WHERE goal_id = '%s' AND cursor > 2;
			UPDATE loopx_control_plane.authority_heads AS h SET cursor = 2, provider_revision = 2, updated_at = s.head_updated_at,
			head = c.projection FROM loopx_control_plane.authority_commits AS c JOIN loopx_control_plane.loopx_migrate_seals AS s USING (goal_id, cursor)
			WHERE h.goal_id = '%s' AND c.goal_id = h.goal_id AND c.cursor = 2;`, goal, goal)
		if how == "rows and seals" {
			sql = fmt.Sprintf("DELETE FROM loopx_control_plane.loopx_migrate_seals WHERE goal_id = '%s' AND cursor > 2", goal)
		}
		b.Exec(t, sql)
		_, err := s.Audit(t.Context(), &seen, nil)
		requireReason(t, "audit from what was seen, after "+how, err, authority.ClassFailed, authority.ReasonRewritten)
		_, err = s.Commit(t.Context(), request(on, "op-5"))
		requireReason(t, "commit on a revision from before the restore", err, authority.ClassConflict, authority.ReasonRevisionMismatch)
		if how == "rows" {
			_, err = s.Audit(t.Context(), nil, nil)
			if e := requireReason(t, "audit", err, authority.ClassFailed, authority.ReasonDefect); e.Cursor != 3 {
				t.Errorf("it names %v", e)
			}
		}
	}
	next := NewIdentity()
	if err := RotateIdentity(t.Context(), Server{DSN: b.DSN(pgtest.Admin)}, testIdentity, next); err != nil {
		t.Fatal(err)
	}
	head, err := s.Load(t.Context())
	if err != nil || head.Revision != authority.Revision(string(next)+":2") {
		t.Fatalf("load after the rotation: %+v, %v", head, err)
	}
	old := authority.Applied{Cursor: 2, Revision: authority.Revision(string(testIdentity) + ":2")}
	_, err = s.Commit(t.Context(), request(old, "op-5"))
	requireReason(t, "commit on the old identity's revision of the same cursor", err, authority.ClassConflict, authority.ReasonRevisionMismatch)
	pinned := openStore(t, Options{Server: Server{DSN: b.DSN(b.operator)}, Tenant: "tenant-a", GoalID: goal, ExpectedIdentity: testIdentity})
	_, err = pinned.Load(t.Context())
	requireReason(t, "load that expects the old identity", err, authority.ClassFailed, ReasonIdentityMismatch)
	audited(t, s)
}

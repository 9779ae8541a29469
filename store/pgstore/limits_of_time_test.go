package pgstore

import (
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// TestStatementTimeout: a server that ends long statements ends a commit that waits for
// its turn, before COMMIT: nothing was written, it is told so, and the store goes on.
func TestStatementTimeout(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 1)
	w := b.loopx(t, s.GoalID(), "") // keeps ours waiting for its lock
	if err := w.run(stepBegin, stepOperation, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	b.Exec(t, "ALTER ROLE "+b.operator+" SET statement_timeout = '2s'")
	strict := b.store(t, s.GoalID())
	_, err := strict.Commit(t.Context(), request(on, "op-2"))
	requireReason(t, "commit", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	_, err = strict.Receipt(t.Context(), "op-2")
	requireReason(t, "receipt", err, authority.ClassMissing, authority.ReasonNone)
	if err := w.run(stepOperation, stepsEnd, 2, "holder"); err != nil {
		t.Fatal(err)
	}
	commit(t, strict, at(audited(t, strict)), "op-2")
}

// TestIdleInTransactionTimeout: a server that ends idle transactions does not end a view,
// which may lie idle for as long as the other side of a comparison takes.
func TestIdleInTransactionTimeout(t *testing.T) {
	b := installed(t)
	b.Exec(t, "ALTER ROLE "+b.operator+" SET idle_in_transaction_session_timeout = '100ms'")
	s := b.store(t, freshGoal())
	history(t, s, 3)
	view, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	looker := b.Connect(t, pgtest.Admin)
	for idle := false; !idle; {
		err := looker.QueryRow(t.Context(), `SELECT coalesce(bool_or(clock_timestamp() - state_change > interval '1s'), FALSE) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = $1 AND state = 'idle in transaction'`, b.operator).Scan(&idle)
		if err != nil {
			t.Fatal(err)
		}
	}
	if page, err := view.Scan(t.Context(), 0, 10); err != nil || len(page.Transactions) != 3 {
		t.Errorf("the view shows %d rows, %v", len(page.Transactions), err)
	}
	plain := b.Connect(t, b.operator) // the limit is in force where nobody lifts it
	if _, err := plain.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if err := plain.PgConn().Conn().SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := plain.PgConn().Conn().Read(make([]byte, 1)); err != nil {
		t.Errorf("the server did not end an idle transaction: %v", err)
	}
}

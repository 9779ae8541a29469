package pgstore

import (
	"sync"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// TestFailover: the primary dies, its standby takes over. What was acknowledged is there,
// with its seals; a commit in flight is told as it came out; the store goes on.
func TestFailover(t *testing.T) {
	primary := pgtest.Own(t)
	b := installedOn(t, primary.Database(t))
	standby := primary.Standby(t)
	dsn := b.EitherDSN(b.operator, standby)
	s := openStore(t, Options{Server: Server{DSN: dsn, SettleWait: 30 * time.Second}, Tenant: "tenant-a", GoalID: freshGoal(), Mode: ReadWrite})
	on := history(t, s, 3)
	readOnly := openStore(t, Options{Server: Server{DSN: b.On(standby).DSN(b.operator)}, Tenant: "tenant-a", GoalID: s.GoalID(), Mode: ReadWrite})
	if lineage := audited(t, readOnly); lineage.End.Cursor != on.Cursor {
		t.Errorf("the standby shows cursor %s", lineage.End.Cursor)
	}
	_, err := readOnly.Commit(t.Context(), request(on, "op-on-standby"))
	requireReason(t, "commit on a standby", err, authority.ClassFailed, authority.ReasonTransactionFailed)

	w := b.loopx(t, s.GoalID(), "") // keeps our commit waiting until the primary dies
	if err := w.run(stepBegin, stepOperation, 4, "holder"); err != nil {
		t.Fatal(err)
	}
	var inFlight sync.WaitGroup
	inFlight.Go(func() { _, err = s.Commit(t.Context(), request(on, "op-4")) })
	awaitBlocked(t, b, w.conn)
	primary.Kill()
	standby.Promote(t)
	inFlight.Wait()
	requireReason(t, "the commit in flight", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	if head, err := s.Load(t.Context()); err != nil || head.Revision != on.Revision {
		t.Fatalf("after the failover the head is %s, %v", head.Revision, err)
	}
	on = commit(t, s, on, "op-4")
	if lineage := audited(t, s); lineage.End.Cursor != on.Cursor {
		t.Errorf("the history ends at %s", lineage.End.Cursor)
	}
	if err := primary.Start(); err != nil { // its database is dropped when the test ends
		t.Fatal(err)
	}
	primary.WaitForNobody(t)
}

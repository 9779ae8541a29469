//go:build interop

package interop

import "testing"

// A rollback that dies between the fence in the database and the frozen selector
// leaves a Goal that LoopX reads and cannot write. Resumed, it ends as it would have;
// undone, LoopX goes on with the database.
func TestInteropFenceInTheDatabase(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	g.forward()
	g.addsOnce("on-the-target")
	list, history := g.list(), g.export()
	frozen := g.effect("authority/provider-", "rollback")
	promoted := g.save()
	for _, way := range []struct{ command, authority, store string }{
		{"abort", "sqlite_v0", "sqlite:"}, {"resume", "file_v0", "file:"},
	} {
		g.restore(promoted)
		g.killed(frozen, "rollback")
		g.readsOnly(list, history)
		g.do(way.command)
		after := g.list()
		readBy(t, after, way.authority)
		sameList(t, list, after)
		g.matches(history, "")
		g.addsOnce("after-" + way.command)
		g.sound(way.store)
	}
}

// readsOnly fails unless LoopX reads all of the Goal and every write is refused by
// the database.
func (g goal) readsOnly(list answer, history archived) {
	g.t.Helper()
	sameList(g.t, list, g.list())
	g.matches(history, "")
	g.fixtureReceipts(goalV1, 2)
	free := freeTodos(g.t, list)
	g.add("fenced").refused(g.t, "provider_transaction_failed")
	g.acquire(free[0]).refused(g.t, "provider_transaction_failed")
	if got := g.receipt("fenced").done(g.t).is("status"); got != "missing" {
		g.t.Errorf("a refused operation has a receipt: %s", got)
	}
	g.matches(history, "")
}

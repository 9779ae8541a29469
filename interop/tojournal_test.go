//go:build interop

package interop

import "testing"

// TestInteropToJournal moves a Goal from SQLite to a journal, and LoopX goes on with it
// there and, after the way back, in SQLite. LoopX's own migration has left the journal of
// earlier times in its place, this tool's has not.
func TestInteropToJournal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		toSQLite func(goal)
	}{{"after this tool", goal.forward}, {"after LoopX", goal.loopxToSQLite}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGoal(t, goalV1)
			c.toSQLite(g)
			g.add("in-sqlite").done(t)
			list, history := g.list(), g.export()
			readBy(t, list, "sqlite_v0")
			g.do("freeze", "--to", "file:")
			g.refusesAll("local_authority_selector_invalid")
			for _, command := range []string{"import", "compare", "promote"} {
				g.do(command)
			}
			after := g.list()
			readBy(t, after, "file_v0")
			sameList(t, list, after)
			g.fixtureReceipts(goalV0, 1, 116, 231)
			g.matches(history, "")
			g.worksOn(after)
			longer := g.export()
			history.begins(t, longer)
			g.sound("file:")
			g.do("rollback")
			readBy(t, g.list(), "sqlite_v0")
			g.matches(longer, "")
			g.add("in-sqlite-again").done(t)
			longer.begins(t, g.export())
		})
	}
}

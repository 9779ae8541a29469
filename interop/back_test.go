//go:build interop

package interop

import (
	"fmt"
	"strconv"
	"testing"
)

// rounds is how often a Goal goes there and back.
const rounds = 5

// commits is how many transactions LoopX writes on the target in a round: 50 in the
// first one, or 5 with -short, and a few in the others, which prove the same again.
func commits(round int) int {
	switch {
	case round > 1:
		return 3
	case testing.Short():
		return 5
	default:
		return 50
	}
}

// TestInteropBack goes forward, lets LoopX commit, goes back, and all again, five times.
// Nothing is lost on the way, nothing comes to it, and what was answered once is
// answered again. LoopX goes on with the file store each time; where that is in v0,
// which LoopX 2.1.1 does not read, only after the last time and its own upgrade.
func TestInteropBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{goalV0, goalV1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &wayBack{goal: newGoal(t, name), name: name, unread: name == goalV0}
			for round := 1; round <= rounds; round++ {
				w.round(round, commits(round))
			}
			if w.unread {
				w.upgrade()
				w.unread = false
				w.sound("file:")
				w.goesOn("after-upgrade")
			}
			w.list, w.history = w.goal.list(), w.export()
			w.forward()
			w.goesOn("in-the-end")
			w.holds(w.export())
			w.sound("sqlite:")
		})
	}
}

// wayBack is a Goal that goes there and back, and what LoopX has answered so far.
type wayBack struct {
	goal
	name   string
	unread bool // its journal is in the format that LoopX 2.1.1 does not read
	// kept are first answers, to be asked for again.
	kept []answer
	turn int
	// expected are the operations of the Goal in the order they were acknowledged.
	expected []string
	// list and history are what LoopX said before the way back.
	list    answer
	history archived
}

// round goes there and back once, and LoopX commits n times on the target.
func (w *wayBack) round(round, n int) {
	w.t.Helper()
	if round%2 == 1 {
		w.forward()
	} else {
		w.do("cutover", "--to", "sqlite:", "--max-stall", "2m")
	}
	w.replaysAll()
	w.commits(fmt.Sprintf("target-%d", round), n)
	w.list, w.history = w.goal.list(), w.export()
	readBy(w.t, w.list, "sqlite_v0")
	w.holds(w.history)
	w.sound("sqlite:")

	back := w.do("rollback")
	if got := back.is("facts", "result", "exported_transactions"); got != strconv.Itoa(n) {
		w.t.Errorf("round %d: the rollback exported %s transactions, want %d", round, got, n)
	}
	w.sound("file:")
	if w.unread {
		w.goal.list().refused(w.t, "provider_protocol_violation")
		return
	}
	w.goesOn(fmt.Sprintf("source-%d", round))
}

// goesOn fails unless LoopX finds everything in the store that is the authority now,
// and writes to it.
func (w *wayBack) goesOn(operation string) {
	w.t.Helper()
	sameList(w.t, w.list, w.goal.list())
	w.history.begins(w.t, w.export())
	w.matches(w.history, "")
	w.replaysAll()
	w.commits(operation, 1)
}

// commits has LoopX add Todos. The first answer is kept.
func (w *wayBack) commits(name string, n int) {
	w.t.Helper()
	if w.expected == nil {
		w.expected = w.export().operations()
	}
	for i := range n {
		operation := fmt.Sprintf("%s-%d", name, i+1)
		added := w.add(operation).done(w.t)
		if added.is("status") != "applied" {
			w.t.Fatalf("todo add: %s", added.text)
		}
		w.expected = append(w.expected, operation)
		if i == 0 {
			w.kept = append(w.kept, added)
		}
	}
}

// replaysAll asks again for a receipt of the fixture, and offers the oldest and the
// newest of the kept operations in turn.
func (w *wayBack) replaysAll() {
	w.t.Helper()
	w.fixtureReceipts(w.name, 2)
	if len(w.kept) == 0 {
		return
	}
	w.turn++
	w.replays(w.kept[(w.turn%2)*(len(w.kept)-1)])
}

// holds fails unless the history is what was acknowledged, each once, in its order.
func (w *wayBack) holds(history archived) {
	w.t.Helper()
	got := history.operations()
	if len(got) != len(w.expected) {
		w.t.Fatalf("the history has %d operations, %d were acknowledged", len(got), len(w.expected))
	}
	for i, operation := range got {
		if operation != w.expected[i] {
			w.t.Fatalf("row %d is %s, acknowledged was %s", i+1, operation, w.expected[i])
		}
	}
}

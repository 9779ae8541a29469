//go:build interop

package interop

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// A LoopX that adds Todos all the time, before, during and after a migration forward
// and one back: what it was told is applied is in the surviving store, once and in
// order, and what it was refused is not.
func TestInteropWriterAllTheTime(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	before := g.export()
	w := startWriter(g)
	until(t, "a Todo is added to the file store", func() bool { return w.count("file_v0") >= 2 })
	g.forward()
	until(t, "a Todo is added to the database", func() bool { return w.count("sqlite_v0") >= 2 })
	g.do("rollback")
	files := w.count("file_v0")
	until(t, "a Todo is added to the file store again", func() bool { return w.count("file_v0") >= files+2 })
	applied, refused := w.stop()

	history := g.export()
	before.begins(t, history)
	if got := history.operations()[len(before.transactions):]; !slices.Equal(got, applied) {
		t.Errorf("the journal holds %v, applied were %v", got, applied)
	}
	if len(refused) == 0 {
		t.Error("no add was refused: the writer was never behind the fence")
	}
	for _, a := range refused {
		if a.exit != 1 || a.reason() != "local_authority_selector_invalid" && a.reason() != "invalid_local_coordination_todo_create_request" {
			t.Errorf("an add ended with %d %q: %s", a.exit, a.reason(), a.text)
		}
		if a.at("changed") == true || a.is("status") == "applied" {
			t.Errorf("an add failed and says that it changed something: %s", a.text)
		}
	}
	g.sound("file:")
	t.Logf("%d adds applied, %d refused", len(applied), len(refused))
}

// writer is LoopX's command line, adding Todos one after the other.
type writer struct {
	answers chan answer
	quit    func() // ends the loop; a second call does nothing
	seen    []answer
}

func startWriter(g goal) *writer {
	ctx, quit := context.WithCancel(context.Background())
	w := &writer{answers: make(chan answer, 10000), quit: quit}
	go func() {
		defer close(w.answers)
		for i := 1; ctx.Err() == nil; i++ {
			w.answers <- g.add(fmt.Sprintf("writer-%d", i))
		}
	}()
	g.t.Cleanup(func() { w.stop() })
	return w
}

// count is how many adds were applied to a store so far.
func (w *writer) count(authority string) int {
	for len(w.answers) > 0 { // this goroutine alone receives
		w.seen = append(w.seen, <-w.answers)
	}
	n := 0
	for _, a := range w.seen {
		if a.is("status") == "applied" && a.is("source_authority") == authority {
			n++
		}
	}
	return n
}

// stop ends the loop and returns the operations applied in order, and the refusals.
func (w *writer) stop() (applied []string, refused []answer) {
	w.quit()
	for a := range w.answers {
		w.seen = append(w.seen, a)
	}
	for _, a := range w.seen {
		if a.is("status") == "applied" {
			applied = append(applied, a.is("operation_id"))
		} else {
			refused = append(refused, a)
		}
	}
	return applied, refused
}

package rehearsal

import (
	"context"
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// DefaultOperations is how long the built-in workload is where nobody says.
const DefaultOperations = 200

// BuiltIn is the workload of this program for a head: cycles in which a Todo is born,
// leased, loses its lease to another agent, is claimed, completed and archived, while a
// Todo that was there is worked on, and callers repeat and contradict themselves. No
// lease is active at its end.
func BuiltIn(projection authority.Canonical, operations int, begins time.Time) Workload {
	b := builder{w: Workload{Name: "turnover", Origin: "built_in", Begins: begins.UTC().Truncate(time.Second)}}
	h := headOf(projection)
	b.soft = h.top.text("handoff_mode") == modeSoftClaim
	for _, id := range h.todos.ids {
		todo := recordOf(h.todos.text[id])
		lease := recordOf(h.leases.text[id])
		free := todo.text("status") == "open" && todo.text("claimed_by") == "" && lease.text("status") != "active"
		if free && todo.text("role") == "agent" && todo.text("archive_state") == "active" {
			b.existing = append(b.existing, id)
		}
	}
	for cycle := 1; len(b.w.Operations) < operations; cycle++ {
		b.cycle(fmt.Sprintf("todo_rehearsal_%04d", cycle), cycle)
	}
	return b.w
}

type builder struct {
	w        Workload
	existing []string
	soft     bool // the Goal's handoff mode knows no leases
}

func (b *builder) do(o Operation) string {
	o.ID = fmt.Sprintf("rehearsal-%06d", len(b.w.Operations)+1)
	b.w.Operations = append(b.w.Operations, o)
	return o.ID
}

// cycle is one Todo's life. Each operation is a minute after the one before.
func (b *builder) cycle(id string, n int) {
	const south, north = "agent-south", "agent-north"
	first, second := fmt.Sprintf("run-%d-a", n), fmt.Sprintf("run-%d-b", n)
	b.do(Operation{Verb: Add, TodoID: id, Text: fmt.Sprintf("[P2] Rehearse turn %d of the crane", n), Role: "agent"})
	acquired := b.do(Operation{Verb: LeaseAcquire, TodoID: id, Agent: south, Key: first, TTL: 600})
	b.do(Operation{Verb: LeaseAcquire, TodoID: id, Agent: north, Key: second, TTL: 600}) // held by another
	b.do(Operation{Verb: Note, TodoID: id, Text: fmt.Sprintf("turn %d began", n)})
	b.do(Operation{Verb: LeaseRenew, TodoID: id, Agent: south, Key: first, TTL: 90})
	b.do(Operation{Verb: Replay, Of: acquired})
	b.do(Operation{Verb: LeaseAcquire, TodoID: id, Agent: north, Key: second, TTL: 3600}) // it ran out: turnover
	b.do(Operation{Verb: LeaseRenew, TodoID: id, Agent: south, Key: first, TTL: 600})     // the old holder
	b.do(Operation{Verb: Claim, TodoID: id, Agent: north})
	b.do(Operation{Verb: ContentConflict, Of: acquired})
	b.do(Operation{Verb: RevisionConflict})
	if b.soft { // no lease could be taken
		second = ""
	}
	b.do(Operation{Verb: Complete, TodoID: id, Agent: north, Key: second})
	b.do(Operation{Verb: LeaseAcquire, TodoID: id, Agent: north, Key: first + "-late", TTL: 600}) // it is done
	b.do(Operation{Verb: Archive, TodoID: id})
	b.do(Operation{Verb: Lag, Rows: 50, Page: 7})
	if len(b.existing) == 0 {
		return
	}
	old := b.existing[n%len(b.existing)]
	key := fmt.Sprintf("run-%d-c", n)
	b.do(Operation{Verb: LeaseAcquire, TodoID: old, Agent: north, Key: key, TTL: 600})
	b.do(Operation{Verb: Note, TodoID: old, Text: fmt.Sprintf("looked at in turn %d", n)})
	b.do(Operation{Verb: LeaseRelease, TodoID: old, Agent: north, Key: key})
}

// Recorded is the end of a history as a workload: each record that its last transactions
// changed, put again in their order. Afterwards the head says what it said before.
func Recorded(ctx context.Context, from authority.Reader, transactions int, begins time.Time) (Workload, error) {
	w := Workload{Name: "recorded", Origin: "recorded", Begins: begins.UTC().Truncate(time.Second)}
	now, err := from.Load(ctx)
	if err != nil {
		return w, err
	}
	after := authority.Cursor(0)
	if back := authority.Cursor(transactions) + 1; now.Cursor > back {
		after = now.Cursor - back
	}
	var before head
	for first := true; after < now.Cursor; first = false {
		page, err := from.Scan(ctx, after, 1)
		if err != nil || len(page.Transactions) == 0 {
			return w, err
		}
		row := page.Transactions[0]
		next := headOf(row.Projection)
		if !first {
			w.changes(before, next, row.Cursor)
		}
		before, after = next, row.Cursor
	}
	return w, nil
}

// changes adds an operation for each record that differs.
func (w *Workload) changes(before, after head, cursor authority.Cursor) {
	for _, side := range []struct {
		verb        Verb
		was, became rows
	}{{PutTodo, before.todos, after.todos}, {PutLease, before.leases, after.leases}} {
		for _, id := range side.became.ids {
			if string(side.was.text[id]) == string(side.became.text[id]) {
				continue
			}
			w.Operations = append(w.Operations, Operation{ID: fmt.Sprintf("recorded-%s-%d", cursor, len(w.Operations)+1), Verb: side.verb,
				Record: append([]byte(nil), side.became.text[id]...)})
		}
	}
}

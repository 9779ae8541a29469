package rehearsal

import (
	"maps"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Reasons for which the work itself refuses an operation, whatever the store. LoopX's own
// codes for the same are in [loopxReasons].
const (
	refusedTodoExists   = "todo_exists"
	refusedTodoMissing  = "todo_missing" // or archived
	refusedNotOpen      = "todo_not_open"
	refusedNotDone      = "todo_not_done"
	refusedClaimed      = "claimed_by_another"
	refusedLeaseHeld    = "lease_held"
	refusedNotHeld      = "lease_not_held"   // it is another's, by owner or key
	refusedNotActive    = "lease_not_active" // there is none, it was released or it ran out
	refusedNeedsLease   = "lease_required"   // handoff mode hard_lease
	refusedForbidsLease = "lease_forbidden"  // handoff mode soft_claim
	refusedKeyUsed      = "key_used"         // by the lease before
	refusedKeyMissing   = "key_required"
	// refusedNothing is no refusal: all is as the operation wants it, and nothing is written.
	refusedNothing = "unchanged"
)

// step is what an operation makes of a head.
type step struct {
	refused    string // why not; the rest is then empty
	projection authority.Canonical
	events     authority.Canonical
	receipts   authority.Canonical
}

// answer words a step that was not made.
func (s step) answer() string {
	if s.refused == refusedNothing {
		return s.refused
	}
	return "refused " + s.refused
}

// stamp is a time as LoopX's leases have it, and the Todos of its stores.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// stamp is the operation's time as the Todos of the head have it: those of Markdown have
// an offset.
func (d *decision) stamp() string {
	if d.head.native() {
		return stamp(d.at)
	}
	return d.at.UTC().Format("2006-01-02T15:04:05+00:00")
}

// decide applies an operation to a head at a time. It is pure: the same head, operation
// and time give the same step in every arm.
func decide(goal string, projection authority.Canonical, o Operation, at time.Time) (step, error) {
	h := headOf(projection)
	d := decision{head: h, o: o, at: at, goal: goal}
	if d.refused = d.apply(); d.refused != "" {
		return step{refused: d.refused}, nil
	}
	next, err := d.head.canonical()
	if err != nil {
		return step{}, err
	}
	mark := record{}
	mark.set("goal_id", goal)
	mark.set("operation_id", o.ID)
	mark.set("op", string(o.Verb))
	mark.set("todo_id", d.touched)
	mark.set("at", stamp(at))
	mark.set("next_projection_sha256", authority.DigestOf(next).String())
	event, receipt := maps.Clone(mark), maps.Clone(mark)
	event.set("schema_version", "loopx_migrate_rehearsal_event_v1")
	receipt.set("schema_version", "loopx_migrate_rehearsal_receipt_v1")
	return step{projection: next, events: list([][]byte{event.bytes()}), receipts: list([][]byte{receipt.bytes()})}, nil
}

// decision is an operation on its way through a head.
type decision struct {
	head    head
	o       Operation
	at      time.Time
	goal    string
	touched string
	refused string
}

// apply changes the head, or says why not.
func (d *decision) apply() string {
	d.touched = d.o.TodoID
	switch d.o.Verb {
	case Add:
		return d.add()
	case PutTodo, PutLease:
		return d.put()
	}
	if d.o.Verb == LeaseRelease {
		return d.letGo() // whatever became of the Todo
	}
	todo := recordOf(d.head.todos.text[d.o.TodoID])
	if len(todo) == 0 || todo.text("archive_state") == "archive" {
		return refusedTodoMissing
	}
	switch d.o.Verb {
	case Note:
		return d.note(todo)
	case Claim:
		return d.claim(todo)
	case Complete:
		return d.complete(todo)
	case Archive:
		return d.archive(todo)
	case LeaseRenew:
		return d.renew(todo)
	}
	return d.acquire(todo)
}

// update writes a changed Todo, with what LoopX mints where it made the change.
func (d *decision) update(todo record) string {
	for key, value := range d.o.minted {
		todo.set(key, value)
	}
	todo.set("updated_at", d.stamp())
	d.head.todos.put(d.o.TodoID, todo.bytes())
	return ""
}

// another reports whether somebody else claims the Todo.
func (d *decision) another(todo record) bool {
	by := todo.text("claimed_by")
	return by != "" && d.o.Agent != "" && by != d.o.Agent
}

// note is possible on a Todo that is done as well.
func (d *decision) note(todo record) string {
	switch {
	case d.another(todo):
		return refusedClaimed
	case todo["note"] != nil && todo.text("note") == d.o.Text:
		return refusedNothing
	}
	todo.set("note", d.o.Text)
	return d.update(todo)
}

func (d *decision) claim(todo record) string {
	lease := recordOf(d.head.leases.text[d.o.TodoID])
	switch {
	case d.another(todo):
		return refusedClaimed
	case d.mode() == modeHardLease && (!d.running(lease) || lease.text("owner") != d.o.Agent):
		return refusedNeedsLease
	case todo.text("status") != "open":
		return refusedNotOpen
	case todo.text("claimed_by") == d.o.Agent:
		return refusedNothing
	}
	todo.set("claimed_by", d.o.Agent)
	return d.update(todo)
}

func (d *decision) add() string {
	if _, there := d.head.todos.text[d.o.TodoID]; there {
		return refusedTodoExists
	}
	role := d.o.Role
	if role == "" {
		role = "agent"
	}
	todo := record{"done": []byte("false")}
	for key, text := range map[string]string{"todo_id": d.o.TodoID, "role": role, "status": "open", "text": d.o.Text,
		"archive_state": "active", "task_class": "advancement_task", "schema_version": "todo_item_v0", "source_section": "Agent Todo"} {
		todo.set(key, text)
	}
	if role == "user" {
		todo.set("task_class", "user_action")
		todo.set("source_section", "User Todo / Owner Review Reading Queue")
		todo["goal_bound"] = []byte("true")
	}
	if d.head.native() {
		todo.set("schema_version", "todo_domain_record_v0")
		delete(todo, "source_section")
	}
	return d.update(todo)
}

// put takes a record that a history had.
func (d *decision) put() string {
	text, err := canonical.Append(nil, d.o.Record)
	if err != nil {
		return refusedTodoMissing
	}
	d.touched = recordOf(text).text("todo_id")
	if d.o.Verb == PutTodo {
		d.head.todos.put(d.touched, text)
		return ""
	}
	if _, there := d.head.todos.text[d.touched]; !there {
		return refusedTodoMissing
	}
	d.head.leases.put(d.touched, text)
	return ""
}

// complete ends a Todo and the lease that it ran under. Where a lease is no duty, a Todo
// without a running one is completed without a key.
func (d *decision) complete(todo record) string {
	lease := recordOf(d.head.leases.text[d.o.TodoID])
	running := d.running(lease)
	switch {
	case d.another(todo):
		return refusedClaimed
	case string(todo["done"]) == "true":
		return refusedNothing
	case running && d.o.Key == "":
		return refusedKeyMissing
	case running && !d.mine(lease):
		return refusedNotHeld
	case !running && d.mode() == modeHardLease:
		return refusedNeedsLease
	case !running && d.o.Key != "":
		return refusedNotActive
	}
	todo["done"] = []byte("true")
	todo.set("status", "done")
	todo.set("completed_at", d.stamp())
	todo.set("completion_continuation", "active_goal")
	if running {
		d.release(lease)
	}
	return d.update(todo)
}

func (d *decision) archive(todo record) string {
	if string(todo["done"]) != "true" {
		return refusedNotDone
	}
	todo.set("archive_state", "archive")
	if todo["source_section"] != nil {
		todo.set("source_section", "Completed Work Archive")
	}
	d.head.todos.put(d.o.TodoID, todo.bytes())
	return ""
}

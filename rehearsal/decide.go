package rehearsal

import (
	"bytes"
	"maps"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Reasons for which the work itself refuses an operation, whatever the store.
const (
	refusedTodoExists  = "todo_exists"
	refusedTodoMissing = "todo_missing"
	refusedTodoDone    = "todo_done"
	refusedNotDone     = "todo_not_done"
	refusedClaimed     = "claimed_by_another"
	refusedLeaseHeld   = "lease_held"
	refusedNoLease     = "lease_not_held"
)

// step is what an operation makes of a head.
type step struct {
	refused    string // why not; the rest is then empty
	projection authority.Canonical
	events     authority.Canonical
	receipts   authority.Canonical
}

// stamp is a time as LoopX's records have it.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

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
	text, there := d.head.todos.text[d.o.TodoID]
	if !there {
		return refusedTodoMissing
	}
	todo := recordOf(text)
	switch d.o.Verb {
	case Note:
		return d.update(todo, func() { todo.set("note", d.o.Text) })
	case Claim:
		if by := todo.text("claimed_by"); by != "" && by != d.o.Agent {
			return refusedClaimed
		}
		return d.update(todo, func() { todo.set("claimed_by", d.o.Agent) })
	case Complete:
		return d.complete(todo)
	case Archive:
		return d.archive(todo)
	}
	return d.lease(todo)
}

// update changes a Todo that is not done.
func (d *decision) update(todo record, change func()) string {
	if string(todo["done"]) == "true" {
		return refusedTodoDone
	}
	change()
	todo.set("updated_at", stamp(d.at))
	d.head.todos.put(d.o.TodoID, todo.bytes())
	return ""
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
	if d.head.native() {
		todo.set("schema_version", "todo_domain_record_v0")
		delete(todo, "source_section")
	}
	todo.set("updated_at", stamp(d.at))
	d.head.todos.put(d.o.TodoID, todo.bytes())
	return ""
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

// held reports whether the lease of a Todo is the caller's, by owner and key.
func (d *decision) held() (lease record, mine bool) {
	lease = recordOf(d.head.leases.text[d.o.TodoID])
	return lease, lease.text("status") == "active" && lease.text("owner") == d.o.Agent && lease.text("idempotency_key") == d.o.Key
}

func (d *decision) complete(todo record) string {
	lease, mine := d.held()
	if !mine {
		return refusedNoLease
	}
	refused := d.update(todo, func() {
		todo["done"] = []byte("true")
		todo.set("status", "done")
		todo.set("completed_at", stamp(d.at))
	})
	if refused == "" {
		d.release(lease)
	}
	return refused
}

func (d *decision) archive(todo record) string {
	if string(todo["done"]) != "true" {
		return refusedNotDone
	}
	if todo.text("archive_state") == "archive" {
		return refusedTodoDone
	}
	todo.set("archive_state", "archive")
	if todo["source_section"] != nil {
		todo.set("source_section", "Completed Work Archive")
	}
	d.head.todos.put(d.o.TodoID, todo.bytes())
	return ""
}

func (d *decision) lease(todo record) string {
	lease, mine := d.held()
	switch {
	case d.o.Verb == LeaseAcquire:
		return d.acquire(todo, lease, mine)
	case !mine:
		return refusedNoLease
	case d.o.Verb == LeaseRelease:
		d.release(lease)
		return ""
	}
	lease.setNumber("version", lease.number("version")+1)
	d.extend(lease)
	return ""
}

// acquire gives a lease that is free, or that has run out, to its next holder: the epoch
// grows with every holder.
func (d *decision) acquire(todo, lease record, mine bool) string {
	expires, err := time.Parse(time.RFC3339, lease.text("expires_at"))
	running := lease.text("status") == "active" && (err != nil || expires.After(d.at))
	switch {
	case string(todo["done"]) == "true":
		return refusedTodoDone
	case running && !mine:
		return refusedLeaseHeld
	}
	if len(lease) == 0 {
		lease.set("schema_version", "task_lease_v0")
		lease.set("goal_id", d.goal)
		lease.set("todo_id", d.o.TodoID)
	}
	epoch := lease.number("lease_epoch")
	if epoch == 0 && lease["version"] != nil {
		epoch = 1 // an old record without one counts as the first (docs/legacy.md, section 4)
	}
	lease.set("owner", d.o.Agent)
	lease.set("idempotency_key", d.o.Key)
	lease.set("status", "active")
	lease.set("acquired_at", stamp(d.at))
	lease.setTexts("write_scopes", []string{"rehearsal/" + d.o.TodoID + "/**"})
	lease.setNumber("version", lease.number("version")+1)
	lease.setNumber("lease_epoch", epoch+1)
	delete(lease, "released_at")
	d.extend(lease)
	return ""
}

func (d *decision) extend(lease record) {
	lease.setNumber("acquire_ttl_seconds", d.o.TTL)
	lease.set("updated_at", stamp(d.at))
	lease.set("expires_at", stamp(d.at.Add(time.Duration(d.o.TTL)*time.Second)))
	d.head.leases.put(d.o.TodoID, lease.bytes())
}

func (d *decision) release(lease record) {
	lease.set("status", "released")
	lease.set("released_at", stamp(d.at))
	lease.set("updated_at", stamp(d.at))
	d.head.leases.put(d.o.TodoID, lease.bytes())
}

// activeLeases are the Todo ids of leases that say active in a head.
func activeLeases(projection authority.Canonical) []string {
	var ids []string
	h := headOf(projection)
	for _, id := range h.leases.ids {
		if bytes.Equal(recordOf(h.leases.text[id])["status"], []byte(`"active"`)) {
			ids = append(ids, id)
		}
	}
	return ids
}

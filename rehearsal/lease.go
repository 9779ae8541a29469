package rehearsal

import (
	"bytes"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// The handoff modes that change what a lease is for.
const (
	modeHardLease = "hard_lease" // a claim and a completion need one
	modeSoftClaim = "soft_claim" // none can be taken
)

func (d *decision) mode() string { return d.head.top.text("handoff_mode") }

// running reports whether a lease binds anybody: it is active and has not run out.
func (d *decision) running(lease record) bool {
	expires, err := time.Parse(time.RFC3339, lease.text("expires_at"))
	return lease.text("status") == "active" && !d.o.lapsed && (err != nil || expires.After(d.at))
}

// mine reports whether a lease is the caller's, by owner and key.
func (d *decision) mine(lease record) bool {
	return lease.text("owner") == d.o.Agent && lease.text("idempotency_key") == d.o.Key
}

// acquire gives a lease that is free, or that has run out, to its next holder: the epoch
// grows with every holder. A key serves one lease only.
func (d *decision) acquire(todo record) string {
	lease := recordOf(d.head.leases.text[d.o.TodoID])
	running := d.running(lease)
	switch {
	case todo.text("status") != "open":
		return refusedNotOpen
	case d.another(todo):
		return refusedClaimed
	case d.mode() == modeSoftClaim:
		return refusedForbidsLease
	case running && d.mine(lease):
		return refusedNothing
	case running:
		return refusedLeaseHeld
	case lease.text("idempotency_key") == d.o.Key:
		return refusedKeyUsed
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
	lease.setTexts("write_scopes", []string{d.o.scope()})
	lease.setNumber("lease_epoch", epoch+1)
	lease.setNumber("acquire_ttl_seconds", d.o.TTL)
	delete(lease, "released_at")
	d.extend(lease)
	return ""
}

// scope is what a lease of the work lets its holder write.
func (o Operation) scope() string { return "rehearsal/" + o.TodoID + "/**" }

// renew extends a lease. How long it was first taken for stays on record.
func (d *decision) renew(todo record) string {
	lease := recordOf(d.head.leases.text[d.o.TodoID])
	switch {
	case d.mode() == modeSoftClaim:
		return refusedForbidsLease
	case todo.text("status") != "open":
		return refusedNotOpen
	case d.another(todo):
		return refusedClaimed
	case !d.running(lease):
		return refusedNotActive
	case !d.mine(lease):
		return refusedNotHeld
	}
	d.extend(lease)
	return ""
}

func (d *decision) extend(lease record) {
	lease.setNumber("version", lease.number("version")+1)
	lease.set("updated_at", stamp(d.at))
	lease.set("expires_at", stamp(d.at.Add(time.Duration(d.o.TTL)*time.Second)))
	d.head.leases.put(d.o.TodoID, lease.bytes())
}

// letGo ends the caller's lease, one that ran out as well.
func (d *decision) letGo() string {
	lease := recordOf(d.head.leases.text[d.o.TodoID])
	switch {
	case len(lease) == 0:
		return refusedNothing
	case !d.mine(lease):
		return refusedNotHeld
	case lease.text("status") != "active":
		return refusedNothing
	}
	d.release(lease)
	return ""
}

func (d *decision) release(lease record) {
	at := d.at
	if !d.o.leaseAt.IsZero() {
		at = d.o.leaseAt
	}
	lease.set("status", "released")
	lease.set("released_at", stamp(at))
	lease.set("updated_at", stamp(at))
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

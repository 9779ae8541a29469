package coordination

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// gateSeconds is how long the key of a user gate is good for: it is minted, checked and
// released in one commit.
const gateSeconds = 1

func (d decision) complete() (patch, *Refusal) {
	if refusal := d.open(); refusal != nil {
		return patch{}, refusal
	}
	done, refusal := d.completion()
	if refusal != nil {
		return patch{}, refusal
	}
	receipt := Receipt{Continuation: done.continuation, Successors: done.successors, Evidence: done.evidence}
	if d.todo.UserGate && d.todo.Lease.ID == "" && d.cmd.LeaseID == "" {
		key := d.gateKey()
		if key != nil {
			receipt.LeaseID, receipt.LeaseEpoch = key.ID, key.Epoch
		}
		return patch{done: done, released: key, ttl: gateSeconds, receipt: receipt}, nil
	}
	if refusal := d.held(); refusal != nil {
		return patch{}, refusal
	}
	receipt.LeaseID, receipt.LeaseEpoch = d.todo.Lease.ID, d.todo.Lease.Epoch
	return patch{done: done, retire: d.todo.Lease.ID != "", receipt: receipt}, nil
}

// gateKey is the key with which a user gate is completed where the mode asks for a lease;
// LoopX names it after the Todo.
func (d decision) gateKey() *Lease {
	if d.view.mode() != HardLease {
		return nil
	}
	d.cmd.TTLSeconds = gateSeconds
	key := d.mint(d.todo.Scopes)
	key.ID = "auto-" + d.todo.ID
	return key
}

func (d decision) completion() (*completion, *Refusal) {
	c := &completion{continuation: activeGoal, successors: append([]string{}, d.cmd.Successors...), evidence: d.cmd.Evidence}
	switch {
	case d.cmd.NoFollowup && len(c.successors) > 0:
		return nil, rejected(ReasonBothSet, "no_followup", "nothing follows, and successors are named")
	case d.cmd.NoFollowup:
		c.continuation = noFollowup
	case len(c.successors) > 0:
		c.continuation = successor
	}
	for _, id := range c.successors {
		if _, there := d.view.todo(id); there {
			return nil, rejected(ReasonTodoExists, "successor_todo_ids", "a successor is created; a Todo of that id is there")
		}
	}
	return c, nil
}

func (d decision) create() (patch, *Refusal) {
	return patch{create: true, set: objectOf(d.cmd), clear: d.cmd.Clear}, nil
}

func objectOf(c Command) object {
	o := object{}
	for key, value := range c.Set {
		o[key] = value
	}
	return o
}

// update needs the fence while a lease stands, so that a superseded holder does not write
// by the way. A Todo that has a holder cannot be put aside.
func (d decision) update() (patch, *Refusal) {
	p := patch{set: objectOf(d.cmd), clear: d.cmd.Clear}
	if len(p.set)+len(p.clear) == 0 {
		return patch{}, rejected(ReasonInvalid, "set", "nothing to set or to clear")
	}
	if d.todo.Status == statusDone || d.todo.Status == statusArchived {
		return patch{}, d.open()
	}
	if p.set["status"] != nil && d.todo.holder() != "" {
		return patch{}, rejected(ReasonClaimed, "set/status", "the Todo has a holder")
	}
	if d.todo.Lease.ID == "" && d.cmd.LeaseID == "" {
		return p, nil
	}
	p.receipt.LeaseID, p.receipt.LeaseEpoch = d.todo.Lease.ID, d.todo.Lease.Epoch
	return p, d.fence()
}

func (d decision) supersede() (patch, *Refusal) {
	if refusal := d.open(); refusal != nil {
		return patch{}, refusal
	}
	if _, there := d.view.todo(d.cmd.SupersededBy); !there || d.cmd.SupersededBy == d.todo.ID {
		return patch{}, rejected(ReasonUnknownTodo, "superseded_by", "no other Todo of that id")
	}
	if d.leased() || d.todo.ClaimedBy != "" {
		if refusal := d.held(); refusal != nil {
			return patch{}, refusal
		}
	}
	receipt := Receipt{SupersededBy: d.cmd.SupersededBy, LeaseID: d.todo.Lease.ID, LeaseEpoch: d.todo.Lease.Epoch}
	return patch{supersededBy: d.cmd.SupersededBy, retire: d.todo.Lease.ID != "", receipt: receipt}, nil
}

func (d decision) archive() (patch, *Refusal) {
	if d.todo.Status != statusDone {
		return patch{}, rejected(ReasonNotDone, "todo_id", "the Todo is "+d.todo.Status)
	}
	return patch{archive: true}, nil
}

// override changes a claim without its lease. The receipt says so for good.
func (d decision) override() (patch, *Refusal) {
	if !slices.Contains(d.Delegates, d.env.Actor.AgentID) {
		return patch{}, rejected(ReasonNotDelegated, "actor", "the agent is no delegated authority")
	}
	if refusal := d.open(); refusal != nil {
		return patch{}, refusal
	}
	if d.todo.holder() == "" {
		return patch{}, rejected(ReasonNotClaimed, "todo_id", "nobody has the Todo")
	}
	owner := d.cmd.NewOwner
	receipt := Receipt{Overridden: true, OverrideCode: d.cmd.ReasonCode}
	if lease := d.todo.Lease; lease.ID != "" {
		receipt.SupersededOwner, receipt.SupersededEpoch = lease.Owner, lease.Epoch
	}
	if owner != "" && !d.todo.permits(owner) {
		return patch{}, rejected(ReasonIneligible, "new_owner", "the agent may not take this Todo")
	}
	return patch{claim: &owner, retire: d.todo.Lease.ID != "", receipt: receipt}, nil
}

// switchMode is never forced: no open claim, and no lease that was not released, an
// expired one included, since its holder may still be at work.
func (d decision) switchMode() (patch, *Refusal) {
	before := d.view.mode()
	if before == d.cmd.Mode {
		return patch{}, rejected(ReasonModeSame, "handoff_mode", "the Goal has that mode")
	}
	offenders := d.view.claimed()
	for _, lease := range d.view.standing() {
		offenders = append(offenders, lease.TodoID)
	}
	if len(offenders) > 0 {
		slices.SortFunc(offenders, canonical.CompareKeys)
		refusal := rejected(ReasonNotQuiescent, "handoff_mode", "work is in progress")
		refusal.Offenders = slices.Compact(offenders)
		return patch{}, refusal
	}
	return patch{mode: d.cmd.Mode, receipt: Receipt{Mode: d.cmd.Mode, PreviousMode: before}}, nil
}

// scopesMeet reports whether two scopes may name the same path.
func scopesMeet(x, y string) bool {
	a, b := strings.Split(x, "/"), strings.Split(y, "/")
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == "**" || b[i] == "**" {
			return true
		}
		if a[i] != b[i] && !strings.ContainsAny(a[i]+b[i], "*?[") {
			return false
		}
	}
	return true
}

package coordination

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Apply takes a command through the order that holds for all: load; find the operation
// id; check the binding; validate; decide; one commit with state and receipt; and, when
// the commit was not acknowledged, the receipt before anything else.
func (a *Authority) Apply(ctx context.Context, e Envelope) Result {
	switch {
	case !operationPattern.MatchString(e.OperationID):
		return Result{}.refuse(rejected(ReasonInvalid, "operation_id", "malformed"), nil)
	case e.GoalID != a.Store.GoalID():
		return Result{}.refuse(rejected(ReasonGoal, "goal_id", "the store belongs to another Goal"), nil)
	}
	_, invalid := ParseEnvelope(e.Canonical())
	return a.run(ctx, operation{e.OperationID, e.Digest(), func(ctx context.Context, head authority.Head) (Step, error) {
		v, err := a.look(ctx, head)
		if err != nil {
			return Step{}, err
		}
		if bound := v.binding(); bound != "" {
			if err := a.mustBe(ctx, bound); err != nil {
				return Step{}, err
			}
		}
		if v.goal() != e.GoalID {
			return Step{}, rejected(ReasonGoal, "goal_id", "the head belongs to another Goal")
		}
		// Only now: an operation that was applied is replayed, whatever is asked under its id.
		if invalid != nil {
			return Step{}, invalid
		}
		return decide(v, e, judge{Now: a.Clock(), Grace: a.Grace, Delegates: a.Delegates})
	}})
}

// judge is what a decision knows beside head and command.
type judge struct {
	Now       time.Time
	Grace     Grace
	Delegates []string
}

// decision is one command being decided on one head.
type decision struct {
	judge
	view view
	env  Envelope
	cmd  Command
	todo Todo
}

// decisions has the rule of each command, which gives the patch or a refusal.
var decisions = map[Verb]func(decision) (patch, *Refusal){
	ClaimWork: decision.claim, RenewWork: decision.renew, ReleaseWork: decision.release, ReclaimWork: decision.reclaim,
	CompleteWork: decision.complete, CreateTodo: decision.create, UpdateTodo: decision.update, SupersedeTodo: decision.supersede,
	ArchiveTodo: decision.archive, OverrideClaim: decision.override, SetHandoffMode: decision.switchMode,
}

// decide is pure: head, command and time give the next step, or the *Refusal.
func decide(v view, e Envelope, j judge) (Step, error) {
	d := decision{judge: j, view: v, env: e, cmd: e.Command}
	if d.cmd.Type != SetHandoffMode {
		var known bool
		d.todo, known = v.todo(d.cmd.TodoID)
		if known == (d.cmd.Type == CreateTodo) {
			return Step{}, presence(known)
		}
		if refusal := d.stale(); refusal != nil {
			return Step{}, refusal
		}
	}
	p, refusal := decisions[d.cmd.Type](d)
	if refusal != nil {
		return Step{}, refusal
	}
	p.todo = d.cmd.TodoID
	p.receipt.OperationID, p.receipt.RequestDigest, p.receipt.Command, p.receipt.Actor = e.OperationID, e.Digest(), d.cmd.Type, e.Actor
	p.receipt.TodoID, p.receipt.AppliedAt = d.cmd.TodoID, InstantOf(j.Now)
	return v.patch(p)
}

func presence(known bool) *Refusal {
	if known {
		return rejected(ReasonTodoExists, "todo_id", "a Todo of that id is there")
	}
	return rejected(ReasonUnknownTodo, "todo_id", "no Todo of that id; none is created by the way")
}

// stale compares what the caller saw with what stands.
func (d decision) stale() *Refusal {
	if want := d.cmd.ExpectedRevision; want != nil && *want != d.todo.Revision {
		return conflict(ReasonStale, "expected_todo_revision", "the Todo is at revision "+strconv.FormatInt(d.todo.Revision, 10))
	}
	for _, name := range tokenNames {
		want, named := d.cmd.Preconditions[name]
		if !named {
			continue
		}
		have, known := d.todo.Tokens[name]
		if !known {
			return rejected(ReasonInvalid, "expected_preconditions/"+name, "a head of this shape has no such token")
		}
		if string(have) != string(want) {
			return conflict(ReasonPrecondition, "expected_preconditions/"+name, "what it stood for has changed")
		}
	}
	return nil
}

// open refuses what is done, archived, deferred or blocked.
func (d decision) open() *Refusal {
	if d.todo.Status != statusOpen {
		return rejected(ReasonNotOpen, "todo_id", "the Todo is "+d.todo.Status)
	}
	return nil
}

// eligible asks whether the actor may take the Todo now.
func (d decision) eligible() *Refusal {
	agent := d.env.Actor.AgentID
	switch {
	case d.todo.Status != statusOpen:
		return d.open()
	case !d.todo.permits(agent):
		return rejected(ReasonIneligible, "actor", "the agent may not take this Todo")
	case !d.todo.dependencies:
		return rejected(ReasonDependencies, "todo_id", "what the Todo waits for has not come")
	case d.todo.gated(agent):
		return rejected(ReasonGate, "todo_id", "an open gate holds the Todo back")
	}
	return nil
}

// scopes are what the new lease may write, after a look at every other lease in force.
func (d decision) scopes() ([]string, *Refusal) {
	scopes := d.cmd.Scopes
	if scopes == nil {
		scopes = d.todo.Scopes
	}
	for _, required := range d.todo.Scopes {
		if !slices.Contains(scopes, required) {
			return nil, rejected(ReasonScopeMissing, "write_scopes", "the Todo requires a scope that was not asked for")
		}
	}
	refusal := rejected(ReasonScopeOverlap, "write_scopes", "another lease in force may write there")
	for _, other := range d.view.standing() {
		if other.TodoID != d.todo.ID && other.active(d.Now) && mayBeSame(other.Repository, d.todo.Repository) && ScopesOverlap(scopes, other.Scopes) {
			refusal.Offenders = append(refusal.Offenders, other.TodoID)
		}
	}
	if refusal.Offenders != nil {
		return nil, refusal
	}
	return scopes, nil
}

// mayBeSame reports whether two repositories can be one: a record may not say which.
func mayBeSame(a, b string) bool { return a == b || a == "" || b == "" }

// mint makes the next lease of the Todo. Its id follows from the operation, so that a
// decision made twice is the same decision.
func (d decision) mint(scopes []string) *Lease {
	epoch := d.todo.Watermark + 1
	sum := sha256.Sum256(list(spellText(d.env.GoalID), spellText(d.todo.ID), spellInteger(epoch), spellText(d.env.OperationID)))
	return &Lease{TodoID: d.todo.ID, ID: "lease-" + hex.EncodeToString(sum[:12]), Owner: d.env.Actor.AgentID, Epoch: epoch,
		ExpiresAt: d.end(), Scopes: scopes}
}

// end is when a lease that is given now ends.
func (d decision) end() Instant {
	return InstantOf(d.Now.Add(time.Duration(d.cmd.TTLSeconds) * time.Second))
}

func leaseReceipt(l Lease) Receipt {
	return Receipt{LeaseID: l.ID, LeaseEpoch: l.Epoch, ExpiresAt: l.ExpiresAt}
}

// fence asks whether the command comes from who holds the lease in force. A fence that
// does not match is terminal: whoever was superseded never writes again.
func (d decision) fence() *Refusal {
	lease := d.todo.Lease
	switch {
	case d.cmd.LeaseID == "":
		return rejected(ReasonModeNeedsLease, "lease_id", "the lease and its epoch must be given")
	case lease.ID != d.cmd.LeaseID || lease.Epoch != d.cmd.LeaseEpoch:
		return conflict(ReasonStaleFence, "lease_id", "another lease stands, or none")
	case lease.Owner != d.env.Actor.AgentID:
		return rejected(ReasonNotHolder, "actor", "another agent holds the lease")
	case !lease.active(d.Now):
		return rejected(ReasonNotActive, "lease_id", "the lease has expired")
	}
	return nil
}

// claimOnly asks the same where there is no lease to ask for.
func (d decision) claimOnly() *Refusal {
	switch d.todo.ClaimedBy {
	case "":
		return rejected(ReasonNotClaimed, "todo_id", "nobody has the Todo")
	case d.env.Actor.AgentID:
		return nil
	}
	return rejected(ReasonNotHolder, "actor", "another agent has the Todo")
}

// leased reports whether a lease must be shown: one stands, one was named, or the mode
// knows no other way.
func (d decision) leased() bool {
	return d.view.mode() == HardLease || d.todo.Lease.ID != "" || d.cmd.LeaseID != ""
}

func (d decision) held() *Refusal {
	if d.leased() {
		return d.fence()
	}
	return d.claimOnly()
}

func (d decision) claim() (patch, *Refusal) {
	if refusal := d.eligible(); refusal != nil {
		return patch{}, refusal
	}
	agent := d.env.Actor.AgentID
	if d.todo.Lease.ID != "" || d.todo.ClaimedBy != "" && (d.todo.ClaimedBy != agent || d.view.mode() == SoftClaim) {
		return patch{}, rejected(ReasonClaimed, "todo_id", "the Todo has a holder")
	}
	if d.view.mode() == SoftClaim {
		return patch{claim: &agent}, nil
	}
	scopes, refusal := d.scopes()
	if refusal != nil {
		return patch{}, refusal
	}
	lease := d.mint(scopes)
	return patch{claim: &agent, lease: lease, ttl: d.cmd.TTLSeconds, receipt: leaseReceipt(*lease)}, nil
}

func (d decision) renew() (patch, *Refusal) {
	if refusal := d.noLeases(); refusal != nil {
		return patch{}, refusal
	}
	if refusal := d.fence(); refusal != nil {
		return patch{}, refusal
	}
	if refusal := d.open(); refusal != nil {
		return patch{}, refusal
	}
	lease := d.todo.Lease
	lease.ExpiresAt = d.end()
	return patch{lease: &lease, receipt: leaseReceipt(lease)}, nil
}

func (d decision) noLeases() *Refusal {
	if d.view.mode() == SoftClaim {
		return rejected(ReasonModeForbids, "type", "the Goal hands work over by claims only")
	}
	return nil
}

func (d decision) release() (patch, *Refusal) {
	if refusal := d.held(); refusal != nil {
		return patch{}, refusal
	}
	free, receipt := "", leaseReceipt(d.todo.Lease)
	receipt.ExpiresAt = ""
	return patch{claim: &free, retire: d.todo.Lease.ID != "", receipt: receipt}, nil
}

func (d decision) reclaim() (patch, *Refusal) {
	if refusal := d.noLeases(); refusal != nil {
		return patch{}, refusal
	}
	if refusal := d.eligible(); refusal != nil {
		return patch{}, refusal
	}
	if d.todo.holder() == "" {
		return patch{}, rejected(ReasonNotClaimed, "todo_id", "nobody has the Todo; claim it")
	}
	lease := d.todo.Lease
	end, ok := lease.ExpiresAt.Time()
	if lease.ID == "" || !ok || d.Now.Before(end.Add(d.Grace.window)) {
		return patch{}, rejected(ReasonNotReclaimable, "todo_id", "the lease is in force or inside its grace window")
	}
	scopes, refusal := d.scopes()
	if refusal != nil {
		return patch{}, refusal
	}
	next, agent := d.mint(scopes), d.env.Actor.AgentID
	receipt := leaseReceipt(*next)
	receipt.SupersededOwner, receipt.SupersededEpoch = lease.Owner, lease.Epoch
	return patch{claim: &agent, lease: next, ttl: d.cmd.TTLSeconds, receipt: receipt}, nil
}

// ScopesOverlap reports whether two lists of write scopes may name the same path. It
// errs towards yes: a segment with a wildcard matches any other, and a scope covers what
// lies below it.
func ScopesOverlap(a, b []string) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y string) bool { return scopesMeet(x, y) }) {
			return true
		}
	}
	return false
}

package coordination

import (
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

func (h *CoordinationHead) goal() string                { return h.GoalID }
func (h *CoordinationHead) binding() authority.Identity { return h.Binding }
func (h *CoordinationHead) mode() Mode                  { return HardLease }
func (h *CoordinationHead) authorityRevision() int64    { return h.AuthorityRevision }

func (h *CoordinationHead) todo(id string) (Todo, bool) {
	r, known := h.Todos[id]
	if !known {
		return Todo{}, false
	}
	e := r.Eligibility
	t := Todo{ID: id, Revision: r.Revision, Status: statusOpen, ClaimedBy: r.ClaimedBy, Watermark: r.LastLeaseEpoch,
		Lease: h.lease(id), Repository: r.Repository, dependencies: e.DependenciesSatisfied}
	if r.Done {
		t.Status = statusDone
	}
	t.permits = func(agent string) bool { return slices.Contains(e.AllowedAgents, agent) }
	t.gated = func(string) bool { return !e.GatesOpen }
	t.Tokens = map[string]authority.Canonical{
		tokenAuthorizationRevision: spellInteger(e.AuthorizationRevision), tokenAuthorizationDigest: spellText(e.AuthorizationDigest),
		tokenDependencyRevision: spellInteger(e.DependencyRevision), tokenGateRevision: spellInteger(e.GateRevision),
		tokenRepository: spellText(r.Repository), tokenCodeRevision: spellText(r.CodeRevision),
	}
	return t, true
}

func (h *CoordinationHead) lease(id string) Lease {
	l, standing := h.Leases[id]
	if !standing {
		return Lease{}
	}
	return Lease{TodoID: id, ID: l.ID, Owner: l.Owner, Epoch: l.Epoch, ExpiresAt: l.ExpiresAt, Scopes: l.WriteScopes, Repository: h.Todos[id].Repository}
}

func (h *CoordinationHead) standing() []Lease {
	var all []Lease
	for id := range h.Leases {
		all = append(all, h.lease(id))
	}
	slices.SortFunc(all, func(a, b Lease) int { return canonical.CompareKeys(a.TodoID, b.TodoID) })
	return all
}

func (h *CoordinationHead) claimed() []string {
	var ids []string
	for id, todo := range h.Todos {
		if todo.ClaimedBy != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// patch changes the head in place, which the caller read for this command alone.
func (h *CoordinationHead) patch(p patch) (Step, error) {
	if p.mode != "" || p.archive || p.supersededBy != "" || p.released != nil {
		return Step{}, rejected(ReasonShape, "type", "a coordination head has no place for that")
	}
	if p.claim != nil && *p.claim != "" && p.lease == nil {
		return Step{}, rejected(ReasonShape, "new_owner", "a coordination head knows no claim without a lease")
	}
	todo := h.Todos[p.todo]
	if p.create {
		todo = CoordinationTodo{}
	} else {
		todo.Revision++
	}
	if refusal := todo.update(p); refusal != nil {
		return Step{}, refusal
	}
	if p.claim != nil {
		todo.ClaimedBy = *p.claim
	}
	switch {
	case p.lease != nil:
		todo.LastLeaseEpoch = p.lease.Epoch
		h.Leases[p.todo] = CoordinationLease{ID: p.lease.ID, Owner: p.lease.Owner, Epoch: p.lease.Epoch, ExpiresAt: p.lease.ExpiresAt, WriteScopes: p.lease.Scopes}
	case p.retire:
		delete(h.Leases, p.todo)
	}
	touched := []string{"todo:" + p.todo}
	if p.done != nil {
		touched = append(touched, h.finish(&todo, *p.done)...)
	}
	h.Todos[p.todo] = todo
	r := p.receipt
	r.AuthorityRevision, r.TodoRevision = h.AuthorityRevision+1, todo.Revision
	text := h.accept(r)
	if fault := h.consistent(); fault != nil {
		return Step{}, fault
	}
	return Step{Projection: h.Canonical(), Events: commandEvent(h.GoalID, r, touched), Receipts: list(text), Receipt: r}, nil
}

// finish marks a Todo done and creates its successors, which start open, free, at
// revision 0 and with the context of their parent.
func (h *CoordinationHead) finish(todo *CoordinationTodo, c completion) (created []string) {
	todo.Done, todo.ClaimedBy = true, ""
	todo.Continuation, todo.Successors, todo.Evidence = c.continuation, c.successors, c.evidence
	for _, id := range c.successors {
		h.Todos[id] = CoordinationTodo{Eligibility: todo.Eligibility, Repository: todo.Repository, CodeRevision: todo.CodeRevision}
		created = append(created, "todo:"+id)
	}
	return created
}

// update sets the members that a coordination head has. New content under an old token
// is refused: whoever named the token would be told that nothing changed.
func (t *CoordinationTodo) update(p patch) *Refusal {
	if len(p.clear) > 0 {
		return rejected(ReasonInvalid, "clear", "a Todo of a coordination head has nothing that may be absent")
	}
	f := &fields{path: "set", members: p.set}
	if p.create || f.has("eligibility") {
		before, after := t.Eligibility, Eligibility{}
		f.nested("eligibility", after.read)
		if !p.create && f.fault == nil {
			if reused := before.reused(after); reused != "" {
				return rejected(ReasonTokenReused, "set/eligibility/"+reused, "content and tokens change together, and tokens only forwards")
			}
		}
		t.Eligibility = after
	}
	if p.create || f.has("repository") {
		t.Repository = f.text("repository", isRepository)
	}
	if p.create || f.has("code_revision") {
		t.CodeRevision = f.text("code_revision", isCodeRevision)
	}
	if fault := f.close(); fault != nil {
		return rejected(ReasonInvalid, fault.Path, fault.Detail)
	}
	return nil
}

// reused names the token that stands for other content than before, or moves backwards.
func (e Eligibility) reused(next Eligibility) string {
	sameAgents := slices.Equal(e.AllowedAgents, next.AllowedAgents)
	sameDigest := e.AuthorizationDigest == next.AuthorizationDigest
	switch {
	case sameAgents != sameDigest:
		return tokenAuthorizationDigest
	case moved(e.AuthorizationRevision, next.AuthorizationRevision, sameAgents):
		return tokenAuthorizationRevision
	case moved(e.DependencyRevision, next.DependencyRevision, e.DependenciesSatisfied == next.DependenciesSatisfied):
		return tokenDependencyRevision
	case moved(e.GateRevision, next.GateRevision, e.GatesOpen == next.GatesOpen):
		return tokenGateRevision
	}
	return ""
}

// moved reports whether a revision did not follow its content: it must grow when the
// content changes, and must not when it does not.
func moved(before, after int64, same bool) bool {
	if same {
		return after != before
	}
	return after <= before
}

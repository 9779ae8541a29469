package coordination

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
)

// The schemas of the coordination head, LoopX's reference implementation.
const (
	SchemaV1 = "loopx_coordination_head_v1"
	SchemaV0 = "loopx_coordination_head_v0"
)

const retainAll = "retain_all_v0"

// What a completion says about what follows.
const (
	noFollowup = "no_followup"
	successor  = "successor"
	activeGoal = "active_goal"
)

// CoordinationHead is a head of schema v1, or v0 where Binding is empty.
type CoordinationHead struct {
	Schema            string
	GoalID            string
	Binding           authority.Identity // the store that may act on it
	AuthorityRevision int64
	Todos             map[string]CoordinationTodo
	Leases            map[string]CoordinationLease // by Todo id
	Receipts          map[string]authority.Canonical
	parsed            map[string]Receipt
}

// CoordinationTodo is a Todo of a coordination head.
type CoordinationTodo struct {
	Revision       int64
	Done           bool
	ClaimedBy      string // empty when free
	Eligibility    Eligibility
	Repository     string
	CodeRevision   string
	LastLeaseEpoch int64 // the watermark: no lease has a higher epoch

	Continuation string   // when done
	Successors   []string // when done
	Evidence     *Evidence
}

// Eligibility says who may take a Todo, and whether anything is in the way. Its revisions
// and digest are tokens: content never changes under an old one.
type Eligibility struct {
	AuthorizationRevision int64
	AuthorizationDigest   string // "sha256:" and hex
	AllowedAgents         []string
	DependenciesSatisfied bool
	DependencyRevision    int64
	GatesOpen             bool // open: nothing holds the Todo back
	GateRevision          int64
}

// CoordinationLease is a lease that stands. It is gone once released or retired.
type CoordinationLease struct {
	ID          string
	Owner       string
	Epoch       int64
	ExpiresAt   Instant
	WriteScopes []string
}

// ParseCoordinationHead reads a head of schema v0 or v1 and holds it against its rules.
// The error is a *HeadError.
func ParseCoordinationHead(text authority.Canonical) (*CoordinationHead, error) {
	h, fault := readHead(text)
	if fault != nil {
		return nil, fault
	}
	return h, nil
}

func readHead(text []byte) (*CoordinationHead, *HeadError) {
	f := openFields("", text)
	h := &CoordinationHead{}
	h.Schema = f.oneOf("schema_version", SchemaV1, SchemaV0)
	h.GoalID = f.text("goal_id", anyText)
	f.oneOf("handoff_mode", string(HardLease))
	if h.Schema == SchemaV1 {
		h.Binding = authority.Identity(f.text("store_binding", isBinding))
	}
	h.AuthorityRevision = f.integer("authority_revision", 0)
	f.nested("receipt_retention", func(f *fields) { f.oneOf("mode", retainAll) })
	f.nested("coordination", h.readRecords)
	f.nested("receipt_index", h.readReceipts)
	if fault := f.close(); fault != nil {
		return nil, fault
	}
	return h, h.consistent()
}

// isBinding reports whether s is the identity of a store of any kind.
func isBinding(s string) bool {
	kind, _, found := strings.Cut(s, ":")
	return found && codeWordPattern.MatchString(kind) && authority.Identity(s).Valid(authority.Kind(kind))
}

func (h *CoordinationHead) readRecords(f *fields) {
	h.Todos, h.Leases = map[string]CoordinationTodo{}, map[string]CoordinationLease{}
	f.nested("todos", func(f *fields) {
		for id := range f.members {
			f.named(id)
			f.nested(id, func(f *fields) { h.Todos[id] = readTodo(f, h.Schema) })
		}
	})
	f.nested("leases", func(f *fields) {
		for id := range f.members {
			f.nested(id, func(f *fields) { h.Leases[id] = readLease(f) })
		}
	})
}

// named refuses a key that cannot be the id of a Todo.
func (f *fields) named(id string) {
	if !todoPattern.MatchString(id) {
		f.blame("", "a Todo id is malformed")
	}
}

func readTodo(f *fields, schema string) CoordinationTodo {
	var t CoordinationTodo
	t.Revision = f.integer("todo_revision", 0)
	words := []string{"open", "done"}
	if schema == SchemaV0 {
		words = words[:1]
	}
	t.Done = f.oneOf("status", words...) == "done"
	t.ClaimedBy = f.optional("claimed_by", agentPattern.MatchString)
	f.nested("eligibility", t.Eligibility.read)
	t.Repository = f.text("repository", isRepository)
	t.CodeRevision = f.text("code_revision", isCodeRevision)
	t.LastLeaseEpoch = f.integer("last_lease_epoch", 0)
	if !t.Done {
		return t
	}
	t.Continuation = f.oneOf("completion_continuation", noFollowup, successor, activeGoal)
	t.Successors = f.texts("successor_todo_ids", todoPattern.MatchString)
	if f.flag("no_followup") != (t.Continuation == noFollowup) || (len(t.Successors) > 0) != (t.Continuation == successor) {
		f.blame("completion_continuation", "contradicts no_followup or successor_todo_ids")
	}
	if f.has("evidence") {
		t.Evidence = new(Evidence)
		f.nested("evidence", t.Evidence.read)
	}
	return t
}

func (e *Eligibility) read(f *fields) {
	e.AuthorizationRevision = f.integer("authorization_projection_revision", 0)
	e.AuthorizationDigest = f.text("authorization_projection_digest", isDigest)
	e.AllowedAgents = f.texts("allowed_agent_ids", agentPattern.MatchString)
	e.DependenciesSatisfied = f.flag("dependencies_satisfied")
	e.DependencyRevision = f.integer("dependency_revision", 0)
	e.GatesOpen = f.flag("gates_open")
	e.GateRevision = f.integer("gate_revision", 0)
}

func readLease(f *fields) CoordinationLease {
	return CoordinationLease{
		ID: f.text("lease_id", leasePattern.MatchString), Owner: f.text("owner", agentPattern.MatchString),
		Epoch: f.integer("lease_epoch", 1), ExpiresAt: f.instant("expires_at"), WriteScopes: f.texts("write_scopes", isScope),
	}
}

func (h *CoordinationHead) readReceipts(f *fields) {
	h.Receipts, h.parsed = map[string]authority.Canonical{}, map[string]Receipt{}
	for id := range f.members {
		f.nested(id, func(f *fields) {
			digest := f.text("request_digest", isDigest)
			text := f.take("original_receipt")
			r, fault := readReceipt(f.at("original_receipt"), text)
			f.adopt(fault)
			if r.OperationID != id || r.RequestDigest != digest {
				f.blame("original_receipt", "belongs to another operation")
			}
			h.Receipts[id], h.parsed[id] = text, r
		})
	}
}

// consistent holds the parts of a head against each other.
func (h *CoordinationHead) consistent() *HeadError {
	fault := func(path, detail string) *HeadError {
		return &HeadError{Reason: ReasonHeadCorruption, Path: path, Detail: detail}
	}
	for id, lease := range h.Leases {
		todo, known := h.Todos[id]
		path := "coordination/leases/" + id
		switch {
		case !known:
			return fault(path, "a lease of no Todo")
		case todo.Done || todo.ClaimedBy != lease.Owner:
			return fault(path, "its owner does not hold the Todo")
		case todo.LastLeaseEpoch != lease.Epoch:
			return fault(path+"/lease_epoch", "not the watermark of its Todo")
		}
	}
	for id, todo := range h.Todos {
		if _, leased := h.Leases[id]; (todo.ClaimedBy != "") != leased {
			return fault("coordination/todos/"+id+"/claimed_by", "a claim and its lease stand only together")
		}
	}
	revisions := map[int64]bool{}
	for id, r := range h.parsed {
		if r.AuthorityRevision > h.AuthorityRevision || revisions[r.AuthorityRevision] {
			return fault("receipt_index/"+id, "its authority revision is taken or was not reached")
		}
		if _, known := h.Todos[r.TodoID]; r.TodoID != "" && !known {
			return fault("receipt_index/"+id, "a receipt of no Todo")
		}
		revisions[r.AuthorityRevision] = true
	}
	return nil
}

// Canonical spells the head. A head that was read and not changed gets its bytes back.
func (h *CoordinationHead) Canonical() authority.Canonical {
	todos, leases, receipts := object{}, object{}, object{}
	for id, todo := range h.Todos {
		todos[id] = todo.spell()
	}
	for id, lease := range h.Leases {
		leases[id] = lease.spell()
	}
	for id, text := range h.Receipts {
		receipts[id] = object{"request_digest": spellText(h.parsed[id].RequestDigest), "original_receipt": text}.spell()
	}
	o := object{
		"schema_version": spellText(h.Schema), "goal_id": spellText(h.GoalID), "handoff_mode": spellText(string(HardLease)),
		"authority_revision": spellInteger(h.AuthorityRevision), "receipt_index": receipts.spell(),
		"coordination":      object{"todos": todos.spell(), "leases": leases.spell()}.spell(),
		"receipt_retention": object{"mode": spellText(retainAll)}.spell(),
	}
	o.setText("store_binding", string(h.Binding))
	return o.spell()
}

func (t CoordinationTodo) spell() []byte {
	e := t.Eligibility
	o := object{
		"todo_revision": spellInteger(t.Revision), "status": spellText("open"), "repository": spellText(t.Repository),
		"code_revision": spellText(t.CodeRevision), "last_lease_epoch": spellInteger(t.LastLeaseEpoch),
		"eligibility": object{
			"authorization_projection_revision": spellInteger(e.AuthorizationRevision),
			"authorization_projection_digest":   spellText(e.AuthorizationDigest), "allowed_agent_ids": spellTexts(e.AllowedAgents),
			"dependencies_satisfied": spellBool(e.DependenciesSatisfied), "dependency_revision": spellInteger(e.DependencyRevision),
			"gates_open": spellBool(e.GatesOpen), "gate_revision": spellInteger(e.GateRevision),
		}.spell(),
	}
	o.setText("claimed_by", t.ClaimedBy)
	if t.Done {
		o["status"] = spellText("done")
		o["completion_continuation"], o["successor_todo_ids"] = spellText(t.Continuation), spellTexts(t.Successors)
		o["no_followup"] = spellBool(t.Continuation == noFollowup)
	}
	if t.Evidence != nil {
		o["evidence"] = t.Evidence.spell()
	}
	return o.spell()
}

func (l CoordinationLease) spell() []byte {
	return object{"lease_id": spellText(l.ID), "owner": spellText(l.Owner), "lease_epoch": spellInteger(l.Epoch),
		"expires_at": spellText(string(l.ExpiresAt)), "write_scopes": spellTexts(l.WriteScopes)}.spell()
}

// accept writes a receipt into the index and advances the Goal's counter to it.
func (h *CoordinationHead) accept(r Receipt) authority.Canonical {
	text := r.Canonical()
	h.AuthorityRevision = r.AuthorityRevision
	h.Receipts[r.OperationID], h.parsed[r.OperationID] = text, r
	return text
}

// inOrder returns the receipts by authority revision.
func (h *CoordinationHead) inOrder() []Receipt {
	all := make([]Receipt, 0, len(h.parsed))
	for _, r := range h.parsed {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Receipt) int { return int(a.AuthorityRevision - b.AuthorityRevision) })
	return all
}

// isRepository accepts LoopX's repository identities, and neither a path nor a credential.
func isRepository(s string) bool {
	return repositoryPattern.MatchString(s) && !drivePattern.MatchString(s) && !climbs(s)
}

func isCodeRevision(s string) bool { return codePattern.MatchString(s) && !drivePattern.MatchString(s) }

// isScope accepts a write scope by LoopX's rules: relative, at most 160 characters, no
// climbing, no blanks.
func isScope(s string) bool {
	return s != "" && len(s) <= 160 && !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "~") && !climbs(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '<' || r == '>' || r == 0x7f })
}

func climbs(s string) bool { return slices.Contains(strings.Split(s, "/"), "..") }

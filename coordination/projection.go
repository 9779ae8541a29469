package coordination

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// ProjectionSchema is the schema of the heads that real stores hold (docs/formats.md).
const ProjectionSchema = "loopx_coordination_runtime_shadow_projection_v0"

// The schemas of Todo records and leases on a projection head.
const (
	itemLegacy  = "todo_item_v0"
	itemNative  = "todo_domain_record_v0"
	leaseSchema = "task_lease_v0"
)

// record is a Todo record or a lease of a projection head, by the id of its Todo.
type record struct {
	id   string
	text []byte
}

// recordsOf takes a list of records apart.
func recordsOf(list []byte) []record {
	var all []record
	for element := range canonical.Elements(list) {
		all = append(all, record{idOf(element), element})
	}
	return all
}

func idOf(element []byte) string {
	for key, value := range canonical.Members(element) {
		if key == "todo_id" {
			return textOf(value)
		}
	}
	return ""
}

// recordOf finds one record in a list.
func recordOf(list []byte, id string) []byte {
	for element := range canonical.Elements(list) {
		if idOf(element) == id {
			return element
		}
	}
	return nil
}

// projection is a projection head taken apart.
type projection struct {
	text      authority.Canonical
	members   object
	cursor    authority.Cursor
	todos     []record
	leases    []record
	fields    []string // names a record may have: the contract the head declares
	revisions func(id string) int64
}

// readProjection takes a projection head apart and holds it against its own words: ids
// unique and in order, each lease with its Todo, the read model right.
func readProjection(head authority.Head) (*projection, error) {
	p := &projection{text: head.Projection, members: takeApart(head.Projection), cursor: head.Cursor}
	p.todos, p.leases = recordsOf(p.members["todos"]), recordsOf(p.members["leases"])
	model := takeApart(p.members["todo_read_model"])
	p.fields = textsOf(model["contract_fields"])
	count, _ := integerOf(model["todo_count"])
	mode := p.members.text("handoff_mode")
	switch {
	case p.goal() == "":
		return nil, corrupt("goal_id", "missing")
	case mode != "" && !slices.Contains(modeWords, mode):
		return nil, corrupt("handoff_mode", "no mode that is known here")
	case canonical.Kind(p.members["todos"]) != canonical.Array || canonical.Kind(p.members["leases"]) != canonical.Array:
		return nil, corrupt("todos", "todos or leases is not a list")
	case !inOrder(p.todos):
		return nil, corrupt("todos", "ids are missing, twice or out of order")
	case !inOrder(p.leases):
		return nil, corrupt("leases", "ids are missing, twice or out of order")
	case int(count) != len(p.todos) || model.text("records_sha256") != authority.DigestOf(p.members["todos"]).String():
		return nil, corrupt("todo_read_model", "does not match the records beside it")
	}
	for _, lease := range p.leases {
		if _, found := find(p.todos, lease.id); !found {
			return nil, corrupt("leases/"+lease.id, "a lease of no Todo")
		}
		if fault := checkLease(lease); fault != nil {
			return nil, fault
		}
	}
	return p, nil
}

// checkLease holds a lease record against what is counted on here.
func checkLease(r record) *HeadError {
	o := takeApart(r.text)
	path := "leases/" + r.id + "/"
	if s := o.text("status"); s != leaseActive && s != leaseReleased {
		return corrupt(path+"status", "neither active nor released")
	}
	for _, key := range []string{"version", "lease_epoch"} {
		if _, ok := integerOf(o[key]); o[key] != nil && !ok {
			return corrupt(path+key, "not an integer")
		}
	}
	if _, ok := Instant(o.text("expires_at")).Time(); !ok && o.text("status") == leaseActive {
		return corrupt(path+"expires_at", "not a time in UTC with its zone")
	}
	return nil
}

func inOrder(records []record) bool {
	for i, r := range records {
		if r.id == "" || i > 0 && canonical.CompareKeys(records[i-1].id, r.id) >= 0 {
			return false
		}
	}
	return true
}

func find(records []record, id string) (int, bool) {
	return slices.BinarySearchFunc(records, id, func(r record, id string) int { return canonical.CompareKeys(r.id, id) })
}

func (p *projection) goal() string                { return p.members.text("goal_id") }
func (p *projection) binding() authority.Identity { return "" }
func (p *projection) authorityRevision() int64    { return int64(p.cursor) }

func (p *projection) mode() Mode {
	if mode := p.members.text("handoff_mode"); mode != "" {
		return Mode(mode)
	}
	return LegacyMode
}

// Statuses of lease records. An expired one stays active in its record.
const (
	leaseActive   = "active"
	leaseReleased = "released"
)

// projectionLease reads a lease record; one that was released is none.
func projectionLease(text []byte) Lease {
	o := takeApart(text)
	if o.text("status") != leaseActive {
		return Lease{}
	}
	return Lease{TodoID: o.text("todo_id"), ID: o.text("idempotency_key"), Owner: o.text("owner"), Epoch: epochOf(o),
		ExpiresAt: Instant(o.text("expires_at")), Scopes: textsOf(o["write_scopes"])}
}

// epochOf is the generation of a lease record: 1 when an old one does not say, 0 without a record.
func epochOf(o object) int64 {
	if len(o) == 0 {
		return 0
	}
	if epoch, ok := integerOf(o["lease_epoch"]); ok {
		return epoch
	}
	return 1
}

func (p *projection) standing() []Lease {
	var all []Lease
	for _, r := range p.leases {
		lease := projectionLease(r.text)
		if lease.ID == "" {
			continue
		}
		if i, found := find(p.todos, r.id); found {
			lease.Repository = takeApart(p.todos[i].text).text("task_repository")
		}
		all = append(all, lease)
	}
	return all
}

func (p *projection) claimed() []string {
	var ids []string
	for _, r := range p.todos {
		o := takeApart(r.text)
		if o.text("claimed_by") != "" && statusOf(o) == statusOpen {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// Statuses of a Todo as commands see them.
const (
	statusOpen     = "open"
	statusDone     = "done"
	statusArchived = "archived"
)

func statusOf(o object) string {
	if o.text("archive_state") == "archive" {
		return statusArchived
	}
	return o.text("status")
}

func (p *projection) todo(id string) (Todo, bool) {
	i, found := find(p.todos, id)
	if !found {
		return Todo{}, false
	}
	o := takeApart(p.todos[i].text)
	t := Todo{ID: id, Revision: p.revisions(id), Status: statusOf(o), ClaimedBy: o.text("claimed_by"),
		Repository: o.text("task_repository"), Scopes: textsOf(o["required_write_scopes"]), UserGate: o.text("task_class") == userGate}
	if i, found := find(p.leases, id); found {
		t.Lease, t.Watermark = projectionLease(p.leases[i].text), epochOf(takeApart(p.leases[i].text))
	}
	ready, why := p.dependencies(o)
	gates := p.gatesOf(id, o)
	t.dependencies = ready
	t.gated = func(agent string) bool {
		return slices.ContainsFunc(gates, func(g gate) bool { return g.agent == "" || g.agent == agent })
	}
	t.permits = func(agent string) bool {
		bound := o.text("bound_agent")
		return o.text("role") != "user" && (bound == "" || bound == agent) && !slices.Contains(textsOf(o["excluded_agents"]), agent)
	}
	t.Tokens = map[string]authority.Canonical{
		tokenAuthorizationDigest: spellText(digestText(pick(o, "bound_agent", "excluded_agents", "role").spell())),
		tokenDependencyDigest:    spellText(digestText(why)),
		tokenGateDigest:          spellText(digestText(spellGates(gates))),
	}
	return t, true
}

func pick(o object, keys ...string) object {
	picked := object{}
	for _, key := range keys {
		if o[key] != nil {
			picked[key] = o[key]
		}
	}
	return picked
}

const userGate = "user_gate"

// dependencies says whether what the Todo waits for has come, and from which facts.
// A condition that cannot be judged from the head counts as not met.
func (p *projection) dependencies(o object) (met bool, facts []byte) {
	condition := o.text("resume_when")
	if condition == "" {
		return true, object{}.spell()
	}
	told := pick(o, "resume_when", "resume_ready")
	if awaited, is := strings.CutPrefix(condition, "todo_done:"); is {
		i, found := find(p.todos, awaited)
		met = found && takeApart(p.todos[i].text).text("status") == statusDone
		told["met"] = spellBool(met)
		return met, told.spell()
	}
	return string(o["resume_ready"]) == "true", told.spell()
}

// gate is what holds a Todo back: another Todo, for one agent or for all.
type gate struct{ id, agent string }

// gatesOf finds the open gates before a Todo: user gates that block everything, this
// Todo or one agent, and decisions that it requires and nobody has approved.
func (p *projection) gatesOf(id string, o object) []gate {
	var gates []gate
	approved := map[string]bool{}
	for _, r := range p.todos {
		other := takeApart(r.text)
		for _, scope := range approvedBy(other) {
			approved[scope] = true
		}
		if r.id == id || statusOf(other) != statusOpen || other.text("task_class") != userGate {
			continue
		}
		switch agent := other.text("blocks_agent"); {
		case string(other["global_gate"]) == "true", other.text("unblocks_todo_id") == id:
			gates = append(gates, gate{id: r.id})
		case agent != "":
			gates = append(gates, gate{r.id, agent})
		}
	}
	for scope := range canonical.Elements(o["required_decision_scopes"]) {
		if !approved[string(scope)] {
			gates = append(gates, gate{id: digestText(scope)})
		}
	}
	return gates
}

// approvedBy lists the decision scopes that a Todo says were approved.
func approvedBy(o object) []string {
	var scopes []string
	if o.text("decision_outcome") == "approve" && o["decision_scope"] != nil {
		scopes = append(scopes, string(o["decision_scope"]))
	}
	for element := range canonical.Elements(o["decision_scope_outcomes"]) {
		if outcome := takeApart(element); outcome.text("outcome") == "approve" {
			scopes = append(scopes, string(outcome["decision_scope"]))
		}
	}
	return scopes
}

func spellGates(gates []gate) []byte {
	all := make([]string, len(gates))
	for i, g := range gates {
		all[i] = g.id + " " + g.agent
	}
	return spellTexts(all)
}

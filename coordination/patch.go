package coordination

import (
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// patch is what a decision changes: one Todo, its lease, the counters. What a shape has no
// place for, it refuses.
type patch struct {
	todo    string
	create  bool
	claim   *string // nil leaves the claim, empty frees it
	lease   *Lease  // a lease that is minted or moved
	ttl     int64   // of a lease that is minted, in seconds; 0 moves one
	retire  bool    // the lease that stands ends
	done    *completion
	set     object
	clear   []string
	receipt Receipt // its revisions are the shape's to fill in

	released     *Lease // a key minted, checked and released at once
	archive      bool
	supersededBy string
	mode         Mode
}

// completion is how a Todo ends.
type completion struct {
	continuation string
	successors   []string
	evidence     *Evidence
}

// mutation is one change of a record, as LoopX's own commits describe it.
type mutation struct {
	kind   string // todo_upsert, lease_upsert
	key    string // the member that holds the record
	target string
	text   []byte
}

// patch gives the next projection, with the event that LoopX's mutation commits carry.
func (p *projection) patch(change patch) (Step, error) {
	if change.mode != "" {
		return p.switchMode(change), nil
	}
	var mutations []mutation
	if m, err := p.patchTodo(change); err != nil {
		return Step{}, err
	} else if m != nil {
		mutations = append(mutations, *m)
	}
	if change.done != nil {
		for _, id := range change.done.successors {
			mutations = append(mutations, p.putTodo(id, p.successorOf(change.todo, id, change.receipt)))
		}
	}
	if text := p.patchLease(change); text != nil {
		mutations = append(mutations, mutation{"lease_upsert", "lease", change.todo, text})
		p.leases = put(p.leases, record{change.todo, text})
	}
	return p.commit(change, mutations), nil
}

// commit puts the head together again and says what changed.
func (p *projection) commit(change patch, mutations []mutation) Step {
	next := p.members.clone()
	next["todos"], next["leases"] = spellRecords(p.todos), spellRecords(p.leases)
	model := takeApart(next["todo_read_model"])
	model["todo_count"] = spellInteger(int64(len(p.todos)))
	model["records_sha256"] = spellText(authority.DigestOf(next["todos"]).String())
	next["todo_read_model"] = model.spell()
	text := authority.Canonical(next.spell())

	r := change.receipt
	r.AuthorityRevision, r.TodoRevision = int64(p.cursor)+1, p.revisions(change.todo)+1
	if change.create {
		r.TodoRevision = 0
	}
	var kinds, touched []string
	var spelled [][]byte
	for _, m := range mutations {
		kinds, touched = append(kinds, m.kind), append(touched, m.key+":"+m.target)
		spelled = append(spelled, object{"kind": spellText(m.kind), m.key: m.text}.spell())
	}
	slices.SortFunc(kinds, canonical.CompareKeys)
	slices.SortFunc(touched, canonical.CompareKeys)
	event := object{
		"schema_version": spellText("loopx_coordination_projection_mutation_event_v0"), "operation_id": spellText(r.OperationID),
		"goal_id": spellText(p.goal()), "mutation_kinds": spellTexts(kinds), "targets": spellTexts(touched),
		"mutation_sha256":            spellText(authority.DigestOf(list(spelled...)).String()),
		"previous_projection_sha256": spellText(authority.DigestOf(p.text).String()),
		"next_projection_sha256":     spellText(authority.DigestOf(text).String()),
	}
	return Step{Projection: text, Events: list(event.spell()), Receipts: list(r.Canonical()), Receipt: r}
}

func (p *projection) switchMode(change patch) Step {
	next := p.members.clone()
	next["handoff_mode"] = spellText(string(change.mode))
	r := change.receipt
	r.AuthorityRevision = int64(p.cursor) + 1
	return Step{Projection: next.spell(), Events: commandEvent(p.goal(), r, []string{}), Receipts: list(r.Canonical()), Receipt: r}
}

func spellRecords(records []record) []byte {
	all := make([][]byte, len(records))
	for i, r := range records {
		all[i] = r.text
	}
	return list(all...)
}

// put replaces a record or brings it in at its place.
func put(records []record, r record) []record {
	i, found := find(records, r.id)
	if found {
		records[i] = r
		return records
	}
	return slices.Insert(records, i, r)
}

func (p *projection) putTodo(id string, o object) mutation {
	text := o.spell()
	p.todos = put(p.todos, record{id, text})
	return mutation{"todo_upsert", "todo", id, text}
}

// patchTodo changes the record; nil when the change does not touch it.
func (p *projection) patchTodo(change patch) (*mutation, error) {
	o, now := object{}, spellText(string(change.receipt.AppliedAt))
	if i, found := find(p.todos, change.todo); found {
		o = takeApart(p.todos[i].text)
	}
	touched := change.create || change.claim != nil || change.done != nil || change.archive || change.supersededBy != "" || change.set != nil
	if !touched {
		return nil, nil
	}
	if change.create {
		o = p.blank(change.todo, change.receipt.Actor.AgentID)
	}
	if refusal := p.update(o, change); refusal != nil {
		return nil, refusal
	}
	if change.claim != nil {
		o.setText("claimed_by", *change.claim)
	}
	if change.done != nil {
		finishRecord(o, *change.done, now)
	}
	if change.archive {
		o["archive_state"] = spellText("archive")
		if o["source_section"] != nil {
			o["source_section"] = spellText("Completed Work Archive")
		}
	}
	if change.supersededBy != "" {
		o["status"], o["done"], o["completed_at"] = spellText(statusDone), spellBool(true), now
		o["superseded_by"] = spellText(change.supersededBy)
	}
	o["updated_at"] = now
	m := p.putTodo(change.todo, p.allowed(o))
	return &m, nil
}

// allowed drops what the contract that the head declares has no name for: an older
// LoopX's head stays readable to that LoopX.
func (p *projection) allowed(o object) object {
	for key := range o {
		if !slices.Contains(p.fields, key) {
			delete(o, key)
		}
	}
	return o
}

func finishRecord(o object, c completion, now []byte) {
	o["status"], o["done"], o["completed_at"] = spellText(statusDone), spellBool(true), now
	o["completion_continuation"] = spellText(c.continuation)
	delete(o, "no_followup")
	delete(o, "successor_todo_ids")
	if c.continuation == noFollowup {
		o["no_followup"] = spellBool(true)
	}
	if len(c.successors) > 0 {
		o["successor_todo_ids"] = spellTexts(c.successors)
	}
	if c.evidence != nil {
		o["evidence"] = spellText(c.evidence.Pointer)
	}
}

// successorOf is a new Todo with the context of its parent: open, free, unscheduled.
func (p *projection) successorOf(parent, id string, r Receipt) object {
	i, _ := find(p.todos, parent)
	o := pick(takeApart(p.todos[i].text), "schema_version", "role", "text", "title", "priority", "source_section", "task_class", "action_kind",
		"task_domain", "capability_binding_ref", "task_repository", "continuation_policy", "required_write_scopes",
		"required_capabilities", "target_capabilities", "excluded_agents", "bound_agent", "goal_bound")
	o["todo_id"], o["status"], o["done"], o["archive_state"] = spellText(id), spellText(statusOpen), spellBool(false), spellText("active")
	o["created_by"], o["updated_at"] = spellText(r.Actor.AgentID), spellText(string(r.AppliedAt))
	return p.allowed(o)
}

// blank is a new record of the kind that the head declares.
func (p *projection) blank(id, creator string) object {
	o := object{"schema_version": spellText(itemNative), "todo_id": spellText(id), "status": spellText(statusOpen), "done": spellBool(false),
		"archive_state": spellText("active"), "created_by": spellText(creator)}
	if slices.Contains(p.fields, "source_section") {
		o["schema_version"] = spellText(itemLegacy)
	}
	return o
}

// patchLease writes the lease record as LoopX counts: a new lease has version and epoch
// plus one, a renewal a new version only, a release neither; what was released stays,
// with the end it had. Nil when the change does not touch it.
func (p *projection) patchLease(change patch) []byte {
	o, now := object{}, spellText(string(change.receipt.AppliedAt))
	if i, found := find(p.leases, change.todo); found {
		o = takeApart(p.leases[i].text)
	}
	version, _ := integerOf(o["version"])
	minted := change.lease
	if change.released != nil {
		minted = change.released
	}
	switch {
	case minted != nil && change.ttl > 0:
		o = object{"schema_version": spellText(leaseSchema), "goal_id": p.members["goal_id"], "todo_id": spellText(change.todo),
			"owner": spellText(minted.Owner), "idempotency_key": spellText(minted.ID), "write_scopes": spellTexts(minted.Scopes),
			"acquire_ttl_seconds": spellInteger(change.ttl), "version": spellInteger(version + 1), "lease_epoch": spellInteger(minted.Epoch),
			"acquired_at": now, "updated_at": now, "expires_at": spellText(string(minted.ExpiresAt)), "status": spellText(leaseActive)}
	case minted != nil:
		o["version"], o["updated_at"], o["expires_at"] = spellInteger(version+1), now, spellText(string(minted.ExpiresAt))
	case !change.retire:
		return nil
	}
	if change.retire || change.released != nil {
		o["status"], o["updated_at"], o["released_at"] = spellText(leaseReleased), now, now
	}
	return o.spell()
}

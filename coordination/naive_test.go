package coordination_test

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// The naive model is a second statement of the commands, for tests alone. It holds plain
// maps, counts milliseconds, and shares nothing with the package under test.
type naive struct {
	shape, goal, binding string
	now                  int64 // milliseconds since 1970
	grace                int64 // milliseconds
	revision             int64 // authority revision
	todos                map[string]*naiveTodo
	asked                map[string]naiveAnswer // by operation id
	index                map[string]any         // receipt_index
}

type naiveTodo struct {
	revision int64
	record   map[string]any // the Todo as its shape spells it, without its counters
	owner    string         // of the lease that stands, "" when none does
	id       string         // of that lease
	end      int64
	scopes   []any
	epoch    int64
	lease    map[string]any // projection head: the record, released or not
}

type naiveAnswer struct {
	request []byte
	receipt map[string]any
}

// naiveCommand is a drawn command, in the words of the envelope.
type naiveCommand struct {
	operation, agent, verb, todo string
	params                       map[string]any
}

func (c naiveCommand) request(goal string) map[string]any {
	command := map[string]any{"type": c.verb, "todo_id": c.todo}
	for key, value := range c.params {
		command[key] = value
	}
	return map[string]any{"actor": c.actor(), "goal_id": goal, "command": command}
}

func (c naiveCommand) actor() map[string]any {
	return map[string]any{"agent_id": c.agent, "device_id": "host-1"}
}

func (m *naive) stamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z")
}

// apply says how a command must end; what was applied changes the model. leaseID is the
// id a new lease got, which the model cannot know.
func (m *naive) apply(c naiveCommand, leaseID string) (verdict string, receipt map[string]any) {
	request := fixture.Canonical(c.request(m.goal))
	if before, known := m.asked[c.operation]; known {
		if string(before.request) != string(request) {
			return "conflict/operation_identity_mismatch", nil
		}
		return "already_applied", before.receipt
	}
	if verdict := m.judge(c); verdict != "" {
		return verdict, nil
	}
	receipt = m.perform(c, leaseID)
	m.revision++
	receipt["schema_version"], receipt["operation_id"], receipt["command"], receipt["actor"] = "loopx_authority_receipt_v0", c.operation, c.verb, c.actor()
	receipt["request_digest"] = "sha256:" + fixture.SHA256(request)
	receipt["applied_at"], receipt["accepted_authority_revision"] = m.stamp(m.now), m.revision
	receipt["todo_id"], receipt["accepted_todo_revision"] = c.todo, m.todos[c.todo].revision
	m.asked[c.operation] = naiveAnswer{request, receipt}
	m.index[c.operation] = map[string]any{"request_digest": receipt["request_digest"], "original_receipt": receipt}
	return "applied", receipt
}

// judge refuses, or returns "".
func (m *naive) judge(c naiveCommand) string {
	t, known := m.todos[c.todo]
	if !known {
		return "rejected/todo_unknown"
	}
	if want, given := c.params["expected_todo_revision"]; given && want != t.revision {
		return "conflict/todo_revision_stale"
	}
	open := t.record["status"] == "open"
	switch c.verb {
	case "claim_work", "reclaim_work":
		return m.judgeTaking(c, t, open)
	case "complete_work":
		successors := c.params["successor_todo_ids"].([]any)
		switch {
		case !open:
			return "rejected/todo_not_open"
		case c.params["no_followup"] == true && len(successors) > 0:
			return "rejected/completion_both_set"
		case len(successors) > 0 && m.todos[successors[0].(string)] != nil:
			return "rejected/todo_exists"
		}
	}
	switch {
	case t.owner == "" || t.id != c.params["lease_id"] || t.epoch != c.params["expected_lease_epoch"]:
		return "conflict/stale_lease_fence"
	case t.owner != c.agent:
		return "rejected/not_lease_holder"
	case t.end <= m.now:
		return "rejected/lease_not_active"
	}
	return ""
}

func (m *naive) judgeTaking(c naiveCommand, t *naiveTodo, open bool) string {
	switch {
	case !open:
		return "rejected/todo_not_open"
	case c.agent == "agent-003" && c.todo == "todo_002":
		return "rejected/agent_not_eligible"
	case c.verb == "claim_work" && t.owner != "":
		return "rejected/todo_already_claimed"
	case c.verb == "reclaim_work" && t.owner == "":
		return "rejected/todo_not_claimed"
	case c.verb == "reclaim_work" && m.now < t.end+m.grace:
		return "rejected/lease_not_reclaimable"
	}
	for id, other := range m.todos {
		if id != c.todo && other.owner != "" && other.end > m.now && naiveOverlap(c.params["write_scopes"].([]any), other.scopes) {
			return "rejected/write_scope_overlap"
		}
	}
	return ""
}

// naiveScopes are the scopes that are drawn, and naiveMeet those of them that meet.
var (
	naiveScopes = []string{"docs/**", "docs/a", "src"}
	naiveMeet   = []string{"docs/** docs/**", "docs/** docs/a", "docs/a docs/**", "docs/a docs/a", "src src"}
)

func naiveOverlap(a, b []any) bool {
	for _, x := range a {
		for _, y := range b {
			if slices.Contains(naiveMeet, fmt.Sprint(x, " ", y)) {
				return true
			}
		}
	}
	return false
}

// perform changes the model and returns what is special in the receipt.
func (m *naive) perform(c naiveCommand, leaseID string) map[string]any {
	t := m.todos[c.todo]
	receipt := map[string]any{}
	t.revision++
	ttl, _ := c.params["lease_ttl_seconds"].(int64)
	end := (m.now/1000 + ttl) * 1000
	switch c.verb {
	case "reclaim_work":
		receipt["superseded_owner"], receipt["superseded_lease_epoch"] = t.owner, t.epoch
		m.take(c, t, leaseID, end)
	case "claim_work":
		m.take(c, t, leaseID, end)
	case "renew_work":
		t.end = end
		t.lease["version"] = t.lease["version"].(int64) + 1
		t.lease["updated_at"], t.lease["expires_at"] = m.stamp(m.now), m.stamp(end)
	case "release_work":
		delete(t.record, "claimed_by")
		m.touch(t)
	case "complete_work":
		m.complete(c, t, receipt)
	}
	receipt["lease_id"], receipt["lease_epoch"] = t.id, t.epoch
	if ttl > 0 {
		receipt["expires_at"] = m.stamp(end)
		return receipt
	}
	t.lease["status"], t.lease["released_at"], t.lease["updated_at"] = "released", m.stamp(m.now), m.stamp(m.now)
	t.owner = ""
	return receipt
}

func (m *naive) touch(t *naiveTodo) {
	if m.shape == projected {
		t.record["updated_at"] = m.stamp(m.now)
	}
}

func (m *naive) take(c naiveCommand, t *naiveTodo, leaseID string, end int64) {
	version := int64(1)
	if t.lease != nil {
		version = t.lease["version"].(int64) + 1
	}
	t.epoch++
	t.owner, t.id, t.end, t.scopes = c.agent, leaseID, end, c.params["write_scopes"].([]any)
	t.record["claimed_by"] = c.agent
	m.touch(t)
	t.lease = map[string]any{"schema_version": "task_lease_v0", "goal_id": m.goal, "todo_id": c.todo, "owner": c.agent, "idempotency_key": leaseID,
		"write_scopes": t.scopes, "acquire_ttl_seconds": c.params["lease_ttl_seconds"], "version": version, "lease_epoch": t.epoch,
		"acquired_at": m.stamp(m.now), "updated_at": m.stamp(m.now), "expires_at": m.stamp(end), "status": "active"}
}

func (m *naive) complete(c naiveCommand, t *naiveTodo, receipt map[string]any) {
	successors := c.params["successor_todo_ids"].([]any)
	continuation := "active_goal"
	if len(successors) > 0 {
		continuation = "successor"
	} else if c.params["no_followup"] == true {
		continuation = "no_followup"
	}
	receipt["completion_continuation"], receipt["successor_todo_ids"] = continuation, successors
	parent := t.record
	t.record = map[string]any{}
	for key, value := range parent {
		t.record[key] = value
	}
	t.record["status"], t.record["completion_continuation"] = "done", continuation
	m.touch(t)
	if m.shape == bound {
		delete(t.record, "claimed_by")
		t.record["no_followup"], t.record["successor_todo_ids"] = continuation == "no_followup", successors
	} else {
		t.record["done"], t.record["completed_at"] = true, m.stamp(m.now)
		if continuation == "no_followup" {
			t.record["no_followup"] = true
		}
		if len(successors) > 0 {
			t.record["successor_todo_ids"] = successors
		}
	}
	for _, id := range successors {
		m.todos[id.(string)] = &naiveTodo{record: m.child(c, id, parent)}
	}
}

// child is a successor as its shape spells it.
func (m *naive) child(c naiveCommand, id any, parent map[string]any) map[string]any {
	if m.shape == bound {
		return map[string]any{"status": "open", "eligibility": parent["eligibility"], "repository": parent["repository"], "code_revision": parent["code_revision"]}
	}
	child := map[string]any{"schema_version": parent["schema_version"], "role": parent["role"], "text": parent["text"], "todo_id": id, "status": "open",
		"done": false, "archive_state": "active", "created_by": c.agent, "updated_at": m.stamp(m.now)}
	if parent["excluded_agents"] != nil {
		child["excluded_agents"] = parent["excluded_agents"]
	}
	return child
}

// rebind is the declared transaction after a migration.
func (m *naive) rebind(operation, binding string, request map[string]any) map[string]any {
	m.revision++
	digest := "sha256:" + fixture.SHA256(fixture.Canonical(request))
	command := request["command"].(map[string]any)
	receipt := map[string]any{"schema_version": "loopx_authority_receipt_v0", "operation_id": operation, "request_digest": digest, "command": "rebind_head",
		"actor": request["actor"], "accepted_authority_revision": m.revision, "applied_at": m.stamp(m.now), "store_binding": binding,
		"previous_store_binding": m.binding, "migration_id": command["migration_id"], "manifest_digest": command["manifest_digest"]}
	m.binding = binding
	m.index[operation] = map[string]any{"request_digest": digest, "original_receipt": receipt}
	return receipt
}

// head is the head as it must be.
func (m *naive) head() []byte {
	ids := []string{}
	for id := range m.todos {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	todos, leases := []any{}, []any{}
	todosByID, leasesByID := map[string]any{}, map[string]any{}
	for _, id := range ids {
		t := m.todos[id]
		todos = append(todos, t.record)
		if t.lease != nil {
			leases = append(leases, t.lease)
		}
		record := map[string]any{"todo_revision": t.revision, "last_lease_epoch": t.epoch}
		for key, value := range t.record {
			record[key] = value
		}
		todosByID[id] = record
		if t.owner != "" {
			leasesByID[id] = map[string]any{"lease_id": t.id, "owner": t.owner, "lease_epoch": t.epoch, "expires_at": m.stamp(t.end), "write_scopes": t.scopes}
		}
	}
	if m.shape == bound {
		return fixture.Canonical(map[string]any{"schema_version": "loopx_coordination_head_v1", "goal_id": m.goal, "handoff_mode": "hard_lease",
			"store_binding": m.binding, "authority_revision": m.revision, "receipt_index": m.index, "receipt_retention": map[string]any{"mode": "retain_all_v0"},
			"coordination": map[string]any{"todos": todosByID, "leases": leasesByID}})
	}
	head := projectionHead(m.goal, "hard_lease", 0)
	head["todos"], head["leases"], head["todo_read_model"] = todos, leases, readModel(todos)
	return fixture.Canonical(head)
}

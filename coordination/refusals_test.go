package coordination_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// TestTargetsThatCannotBeTakenLeaveNoTrace: unknown, stale, ineligible, blocked, gated.
func TestTargetsThatCannotBeTakenLeaveNoTrace(t *testing.T) {
	share(t)
	for _, kind := range kinds {
		t.Run(string(kind)+"/"+bound, func(t *testing.T) { spoiledTargets(t, kind, bound, spoilBound) })
		t.Run(string(kind)+"/"+projected, func(t *testing.T) { spoiledTargets(t, kind, projected, spoilProjected) })
	}
}

// spoilBound makes Todos 1 to 4 of a coordination head such that they cannot be taken.
func spoilBound(head map[string]any) map[string]any {
	todos := at(head, "coordination", "todos")
	at(todos, todoID(1), "eligibility")["allowed_agent_ids"] = []any{agentID(9)}
	at(todos, todoID(2), "eligibility")["dependencies_satisfied"] = false
	at(todos, todoID(3), "eligibility")["gates_open"] = false
	done := at(todos, todoID(4))
	done["status"], done["completion_continuation"], done["no_followup"], done["successor_todo_ids"] = "done", "no_followup", true, []any{}
	return head
}

// spoilProjected does the same to a projection head.
func spoilProjected(head map[string]any) map[string]any {
	todos := head["todos"].([]any)
	at(todos[1])["excluded_agents"] = []any{agentID(1)}
	at(todos[2])["resume_when"] = "todo_done:" + todoID(0)
	gate := map[string]any{"schema_version": "todo_domain_record_v0", "todo_id": "todo_gate", "role": "user", "status": "open", "done": false,
		"archive_state": "active", "text": "may it go on", "task_class": "user_gate", "unblocks_todo_id": todoID(3)}
	at(todos[4])["status"], at(todos[4])["done"] = "done", true
	head["todos"] = append(todos, gate)
	head["todo_read_model"] = readModel(head["todos"].([]any))
	return head
}

func spoiledTargets(t *testing.T, kind authority.Kind, shape string, spoil func(map[string]any) map[string]any) {
	r := &rig{TB: t, place: vacant(t, kind), shape: shape, clock: &clock{epochAt}}
	store := r.place.handle(t)
	identity, err := store.Identity(t.Context())
	must(t, err)
	head := projectionHead(r.place.Goal, "hard_lease", 6)
	if shape == bound {
		head = coordinationHead(r.place.Goal, string(identity), 6)
	}
	commit(t, store, "seed", spoil(head))
	r.Authority = r.attach(store)
	r.without(func() {
		for i, want := range []struct {
			todo    int
			outcome coordination.Outcome
			reason  coordination.Reason
		}{
			{99, coordination.Rejected, coordination.ReasonUnknownTodo}, {1, coordination.Rejected, coordination.ReasonIneligible},
			{2, coordination.Rejected, coordination.ReasonDependencies}, {3, coordination.Rejected, coordination.ReasonGate},
			{4, coordination.Rejected, coordination.ReasonNotOpen},
		} {
			refused(r, r.do(claimRequest(r.place.Goal, fmt.Sprintf("op-%d", i), 1, want.todo, 0)), want.outcome, want.reason)
		}
		refused(r, r.do(claimRequest(r.place.Goal, "op-stale", 1, 5, 7)), coordination.Conflict, coordination.ReasonStale)
		named := claimRequest(r.place.Goal, "op-token", 1, 5, 0)
		named.Command.Preconditions = tokens("authorization_projection_digest", `"`+zeros(2)+`"`)
		refused(r, r.do(named), coordination.Conflict, coordination.ReasonPrecondition)
		refused(r, r.do(reclaimRequest(r.place.Goal, "op-free", 1, 5)), coordination.Rejected, coordination.ReasonNotClaimed)
	})
	good := claimRequest(r.place.Goal, "op-good", 1, 5, 0)
	good.Command.Preconditions = currentTokens(shape)
	r.must(good)
}

// currentTokens are the tokens of an untouched Todo, worked out by hand: those of a
// projection head are digests of what its record says.
func currentTokens(shape string) map[string]authority.Canonical {
	if shape == bound {
		return tokens("authorization_projection_digest", `"`+zeros(1)+`"`, "authorization_projection_revision", "1", "dependency_revision", "1",
			"gate_revision", "1", "repository", `"git:example.org/crane"`, "code_revision", `"c0ffee"`)
	}
	digest := func(text string) string { return `"sha256:` + fixture.SHA256([]byte(text)) + `"` }
	return tokens("authorization_projection_digest", digest(`{"role":"agent"}`), "dependency_digest", digest("{}"), "gate_digest", digest("[]"))
}

// TestEnvelopesAreClosed spoils each member of an envelope; what is refused leaves no trace.
func TestEnvelopesAreClosed(t *testing.T) {
	r := newRig(t, authority.KindFile, projected, 1)
	good := decoded(t, claimRequest(r.place.Goal, "op-claim", 1, 0, 0).Canonical())
	for name, spoil := range map[string]func(e map[string]any){
		"unknown key":        func(e map[string]any) { e["retries"] = 3 },
		"unknown parameter":  func(e map[string]any) { at(e, "command")["observed_revision"] = 3 },
		"unknown token":      func(e map[string]any) { at(e, "command", "expected_preconditions")["mood"] = "good" },
		"unknown verb":       func(e map[string]any) { at(e, "command")["type"] = "steal_work" },
		"parameter of other": func(e map[string]any) { at(e, "command")["no_followup"] = true },
		"boolean revision":   func(e map[string]any) { at(e, "command")["expected_todo_revision"] = true },
		"float revision":     func(e map[string]any) { at(e, "command")["expected_todo_revision"] = 1.5 },
		"text revision":      func(e map[string]any) { at(e, "command")["expected_todo_revision"] = "1" },
		"no preconditions":   func(e map[string]any) { delete(at(e, "command"), "expected_preconditions") },
		"ttl 0":              func(e map[string]any) { at(e, "command")["lease_ttl_seconds"] = 0 },
		"ttl beyond a day":   func(e map[string]any) { at(e, "command")["lease_ttl_seconds"] = 86401 },
		"no device":          func(e map[string]any) { delete(at(e, "actor"), "device_id") },
		"path as scope":      func(e map[string]any) { at(e, "command")["write_scopes"] = []any{"/home/a"} },
		"climbing scope":     func(e map[string]any) { at(e, "command")["write_scopes"] = []any{"docs/../.."} },
		"path as id":         func(e map[string]any) { e["operation_id"] = "/home/a/op" },
		"sentence as id":     func(e map[string]any) { e["operation_id"] = "please take this" },
		"other schema":       func(e map[string]any) { e["schema_version"] = "loopx_command_v1" },
	} {
		t.Run(name, func(t *testing.T) {
			e := decoded(t, fixture.Canonical(good))
			spoil(e)
			if _, err := coordination.ParseEnvelope(mustJSON(t, e)); err == nil {
				t.Error("accepted")
			}
		})
	}
	parsed, err := coordination.ParseEnvelope(mustJSON(t, good))
	must(t, err)
	if parsed.Digest() != claimRequest(r.place.Goal, "another-id", 1, 0, 0).Digest() {
		t.Error("the digest holds more than the request")
	}
	if parsed.Digest() == claimRequest(r.place.Goal, "op-claim", 2, 0, 0).Digest() {
		t.Error("the digest does not hold the actor")
	}
	r.without(func() {
		bad := claimRequest(r.place.Goal, "op-claim", 1, 0, 0)
		bad.Command.TTLSeconds = 86401
		refused(r, r.do(bad), coordination.Rejected, coordination.ReasonInvalid)
		refused(r, r.do(claimRequest("goal-other", "op-claim", 1, 0, 0)), coordination.Rejected, coordination.ReasonGoal)
	})
}

// TestStoreLayerIsNoDecision: a store without a transaction, one that cannot be read and
// a head that contradicts itself are three failures, and none is a refusal.
func TestStoreLayerIsNoDecision(t *testing.T) {
	share(t)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			place := vacant(t, kind)
			store := place.handle(t)
			_, err := store.Identity(t.Context())
			must(t, err)
			a := &coordination.Authority{Store: store, Clock: (&clock{epochAt}).now}
			refused(t, a.Apply(t.Context(), claimRequest(place.Goal, "op", 1, 0, 0)), coordination.Failed, coordination.ReasonMissing)
			head := projectionHead(place.Goal, "hard_lease", 1)
			at(head, "todo_read_model")["todo_count"] = 2
			commit(t, store, "seed", head)
			refused(t, a.Apply(t.Context(), claimRequest(place.Goal, "op", 1, 0, 0)), coordination.Failed, coordination.ReasonHeadCorruption)
			commit(t, store, "odd", map[string]any{"goal_id": place.Goal})
			refused(t, a.Apply(t.Context(), claimRequest(place.Goal, "op", 1, 0, 0)), coordination.Failed, coordination.ReasonHeadSchema)
		})
	}
}

// TestLeaseOfAnOlderLoopX: a record without epoch has epoch 1, and a new lease counts on.
func TestLeaseOfAnOlderLoopX(t *testing.T) {
	r := &rig{TB: t, place: vacant(t, authority.KindFile), shape: projected, clock: &clock{epochAt}}
	store := r.place.handle(t)
	head := projectionHead(r.place.Goal, "hard_lease", 1)
	head["leases"] = []any{map[string]any{"schema_version": "task_lease_v0", "goal_id": r.place.Goal, "todo_id": todoID(0), "owner": agentID(1),
		"idempotency_key": "key-1", "write_scopes": []any{}, "version": 4, "expires_at": "2026-09-01T07:00:00Z", "status": "active"}}
	commit(t, store, "seed", head)
	r.Authority = r.attach(store)
	refused(r, r.do(claimRequest(r.place.Goal, "op-claim", 2, 0, 0)), coordination.Rejected, coordination.ReasonClaimed)
	r.clock.forward(time.Minute)
	got := r.must(reclaimRequest(r.place.Goal, "op-reclaim", 2, 0))
	if got.LeaseEpoch != 2 || got.SupersededEpoch != 1 || got.SupersededOwner != agentID(1) {
		t.Fatalf("reclaim %+v", got)
	}
	same(t, r.lease(0), map[string]any{"version": 5, "lease_epoch": 2, "owner": agentID(2)})
}

package coordination_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// workload makes a projection head in one mode in each store, with a few Todos more.
func workload(t *testing.T, mode string, test func(*rig)) {
	share(t)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			r := &rig{TB: t, place: vacant(t, kind), shape: projected, clock: &clock{epochAt}}
			store := r.place.handle(t)
			gate := map[string]any{"schema_version": "todo_domain_record_v0", "todo_id": "todo_gate", "role": "user", "status": "open", "done": false,
				"archive_state": "active", "text": "may it go on", "task_class": "user_gate", "unblocks_todo_id": "todo_002"}
			commit(t, store, "seed", projectionHead(r.place.Goal, mode, 3, gate))
			r.Authority = r.attach(store)
			test(r)
		})
	}
}

func (r *rig) command(operation string, agent int, c coordination.Command) coordination.Envelope {
	return envelope(r.place.Goal, operation, agent, c)
}

func TestCreateUpdateAndClear(t *testing.T) {
	workload(t, "hard_lease", func(r *rig) {
		create := r.command("op-create", 1, coordination.Command{Type: coordination.CreateTodo, TodoID: "todo_new",
			Set: tokens("text", `"oil the winch"`, "role", `"agent"`, "note", `"soon"`, "required_write_scopes", `["docs/new"]`)})
		if got := r.must(create); got.TodoRevision != 0 {
			r.Errorf("created at revision %d", got.TodoRevision)
		}
		update := func(operation string, expected int64, set map[string]authority.Canonical, clear ...string) coordination.Envelope {
			return r.command(operation, 1, coordination.Command{Type: coordination.UpdateTodo, TodoID: "todo_new", ExpectedRevision: revision(expected),
				Set: set, Clear: append([]string{}, clear...)})
		}
		r.must(update("op-update", 0, tokens("priority", `"P1"`), "note"))
		same(r, named(r.head()["todos"], "todo_new"), map[string]any{"text": "oil the winch", "priority": "P1", "note": nil, "created_by": agentID(1)})
		r.without(func() {
			refused(r, r.do(update("op-stale", 0, tokens("priority", `"P2"`))), coordination.Conflict, coordination.ReasonStale)
			for i, bad := range []coordination.Envelope{
				update("", 1, tokens("claimed_by", `"agent-001"`)), update("", 1, tokens("done", `true`)), update("", 1, tokens("status", `"done"`)),
				update("", 1, tokens("priority", `1`)), update("", 1, tokens("global_gate", `"true"`)), update("", 1, tokens("colour", `"red"`)),
				update("", 1, tokens("role", `"user"`)), update("", 1, tokens(), "text"), update("", 1, tokens(), "claimed_by"),
				update("", 1, tokens("note", `"x"`), "note"), update("", 1, tokens()), update("", 1, tokens("required_write_scopes", `["/etc"]`)),
			} {
				bad.OperationID = fmt.Sprintf("op-bad-%d", i)
				refused(r, r.do(bad), coordination.Rejected, coordination.ReasonInvalid)
			}
			again := create
			again.OperationID = "op-again"
			refused(r, r.do(again), coordination.Rejected, coordination.ReasonTodoExists)
			short := claimRequest(r.place.Goal, "op-short", 1, 0, 1)
			short.Command.TodoID = "todo_new"
			refused(r, r.do(short), coordination.Rejected, coordination.ReasonScopeMissing)
		})
		claim := r.must(r.command("op-claim", 2, coordination.Command{Type: coordination.ClaimWork, TodoID: "todo_new", ExpectedRevision: revision(1),
			Preconditions: tokens(), TTLSeconds: 60}))
		refused(r, r.do(update("op-unfenced", 2, tokens("note", `"x"`))), coordination.Rejected, coordination.ReasonModeNeedsLease)
		r.must(fenced(r.place.Goal, "op-fenced", 2, claim, coordination.Command{Type: coordination.UpdateTodo, ExpectedRevision: revision(2),
			Set: tokens("note", `"greased"`), Clear: []string{"priority"}}))
	})
}

func TestSupersedeAndArchive(t *testing.T) {
	workload(t, "hard_lease", func(r *rig) {
		supersede := coordination.Command{Type: coordination.SupersedeTodo, ExpectedRevision: revision(1), SupersededBy: "todo_001"}
		archive := func(operation string, expected int64) coordination.Envelope {
			return r.command(operation, 1, coordination.Command{Type: coordination.ArchiveTodo, TodoID: todoID(0), ExpectedRevision: revision(expected)})
		}
		claim := r.must(claimRequest(r.place.Goal, "op-claim", 1, 0, 0))
		r.without(func() {
			open := supersede
			open.TodoID = todoID(0)
			refused(r, r.do(r.command("op-unfenced", 1, open)), coordination.Rejected, coordination.ReasonModeNeedsLease)
			refused(r, r.do(archive("op-open", 1)), coordination.Rejected, coordination.ReasonNotDone)
			self := supersede
			self.SupersededBy = todoID(0)
			refused(r, r.do(fenced(r.place.Goal, "op-self", 1, claim, self)), coordination.Rejected, coordination.ReasonUnknownTodo)
		})
		r.must(fenced(r.place.Goal, "op-supersede", 1, claim, supersede))
		same(r, r.todo(0), map[string]any{"status": "done", "done": true, "superseded_by": "todo_001"})
		same(r, r.lease(0), map[string]any{"status": "released"})
		r.must(archive("op-archive", 2))
		same(r, r.todo(0), map[string]any{"archive_state": "archive"})
		refused(r, r.do(claimRequest(r.place.Goal, "op-late", 1, 0, 3)), coordination.Rejected, coordination.ReasonNotOpen)
	})
}

// TestGateAndDelegate: a user gate completes with a key that is minted, checked and
// released at once; a delegated authority changes a claim and its receipt says so.
func TestGateAndDelegate(t *testing.T) {
	workload(t, "hard_lease", func(r *rig) {
		refused(r, r.do(claimRequest(r.place.Goal, "op-gated", 1, 2, 0)), coordination.Rejected, coordination.ReasonGate)
		got := r.must(r.command("op-gate", 1, coordination.Command{Type: coordination.CompleteWork, TodoID: "todo_gate", NoFollowup: true}))
		if got.LeaseID != "auto-todo_gate" || got.LeaseEpoch != 1 {
			r.Errorf("key %s, epoch %d", got.LeaseID, got.LeaseEpoch)
		}
		same(r, named(r.head()["leases"], "todo_gate"), map[string]any{"status": "released", "version": 1, "lease_epoch": 1})
		claim := r.must(claimRequest(r.place.Goal, "op-claim", 1, 2, 0))
		override := r.command("op-over", 1, coordination.Command{Type: coordination.OverrideClaim, TodoID: todoID(2), ExpectedRevision: revision(1),
			ReasonCode: "operator_absent", NewOwner: agentID(5)})
		refused(r, r.do(override), coordination.Rejected, coordination.ReasonNotDelegated)
		override.Actor.AgentID = "agent-owner"
		over := r.must(override)
		if !over.Overridden || over.OverrideCode != "operator_absent" || over.SupersededOwner != agentID(1) {
			r.Errorf("receipt %+v", over)
		}
		refused(r, r.do(renewRequest(r.place.Goal, "op-late", 1, claim)), coordination.Conflict, coordination.ReasonStaleFence)
		if again := r.must(claimRequest(r.place.Goal, "op-owner", 5, 2, 2)); again.LeaseEpoch != 2 {
			r.Errorf("epoch %d", again.LeaseEpoch)
		}
	})
}

// TestHandoffModes: soft_claim knows no lease; a switch needs quiescence and names who is
// in the way.
func TestHandoffModes(t *testing.T) {
	workload(t, "legacy", func(r *rig) {
		turn := func(operation string, mode coordination.Mode) coordination.Result {
			return r.do(r.command(operation, 1, coordination.Command{Type: coordination.SetHandoffMode, Mode: mode}))
		}
		claim := r.must(claimRequest(r.place.Goal, "op-claim", 1, 0, 0))
		r.clock.forward(3600e9) // expired, and its holder may still be at work
		got := turn("op-busy", coordination.SoftClaim)
		refused(r, got, coordination.Rejected, coordination.ReasonNotQuiescent)
		if fmt.Sprint(got.Refusal.Offenders) != "[todo_000]" {
			r.Errorf("offenders %v", got.Refusal.Offenders)
		}
		r.clock.forward(-3600e9)
		r.must(releaseRequest(r.place.Goal, "op-release", 1, claim))
		applied(r, turn("op-soft", coordination.SoftClaim))
		refused(r, turn("op-same", coordination.SoftClaim), coordination.Rejected, coordination.ReasonModeSame)
		soft := r.must(claimRequest(r.place.Goal, "op-soft-claim", 1, 0, 2))
		if soft.LeaseID != "" || soft.TodoRevision != 3 {
			r.Errorf("a soft claim has %+v", soft)
		}
		r.without(func() {
			refused(r, r.do(renewRequest(r.place.Goal, "op-renew", 1, claim)), coordination.Rejected, coordination.ReasonModeForbids)
			refused(r, r.do(reclaimRequest(r.place.Goal, "op-reclaim", 2, 0)), coordination.Rejected, coordination.ReasonModeForbids)
			refused(r, r.do(claimRequest(r.place.Goal, "op-second", 2, 0, 3)), coordination.Rejected, coordination.ReasonClaimed)
			refused(r, r.do(r.command("op-thief", 2, coordination.Command{Type: coordination.CompleteWork, TodoID: todoID(0), NoFollowup: true})),
				coordination.Rejected, coordination.ReasonNotHolder)
			refused(r, turn("op-claimed", coordination.HardLease), coordination.Rejected, coordination.ReasonNotQuiescent)
		})
		r.must(r.command("op-free", 1, coordination.Command{Type: coordination.ReleaseWork, TodoID: todoID(0)}))
		applied(r, turn("op-hard", coordination.HardLease))
	})
}

// TestWorkOnABoundHead: what a coordination head has a place for, and what it has not.
func TestWorkOnABoundHead(t *testing.T) {
	r := newRig(t, authority.KindSQLite, bound, 1)
	eligibility := at(r.todo(0), "eligibility")
	set := func(change map[string]any) map[string]authority.Canonical {
		e := map[string]any{}
		for key, value := range eligibility {
			e[key] = value
		}
		for key, value := range change {
			e[key] = value
		}
		return map[string]authority.Canonical{"eligibility": fixture.Canonical(e)}
	}
	update := func(operation string, expected int64, change map[string]any) coordination.Envelope {
		return r.command(operation, 1, coordination.Command{Type: coordination.UpdateTodo, TodoID: todoID(0), ExpectedRevision: revision(expected),
			Set: set(change), Clear: []string{}})
	}
	r.without(func() {
		for i, reused := range []map[string]any{
			{"gates_open": false}, {"gates_open": false, "gate_revision": 0}, {"dependencies_satisfied": false}, {"gate_revision": 2},
			{"allowed_agent_ids": []any{agentID(1)}}, {"allowed_agent_ids": []any{agentID(1)}, "authorization_projection_revision": 2},
			{"authorization_projection_digest": zeros(2), "authorization_projection_revision": 2},
		} {
			refused(r, r.do(update(fmt.Sprintf("op-reused-%d", i), 0, reused)), coordination.Rejected, coordination.ReasonTokenReused)
		}
		refused(r, r.do(r.command("op-archive", 1, coordination.Command{Type: coordination.SetHandoffMode, Mode: coordination.SoftClaim})),
			coordination.Rejected, coordination.ReasonShape)
	})
	r.must(update("op-gate", 0, map[string]any{"gates_open": false, "gate_revision": 2}))
	refused(r, r.do(claimRequest(r.place.Goal, "op-gated", 1, 0, 1)), coordination.Rejected, coordination.ReasonGate)
	r.must(r.command("op-create", 1, coordination.Command{Type: coordination.CreateTodo, TodoID: "todo_new",
		Set: map[string]authority.Canonical{"eligibility": fixture.Canonical(eligibility), "repository": []byte(`"git:example.org/crane"`), "code_revision": []byte(`"c0ffee"`)}}))
	if got := at(r.head(), "coordination", "todos", "todo_new")["todo_revision"]; fmt.Sprint(got) != "0" {
		t.Errorf("created at revision %v", got)
	}
}

// TestNothingPrivateIsKeptOrSaid: Todo text, notes, paths and credentials that a Goal or a
// caller brings along stand in no event, receipt, refusal or result.
func TestNothingPrivateIsKeptOrSaid(t *testing.T) {
	share(t)
	for _, kind := range kinds {
		for _, shape := range []string{bound, projected} {
			t.Run(string(kind)+"/"+shape, func(t *testing.T) {
				r := newRig(t, kind, shape, 3)
				requests, results := r.history()
				for i, bad := range []string{"/home/secret/file", "hunter2 is the password", "postgres://u:hunter2@host/db"} {
					e := claimRequest(r.place.Goal, fmt.Sprintf("p-%d", i), 1, 1, 0)
					e.Command.Scopes = []string{bad}
					results = append(results, r.do(e))
					e = requests[len(requests)-1]
					e.OperationID, e.Command.Evidence = fmt.Sprintf("q-%d", i), &coordination.Evidence{Pointer: bad, Digest: zeros(1), PrivacyClass: "public"}
					results = append(results, r.do(e))
				}
				var all bytes.Buffer
				for _, result := range results {
					fmt.Fprintf(&all, "%+v %v %s\n", result, result.Refusal, result.ReceiptText)
				}
				page, err := r.Store.Scan(t.Context(), 0, 1000)
				must(t, err)
				for _, row := range page.Transactions {
					all.Write(row.Events)
					all.Write(row.Receipts)
				}
				for _, private := range []string{"private words", "hunter2", "/home", "secret", r.place.Path} {
					if bytes.Contains(all.Bytes(), []byte(private)) {
						t.Errorf("%q is in\n%s", private, &all)
					}
				}
			})
		}
	}
}

//go:build interop

package interop

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// ours applies commands to the Goal's journal, as an agent with package coordination does.
func (g goal) ours() *coordination.Authority {
	g.t.Helper()
	store, err := filestore.Open(filestore.Options{Dir: filepath.Dir(g.journal()), GoalID: goalID, Existence: filestore.ExistingOnly})
	must(g.t, err)
	return &coordination.Authority{Store: store, Clock: time.Now}
}

func ourCommand(operation string, c coordination.Command) coordination.Envelope {
	return coordination.Envelope{OperationID: operation, GoalID: goalID, Command: c, Actor: coordination.Actor{AgentID: "agent-north", DeviceID: "host-1"}}
}

func claimOf(todo, operation string) coordination.Envelope {
	expected := int64(0)
	return ourCommand(operation, coordination.Command{Type: coordination.ClaimWork, TodoID: todo, ExpectedRevision: &expected,
		Preconditions: map[string]authority.Canonical{}, TTLSeconds: 600, Scopes: []string{"interop/" + todo + "/**"}})
}

func createOf(todo string) coordination.Envelope {
	return ourCommand("create-"+todo, coordination.Command{Type: coordination.CreateTodo, TodoID: todo, Set: map[string]authority.Canonical{
		"role": []byte(`"agent"`), "text": []byte(`"[P2] Grease the bearings"`), "priority": []byte(`"P2"`), "title": []byte(`"Grease the bearings"`),
		"task_class": []byte(`"advancement_task"`)}})
}

// TestInteropCoordination: what a command writes, LoopX reads and goes on with; what LoopX
// writes then counts for the commands that follow, and no receipt is lost.
func TestInteropCoordination(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	a := g.ours()
	apply := func(e coordination.Envelope) coordination.Receipt {
		t.Helper()
		result := a.Apply(t.Context(), e)
		if result.Outcome != coordination.Applied {
			t.Fatalf("%s: %s, %v, %v", e.Command.Type, result.Outcome, result.Refusal, result.Err)
		}
		return result.Receipt
	}
	const todo = "todo_interop_1"
	apply(createOf(todo))
	claim := apply(claimOf(todo, "claim-ours"))
	seen := g.loopx("task-lease", "inspect", "--todo-id", todo).done(t)
	if seen.at("active") != true || seen.is("lease", "owner") != "agent-north" || seen.is("lease", "idempotency_key") != claim.LeaseID {
		t.Fatalf("LoopX sees the lease as %s", seen.text)
	}
	g.loopx("task-lease", "renew", "--todo-id", todo, "--owner", "agent-north", "--idempotency-key", claim.LeaseID, "--expected-version", g.version(todo)).done(t)
	g.loopx("todo", "complete", "--todo-id", todo, "--agent-id", "agent-north", "--evidence", "it was done", "--no-follow-up",
		"--task-lease-idempotency-key", claim.LeaseID, "--task-lease-expected-version", g.version(todo)).done(t)

	again := a.Apply(t.Context(), claimOf(todo, "claim-ours"))
	if again.Outcome != coordination.AlreadyApplied || again.Authorization != coordination.AuthorizationSuperseded {
		t.Errorf("the claim again: %s, %s, %v", again.Outcome, again.Authorization, again.Refusal)
	}
	// Created at 0; the claim, LoopX's renewal and LoopX's completion are one each.
	if now, err := a.Look(t.Context(), todo); err != nil || now.Revision != 3 || now.Status != "done" {
		t.Errorf("revision %d, status %s, %v", now.Revision, now.Status, err)
	}

	const other = "todo_interop_2"
	apply(createOf(other))
	lease := apply(claimOf(other, "claim-other"))
	apply(ourCommand("done-other", coordination.Command{Type: coordination.CompleteWork, TodoID: other, LeaseID: lease.LeaseID, LeaseEpoch: 1,
		NoFollowup: true, Successors: []string{}}))
	g.add("after-ours").done(t)
	if stored := g.receipt("done-other"); stored.is("status") == "missing" {
		t.Errorf("LoopX does not find our receipt: %s", stored.text)
	}
	if _, err := a.Store.(authority.Auditor).Audit(t.Context(), nil, nil); err != nil {
		t.Errorf("the journal of both: %v", err)
	}
}

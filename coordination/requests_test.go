package coordination_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// envelope is a command of agent number i.
func envelope(goal, operation string, agent int, c coordination.Command) coordination.Envelope {
	return coordination.Envelope{OperationID: operation, GoalID: goal, Command: c,
		Actor: coordination.Actor{AgentID: agentID(agent), DeviceID: "host-1"}}
}

func revision(n int64) *int64 { return &n }

func tokens(pairs ...string) map[string]authority.Canonical {
	m := map[string]authority.Canonical{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = authority.Canonical(pairs[i+1])
	}
	return m
}

func claimRequest(goal, operation string, agent, todo int, expected int64) coordination.Envelope {
	return envelope(goal, operation, agent, coordination.Command{Type: coordination.ClaimWork, TodoID: todoID(todo),
		ExpectedRevision: revision(expected), Preconditions: tokens(), TTLSeconds: 60, Scopes: []string{"docs/" + todoID(todo)}})
}

// fenced is a command that shows the lease of a receipt.
func fenced(goal, operation string, agent int, lease coordination.Receipt, c coordination.Command) coordination.Envelope {
	c.TodoID, c.LeaseID, c.LeaseEpoch = lease.TodoID, lease.LeaseID, lease.LeaseEpoch
	return envelope(goal, operation, agent, c)
}

func renewRequest(goal, operation string, agent int, lease coordination.Receipt) coordination.Envelope {
	return fenced(goal, operation, agent, lease, coordination.Command{Type: coordination.RenewWork, TTLSeconds: 60})
}

func releaseRequest(goal, operation string, agent int, lease coordination.Receipt) coordination.Envelope {
	return fenced(goal, operation, agent, lease, coordination.Command{Type: coordination.ReleaseWork})
}

func completeRequest(goal, operation string, agent int, lease coordination.Receipt, successors ...string) coordination.Envelope {
	return fenced(goal, operation, agent, lease, coordination.Command{Type: coordination.CompleteWork, NoFollowup: len(successors) == 0, Successors: successors})
}

func reclaimRequest(goal, operation string, agent, todo int) coordination.Envelope {
	return envelope(goal, operation, agent, coordination.Command{Type: coordination.ReclaimWork, TodoID: todoID(todo),
		Preconditions: tokens(), TTLSeconds: 60, Scopes: []string{"docs/" + todoID(todo)}})
}

func (r *rig) do(e coordination.Envelope) coordination.Result {
	r.Helper()
	return r.Apply(r.Context(), e)
}

// must applies a command that has to succeed, and proves that its receipt is where
// receipts are: once, and as it was answered.
func (r *rig) must(e coordination.Envelope) coordination.Receipt {
	r.Helper()
	result := r.do(e)
	applied(r, result)
	stored, err := r.Store.Receipt(r.Context(), e.OperationID)
	must(r, err)
	if want := append(append([]byte("["), result.ReceiptText...), ']'); !bytes.Equal(stored.Receipts, want) {
		r.Fatalf("the store holds %s, answered was %s", stored.Receipts, result.ReceiptText)
	}
	return result.Receipt
}

func applied(t testing.TB, result coordination.Result) {
	t.Helper()
	if result.Outcome != coordination.Applied || result.Refusal != nil || result.Err != nil {
		t.Fatalf("%s, %v, %v; want applied", result.Outcome, result.Refusal, result.Err)
	}
}

// replayed wants the receipt of the first answer again, byte for byte.
func replayed(t testing.TB, result, first coordination.Result) {
	t.Helper()
	if result.Outcome != coordination.AlreadyApplied || !bytes.Equal(result.ReceiptText, first.ReceiptText) {
		t.Fatalf("%s, %v: %s; want %s again", result.Outcome, result.Refusal, result.ReceiptText, first.ReceiptText)
	}
	if fmt.Sprintf("%+v", result.Receipt) != fmt.Sprintf("%+v", first.Receipt) {
		t.Fatalf("the receipt reads %+v, was %+v", result.Receipt, first.Receipt)
	}
}

func refused(t testing.TB, result coordination.Result, outcome coordination.Outcome, reason coordination.Reason) {
	t.Helper()
	if result.Outcome != outcome || result.Refusal == nil || result.Refusal.Reason != reason || result.ReceiptText != nil {
		t.Fatalf("%s, %v, receipt %s; want %s/%s", result.Outcome, result.Refusal, result.ReceiptText, outcome, reason)
	}
}

// without runs what must leave no trace.
func (r *rig) without(work func()) {
	r.Helper()
	before, err := r.Store.Load(r.Context())
	must(r, err)
	work()
	after, err := r.Store.Load(r.Context())
	must(r, err)
	if before.Revision != after.Revision || !bytes.Equal(before.Projection, after.Projection) {
		r.Fatal("a refusal left a trace")
	}
}

// copyHistory moves a history into an empty store: the same rows, of another lineage.
func copyHistory(t testing.TB, from, to authority.Store) {
	t.Helper()
	page, err := from.Scan(t.Context(), 0, 1<<20)
	must(t, err)
	var at authority.Revision
	for _, row := range page.Transactions {
		done, err := to.Commit(t.Context(), authority.CommitRequest{Expected: at, OperationID: row.OperationID,
			Events: row.Events, Projection: row.Projection, Receipts: row.Receipts})
		must(t, err)
		at = done.Revision
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return text
}

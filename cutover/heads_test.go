package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// claimedV0 is a coordination head of schema v0 with three Todos, of which two are
// claimed until 2026-09-01, spelled by hand from LoopX's reference (docs/formats.md).
func claimedV0() map[string]any {
	digest := "sha256:" + strings.Repeat("0", 64)
	todos, leases, receipts := map[string]any{}, map[string]any{}, map[string]any{}
	for i := range 3 {
		id, revision := fmt.Sprintf("todo_%d", i), 0
		todo := map[string]any{"status": "open", "repository": "git:example.org/crane", "code_revision": "c0ffee", "last_lease_epoch": 0,
			"eligibility": map[string]any{"authorization_projection_revision": 1, "authorization_projection_digest": digest, "allowed_agent_ids": []any{"agent-0", "agent-1"},
				"dependencies_satisfied": true, "dependency_revision": 1, "gates_open": true, "gate_revision": 1}}
		if i < 2 {
			agent, lease := fmt.Sprintf("agent-%d", i), fmt.Sprintf("lease-%d", i)
			revision, todo["claimed_by"], todo["last_lease_epoch"] = 1, agent, 1
			leases[id] = map[string]any{"lease_id": lease, "owner": agent, "lease_epoch": 1, "expires_at": "2026-09-01T09:00:00Z", "write_scopes": []any{"docs/" + id}}
			operation := fmt.Sprintf("claim-%d", i)
			receipts[operation] = map[string]any{"request_digest": digest, "original_receipt": map[string]any{
				"schema_version": "loopx_authority_receipt_v0", "operation_id": operation, "request_digest": digest, "command": "claim_work",
				"actor": map[string]any{"agent_id": agent, "device_id": "host-1"}, "todo_id": id, "accepted_authority_revision": i + 1, "accepted_todo_revision": 1,
				"applied_at": "2026-09-01T08:00:00Z", "lease_id": lease, "lease_epoch": 1, "expires_at": "2026-09-01T09:00:00Z"}}
		}
		todo["todo_revision"] = revision
		todos[id] = todo
	}
	return map[string]any{"schema_version": "loopx_coordination_head_v0", "goal_id": goal, "handoff_mode": "hard_lease", "authority_revision": 2,
		"receipt_index": receipts, "receipt_retention": map[string]any{"mode": "retain_all_v0"}, "coordination": map[string]any{"todos": todos, "leases": leases}}
}

// coordinated is a Goal whose file journal holds that head.
func coordinated(t *testing.T, head map[string]any) *rig {
	t.Helper()
	r := newRig(t, "goal-file-v1")
	if err := os.Remove(r.flow.Place.Journal()); err != nil {
		t.Fatal(err)
	}
	s := r.open(authority.KindFile, cutover.AccessCreate)
	_, err := s.Commit(context.Background(), authority.CommitRequest{OperationID: "seed", Events: []byte("[]"), Projection: fixture.Canonical(head), Receipts: []byte("[]")})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return r
}

// identity is the identity of the store of a kind at LoopX's place.
func (r *rig) identity(kind authority.Kind) authority.Identity {
	r.Helper()
	s := r.open(kind, cutover.AccessUntouched)
	identity, err := s.Identity(context.Background())
	if err := errors.Join(err, s.Close()); err != nil {
		r.Fatal(err)
	}
	return identity
}

func (r *rig) head(kind authority.Kind) authority.Head {
	r.Helper()
	s := r.open(kind, cutover.AccessUntouched)
	head, err := s.Load(context.Background())
	if err := errors.Join(err, s.Close()); err != nil {
		r.Fatal(err)
	}
	return head
}

// claims lets an agent claim the free Todo, and returns the reason of a refusal.
func (r *rig) claims(kind authority.Kind, operation string) coordination.Reason {
	r.Helper()
	s := r.open(kind, cutover.AccessWrite)
	a := &coordination.Authority{Store: s, Clock: time.Now}
	result := a.Apply(context.Background(), coordination.Envelope{OperationID: operation, Actor: coordination.Actor{AgentID: "agent-0", DeviceID: "host-1"}, GoalID: goal,
		Command: coordination.Command{Type: coordination.ClaimWork, TodoID: "todo_2", ExpectedRevision: new(int64), TTLSeconds: 60, Scopes: []string{"docs/todo_2"},
			Preconditions: map[string]authority.Canonical{"authorization_projection_revision": []byte("1"), "authorization_projection_digest": []byte(`"sha256:` + strings.Repeat("0", 64) + `"`),
				"dependency_revision": []byte("1"), "gate_revision": []byte("1"), "repository": []byte(`"git:example.org/crane"`), "code_revision": []byte(`"c0ffee"`)}}})
	if err := s.Close(); err != nil {
		r.Fatal(err)
	}
	if result.Refusal != nil {
		return result.Refusal.Reason
	}
	return ""
}

func upgradeTo(store authority.Identity) cutover.Request {
	return cutover.Request{Command: cutover.CommandUpgradeHead, Store: store}
}

// inspectionHolds demands that an inspection names a hold of the authority's head.
func (r *rig) inspectionHolds(code string) {
	r.Helper()
	seen, err := r.flow.Inspect(r.Context())
	if err != nil || !slices.ContainsFunc(seen.Holds, func(h cutover.Hold) bool { return h.Code == code }) {
		r.Errorf("an inspection names %+v, %v, and not %s", seen.Holds, err, code)
	}
}

func onlyRebind() cutover.Request { return cutover.Request{Command: cutover.CommandRebind} }

// expired accepts the leases of the head, which have all run out.
func expired(r cutover.Request) cutover.Request {
	for _, todo := range []string{"todo_0", "todo_1"} {
		r.Accept = append(r.Accept, manifest.Accepted{Hold: "lease_expired_still_active", Record: todo, Owner: "ops", Reason: "the agents are gone"})
	}
	return r
}

// A head of schema v0 is upgraded in its store, migrated, and bound to its new store by
// a transaction that names the migration; and all of that again on the way back.
func TestHeadIsUpgradedMigratedAndRebound(t *testing.T) {
	r := coordinated(t, claimedV0())
	file := r.identity(authority.KindFile)
	r.refused(freezeToSQLite(), cutover.KindRefused, "head_schema_migration_required")
	r.refused(onlyRebind(), cutover.KindRefused, "manifest_missing")
	r.refused(upgradeTo("sqlite:"+authority.Identity(strings.Repeat("0", 32))), cutover.KindRefused, "store_lineage_mismatch")
	result := r.do(upgradeTo(file))
	if got := r.head(authority.KindFile); got.Cursor != 2 || result.Facts["store_binding"] != string(file) || result.Facts["accepted_authority_revision"] != "3" {
		t.Fatalf("cursor %s, %v", got.Cursor, result.Facts)
	}
	r.refused(upgradeTo(file), cutover.KindRefused, "head_schema_current")

	r.refused(freezeToSQLite(), cutover.KindRefused, "lease_expired_still_active")
	r.do(expired(freezeToSQLite()))
	r.refused(onlyRebind(), cutover.KindUnproved, "migration_frozen")
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.do(cutover.Request{Command: cutover.CommandPromote})
	r.authority(authority.KindSQLite)
	if reason := r.claims(authority.KindSQLite, "claim-before"); reason != coordination.ReasonLineage {
		t.Errorf("a claim before rebind: %q", reason)
	}
	promoted := r.digest()
	result = r.do(onlyRebind())
	sqlite := r.identity(authority.KindSQLite)
	if result.Facts["store_binding"] != string(sqlite) || result.Facts["previous_store_binding"] != string(file) ||
		result.Facts["migration_id"] != r.manifest().MigrationID || result.Facts["manifest_digest"] != "sha256:"+promoted {
		t.Errorf("rebound: %v", result.Facts)
	}
	if reason := r.claims(authority.KindSQLite, "claim-after"); reason != "" {
		t.Errorf("a claim after rebind: %s", reason)
	}
	r.inspectionHolds("lease_active")
	r.refused(onlyRebind(), cutover.KindRefused, "store_bound_already")
	r.refused(expired(onlyRollback()), cutover.KindRefused, "lease_active")
	r.flow.Clock = func() time.Time { return time.Now().Add(time.Hour) }
	back := expired(onlyRollback())
	back.Accept = append(back.Accept, manifest.Accepted{Hold: "lease_expired_still_active", Record: "todo_2", Owner: "ops", Reason: "the agent is gone"})
	r.do(back)
	r.authority(authority.KindFile)
	r.refused(freezeToSQLite(), cutover.KindRefused, "store_binding")
	if reason := r.claims(authority.KindFile, "claim-back"); reason != coordination.ReasonLineage {
		t.Errorf("a claim after the way back: %q", reason)
	}
	if got := r.do(onlyRebind()).Facts["store_binding"]; got != string(file) {
		t.Errorf("bound back to %s", got)
	}
	if err := r.proved(); err != nil {
		t.Errorf("manifest verify: %v", err)
	}
}

// The same on a server, whose identity all its Goals share.
func TestHeadIsReboundOnAServer(t *testing.T) {
	r := coordinated(t, claimedV0())
	r.onServer()
	r.do(upgradeTo(r.identity(authority.KindFile)))
	r.do(expired(toServer(r, cutover.CommandFreeze)))
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.do(cutover.Request{Command: cutover.CommandPromote, Accept: unrehearsed()})
	r.authority(authority.KindPostgreSQL)
	if reason := r.claims(authority.KindPostgreSQL, "claim-before"); reason != coordination.ReasonLineage {
		t.Errorf("a claim before rebind: %q", reason)
	}
	r.refused(expired(freezeToSQLite()), cutover.KindRefused, "store_binding")
	plan := r.previewed(onlyRebind(), "op-server")
	first, err := r.executed(onlyRebind(), "op-server", plan)
	if err != nil || first.Facts["store_binding"] != string(r.identity(authority.KindPostgreSQL)) {
		t.Fatalf("%+v, %v", first, err)
	}
	for _, path := range r.outcomes() { // as if it had died between its effect and its outcome
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "op-server") {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	again, err := r.executed(onlyRebind(), "op-server", plan)
	if err != nil || again.Status != "done" || fmt.Sprint(again.Facts) != fmt.Sprint(first.Facts) || r.head(authority.KindPostgreSQL).Cursor != 3 {
		t.Errorf("from the receipt: %+v, %v", again, err)
	}
	if reason := r.claims(authority.KindPostgreSQL, "claim-after"); reason != "" {
		t.Errorf("a claim after rebind: %s", reason)
	}
}

// digest is the digest of the manifest as it stands.
func (r *rig) digest() string {
	r.Helper()
	snap, err := r.flow.Folder.Load()
	if err != nil {
		r.Fatal(err)
	}
	return snap.Digest.String()
}

func (r *rig) proved() error {
	r.Helper()
	_, err := r.flow.ProveRecord(context.Background())
	return err
}

// A head that is bound to another store than its own is held until it is rebound.
func TestHeadBoundElsewhereIsHeld(t *testing.T) {
	r := coordinated(t, claimedV0())
	r.do(upgradeTo(r.identity(authority.KindFile)))
	text := string(r.head(authority.KindFile).Projection)
	last := strings.LastIndex(text, string(r.identity(authority.KindFile))) // the one before stands in the receipt
	head := text[:last] + "sqlite:" + strings.Repeat("1", 32) + text[last+len("file:")+32:]
	s := r.open(authority.KindFile, cutover.AccessWrite)
	before, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(context.Background(), authority.CommitRequest{Expected: before.Revision, OperationID: "bound-elsewhere", Events: []byte("[]"), Projection: []byte(head), Receipts: []byte("[]")})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	refusal := r.refused(expired(freezeToSQLite()), cutover.KindRefused, "store_binding")
	if refusal.Holds[0].Acceptable {
		t.Error("nobody may accept it")
	}
}

// Effect and outcome are one transaction: a command that died between the transaction
// and the file beside it is answered from the receipt, and commits nothing again.
func TestHeadChangeThatDiedBeforeItsOutcome(t *testing.T) {
	r := coordinated(t, claimedV0())
	request := upgradeTo(r.identity(authority.KindFile))
	plan := r.previewed(request, "op-head")
	first, err := r.executed(request, "op-head", plan)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.executed(request, "op-head", plan)
	if err != nil || again.Status != "replayed" || fmt.Sprint(again.Facts) != fmt.Sprint(first.Facts) {
		t.Errorf("replayed: %+v, %v", again, err)
	}
	if err := os.Remove(r.outcomes()[0]); err != nil {
		t.Fatal(err)
	}
	again, err = r.executed(request, "op-head", plan)
	if err != nil || again.Status != "done" || fmt.Sprint(again.Facts) != fmt.Sprint(first.Facts) {
		t.Errorf("from the receipt: %+v, %v", again, err)
	}
	if cursor := r.head(authority.KindFile).Cursor; cursor != 2 {
		t.Errorf("head at cursor %s", cursor)
	}
	if _, err := r.executed(request, "op-head", otherPlan); cutover.AsRefusal(err).Reason != "operation_identity_mismatch" {
		t.Errorf("other content: %v", err)
	}
}

// A head whose receipts and claims disagree, and one of no known schema, are refused, and
// the refusal is the outcome.
func TestHeadsThatAreNotUpgraded(t *testing.T) {
	for reason, spoil := range map[string]func(head map[string]any){
		"head_corruption":     func(h map[string]any) { h["authority_revision"] = 3 },
		"head_schema_unknown": func(h map[string]any) { h["schema_version"] = "loopx_coordination_head_v2" },
	} {
		t.Run(reason, func(t *testing.T) {
			head := claimedV0()
			spoil(head)
			r := coordinated(t, head)
			request := upgradeTo(r.identity(authority.KindFile))
			r.refused(request, cutover.KindRefused, reason)
			_, err := r.executed(request, "op-head", otherPlan)
			if refusal := cutover.AsRefusal(err); refusal.Reason != reason || len(r.outcomes()) != 1 {
				t.Errorf("executed: %v, %d outcomes", err, len(r.outcomes()))
			}
			before := r.tree()
			again, err := r.executed(request, "op-head", otherPlan)
			if refusal := cutover.AsRefusal(err); refusal.Reason != reason || again.Status != "replayed" {
				t.Errorf("again: %+v, %v", again, err)
			}
			if changed := before.Diff(r.tree()); len(changed) != 0 || r.head(authority.KindFile).Cursor != 1 {
				t.Errorf("changed %v", changed)
			}
		})
	}
	r := newRig(t, "goal-file-v1")
	r.refused(upgradeTo(r.identity(authority.KindFile)), cutover.KindRefused, "head_has_no_binding")
}

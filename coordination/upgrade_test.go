package coordination_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// claimsV0 is a head of schema v0 in which the first claims Todos are claimed, in order.
func claimsV0(goal string, todos, claims int) map[string]any {
	head := coordinationHead(goal, "", todos)
	delete(head, "store_binding")
	head["schema_version"], head["authority_revision"] = "loopx_coordination_head_v0", claims
	coordination := head["coordination"].(map[string]any)
	for i := range claims {
		id, lease := todoID(i), fmt.Sprintf("lease-%d", i)
		todo := coordination["todos"].(map[string]any)[id].(map[string]any)
		todo["claimed_by"], todo["todo_revision"], todo["last_lease_epoch"] = agentID(i), 1, 1
		coordination["leases"].(map[string]any)[id] = map[string]any{"lease_id": lease, "owner": agentID(i), "lease_epoch": 1,
			"expires_at": "2026-09-01T09:00:00Z", "write_scopes": []any{"docs/" + id}}
		operation := fmt.Sprintf("claim-%d", i)
		head["receipt_index"].(map[string]any)[operation] = map[string]any{"request_digest": zeros(i), "original_receipt": map[string]any{
			"schema_version": "loopx_authority_receipt_v0", "operation_id": operation, "request_digest": zeros(i), "command": "claim_work",
			"actor": map[string]any{"agent_id": agentID(i), "device_id": "host-1"}, "todo_id": id, "accepted_authority_revision": i + 1,
			"accepted_todo_revision": 1, "applied_at": "2026-09-01T08:00:00Z", "lease_id": lease, "lease_epoch": 1, "expires_at": "2026-09-01T09:00:00Z"}}
	}
	return head
}

const someStore = authority.Identity("sqlite:00000000000000000000000000000001")

func upgradeRequest(goal string, store authority.Identity) coordination.UpgradeRequest {
	return coordination.UpgradeRequest{OperationID: "upgrade-1", GoalID: goal, Store: store, Actor: coordination.Actor{AgentID: "agent-owner", DeviceID: "host-1"}}
}

// at follows keys into nested objects.
func at(v any, keys ...string) map[string]any {
	for _, key := range keys {
		v = v.(map[string]any)[key]
	}
	return v.(map[string]any)
}

func decoded(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	must(t, d.Decode(&v))
	return v
}

func TestUpgradeKeepsEverythingAndBindsWhatTheOperatorNamed(t *testing.T) {
	before := fixture.Canonical(claimsV0("goal-a", 3, 2))
	input := bytes.Clone(before)
	step, err := coordination.UpgradeHead(before, upgradeRequest("goal-a", someStore), epochAt)
	must(t, err)
	if !bytes.Equal(before, input) {
		t.Error("the input was changed")
	}
	want := claimsV0("goal-a", 3, 2)
	want["schema_version"], want["store_binding"], want["authority_revision"] = "loopx_coordination_head_v1", string(someStore), 3
	got := decoded(t, step.Projection)
	receipt := at(got, "receipt_index", "upgrade-1", "original_receipt")
	delete(at(got, "receipt_index"), "upgrade-1")
	if !bytes.Equal(fixture.Canonical(got), fixture.Canonical(want)) {
		t.Errorf("upgraded to\n%s\nwant\n%s", fixture.Canonical(got), fixture.Canonical(want))
	}
	if receipt["previous_schema_version"] != "loopx_coordination_head_v0" || receipt["store_binding"] != string(someStore) {
		t.Errorf("receipt %v", receipt)
	}
	if _, err := coordination.ParseCoordinationHead(step.Projection); err != nil {
		t.Error(err)
	}
}

// TestUpgradeRefusesAHistoryThatDisagrees breaks each fact that receipts and live claims
// must have in common.
func TestUpgradeRefusesAHistoryThatDisagrees(t *testing.T) {
	for name, spoil := range map[string]func(head map[string]any){
		"actor":    func(h map[string]any) { at(receiptV0(h, 0), "actor")["agent_id"] = "agent-009" },
		"revision": func(h map[string]any) { receiptV0(h, 0)["accepted_todo_revision"] = 2 },
		"lease id": func(h map[string]any) { receiptV0(h, 0)["lease_id"] = "lease-x" },
		"epoch":    func(h map[string]any) { receiptV0(h, 0)["lease_epoch"] = 2 },
		"expiry":   func(h map[string]any) { receiptV0(h, 0)["expires_at"] = "2026-09-01T09:00:01Z" },
		"sequence": func(h map[string]any) {
			h["authority_revision"] = 4
			receiptV0(h, 1)["accepted_authority_revision"] = 3
		},
		"count":      func(h map[string]any) { h["authority_revision"] = 3 },
		"no receipt": func(h map[string]any) { delete(at(h, "receipt_index"), "claim-1"); h["authority_revision"] = 1 },
		"no claim": func(h map[string]any) {
			delete(at(h, "coordination", "leases"), todoID(0))
			delete(at(h, "coordination", "todos", todoID(0)), "claimed_by")
		},
		"watermark": func(h map[string]any) { at(h, "coordination", "todos", todoID(2))["last_lease_epoch"] = 4 },
		"other command": func(h map[string]any) {
			receiptV0(h, 0)["command"] = "renew_work"
		},
	} {
		t.Run(name, func(t *testing.T) {
			head := claimsV0("goal-a", 3, 2)
			spoil(head)
			_, err := coordination.UpgradeHead(fixture.Canonical(head), upgradeRequest("goal-a", someStore), epochAt)
			var fault *coordination.HeadError
			if !errors.As(err, &fault) || fault.Reason != coordination.ReasonHeadCorruption {
				t.Errorf("%v, want head_corruption", err)
			}
		})
	}
}

func receiptV0(h map[string]any, i int) map[string]any {
	return at(h, "receipt_index", fmt.Sprintf("claim-%d", i), "original_receipt")
}

// TestClosedSets: an unknown key, a boolean where an integer belongs and a time without
// zone are refused wherever they stand.
func TestClosedSets(t *testing.T) {
	places := [][]string{{}, {"coordination"}, {"receipt_retention"}, {"coordination", "todos", todoID(0)},
		{"coordination", "todos", todoID(0), "eligibility"}, {"coordination", "leases", todoID(0)},
		{"receipt_index", "claim-0"}, {"receipt_index", "claim-0", "original_receipt"},
		{"receipt_index", "claim-0", "original_receipt", "actor"}}
	for _, place := range places {
		fresh := claimsV0("goal-a", 1, 1)
		for key, value := range maps.Clone(at(fresh, place...)) {
			for name, bad := range map[string]any{"unknown": nil, "missing": nil, "boolean": true, "zone": "2026-09-01T09:00:00", "offset": "2026-09-01T09:00:00+02:00"} {
				head := claimsV0("goal-a", 1, 1)
				target := at(head, place...)
				_, number := value.(int)
				_, is := value.(string)
				switch {
				case name == "unknown":
					target[key+"_x"] = value
				case name == "missing" && key != "claim-0" && key != todoID(0):
					delete(target, key)
				case name == "boolean" && number, (name == "zone" || name == "offset") && is && (key == "expires_at" || key == "applied_at"):
					target[key] = bad
				default:
					continue
				}
				if _, err := coordination.ParseCoordinationHead(fixture.Canonical(head)); err == nil {
					t.Errorf("%v/%s: %s was accepted", place, key, name)
				}
			}
		}
	}
}

// TestUpgradeAndRebindThroughAStore commits both, replays both, and refuses each by the
// identity that was named.
func TestUpgradeAndRebindThroughAStore(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			place := vacant(t, kind)
			store := place.handle(t)
			commit(t, store, "seed", claimsV0(place.Goal, 2, 1))
			identity, err := store.Identity(t.Context())
			must(t, err)
			a := &coordination.Authority{Store: store, Clock: (&clock{epochAt}).now}
			wrong := a.Upgrade(t.Context(), upgradeRequest(place.Goal, otherIdentity(identity)))
			refused(t, wrong, coordination.Rejected, coordination.ReasonLineage)
			r := claimRequest(place.Goal, "claim-new", 0, 1, 0)
			refused(t, a.Apply(t.Context(), r), coordination.Rejected, coordination.ReasonHeadMigration)
			first := a.Upgrade(t.Context(), upgradeRequest(place.Goal, identity))
			applied(t, first)
			again := a.Upgrade(t.Context(), upgradeRequest(place.Goal, identity))
			replayed(t, again, first)
			applied(t, a.Apply(t.Context(), r))

			moved := vacant(t, kind)
			moved.Goal = place.Goal
			target := moved.handle(t)
			copyHistory(t, store, target)
			b := &coordination.Authority{Store: target, Clock: (&clock{epochAt}).now}
			rebound(t, b)
		})
	}
}

func otherIdentity(id authority.Identity) authority.Identity {
	text := []byte(id)
	last := &text[len(text)-1]
	if *last = '0'; id[len(id)-1] == '0' {
		*last = '1'
	}
	return authority.Identity(text)
}

// rebound takes a moved Goal from store_lineage_mismatch to a healthy claim.
func rebound(t *testing.T, a *coordination.Authority) {
	t.Helper()
	goal := a.Store.GoalID()
	refused(t, a.Apply(t.Context(), claimRequest(goal, "claim-moved", 0, 2, 0)), coordination.Rejected, coordination.ReasonLineage)
	identity, err := a.Store.Identity(t.Context())
	must(t, err)
	request := coordination.RebindRequest{OperationID: "rebind-1", GoalID: goal, Store: otherIdentity(identity), MigrationID: "migration-1",
		ManifestDigest: authority.DigestOf([]byte("manifest")), Actor: coordination.Actor{AgentID: "agent-owner", DeviceID: "host-1"}}
	refused(t, a.Rebind(t.Context(), request), coordination.Rejected, coordination.ReasonLineage)
	request.Store = identity
	first := a.Rebind(t.Context(), request)
	applied(t, first)
	if first.Receipt.ManifestDigest != "sha256:"+fixture.SHA256([]byte("manifest")) || first.Receipt.MigrationID != "migration-1" {
		t.Errorf("receipt %+v", first.Receipt)
	}
	replayed(t, a.Rebind(t.Context(), request), first)
	other := request
	other.MigrationID = "migration-2"
	refused(t, a.Rebind(t.Context(), other), coordination.Conflict, coordination.ReasonIdentity)
	other.OperationID = "rebind-2"
	refused(t, a.Rebind(t.Context(), other), coordination.Rejected, coordination.ReasonBoundAlready)
	other.OperationID = "upgrade-1"
	refused(t, a.Rebind(t.Context(), other), coordination.Conflict, coordination.ReasonIdentity)
}

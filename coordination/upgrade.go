package coordination

import (
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Step is what one accepted command changes: the state, and the receipt that proves it.
// They are committed together or not at all.
type Step struct {
	Projection authority.Canonical
	Events     authority.Canonical // a list
	Receipts   authority.Canonical // a list of one: Receipt
	Receipt    Receipt
}

// CommandEventSchema is the schema of an event that is no mutation of LoopX's own kind.
const CommandEventSchema = "loopx_coordination_command_event_v0"

// commandEvent says what happened, by names and counters only.
func commandEvent(goal string, r Receipt, targets []string) authority.Canonical {
	return list(object{
		"schema_version": spellText(CommandEventSchema), "goal_id": spellText(goal), "operation_id": spellText(r.OperationID),
		"command": spellText(string(r.Command)), "accepted_authority_revision": spellInteger(r.AuthorityRevision),
		"targets": spellTexts(targets),
	}.spell())
}

// UpgradeRequest asks to take a head from schema v0 to v1. Store is the identity that
// the operator verified; it is never taken from whichever store the head came through.
type UpgradeRequest struct {
	OperationID string
	Actor       Actor
	GoalID      string
	Store       authority.Identity
}

// Digest is the request digest: what the operation asks, without time or retries.
func (r UpgradeRequest) Digest() string {
	return digestText(object{"actor": r.Actor.spell(), "goal_id": spellText(r.GoalID),
		"command": object{"type": spellText(string(UpgradeVerb)), "store_binding": spellText(string(r.Store))}.spell()}.spell())
}

// UpgradeHead gives the head of schema v1 that follows from a v0 head, bound to the store
// the operator named. The history is rebuilt from the receipts and must agree with the
// live claims, else head_corruption. The input is not changed. Errors are *HeadError or
// *Refusal.
func UpgradeHead(head authority.Canonical, r UpgradeRequest, at time.Time) (Step, error) {
	if refusal := checkDeclared(r.OperationID, r.Actor, r.Store); refusal != nil {
		return Step{}, refusal
	}
	h, err := headFor(head, r.GoalID)
	if err != nil {
		return Step{}, err
	}
	if h.Schema != SchemaV0 {
		return Step{}, rejected(ReasonHeadCurrent, "schema_version", "the head has schema v1 already")
	}
	if fault := h.rebuild(); fault != nil {
		return Step{}, fault
	}
	if taken := h.taken(r.OperationID); taken != nil {
		return Step{}, taken
	}
	h.Schema, h.Binding = SchemaV1, r.Store
	return h.declared(Receipt{OperationID: r.OperationID, RequestDigest: r.Digest(), Command: UpgradeVerb, Actor: r.Actor,
		PreviousSchema: SchemaV0, Binding: r.Store}, at), nil
}

// RebindRequest asks to bind a head to the store it was migrated to. ManifestDigest is
// the digest of the migration's manifest, which the receipt names.
type RebindRequest struct {
	OperationID    string
	Actor          Actor
	GoalID         string
	Store          authority.Identity
	MigrationID    string
	ManifestDigest authority.Digest
}

// Digest is the request digest: what the operation asks, without time or retries.
func (r RebindRequest) Digest() string {
	return digestText(object{"actor": r.Actor.spell(), "goal_id": spellText(r.GoalID),
		"command": object{"type": spellText(string(RebindVerb)), "store_binding": spellText(string(r.Store)),
			"migration_id": spellText(r.MigrationID), "manifest_digest": spellText(digestPrefix + r.ManifestDigest.String())}.spell()}.spell())
}

// Rebind gives the head that may act in another store, with a receipt that names the
// migration and its manifest. Errors are *HeadError or *Refusal.
func Rebind(head authority.Canonical, r RebindRequest, at time.Time) (Step, error) {
	if refusal := checkDeclared(r.OperationID, r.Actor, r.Store); refusal != nil {
		return Step{}, refusal
	}
	if !operationPattern.MatchString(r.MigrationID) || r.ManifestDigest.IsZero() {
		return Step{}, rejected(ReasonInvalid, "migration_id", "a rebind names its migration and the digest of its manifest")
	}
	h, err := headFor(head, r.GoalID)
	switch {
	case err != nil:
		return Step{}, err
	case h.Schema == SchemaV0:
		return Step{}, &HeadError{Reason: ReasonHeadMigration, Path: "schema_version", Detail: "upgrade the head first"}
	case h.Binding == r.Store:
		return Step{}, rejected(ReasonBoundAlready, "store_binding", "the head is bound to that store")
	}
	if taken := h.taken(r.OperationID); taken != nil {
		return Step{}, taken
	}
	before := h.Binding
	h.Binding = r.Store
	return h.declared(Receipt{OperationID: r.OperationID, RequestDigest: r.Digest(), Command: RebindVerb, Actor: r.Actor,
		Binding: r.Store, PreviousBinding: before, MigrationID: r.MigrationID, ManifestDigest: digestPrefix + r.ManifestDigest.String()}, at), nil
}

func checkDeclared(operation string, actor Actor, store authority.Identity) *Refusal {
	switch {
	case !operationPattern.MatchString(operation):
		return rejected(ReasonInvalid, "operation_id", "malformed")
	case !agentPattern.MatchString(actor.AgentID) || !devicePattern.MatchString(actor.DeviceID):
		return rejected(ReasonInvalid, "actor", "malformed")
	case !isBinding(string(store)):
		return rejected(ReasonInvalid, "store_binding", "not the identity of a store")
	}
	return nil
}

// headFor reads a coordination head of the Goal.
func headFor(head authority.Canonical, goal string) (*CoordinationHead, error) {
	switch takeApart(head).text("schema_version") {
	case SchemaV0, SchemaV1:
	case ProjectionSchema:
		return nil, rejected(ReasonUnbound, "store_binding", "a projection head has no schema to upgrade and is bound to no store")
	default:
		return nil, &HeadError{Reason: ReasonHeadSchema, Path: "schema_version", Detail: "no head that is known here"}
	}
	h, err := ParseCoordinationHead(head)
	if err != nil {
		return nil, err
	}
	if h.GoalID != goal {
		return nil, rejected(ReasonGoal, "goal_id", "the head belongs to another Goal")
	}
	return h, nil
}

// taken refuses an operation id that has a receipt already, whatever it was.
func (h *CoordinationHead) taken(operation string) *Refusal {
	if _, found := h.Receipts[operation]; found {
		return conflict(ReasonIdentity, "operation_id", "the id stands for another operation")
	}
	return nil
}

// declared completes a declared transaction on the head itself.
func (h *CoordinationHead) declared(r Receipt, at time.Time) Step {
	r.AuthorityRevision, r.AppliedAt = h.AuthorityRevision+1, InstantOf(at)
	text := h.accept(r)
	return Step{Projection: h.Canonical(), Events: commandEvent(h.GoalID, r, []string{"head"}), Receipts: list(text), Receipt: r}
}

// rebuild replays the receipts of a v0 head, which are claims only, and holds what they
// lead to against what stands.
func (h *CoordinationHead) rebuild() *HeadError {
	last := map[string]Receipt{}
	for i, r := range h.inOrder() {
		path := "receipt_index/" + r.OperationID
		if r.Command != ClaimWork || r.LeaseID == "" || r.ExpiresAt == "" {
			return corrupt(path+"/original_receipt/command", "a v0 head holds claims only")
		}
		if r.AuthorityRevision != int64(i)+1 {
			return corrupt(path+"/original_receipt/accepted_authority_revision", "the sequence of authority revisions is not contiguous")
		}
		if before, again := last[r.TodoID]; again && (r.TodoRevision != before.TodoRevision+1 || r.LeaseEpoch != before.LeaseEpoch+1) {
			return corrupt(path+"/original_receipt/accepted_todo_revision", "the claims of its Todo are not contiguous")
		}
		last[r.TodoID] = r
	}
	if int64(len(h.parsed)) != h.AuthorityRevision {
		return corrupt("authority_revision", fmt.Sprintf("%d receipts lead to another revision", len(h.parsed)))
	}
	for id, todo := range h.Todos {
		if fault := h.agrees(id, todo, last[id]); fault != nil {
			return fault
		}
	}
	return nil
}

// agrees holds one Todo against the last receipt that speaks of it.
func (h *CoordinationHead) agrees(id string, todo CoordinationTodo, r Receipt) *HeadError {
	path, lease := "coordination/todos/"+id, h.Leases[id]
	if r.OperationID == "" {
		if todo.ClaimedBy != "" || todo.LastLeaseEpoch != 0 {
			return corrupt(path+"/claimed_by", "claimed, and no receipt says so")
		}
		return nil
	}
	for _, fact := range []struct {
		member string
		same   bool
	}{
		{"claimed_by", todo.ClaimedBy == r.Actor.AgentID},
		{"todo_revision", todo.Revision == r.TodoRevision},
		{"last_lease_epoch", todo.LastLeaseEpoch == r.LeaseEpoch},
		{"lease_id", lease.ID == r.LeaseID},
		{"lease_epoch", lease.Epoch == r.LeaseEpoch},
		{"expires_at", lease.ExpiresAt == r.ExpiresAt},
	} {
		if !fact.same {
			return corrupt(path+"/"+fact.member, "its receipt says otherwise")
		}
	}
	return nil
}

func corrupt(path, detail string) *HeadError {
	return &HeadError{Reason: ReasonHeadCorruption, Path: path, Detail: detail}
}

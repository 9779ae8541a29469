package legacy

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Contract is one version of LoopX's record contract: the names a Todo record may
// have, in LoopX's order, and those it must have. Any other name refuses the record.
type Contract struct {
	ReadRecord string // todo_read_model.schema_version
	Item       string // schema_version of each record
	Fields     []string
	Required   []string
}

// The names of LoopX's two kinds of record. A head holds one kind, never both.
const (
	ReadRecord       = "loopx_todo_canonical_read_record_v0"
	DomainReadRecord = "loopx_todo_domain_read_record_v0"
	ItemLegacy       = "todo_item_v0"
	ItemNative       = "todo_domain_record_v0"
)

var contractFields = strings.Fields(`
index done text schema_version todo_id role status priority title archive_state source_section task_class
action_kind task_domain capability_binding_ref task_repository continuation_policy removed_continuation_policy
required_write_scopes required_capabilities target_capabilities explore_result_node_refs decision_scope
required_decision_scopes decision_outcome decision_scope_outcomes claimed_by created_by last_actor_agent_id
bound_agent goal_bound blocks_agent excluded_agents global_gate unblocks_todo_id resume_when
resume_monitor_generation resume_condition resume_ready no_followup successor_todo_ids completion_continuation
completion_recovery completion_receipt_id replan_obligation_id target_key cadence next_due_at expires_at
watch_only last_checked_at result_hash consecutive_no_change material_change material_change_generation
max_no_change_before_replan monitor_effect_id note evidence reason completed_at completion_turn_key
completion_result updated_at superseded_by completion_validation_required completion_validation_sha256
completion_validation_revision completion_validation_revision_history handoff_note
`)

// LegacyContract is the contract of what is read from Markdown, as LoopX 2.1.1 writes
// it. Earlier releases had shorter lists (docs/formats.md 7); heads that declare one
// of those stay valid, but a new head declares this one.
func LegacyContract() Contract {
	return Contract{ReadRecord: ReadRecord, Item: ItemLegacy, Fields: slices.Clone(contractFields),
		Required: []string{"schema_version", "todo_id", "role", "status", "done", "text", "archive_state", "source_section"}}
}

// NativeContract is the contract of records that were born in a store.
func NativeContract() Contract {
	c := LegacyContract()
	c.ReadRecord, c.Item = DomainReadRecord, ItemNative
	c.Fields = slices.DeleteFunc(c.Fields, markdownOnly)
	c.Required = slices.DeleteFunc(c.Required, markdownOnly)
	return c
}

// Fields that came with later releases: heads written before them declare the list
// without, and stay valid as they are.
var (
	fieldsOfReceipt    = []string{"completion_receipt_id"} // LoopX 2.1.1
	fieldsOfResult     = []string{"completion_receipt_id", "completion_result"}
	fieldsOfValidation = []string{"completion_receipt_id", "completion_result", "completion_validation_revision", "completion_validation_revision_history"}
)

// ContractGap returns the names by which a head's contract_fields differ from the nearest
// list that some release of LoopX wrote: missing ones first, then unknown ones. A released
// list has none, and one in another order is reported as "order". readRecord is the
// schema_version beside the list; any but DomainReadRecord counts as ReadRecord.
func ContractGap(declared []string, readRecord string) []string {
	full := contractFields
	if readRecord == DomainReadRecord {
		full = NativeContract().Fields
	}
	var nearest []string
	for _, released := range [][]string{full, without(full, fieldsOfReceipt), without(full, fieldsOfResult), without(full, fieldsOfValidation)} {
		if slices.Equal(declared, released) {
			return nil
		}
		gap := append(without(released, declared), without(declared, released)...)
		if len(gap) == 0 {
			return []string{"order"}
		}
		if nearest == nil || len(gap) < len(nearest) {
			nearest = gap
		}
	}
	return nearest
}

// without returns list less the names in drop, in list's order.
func without(list, drop []string) []string {
	var kept []string
	for _, name := range list {
		if !slices.Contains(drop, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

func markdownOnly(field string) bool { return field == "index" || field == "source_section" }

// RecordError refuses a record of a head that breaks the contract.
type RecordError struct {
	// Reason is field_unknown, field_missing, records_mixed, record_schema_unknown,
	// todo_id_missing, todo_id_twice, todo_order, lease_without_todo, read_model_mismatch.
	Reason string
	TodoID string
	Field  string
}

// Error names record and field.
func (e *RecordError) Error() string {
	return "record " + e.TodoID + " field " + e.Field + ": " + e.Reason
}

// CheckHead holds the records of a head against the contract they declare: no unknown
// field, none missing, one kind of record, ids unique and in code-point order, each
// lease with its Todo, the read model right. The first breach is a *RecordError.
func CheckHead(head authority.Canonical) error {
	h := members(head)
	model, records := members(h["todo_read_model"]), elements(h["todos"])
	contract := LegacyContract()
	if text(model["schema_version"]) == DomainReadRecord {
		contract = NativeContract()
	}
	ids := map[string]bool{}
	before := ""
	for _, record := range records {
		id := text(members(record)["todo_id"])
		switch {
		case id == "":
			return &RecordError{Reason: "todo_id_missing"}
		case ids[id]:
			return &RecordError{Reason: "todo_id_twice", TodoID: id}
		case canonical.CompareKeys(before, id) > 0:
			return &RecordError{Reason: "todo_order", TodoID: id}
		}
		ids[id], before = true, id
		if err := contract.check(record, id); err != nil {
			return err
		}
	}
	for _, lease := range elements(h["leases"]) {
		if id := text(members(lease)["todo_id"]); !ids[id] {
			return &RecordError{Reason: "lease_without_todo", TodoID: id}
		}
	}
	if text(model["records_sha256"]) != authority.DigestOf(h["todos"]).String() || string(model["todo_count"]) != decimal(len(records)) {
		return &RecordError{Reason: "read_model_mismatch", Field: "todo_read_model"}
	}
	return nil
}

func (c Contract) check(record []byte, id string) error {
	m := members(record)
	switch item := text(m["schema_version"]); {
	case item == ItemLegacy && c.Item == ItemNative, item == ItemNative && c.Item == ItemLegacy:
		return &RecordError{Reason: "records_mixed", TodoID: id, Field: "schema_version"}
	case item != c.Item:
		return &RecordError{Reason: "record_schema_unknown", TodoID: id, Field: "schema_version"}
	}
	for name := range canonical.Members(record) {
		if !slices.Contains(c.Fields, name) {
			return &RecordError{Reason: "field_unknown", TodoID: id, Field: name}
		}
	}
	for _, name := range c.Required {
		if absent(m[name]) {
			return &RecordError{Reason: "field_missing", TodoID: id, Field: name}
		}
	}
	return nil
}

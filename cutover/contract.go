package cutover

import (
	"slices"
	"strings"
)

// contractFields is the record contract of LoopX's Todo read model, in its order, as
// current releases write it into todo_read_model.contract_fields.
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

// Fields that came with later releases: heads written before them declare the list
// without, and stay valid as they are.
var (
	fieldsOfReceipt    = []string{"completion_receipt_id"} // LoopX 2.1.1
	fieldsOfResult     = []string{"completion_receipt_id", "completion_result"}
	fieldsOfValidation = []string{"completion_receipt_id", "completion_result", "completion_validation_revision", "completion_validation_revision_history"}
	fieldsOfMarkdown   = []string{"index", "source_section"} // absent from native records
)

const domainReadRecord = "loopx_todo_domain_read_record_v0"

// contractGap returns the names by which a declared list differs from the nearest
// released one: missing ones first, then unknown ones. A released list has none. A
// list in another order is reported as "order".
func contractGap(declared []string, schema string) []string {
	full := contractFields
	if schema == domainReadRecord {
		full = without(full, fieldsOfMarkdown)
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

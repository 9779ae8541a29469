package legacy

import (
	"slices"
	"strings"
	"testing"
)

// The lists are those that LoopX itself wrote: the first is what releases up to
// September 2026 put into a head of domain records, the second what 2.1.1 does.
const (
	writtenBefore = `done text schema_version todo_id role status priority title archive_state task_class action_kind
		task_domain capability_binding_ref task_repository continuation_policy removed_continuation_policy required_write_scopes
		required_capabilities target_capabilities explore_result_node_refs decision_scope required_decision_scopes decision_outcome
		decision_scope_outcomes claimed_by created_by last_actor_agent_id bound_agent goal_bound blocks_agent excluded_agents
		global_gate unblocks_todo_id resume_when resume_monitor_generation resume_condition resume_ready no_followup
		successor_todo_ids completion_continuation completion_recovery replan_obligation_id target_key cadence next_due_at
		expires_at watch_only last_checked_at result_hash consecutive_no_change material_change material_change_generation
		max_no_change_before_replan monitor_effect_id note evidence reason completed_at completion_turn_key completion_result
		updated_at superseded_by completion_validation_required completion_validation_sha256 completion_validation_revision
		completion_validation_revision_history handoff_note`
	added = "completion_receipt_id"
)

func TestContractListsThatLoopXReleased(t *testing.T) {
	before := strings.Fields(writtenBefore)
	at := slices.Index(before, "completion_recovery") + 1
	now := slices.Insert(slices.Clone(before), at, added)
	for name, list := range map[string][]string{"earlier": before, "2.1.1": now} {
		if gap := ContractGap(list, DomainReadRecord); gap != nil {
			t.Errorf("%s list of domain records: gap %v", name, gap)
		}
		full := append([]string{"index"}, list...)
		full = slices.Insert(full, slices.Index(full, "archive_state")+1, "source_section")
		if gap := ContractGap(full, "loopx_todo_canonical_read_record_v0"); gap != nil {
			t.Errorf("%s list of canonical records: gap %v", name, gap)
		}
	}
}

func TestContractGapNamesTheDifference(t *testing.T) {
	before := strings.Fields(writtenBefore)
	withoutNote := without(before, []string{"note"})
	if gap := ContractGap(withoutNote, DomainReadRecord); !slices.Equal(gap, []string{"note"}) {
		t.Errorf("a list without note: gap %v does not name it", gap)
	}
	if gap := ContractGap(append(slices.Clone(before), "mood"), DomainReadRecord); !slices.Equal(gap, []string{"mood"}) {
		t.Errorf("a list with mood: gap %v does not name it", gap)
	}
	swapped := slices.Clone(before)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	if gap := ContractGap(swapped, DomainReadRecord); len(gap) == 0 {
		t.Error("a list in another order passed")
	}
}

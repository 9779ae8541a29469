package coordination

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Members of a Todo record that a typed update may set, by kind. The rest belongs to the
// commands: who sets a status, a claim or a completion by hand goes around its lease.
var (
	textMembers = strings.Fields(`text title priority role status task_class action_kind task_domain capability_binding_ref
		task_repository continuation_policy bound_agent blocks_agent unblocks_todo_id resume_when target_key cadence
		next_due_at expires_at watch_only last_checked_at result_hash consecutive_no_change material_change
		max_no_change_before_replan monitor_effect_id note reason`)
	listMembers   = strings.Fields("required_write_scopes required_capabilities target_capabilities explore_result_node_refs excluded_agents")
	flagMembers   = strings.Fields("goal_bound global_gate")
	objectMembers = strings.Fields("decision_scope required_decision_scopes")
	fixedMembers  = strings.Fields("text role status") // never cleared
)

// words are the values of members that have only a few.
var words = map[string][]string{
	"role":   {"agent", "user"},
	"status": {statusOpen, "blocked", "deferred"},
	"task_class": {"advancement_task", "continuous_monitor", userGate, "user_action",
		"blocker"},
}

// update sets and clears members of a record. A value of the wrong kind, an unknown name
// and a name that a command owns are refused.
func (p *projection) update(o object, change patch) *Refusal {
	for key, value := range change.set {
		if !slices.Contains(p.fields, key) || !fits(key, value) || key == "role" && !change.create {
			return rejected(ReasonInvalid, "set/"+key, "no member that may be set, or not the kind of value it holds")
		}
		o[key] = value
	}
	if change.create && (o.text("text") == "" || o.text("role") == "") {
		return rejected(ReasonInvalid, "set/text", "a new Todo has a text and a role")
	}
	for _, key := range change.clear {
		settable := slices.Concat(textMembers, listMembers, flagMembers, objectMembers)
		if _, both := change.set[key]; both || !slices.Contains(settable, key) || slices.Contains(fixedMembers, key) {
			return rejected(ReasonInvalid, "clear/"+key, "no member that may be absent, or it is set at the same time")
		}
		delete(o, key)
	}
	if change.set["status"] != nil {
		o["done"] = spellBool(o.text("status") == "deferred") // LoopX counts a deferred Todo as done
	}
	if change.create && o["source_section"] == nil && slices.Contains(p.fields, "source_section") {
		section := map[string]string{"agent": "Agent Todo", "user": "User Todo / Owner Review Reading Queue"}[o.text("role")]
		o["source_section"] = spellText(section)
	}
	return nil
}

// fits reports whether a value is of the kind that a member holds.
func fits(key string, value []byte) bool {
	switch {
	case words[key] != nil:
		return slices.Contains(words[key], textOf(value))
	case slices.Contains(textMembers, key):
		return textOf(value) != ""
	case slices.Contains(listMembers, key):
		return fitsList(key, value)
	case slices.Contains(flagMembers, key):
		return canonical.Kind(value) == canonical.Bool
	case key == "required_decision_scopes":
		return canonical.Kind(value) == canonical.Array
	}
	return key == "decision_scope" && canonical.Kind(value) == canonical.Object
}

func fitsList(key string, value []byte) bool {
	if canonical.Kind(value) != canonical.Array {
		return false
	}
	for _, s := range textsOf(value) {
		if s == "" || key == "required_write_scopes" && !isScope(s) {
			return false
		}
	}
	return true
}

package legacy

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// field is one metadata key: how its decoded token becomes a value of the record,
// in canonical JSON, and how the value becomes a token again. Source: LoopX's
// metadata schema, 2.1.1; later marks keys that LoopX 0.5.1 does not know.
type field struct {
	key   string
	read  func(token string) []byte // nil: LoopX ignores the token
	write func(value []byte) (token string, ok bool)
	later bool
	// private fields never enter a record: they are commands of this host.
	private bool
}

// fields stand in the order in which LoopX writes them.
var fields = []field{
	{key: "todo_id", read: readTodoID},
	{key: "status", read: oneOf("open", "done", "blocked", "deferred")},
	{key: "role", read: oneOf("user", "agent"), later: true},
	{key: "task_class", read: oneOf("advancement_task", "continuous_monitor", "user_gate", "user_action", "blocker")},
	{key: "action_kind", read: matching(pattern(`^[a-z][a-z0-9_-]{0,63}$`))},
	{key: "task_domain", read: matching(pattern(`^[a-z][a-z0-9_.-]{0,63}$`))},
	{key: "capability_binding_ref", read: matching(pattern(`^[a-z][a-z0-9_.-]{0,31}:[a-z][a-z0-9_.:-]{2,95}$`))},
	{key: "task_repository", read: readRepository},
	{key: "continuation_policy", read: oneOf("independent_handoff", "same_agent_non_delivery")},
	{key: "removed_continuation_policy", read: oneOf("primary_review", "review_handoff"), later: true},
	{key: "required_write_scopes", read: readWriteScopes, write: writeList},
	{key: "required_capabilities", read: readCapabilities, write: writeList},
	{key: "target_capabilities", read: readCapabilities, write: writeList},
	{key: "explore_result_node_refs", read: readNodeRefs, write: writeList},
	{key: "decision_scope", read: readScope, write: writeScope},
	{key: "required_decision_scopes", read: readScopes, write: writeScopes},
	{key: "decision_outcome", read: readDecision},
	{key: "decision_scope_outcomes", read: readOutcomes, write: writeOutcomes},
	{key: "claimed_by", read: readAgent},
	{key: "last_actor_agent_id", read: readAgent, later: true},
	{key: "bound_agent", read: readAgent},
	{key: "goal_bound", read: readGate, write: writeWord},
	{key: "blocks_agent", read: readAgent},
	{key: "excluded_agents", read: readExcluded, write: writeList},
	{key: "global_gate", read: readGate, write: writeWord},
	{key: "unblocks_todo_id", read: readTodoID},
	{key: "successor_todo_ids", read: readTodoIDs, write: writeList},
	{key: "completion_continuation", read: oneOf("active_goal", "successor", "no_followup")},
	{key: "completion_recovery", read: oneOf("same_turn_terminal_closeout", "lifecycle_reentry_terminal_closeout")},
	{key: "replan_obligation_id", read: readReplan},
	{key: "resume_when", read: readResume},
	{key: "resume_monitor_generation", read: readGeneration, write: writeWord, later: true},
	{key: "no_followup", read: readNoFollowup, write: writeWord},
	{key: "target_key", read: readText},
	{key: "monitor_effect_id", read: readText, later: true},
	{key: "cadence", read: readText},
	{key: "next_due_at", read: readText},
	{key: "expires_at", read: readText},
	{key: "last_checked_at", read: readText},
	{key: "result_hash", read: readText},
	{key: "consecutive_no_change", read: readText},
	{key: "material_change", read: readText},
	{key: "material_change_generation", read: readGeneration, write: writeWord, later: true},
	{key: "max_no_change_before_replan", read: readText},
	{key: "watch_only", read: readText},
	{key: "note", read: readText},
	{key: "evidence", read: readText},
	{key: "reason", read: readText},
	{key: "completed_at", read: readText},
	{key: "updated_at", read: readText},
	{key: "completion_turn_key", read: readText},
	{key: "completion_receipt_id", read: readText, later: true},
	{key: "validation_command", read: readText, private: true},
	{key: "validation_command_argv", read: readText, private: true},
	{key: "validation_label", read: readText, private: true},
	{key: "validation_timeout_seconds", read: readText, private: true},
	{key: "superseded_by", read: readTodoID},
}

var (
	readTodoID   = matching(todoIDPattern)
	readDecision = oneOf("approve", "reject", "cancel")
)

var todoIDPattern = pattern(`^todo_[a-z0-9_-]{3,64}$`)

// fieldOf finds a key that a reading knows.
func fieldOf(reading Reading, key string) *field {
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	if i < 0 || reading == Release051 && fields[i].later {
		return nil
	}
	return &fields[i]
}

// readField gives the record's key and value for a token. An unknown key gives "", a
// value that LoopX ignores gives nil. A removed continuation policy keeps its value
// under a key of its own.
func readField(reading Reading, key, token string) (string, []byte) {
	f := fieldOf(reading, key)
	if f == nil {
		return "", nil
	}
	value := f.read(token)
	if value == nil && key == "continuation_policy" {
		const removed = "removed_continuation_policy"
		if value = fieldOf(Later, removed).read(token); value != nil {
			return removed, value
		}
	}
	if key == "explore_result_node_refs" && reading == Release051 {
		value = firstElements(value, 8)
	}
	return key, value
}

// token spells a value; ok is false for one that reads back as something else.
func (f *field) token(value []byte) (token string, ok bool) {
	write := f.write
	if write == nil {
		write = writeString
	}
	token, ok = write(value)
	return token, ok && token == compact(token) && string(f.read(token)) == string(value)
}

func literal(s string) []byte { return canonical.AppendString(nil, s) }

func matching(shape *expression) func(string) []byte {
	return func(token string) []byte {
		if token = lower(strip(token)); !shape.MatchString(token) {
			return nil
		}
		return literal(token)
	}
}

func oneOf(words ...string) func(string) []byte {
	return func(token string) []byte {
		if token = lower(strip(token)); !slices.Contains(words, token) {
			return nil
		}
		return literal(token)
	}
}

func readText(token string) []byte {
	if token == "" {
		return nil
	}
	return literal(token)
}

var replanPattern = pattern(`^replan-[a-f0-9]{16}$`)

func readReplan(token string) []byte {
	if !replanPattern.MatchString(token) {
		return nil
	}
	return literal(token)
}

var agentPattern = pattern(`^[a-z][a-z0-9_.:@-]{0,79}$`)

func agent(token string) string {
	token = strings.ReplaceAll(lower(compact(token)), " ", "-")
	if !agentPattern.MatchString(token) {
		return ""
	}
	return token
}

func readAgent(token string) []byte {
	if name := agent(token); name != "" {
		return literal(name)
	}
	return nil
}

func readExcluded(token string) []byte {
	var names []string
	for _, part := range strings.Split(token, ",") {
		if name := agent(part); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return list(names)
}

// list spells an ordered list of distinct strings; nil when it is empty.
func list(items []string) []byte {
	var out []byte
	for i, item := range items {
		if slices.Contains(items[:i], item) {
			continue
		}
		out = append(out, ',')
		out = canonical.AppendString(out, item)
	}
	if out == nil {
		return nil
	}
	out[0] = '['
	return append(out, ']')
}

// parts splits a list as LoopX does, at comma, semicolon and bar.
func parts(token string) []string {
	return strings.FieldsFunc(token, func(r rune) bool { return r == ',' || r == ';' || r == '|' })
}

const scopeLength = 160 // code points

func readWriteScopes(token string) []byte {
	var scopes []string
	for _, part := range parts(token) {
		scope := compact(part)
		if scope == "" || len([]rune(scope)) > scopeLength || hasPrefix(scope, "/") || hasPrefix(scope, "~") ||
			slices.Contains(strings.Split(scope, "/"), "..") || strings.ContainsFunc(scope, isSpace) || strings.ContainsAny(scope, "<>") {
			continue
		}
		scopes = append(scopes, scope)
	}
	return list(scopes)
}

var capabilityPattern = pattern(`^[a-z][a-z0-9_:-]{0,63}$`)

func readCapabilities(token string) []byte {
	var names []string
	for _, part := range parts(token) {
		name := strings.NewReplacer("-", "_", " ", "_").Replace(lower(compact(part)))
		if capabilityPattern.MatchString(name) {
			names = append(names, name)
		}
	}
	return list(names)
}

var nodePattern = pattern(`^[A-Za-z][A-Za-z0-9_.:-]{0,95}$`)

func readNodeRefs(token string) []byte {
	var refs []string
	for _, part := range parts(token) {
		if ref := compact(part); nodePattern.MatchString(ref) {
			refs = append(refs, ref)
		}
	}
	return list(refs)
}

// firstElements cuts a canonical list.
func firstElements(value []byte, n int) []byte {
	var kept []string
	for element := range canonical.Elements(value) {
		if len(kept) < n {
			kept = append(kept, text(element))
		}
	}
	return list(kept)
}

func readGate(token string) []byte {
	switch lower(compact(token)) {
	case "1", "true", "yes", "y", "global_gate", "global-gate":
		return []byte("true")
	case "0", "false", "no", "n":
		return []byte("false")
	}
	return nil
}

func readNoFollowup(token string) []byte {
	switch lower(strip(token)) {
	case "1", "true", "yes", "y", "no_followup", "no-followup":
		return []byte("true")
	case "0", "false", "no", "n":
		return []byte("false")
	}
	return nil
}

var generationPattern = pattern(`^\+?[0-9]+(_[0-9]+)*$`)

// readGeneration: a count that is a number in the record, spelled as Python spells
// integers. One beyond 15 digits would not survive JavaScript and is refused here.
func readGeneration(token string) []byte {
	token = strip(token)
	if !generationPattern.MatchString(token) {
		return nil
	}
	digits := strings.TrimLeft(strings.NewReplacer("_", "", "+", "").Replace(token), "0")
	if len(digits) > 15 {
		return nil
	}
	if digits == "" {
		return []byte("0")
	}
	return []byte(digits)
}

func writeString(value []byte) (string, bool) {
	return text(value), canonical.Kind(value) == canonical.String
}

// writeWord spells true, false and numbers as they are.
func writeWord(value []byte) (string, bool) {
	kind := canonical.Kind(value)
	return string(value), kind == canonical.Bool || kind == canonical.Number
}

func writeList(value []byte) (string, bool) {
	var items []string
	for element := range canonical.Elements(value) {
		items = append(items, text(element))
	}
	return strings.Join(items, ","), len(items) > 0
}

// text is the value of a canonical string, "" for anything else.
func text(value []byte) string {
	if canonical.Kind(value) != canonical.String {
		return ""
	}
	s, err := canonical.ParseString(value)
	if err != nil {
		return ""
	}
	return s
}

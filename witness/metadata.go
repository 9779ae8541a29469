package witness

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

var (
	metaLine  = expression(`^_B_*<!--_B_*loopx:(?:todo_B_+)?(.*?)_B_*-->_B_*$`)
	metaToken = expression(`(?:^|_B_)([a-z_][a-z0-9_]*)=([^<>\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+)`)
	badEscape = expression(`%(?:[^0-9A-Fa-f]|[0-9A-Fa-f][^0-9A-Fa-f]|.?$)`)
)

// metadata reads a metadata line: the values it gives, and the keys whose value this
// reader is not sure of.
func metadata(line string) (values map[string]*value, unsure []string) {
	body := metaLine().FindStringSubmatch(line)
	if body == nil {
		return nil, nil
	}
	values = map[string]*value{}
	for _, token := range metaToken().FindAllStringSubmatch(body[1], -1) {
		key, raw := token[1], token[2]
		kind, known := kinds[key]
		if !known {
			continue
		}
		decoded, err := url.PathUnescape(raw)
		if err != nil && !badEscape().MatchString(raw) || !utf8.ValidString(decoded) || err != nil {
			unsure = append(unsure, key)
			continue
		}
		name, v, sure := read(key, kind, squeezed(decoded))
		switch {
		case !sure:
			unsure = append(unsure, name)
		case v != nil:
			values[name] = v
		}
	}
	return values, unsure
}

// Kinds of values beside words, which are regular expressions of lower-case text.
const (
	kText   = "text"
	kAgent  = "agent"
	kGate   = "gate"
	kCount  = "count"
	kIDs    = "ids"
	kScopes = "scopes"
)

const (
	idWord    = `^todo_[a-z0-9_-]{3,64}$`
	agentWord = `^[a-z][a-z0-9_.:@-]{0,79}$`
	scopeWord = `^(private_read|write_scope|resource|production|public_claim|direction|other):(action|lane|goal|project|global):(\*|[a-z0-9][a-z0-9_.:@*/-]{0,95})$`
)

// kinds are LoopX's metadata keys and how their values are read.
var kinds = map[string]string{
	"todo_id": idWord, "status": `^(open|done|blocked|deferred)$`, "role": `^(user|agent)$`,
	"task_class":  `^(advancement_task|continuous_monitor|user_gate|user_action|blocker)$`,
	"action_kind": `^[a-z][a-z0-9_-]{0,63}$`, "task_domain": `^[a-z][a-z0-9_.-]{0,63}$`,
	"capability_binding_ref": `^[a-z][a-z0-9_.-]{0,31}:[a-z][a-z0-9_.:-]{2,95}$`,
	"task_repository":        "repository", "continuation_policy": "policy", "removed_continuation_policy": `^(primary_review|review_handoff)$`,
	"required_write_scopes": "paths", "required_capabilities": "capabilities", "target_capabilities": "capabilities",
	"explore_result_node_refs": "nodes", "decision_scope": "scope", "required_decision_scopes": kScopes,
	"decision_outcome": `^(approve|reject|cancel)$`, "decision_scope_outcomes": "outcomes",
	"claimed_by": kAgent, "last_actor_agent_id": kAgent, "bound_agent": kAgent, "blocks_agent": kAgent, "excluded_agents": "agents",
	"goal_bound": kGate, "global_gate": kGate, "no_followup": kGate,
	"unblocks_todo_id": idWord, "superseded_by": idWord, "successor_todo_ids": kIDs,
	"completion_continuation": `^(active_goal|successor|no_followup)$`,
	"completion_recovery":     `^(same_turn_terminal_closeout|lifecycle_reentry_terminal_closeout)$`,
	"replan_obligation_id":    "replan", "resume_when": "resume",
	"resume_monitor_generation": kCount, "material_change_generation": kCount,
	"target_key": kText, "monitor_effect_id": kText, "cadence": kText, "next_due_at": kText, "expires_at": kText, "last_checked_at": kText,
	"result_hash": kText, "consecutive_no_change": kText, "material_change": kText, "max_no_change_before_replan": kText, "watch_only": kText,
	"note": kText, "evidence": kText, "reason": kText, "completed_at": kText, "updated_at": kText, "completion_turn_key": kText,
	"completion_receipt_id": kText,
	"validation_command":    kText, "validation_command_argv": kText, "validation_label": kText, "validation_timeout_seconds": kText,
}

// words are the expressions among the kinds, compiled when they are first asked.
var words = sync.OnceValue(func() map[string]func() *regexp.Regexp {
	compiled := map[string]func() *regexp.Regexp{}
	for _, kind := range kinds {
		if strings.HasPrefix(kind, "^") {
			compiled[kind] = expression(kind)
		}
	}
	return compiled
})

// read is the value that a key gets. No value: LoopX ignores the token. The key is
// another where a removed policy keeps its value.
func read(key, kind, token string) (name string, v *value, sure bool) {
	word := strings.ToLower(token)
	unsure := strings.Contains(token, "\u0130") // Python and Go disagree about it in lower case
	if token == "" {
		return key, nil, true
	}
	switch kind {
	case kText:
		return key, newText(token), true
	case "policy":
		if word == "primary_review" || word == "review_handoff" {
			return "removed_continuation_policy", newText(word), !unsure
		}
		return key, oneWord(word, word == "independent_handoff" || word == "same_agent_non_delivery"), !unsure
	case kAgent:
		return key, agentName(word), !unsure
	case kGate:
		v := truthOf(word, strings.TrimPrefix(key, "goal_"))
		return key, v, !unsure
	case kCount:
		plain := plainCount().MatchString(token)
		return key, &value{kind: number, printed: token}, plain
	case "replan":
		return key, oneWord(token, replanWord().MatchString(token)), true
	case "resume":
		return key, oneWord(word, resumeWord().MatchString(word)), !unsure && !strings.HasPrefix(word, "resume_at:")
	case "repository":
		return key, newText(token), plainRepository().MatchString(token) && !strings.Contains("/"+token+"/", "/../") && !strings.Contains(token, "//") && !strings.Contains("/"+token+"/", "/./")
	case "scope":
		return key, scope(token), !unsure
	}
	if shape, is := words()[kind]; is {
		return key, oneWord(word, shape().MatchString(word)), !unsure
	}
	v, sure = readList(kind, token)
	return key, v, sure && !unsure
}

var (
	plainCount      = expression(`^(0|[1-9][0-9]{0,14})$`)
	replanWord      = expression(`^replan-[a-f0-9]{16}$`)
	resumeWord      = expression(`^(pr_merged:([a-z0-9_.-]{1,80}/[a-z0-9_.-]{1,100})?#[1-9][0-9]{0,8}|[a-z][a-z0-9_-]{0,31}(:[a-z0-9_.:@-]{1,96})?)$`)
	plainRepository = expression(`^git:[a-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9_~+-]+(/[A-Za-z0-9_~+-]+)*$`)
	agentShape      = expression(agentWord)
	scopeShape      = expression(scopeWord)
	capability      = expression(`^[a-z][a-z0-9_:-]{0,63}$`)
	nodeShape       = expression(`^[A-Za-z][A-Za-z0-9_.:-]{0,95}$`)
	idShape         = expression(idWord)
)

func oneWord(word string, is bool) *value {
	if !is {
		return nil
	}
	return newText(word)
}

func agentName(s string) *value {
	s = strings.ReplaceAll(squeezed(strings.ToLower(s)), " ", "-")
	return oneWord(s, agentShape().MatchString(s))
}

// truthOf reads yes and no; a gate may also be said by its own name.
func truthOf(word, own string) *value {
	itself := own == "global_gate" || own == "bound"
	switch {
	case slices.Contains([]string{"1", "true", "yes", "y"}, word), itself && (word == "global_gate" || word == "global-gate"),
		own == "no_followup" && (word == "no_followup" || word == "no-followup"):
		return &value{kind: truth, printed: "true"}
	case slices.Contains([]string{"0", "false", "no", "n"}, word):
		return &value{kind: truth, printed: "false"}
	}
	return nil
}

func scope(token string) *value {
	parts := strings.SplitN(strings.ToLower(token), ":", 3)
	for i := range parts {
		parts[i] = squeezed(parts[i])
	}
	m := scopeShape().FindStringSubmatch(strings.Join(parts, ":"))
	if m == nil {
		return nil
	}
	return pairs("schema_version", newText("decision_scope_v0"), "kind", newText(m[1]), "granularity", newText(m[2]), "scope_key", newText(m[3]))
}

// readList reads a value of several parts. Parts that are nothing fall out, and so do
// repeated ones; a list of nothing is no value.
func readList(kind, token string) (*value, bool) {
	separators := ",;|"
	if kind == "agents" || kind == "outcomes" {
		separators = ","
	}
	var found []*value
	for _, part := range strings.FieldsFunc(token, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if kind == kIDs && (!idShape().MatchString(squeezed(part)) || strings.HasSuffix(squeezed(part), "-")) {
			return nil, false // LoopX finds ids in any text
		}
		v := listPart(kind, squeezed(part))
		if v == nil {
			continue
		}
		same := slices.IndexFunc(found, func(f *value) bool { return identity(kind, f) == identity(kind, v) })
		if same >= 0 {
			found[same] = v
			continue
		}
		found = append(found, v)
	}
	if kind == "agents" {
		slices.SortFunc(found, func(a, b *value) int { return strings.Compare(a.str, b.str) })
	}
	if found == nil {
		return nil, kind != kIDs
	}
	return newList(found), true
}

// identity is what makes two parts of a list the same.
func identity(kind string, v *value) string {
	if kind == "outcomes" {
		return v.member("decision_scope").canonical()
	}
	return v.canonical()
}

func listPart(kind, part string) *value {
	switch kind {
	case "agents":
		return agentName(part)
	case kIDs:
		return newText(part)
	case kScopes:
		return scope(part)
	case "nodes":
		return oneWord(part, nodeShape().MatchString(part))
	case "capabilities":
		part = strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(part))
		return oneWord(part, capability().MatchString(part))
	case "paths":
		usable := part != "" && utf8.RuneCountInString(part) <= 160 && !strings.HasPrefix(part, "/") && !strings.HasPrefix(part, "~") &&
			!strings.Contains("/"+part+"/", "/../") && !strings.ContainsAny(part, "<> ")
		return oneWord(part, usable)
	}
	parts := strings.SplitN(part, "|", 3)
	if len(parts) != 3 {
		return nil
	}
	outcome, of, by := strings.ToLower(squeezed(parts[0])), scope(parts[1]), strings.ToLower(squeezed(parts[2]))
	if !slices.Contains([]string{"approve", "reject", "cancel"}, outcome) || of == nil || !idShape().MatchString(by) {
		return nil
	}
	return pairs("schema_version", newText("todo_decision_scope_outcome_v0"), "outcome", newText(outcome), "decision_scope", of, "source_todo_id", newText(by))
}

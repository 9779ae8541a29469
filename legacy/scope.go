package legacy

import (
	"slices"
	"strings"
	"time"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

var (
	scopeKinds         = []string{"private_read", "write_scope", "resource", "production", "public_claim", "direction", "other"}
	scopeGranularities = []string{"action", "lane", "goal", "project", "global"}
	scopeKeyPattern    = pattern(`^(?:\*|[a-z0-9][a-z0-9_.:@*/-]{0,95})$`)
)

// scopeParts checks kind:granularity:key; the key may hold colons.
func scopeParts(token string) ([]string, bool) {
	p := strings.SplitN(lower(compact(token)), ":", 3)
	if len(p) != 3 {
		return nil, false
	}
	for i := range p {
		p[i] = compact(p[i])
	}
	return p, slices.Contains(scopeKinds, p[0]) && slices.Contains(scopeGranularities, p[1]) && scopeKeyPattern.MatchString(p[2])
}

// readScope gives the object decision_scope_v0.
func readScope(token string) []byte {
	p, ok := scopeParts(token)
	if !ok {
		return nil
	}
	return object(map[string][]byte{"schema_version": literal("decision_scope_v0"),
		"kind": literal(p[0]), "granularity": literal(p[1]), "scope_key": literal(p[2])})
}

// writeScope refuses a scope with a decision_id, which Markdown has no place for.
func writeScope(value []byte) (string, bool) {
	scope := members(value)
	token := text(scope["kind"]) + ":" + text(scope["granularity"]) + ":" + text(scope["scope_key"])
	return token, len(scope) == 4
}

func readScopes(token string) []byte {
	return join(parts(token), readScope, func(scope []byte) string { return string(scope) })
}

func writeScopes(value []byte) (string, bool) { return writeJoined(value, writeScope) }

// join reads each part and lists those that are something. A part with the identity
// of an earlier one takes its place.
func join(items []string, read func(string) []byte, identity func([]byte) string) []byte {
	var values [][]byte
	for _, item := range items {
		value := read(item)
		if value == nil {
			continue
		}
		same := slices.IndexFunc(values, func(v []byte) bool { return identity(v) == identity(value) })
		if same >= 0 {
			values[same] = value
			continue
		}
		values = append(values, value)
	}
	if values == nil {
		return nil
	}
	return array(values)
}

func writeJoined(value []byte, write func([]byte) (string, bool)) (string, bool) {
	var items []string
	for element := range canonical.Elements(value) {
		item, ok := write(element)
		if !ok {
			return "", false
		}
		items = append(items, item)
	}
	return strings.Join(items, ","), len(items) > 0
}

// readOutcome gives the object todo_decision_scope_outcome_v0 for outcome|scope|todo.
func readOutcome(token string) []byte {
	p := strings.SplitN(token, "|", 3)
	if len(p) != 3 {
		return nil
	}
	outcome, scope, source := readDecision(p[0]), readScope(p[1]), readTodoID(p[2])
	if outcome == nil || scope == nil || source == nil {
		return nil
	}
	return object(map[string][]byte{"schema_version": literal("todo_decision_scope_outcome_v0"),
		"outcome": outcome, "decision_scope": scope, "source_todo_id": source})
}

func readOutcomes(token string) []byte {
	return join(strings.Split(token, ","), readOutcome, func(o []byte) string { return string(members(o)["decision_scope"]) })
}

func writeOutcomes(value []byte) (string, bool) {
	return writeJoined(value, func(outcome []byte) (string, bool) {
		m := members(outcome)
		scope, ok := writeScope(m["decision_scope"])
		return text(m["outcome"]) + "|" + scope + "|" + text(m["source_todo_id"]), ok && len(m) == 4
	})
}

// readTodoIDs finds every todo_... in a token that stands between word boundaries.
func readTodoIDs(token string) []byte {
	const start = "todo_"
	var ids []string
	before := ' '
	for i, r := range token {
		if isWord(before) || !hasPrefix(token[i:], start) {
			before = r
			continue
		}
		if id := idAt(token[i:]); id != "" && todoIDPattern.MatchString(lower(id)) {
			ids = append(ids, lower(id))
		}
		before = r
	}
	if whole := lower(strip(token)); todoIDPattern.MatchString(whole) {
		ids = append(ids, whole)
	}
	return list(ids)
}

// idAt is the longest run of id characters at the start of s that ends at a word
// boundary as Python sees one.
func idAt(s string) string {
	n := 0
	for n < len(s) && (isAlnum(s[n]) || s[n] == '_' || s[n] == '-') {
		n++
	}
	next := ' '
	for _, r := range s[n:] {
		next = r
		break
	}
	for ; n > len("todo_"); n-- {
		if isWord(rune(s[n-1])) != isWord(next) {
			return s[:n]
		}
		next = rune(s[n-1])
	}
	return ""
}

var (
	resumePattern   = pattern(`^[a-z][a-z0-9_-]{0,31}(?::[a-z0-9_.:@-]{1,96})?$`)
	resumePRPattern = pattern(`^pr_merged:(?:[a-z\d_.-]{1,80}/[a-z\d_.-]{1,100})?#[1-9]\d{0,8}$`)
	resumeAtPattern = pattern(`(?i)^resume_at:([1-9]\d{3}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?)(Z|[+-]\d{2}:\d{2})$`)
)

// readResume: a condition in lower case. A point in time is kept in UTC.
func readResume(token string) []byte {
	token = compact(token)
	if m := resumeAtPattern.FindStringSubmatch(token); m != nil {
		return readResumeAt(strings.ToUpper(m[1]), strings.ToUpper(m[2]))
	}
	token = lower(token)
	if hasPrefix(token, "resume_at:") || !resumePRPattern.MatchString(token) && !resumePattern.MatchString(token) {
		return nil
	}
	return literal(token)
}

func readResumeAt(clock, zone string) []byte {
	at, err := time.Parse("2006-01-02T15:04:05Z07:00", clock+zone)
	if err != nil {
		return nil
	}
	if zone != "Z" && (zone[1:] > "14:00" || zone[4:] > "59") {
		return nil
	}
	at = at.UTC()
	if at.Year() < 1000 || at.Year() > 9999 {
		return nil
	}
	layout := "2006-01-02T15:04:05Z"
	if at.Nanosecond() != 0 {
		layout = "2006-01-02T15:04:05.000Z"
	}
	return literal("resume_at:" + at.Format(layout))
}

var (
	repositoryPattern = pattern(`^git:([a-z0-9.-]+(?::[0-9]{1,5})?)/([A-Za-z0-9._~+/-]+)$`)
	scpPattern        = pattern(`^(?:[^@/]+@)?([^:/]+):(.+)$`)
	remotePattern     = pattern(`^(git|https?|ssh)://(?:[^@/:?#]*@)?([^@/:?#\[\]]+)(?::([0-9]{1,5}))?(/[^?#]*)$`)
	defaultPorts      = map[string]string{"git": "9418", "http": "80", "https": "443", "ssh": "22"}
)

// readRepository gives git:<host>/<path> for that form, a URL or an scp address.
func readRepository(token string) []byte {
	token = strip(token)
	if m := repositoryPattern.FindStringSubmatch(token); m != nil {
		return repository(m[1], m[2])
	}
	if m := scpPattern.FindStringSubmatch(token); m != nil && !strings.Contains(token, "://") {
		token = "ssh://" + m[1] + "/" + m[2]
	}
	m := remotePattern.FindStringSubmatch(token)
	if m == nil {
		return nil
	}
	host := strings.ToLower(m[2])
	if m[3] != "" && m[3] != defaultPorts[m[1]] {
		host += ":" + m[3]
	}
	return repository(host, m[4])
}

var slashes = pattern(`/+`)

func repository(host, path string) []byte {
	path = strings.TrimSuffix(strings.Trim(slashes.ReplaceAllString(path, "/"), "/"), ".git")
	segments := strings.Split(path, "/")
	if path == "" || slices.Contains(segments, ".") || slices.Contains(segments, "..") {
		return nil
	}
	return literal("git:" + host + "/" + path)
}

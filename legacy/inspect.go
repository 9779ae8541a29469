package legacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// inspectState judges the state file as a whole, then its Todos.
func (g *Goal) inspectState() {
	d := g.Document
	switch {
	case g.Files.StateMissing:
		g.note(Finding{Code: CodeStateMissing, Weight: Blocking, Detail: "there is no state file"})
		return
	case len(bytes.TrimSpace(d.src)) == 0:
		g.note(Finding{Code: CodeStateEmpty, Weight: Blocking, Detail: "the state file is empty: a writer of LoopX 0.5.1 that is killed leaves it so"})
		return
	}
	if holderOpen(g.Files.LockHolder) {
		g.note(Finding{Code: CodeWriterDied, Weight: Acceptable, Detail: "the last writer never said that it ended: it runs, or it died and may have cut the file"})
	}
	later, err := d.Read(Later)
	var broken *SyntaxError
	if errors.As(err, &broken) {
		g.note(Finding{Code: CodeStateUnreadable, Weight: Blocking, Key: broken.Reason, Line: broken.Line, Detail: broken.Error()})
		return
	}
	g.Listing = later
	g.inspectFile()
	g.inspectIdentities()
	for i := range later.Rows {
		g.inspectRow(&later.Rows[i])
	}
	g.inspectSections()
	g.inspectReadings()
}

// holderOpen reports whether a lock's holder record says no end.
func holderOpen(text []byte) bool {
	var holder struct {
		PID      int    `json:"pid"`
		Released string `json:"released_at"`
	}
	return len(text) > 0 && json.Unmarshal(text, &holder) == nil && holder.PID != 0 && holder.Released == ""
}

func (g *Goal) inspectFile() {
	d := g.Document
	if bytes.HasPrefix(d.src, []byte("\ufeff")) {
		g.note(Finding{Code: CodeByteOrderMark, Weight: Blocking, Line: 1, Detail: "a byte order mark hides the first line from LoopX; take it away"})
	}
	if bytes.Contains(d.src, []byte("\r")) {
		g.note(Finding{Code: CodeCarriageReturns, Detail: "lines end with CR; LoopX 0.5.1 rewrites the whole file to LF"})
	}
	mode, ok := d.HandoffMode(Later)
	if !ok {
		g.note(Finding{Code: CodeModeInvalid, Weight: Blocking, Key: "handoff_mode", Value: mode, Detail: "no handoff mode that LoopX knows"})
	}
	if old, _ := d.HandoffMode(Release051); old != mode {
		g.note(Finding{Code: CodeModeDiffers, Weight: Blocking, Key: "handoff_mode", Detail: "LoopX 0.5.1 reads another mode than later releases, as the front matter holds three hyphens inside a value or a value in another spelling"})
	}
	if d.openEnd >= 0 {
		g.note(Finding{Code: CodeOpenFence, Line: d.openEnd + 1, Detail: "nothing closes this fence or comment: all that follows is invisible"})
	}
}

// inspectIdentities: each id once, each Todo an id.
func (g *Goal) inspectIdentities() {
	places := map[string]int{}
	for i := range g.Listing.Rows {
		places[g.Listing.Rows[i].TodoID]++
	}
	for i := range g.Listing.Rows {
		row := &g.Listing.Rows[i]
		f := Finding{TodoID: row.TodoID, Line: row.Line}
		_, known := row.RoleKnown()
		switch {
		case row.TodoID != "" && places[row.TodoID] > 1:
			f.Code, f.Weight, f.Detail = CodeTodoIDTwice, Blocking, "one id stands in several places; none of them wins"
		case row.Derived:
			f.Code, f.Weight, f.Detail = CodeTodoIDMissing, Blocking, "the id is derived from place and text and moves with them; let LoopX write one"
		case row.TodoID == "":
			f.Code, f.Weight, f.Detail = CodeArchivedIdentity, Acceptable, "an archived row without id stays in the file and enters no head"
		case !known && row.Fields["decision_outcome"] != nil:
			f.Code, f.Weight, f.Detail = CodeArchivedDecision, Acceptable, "a decision that does not travel: what it revokes would count again; write role= on the line"
		case !known:
			f.Code, f.Weight, f.Detail = CodeArchivedRole, Acceptable, "an archived row of unknown role stays in the file and enters no head; write role= on the line"
		default:
			continue
		}
		g.note(f)
	}
}

// inspectRow judges text and metadata of one Todo.
func (g *Goal) inspectRow(row *Row) {
	add := func(code string, weight Weight, detail string) {
		g.note(Finding{Code: code, Weight: weight, TodoID: row.TodoID, Line: row.Line, Detail: detail})
	}
	if row.Text == "" {
		add(CodeTextEmpty, Blocking, "a Todo without text, which LoopX refuses to project")
	}
	if n := utf8.RuneCountInString(row.Text); n > textLimit {
		add(CodeTextOver500, Acceptable, "the text has "+decimal(n)+" characters; LoopX's views cut it at 500 and a later one may refuse to project it")
	}
	if label, _ := Priority(Release051, row.Text); len(label) != utf8.RuneCountInString(label) {
		add(CodeLabelUnusual, Acceptable, "the priority label has capitals that Python and Go may spell apart")
	}
	if row.Fields["task_class"] == nil && !row.Archived {
		add(CodeClassUnstated, Note, "no task class is written down; LoopX guesses one from the text in its views, the head has none")
	}
	if role := text(row.Fields["role"]); !row.Archived && role != "" && role != string(row.Role) {
		add(CodeRoleContradicts, Acceptable, "the line says "+role+"; the section counts")
	}
	for _, line := range row.joined {
		g.note(Finding{Code: CodeMetadataIsText, Weight: Acceptable, TodoID: row.TodoID, Line: line, Detail: "no key of this metadata gives a value, so LoopX takes the comment for text"})
	}
	for _, t := range row.Tokens {
		if f, found := judgeToken(t); found {
			f.TodoID, f.Line, f.Key, f.Value = row.TodoID, t.Line, t.Key, t.Raw
			g.note(f)
		}
	}
	g.inspectBreaks(row)
}

// judgeToken says what LoopX loses or changes of a token.
func judgeToken(t Token) (Finding, bool) {
	switch t.Fate {
	case "unknown":
		return Finding{Code: CodeKeyUnknown, Weight: Acceptable, Detail: "LoopX ignores this key and drops it when it rewrites the line"}, true
	case "invalid":
		return Finding{Code: CodeValueInvalid, Weight: Acceptable, Detail: "LoopX ignores this value and drops it when it rewrites the line"}, true
	case "overridden":
		return Finding{Code: CodeKeyRepeated, Detail: "a later token of this key counts"}, true
	}
	token := compact(unquote(t.Raw))
	key, value := readField(Later, t.Key, token)
	written, _ := fieldOf(Later, key).token(value)
	if written == token {
		return Finding{}, false
	}
	if canonical.Kind(value) == canonical.Array && len(elements(value)) < len(parts(token)) {
		return Finding{Code: CodeValueDropped, Weight: Acceptable, Detail: "LoopX leaves out items of this list"}, true
	}
	return Finding{Code: CodeValueAltered, Detail: "LoopX normalises this value"}, true
}

// inspectBreaks looks for text behind characters that end a line for Python only.
func (g *Goal) inspectBreaks(row *Row) {
	d := g.Document
	for _, p := range row.parts {
		l := d.lines[p.line]
		if ending := string(d.src[l.end:l.next]); ending == "" || ending == "\n" || ending == "\r\n" || ending == "\r" || p.line+1 == len(d.lines) {
			continue
		}
		f := Finding{Code: CodeTextCut, TodoID: row.TodoID, Line: p.line + 1, Offset: l.end,
			Detail: "this character ends a line for LoopX; what follows belongs to no Todo"}
		switch next := d.text(p.line + 1); {
		case strip(next) == "":
			continue
		case indented(next):
			f.Code, f.Detail = CodeTextBroken, "this character ends a line for LoopX; what follows is joined with a blank"
		}
		g.note(f)
	}
}

// inspectSections looks at what stands between the Todos.
func (g *Goal) inspectSections() {
	d, seen := g.Document, map[Role]bool{}
	for _, s := range g.Listing.sections {
		if seen[s.role] {
			g.note(Finding{Code: CodeSectionRepeated, Weight: Acceptable, Line: s.start + 1, Key: string(s.role),
				Detail: "a second section of this role: its Todos are read, but LoopX's editors do not find them and its projection refuses the file"})
		}
		seen[s.role] = true
		for i := s.start + 1; i < s.bodyEnd; i++ {
			line := d.text(i)
			if hasPrefix(line, regionPrefix) || hasPrefix(line, watermarkPrefix) {
				continue // what a display leaves
			}
			if _, is := metadataBody(line); is && d.visible(Later, i) && !indented(line) {
				g.note(Finding{Code: CodeMetadataUnindented, Weight: Acceptable, Line: i + 1, Detail: "metadata at the start of a line is no metadata for LoopX"})
			}
		}
	}
	switch {
	case len(seen) == 0:
		g.note(Finding{Code: CodeSectionMissing, Weight: Blocking, Detail: "no Todo section at all: the file may be cut"})
	case !seen[RoleAgent]:
		g.note(Finding{Code: CodeSectionMissing, Weight: Acceptable, Detail: "no section of agent Todos: the file may be cut"})
	}
}

// inspectReadings compares the two grammars, and names every line that looks like a
// Todo and is none.
func (g *Goal) inspectReadings() {
	d := g.Document
	old, err := d.Read(Release051)
	if err != nil {
		return // not UTF-8, which the other reading has refused already
	}
	byLine := map[int]*Row{}
	for i := range old.Rows {
		byLine[old.Rows[i].Line] = &old.Rows[i]
	}
	taken := map[int]bool{}
	for i := range g.Listing.Rows {
		row := &g.Listing.Rows[i]
		taken[row.Line] = true
		g.compareRow(row, byLine[row.Line])
	}
	for i := range d.lines {
		if t, is := parseTask(d.text(i)); is && !taken[i+1] {
			g.note(d.lookAlike(i, t, byLine[i+1]))
		}
	}
}

// lookAlike judges a line that looks like a Todo and is none under Later. old is what
// 0.5.1 makes of it, nil for nothing.
func (d *Document) lookAlike(i int, t task, old *Row) Finding {
	f := Finding{Code: CodeLookAlike, Line: i + 1, Offset: d.lines[i].start, Key: string(d.kinds[i]), Value: t.text,
		Detail: "looks like a Todo and stays narrative: it is in a fence, a comment, front matter or outside the Todo sections"}
	if old == nil {
		return f
	}
	f.TodoID = old.TodoID
	hidden := d.kinds[i] == SpanProse || d.doubtful[i] || d.openEnd >= 0 && i > d.openEnd
	if hidden {
		f.Code, f.Weight = CodeHiddenTodo, Blocking
		f.Detail = "LoopX 0.5.1 lists and changes this Todo, later releases cannot see it: move it into its section"
	}
	return f
}

// mattering are the fields whose meaning may not depend on who reads.
var mattering = []string{"todo_id", "role", "status", "claimed_by", "archive_state"}

// compareRow notes the fields in which the readings disagree about one Todo. Keys that
// 0.5.1 does not know are not a disagreement, nor is the number it counts to.
func (g *Goal) compareRow(later, old *Row) {
	if old == nil {
		return
	}
	a, b := members(later.Record()), members(old.Record())
	if p, title := Priority(Release051, old.Text); p != "" {
		b["priority"], b["title"] = literal(p), literal(title)
	}
	for _, name := range contractFields {
		f := fieldOf(Later, name)
		if bytes.Equal(a[name], b[name]) || name == "index" || f != nil && f.later && name != "role" {
			continue
		}
		if name == "role" && later.Archived {
			continue // 0.5.1 writes no roles into its archive
		}
		weight := Note
		if slices.Contains(mattering, name) {
			weight = Blocking
		}
		g.note(Finding{Code: CodeReadingsDiffer, Weight: weight, TodoID: later.TodoID, Line: later.Line, Key: name,
			Detail: "LoopX 0.5.1 and later releases read this field differently"})
	}
}

package legacy

import (
	"crypto/sha1"
	"encoding/hex"
)

// Listing is what one reading finds in a state file.
type Listing struct {
	Reading Reading
	// Rows are all Todos in file order, archived ones included.
	Rows     []Row
	sections []section
}

// Row is one Todo of a state file.
type Row struct {
	Role     Role   // of its section; of an archived row what its line says
	Archived bool   //
	Section  string // LoopX's source_section: the first heading of the role, or the archive's own
	Index    int    // counted from 1 over all sections of the role
	Line     int    // of its first line, counted from 1

	TodoID  string // "" for an archived row without one
	Derived bool   // the id is LoopX's derivation from place and text, not written down
	Status  string // open, done, blocked, deferred
	Done    bool
	Text    string // compacted, whole

	// Fields are the values of its metadata by key, canonical JSON, private ones
	// (validation commands) included.
	Fields map[string][]byte
	// Tokens are all tokens of its metadata lines in file order.
	Tokens []Token

	parts   []part
	section int // index into Listing.sections
	joined  []int
}

// part is one line that belongs to a row.
type part struct {
	line int
	kind SpanKind
}

// Read finds the Todos. The error is a *SyntaxError: nothing of the file may be used.
func (d *Document) Read(reading Reading) (*Listing, error) {
	if err := d.readable(reading); err != nil {
		return nil, err
	}
	sections, err := d.sections(reading)
	if err != nil {
		return nil, err
	}
	l := &Listing{Reading: reading, sections: sections}
	firstHeading, counts := map[Role]string{}, map[Role]int{}
	for i, s := range sections {
		if _, seen := firstHeading[s.role]; !seen {
			firstHeading[s.role] = s.heading
		}
		from := len(l.Rows)
		d.rows(l, i)
		for r := from; r < len(l.Rows); r++ {
			counts[s.role]++
			l.Rows[r].place(s, firstHeading[s.role], counts[s.role])
		}
	}
	return l, nil
}

// rows appends the Todos of one section. A Todo ends at the next one, at the end of
// the section and at an invisible line; blank and unindented lines do not end it.
func (d *Document) rows(l *Listing, index int) {
	s, open := l.sections[index], false
	for i := s.start + 1; i < s.bodyEnd; i++ {
		text := d.text(i)
		if !d.visible(l.Reading, i) {
			open = false
			continue
		}
		if t, is := parseTask(text); is {
			l.Rows = append(l.Rows, Row{Line: i + 1, Status: t.status(), Text: t.text, Fields: map[string][]byte{},
				parts: []part{{i, SpanTodo}}, section: index})
			open = true
			continue
		}
		if open && indented(text) {
			l.Rows[len(l.Rows)-1].take(l.Reading, i, text)
		}
	}
}

// take adds an indented line to a Todo: metadata, or text behind a blank.
func (r *Row) take(reading Reading, i int, text string) {
	values, seen, ok := parseMetadata(reading, text)
	for t := range seen {
		seen[t].Line = i + 1
	}
	if ok {
		r.parts = append(r.parts, part{i, SpanMetadata})
		for key, value := range values {
			r.Fields[key] = value
		}
		r.Tokens = append(r.Tokens, seen...)
		return
	}
	if strip(text) == "" {
		return
	}
	r.parts = append(r.parts, part{i, SpanContinuation})
	r.Text = compact(r.Text + " " + text)
	if seen != nil {
		r.joined = append(r.joined, i+1)
	}
}

// place completes a row by where it stands.
func (r *Row) place(s section, section string, index int) {
	r.Index, r.Role, r.Section, r.Archived = index, s.role, section, s.role == RoleArchive
	if r.Archived {
		r.Section, r.Role = s.heading, Role(text(r.Fields["role"]))
	}
	if status := text(r.Fields["status"]); status != "" {
		r.Status = status
	}
	r.Done = isDone(r.Status)
	r.settleTokens()
	if r.TodoID = text(r.Fields["todo_id"]); r.TodoID == "" && !r.Archived {
		r.TodoID, r.Derived = deriveID(r.Role, r.Section, r.Index, r.Text), true
	}
}

// settleTokens marks the tokens that a later one of the same key overrides.
func (r *Row) settleTokens() {
	last := map[string]int{}
	for i, t := range r.Tokens {
		if t.Fate != "used" {
			continue
		}
		if before, seen := last[t.Key]; seen {
			r.Tokens[before].Fate = "overridden"
		}
		last[t.Key] = i
	}
}

// deriveID is LoopX's id for a Todo that has none: it moves with place and text.
func deriveID(role Role, section string, index int, text string) string {
	sum := sha1.Sum([]byte(string(role) + "|" + section + "|" + decimal(index) + "|" + cutText(text)))
	return "todo_" + hex.EncodeToString(sum[:])[:12]
}

// RoleKnown reports the role of a row as a record may have it: an archived row
// without one is an agent's when its class is one that only agents have.
func (r *Row) RoleKnown() (Role, bool) {
	if r.Role != RoleUnknown {
		return r.Role, true
	}
	switch text(r.Fields["task_class"]) {
	case "advancement_task", "continuous_monitor", "blocker":
		return RoleAgent, true
	}
	return RoleUnknown, false
}

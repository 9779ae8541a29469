package legacy

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// plan decides what happens to each Todo of the head.
func (e *editor) plan() error {
	for _, record := range e.records {
		m := members(record)
		id := text(m["todo_id"])
		row := e.rows[id]
		if row != nil && bytes.Equal(carried(row.Record()), carried(record)) {
			continue
		}
		private, err := declaration(m, e.known)
		if err != nil {
			return err
		}
		rendered, err := lines(record, private, e.strange(row))
		if err != nil {
			return err
		}
		target := sectionRole(m)
		switch {
		case row == nil:
			e.fresh[target] = append(e.fresh[target], rendered...)
			e.out.Added = append(e.out.Added, id)
		case e.listing.sections[row.section].role != target:
			e.remove(row)
			e.fresh[target] = append(e.fresh[target], rendered...)
			e.out.Moved = append(e.out.Moved, id)
		default:
			e.rewrite(row, rendered, text(m["text"]))
			e.out.Rewritten = append(e.out.Rewritten, id)
		}
	}
	for _, role := range []Role{RoleUser, RoleAgent, RoleArchive} {
		if len(e.fresh[role]) > 0 {
			e.insert(role, e.fresh[role])
		}
	}
	e.dropWatermarks()
	return nil
}

// sectionRole is the kind of section that a record stands in.
func sectionRole(m map[string][]byte) Role {
	if text(m["archive_state"]) == "archive" {
		return RoleArchive
	}
	return Role(text(m["role"]))
}

// strange are the tokens of a row that LoopX would drop when it rewrites the line.
func (e *editor) strange(row *Row) []Token {
	if row == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(row.Tokens), func(t Token) bool { return t.Fate != "unknown" && t.Fate != "invalid" })
}

// cut replaces the content of line i, and with a nil text the line itself.
func (e *editor) cut(i int, text string) {
	l := e.doc.lines[i]
	e.edits = append(e.edits, edit{l.start, l.end, text})
}

func (e *editor) drop(i int) {
	l := e.doc.lines[i]
	e.edits = append(e.edits, edit{l.start, l.next, ""})
}

func (e *editor) remove(row *Row) {
	for _, p := range row.parts {
		e.drop(p.line)
	}
}

// rewrite gives a row new lines where it stands. While its text is the same, the Todo
// line keeps its bullet, its blanks and its folding; only the marker changes.
func (e *editor) rewrite(row *Row, rendered []string, text string) {
	first := row.parts[0].line
	same := row.Text == text
	if same {
		e.remark(first, rendered[0][3])
	} else {
		e.cut(first, rendered[0])
	}
	written := false
	for _, p := range row.parts[1:] {
		switch {
		case p.kind == SpanMetadata && !written:
			e.cut(p.line, rendered[1])
			written = true
		case p.kind == SpanMetadata || !same:
			e.drop(p.line)
		}
	}
	if !written {
		e.after(first, []string{rendered[1]})
	}
}

// remark puts another marker into the box of a Todo line.
func (e *editor) remark(i int, marker byte) {
	l := e.doc.lines[i]
	box := l.start + strings.IndexByte(e.doc.text(i), '[') + 1
	if old := e.doc.src[box]; old != marker && !(old == 'X' && marker == 'x') {
		e.edits = append(e.edits, edit{box, box + 1, string(marker)})
	}
}

// after puts lines behind line i.
func (e *editor) after(i int, texts []string) {
	l, nl := e.doc.lines[i], e.doc.newline()
	if string(e.doc.src[l.end:l.next]) == "\r" && texts[0] == "" {
		texts = texts[1:] // a line feed here would make one line end of two
	}
	block := strings.Join(texts, nl)
	if l.end == l.next { // the last line, without an end
		e.edits = append(e.edits, edit{l.next, l.next, nl + block})
		return
	}
	e.edits = append(e.edits, edit{l.next, l.next, block + nl})
}

// insert puts new Todos at the end of the last section of a role, before the blank
// lines that end it. A role without a section gets one.
func (e *editor) insert(role Role, texts []string) {
	sections := e.listing.sections
	for i := len(sections) - 1; i >= 0; i-- {
		s := sections[i]
		if s.role != role {
			continue
		}
		last := s.bodyEnd - 1
		if open := e.doc.openEnd; open > s.start && open <= last {
			last = open - 1 // behind it nothing would be seen
		}
		for strip(e.doc.text(last)) == "" {
			last--
		}
		if last == s.start {
			texts = append([]string{""}, texts...)
		}
		e.after(last, texts)
		return
	}
	e.create(role, texts)
}

// create makes a section: user before the agents', agent before "## Next Action", the
// archive at the end of the file, and each at the end when there is no such place.
func (e *editor) create(role Role, texts []string) {
	nl := e.doc.newline()
	block := append([]string{"## " + headingOf(role), ""}, texts...)
	if i := e.before(role); i >= 0 {
		at := e.doc.lines[i].start
		e.edits = append(e.edits, edit{at, at, strings.Join(append(block, "", ""), nl)})
		return
	}
	if len(e.doc.lines) == 0 {
		e.edits = append(e.edits, edit{0, 0, strings.Join(append(block, ""), nl)})
		return
	}
	e.after(len(e.doc.lines)-1, append([]string{""}, block...))
}

// before is the line that a new section of a role stands before, -1 for none.
func (e *editor) before(role Role) int {
	if role == RoleUser {
		for _, s := range e.listing.sections {
			if s.role == RoleAgent {
				return s.start
			}
		}
	}
	if role == RoleAgent {
		for i := range e.doc.lines {
			if e.doc.visible(Later, i) && strip(e.doc.text(i)) == "## Next Action" {
				return i
			}
		}
	}
	return -1
}

// dropWatermarks takes away what displayed sections say of themselves: the store they
// name is no longer the authority.
func (e *editor) dropWatermarks() {
	for i := range e.doc.lines {
		if len(e.edits) > 0 && e.doc.visible(Later, i) && hasPrefix(e.doc.text(i), watermarkPrefix) {
			e.drop(i)
		}
	}
}

// apply writes the edited file.
func (e *editor) apply() []byte {
	slices.SortStableFunc(e.edits, func(a, b edit) int {
		// What is put behind a line comes before what is done to the next one.
		return cmp.Or(a.start-b.start, min(a.end-a.start, 1)-min(b.end-b.start, 1))
	})
	var out []byte
	at := 0
	for _, c := range e.edits {
		out = append(append(out, e.doc.src[at:c.start]...), c.text...)
		at = c.end
	}
	return append(out, e.doc.src[at:]...)
}

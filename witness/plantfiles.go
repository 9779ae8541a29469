package witness

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
)

// filePlanting is a way to spoil a copy of legacy files. spoil changes the copy, which it
// may, and returns how the field of the finding has to begin; "" where there is nothing
// to spoil that way.
type filePlanting struct {
	name  string
	check string
	spoil func(f *Files, p *filesPlanter) (field string)
}

var filePlantings = []filePlanting{
	{"todo_dropped", CheckTodos, dropTodo},
	{"todos_swapped", CheckPlaces, swapTodos},
	{"todo_field_altered", CheckTodos, alterField},
	{"todo_text_altered", CheckTodos, alterText},
	{"todo_written_twice", "identity", writeTwice},
	{"lease_file_missing", CheckLeases, loseLease},
	{"lease_field_altered", CheckLeases, alterLease},
}

// filesPlanter spoils copies of legacy files and looks for what was spoilt.
type filesPlanter struct {
	r       *FilesReading
	against view
	cursor  uint64
}

// ProveFiles plants known differences on copies of legacy files and looks for each by
// the same comparison with the head of a store, or with the files themselves where no
// store says the same as they do. stale are the files as they were before the last
// operation, nil where nobody kept them.
func ProveFiles(r *FilesReading, stale *Files, store *Reading) (Proof, error) {
	p := filesPlanter{r: r, against: r.view}
	if store != nil && CompareFiles(r, store).Alike() {
		p.against, p.cursor = viewOf(store.header.head), store.header.cursor
	}
	proof := Proof{Arm: r.Name, Through: authority.Cursor(p.cursor)}
	found, err := p.look(r.files)
	if err != nil {
		return proof, err
	}
	proof.Clean = len(found) == 0
	for _, planting := range filePlantings {
		spoilt := Files{Goal: r.files.Goal, State: r.files.State, Leases: maps.Clone(r.files.Leases)}
		field := planting.spoil(&spoilt, &p)
		if field == "" {
			proof.Unplanted = append(proof.Unplanted, Unplanted{planting.name, "the files have nothing to spoil that way"})
			continue
		}
		found, err := p.look(spoilt)
		if err != nil {
			return proof, err
		}
		proof.Planted = append(proof.Planted, p.judged(planting.name, planting.check, field, found))
	}
	if stale == nil || stale.Same(r.files) {
		proof.Unplanted = append(proof.Unplanted, Unplanted{"stale_files", "no earlier files were kept"})
		return proof, nil
	}
	found, err = p.look(*stale)
	proof.Planted = append(proof.Planted, p.judged("stale_files", "", "", found))
	return proof, err
}

// look reads copies and returns all by which they differ.
func (p *filesPlanter) look(f Files) ([]Finding, error) {
	r, err := ReadFiles(p.r.Name, f)
	var defect *Defect
	if errors.As(err, &defect) {
		return []Finding{{Check: defect.Check, Cursor: defect.Cursor, Field: defect.Field}}, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, check := range compareViews(r.view, p.against, p.cursor) {
		found = append(found, check.Findings...)
	}
	return found, nil
}

// judged looks for the finding that names what was planted; no check is any.
func (p *filesPlanter) judged(name, check, field string, found []Finding) Planted {
	planted := Planted{Name: name, Cursor: authority.Cursor(p.cursor)}
	for _, f := range found {
		if (check == "" || f.Check == check) && strings.HasPrefix(f.Field, field) {
			planted.Found, planted.FoundBy, planted.FoundAt, planted.Field = true, f.Check, f.Cursor, f.Field
			return planted
		}
	}
	return planted
}

// target is a Todo to be spoilt: in the middle of those that are active.
func (p *filesPlanter) target() *todoRow {
	var active []*todoRow
	for _, row := range p.r.rows {
		if !row.archived {
			active = append(active, row)
		}
	}
	if len(active) == 0 {
		return nil
	}
	return active[len(active)/2]
}

// cut gives the lines of a file before, of and behind a Todo.
func (p *filesPlanter) cut(row *todoRow) (before, of, behind string) {
	span := func(from, to int) string {
		part := markdown{lines: p.r.doc.lines[from:to], ends: p.r.doc.ends[from:to]}
		return part.String()
	}
	return span(0, row.from), span(row.from, row.to), span(row.to, len(p.r.doc.lines))
}

func dropTodo(f *Files, p *filesPlanter) string {
	row := p.target()
	if row == nil {
		return ""
	}
	before, _, behind := p.cut(row)
	f.State = []byte(before + behind)
	return place("todos", row.id)
}

func writeTwice(f *Files, p *filesPlanter) string {
	row := p.target()
	if row == nil {
		return ""
	}
	before, of, behind := p.cut(row)
	f.State = []byte(before + ended(of) + of + behind)
	return place("todos", row.id)
}

// ended is a text with a line end.
func ended(s string) string {
	if strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// swapTodos lets two Todos of one section, whose places both sides know, change places.
func swapTodos(f *Files, p *filesPlanter) string {
	for _, role := range []string{"agent", "user"} {
		var both []*todoRow
		for _, row := range p.r.rows {
			if !row.archived && row.role == role && slices.Contains(p.against.order[role], row.id) {
				both = append(both, row)
			}
		}
		if len(both) < 2 {
			continue
		}
		first, second := both[len(both)-2], both[len(both)-1]
		before, a, _ := p.cut(first)
		_, b, behind := p.cut(second)
		part := markdown{lines: p.r.doc.lines[first.to:second.from], ends: p.r.doc.ends[first.to:second.from]}
		f.State = []byte(before + ended(b) + part.String() + a + behind)
		return "places." + role
	}
	return ""
}

// alterField changes the time of a Todo's last update, or else gives it a reason.
func alterField(f *Files, p *filesPlanter) string {
	row := p.target()
	if row == nil {
		return ""
	}
	before, of, behind := p.cut(row)
	field := "updated_at"
	if row.fields[field] == nil {
		field = "reason"
	}
	f.State = []byte(before + ended(of) + "  <!-- loopx:todo " + field + "=planted -->\n" + behind)
	return place("todos", row.id) + "." + field
}

func alterText(f *Files, p *filesPlanter) string {
	row := p.target()
	if row == nil {
		return ""
	}
	before, of, behind := p.cut(row)
	f.State = []byte(before + ended(of) + "  planted\n" + behind)
	return place("todos", row.id) + ".text"
}

// leased is the Todo whose lease is to be spoilt.
func (p *filesPlanter) leased() string {
	ids := slices.Sorted(maps.Keys(p.r.view.leases))
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)/2]
}

func loseLease(f *Files, p *filesPlanter) string {
	id := p.leased()
	if id == "" {
		return ""
	}
	delete(f.Leases, id+".json")
	return place("leases", id)
}

func alterLease(f *Files, p *filesPlanter) string {
	id := p.leased()
	if id == "" {
		return ""
	}
	owner := []byte(quote(p.r.view.leases[id].string("owner")))
	name := id + ".json"
	spoilt := bytes.Replace(f.Leases[name], append([]byte(`"owner": `), owner...), []byte(`"owner": "planted"`), 1)
	if bytes.Equal(spoilt, f.Leases[name]) {
		spoilt = []byte(p.r.view.leases[id].with("owner", newText("planted")).canonical())
	}
	f.Leases[name] = spoilt
	return place("leases", id) + ".owner"
}

package witness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files are the legacy files of a Goal as they lie: its state file with the archive in
// it, and its lease files by name.
type Files struct {
	Goal   string
	State  []byte
	Leases map[string][]byte
}

// LoadFiles reads the legacy files of a Goal. Nobody may write to them meanwhile. What is
// no lease record by its name (locks, residue, folders) is left out.
func LoadFiles(goal, stateFile, leaseDir string) (Files, error) {
	f := Files{Goal: goal, Leases: map[string][]byte{}}
	var err error
	if f.State, err = os.ReadFile(stateFile); err != nil {
		return f, err
	}
	entries, err := os.ReadDir(leaseDir)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		if f.Leases[e.Name()], err = os.ReadFile(filepath.Join(leaseDir, e.Name())); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Same reports whether both say the same, byte for byte.
func (f Files) Same(other Files) bool {
	if string(f.State) != string(other.State) || len(f.Leases) != len(other.Leases) {
		return false
	}
	for name, text := range f.Leases {
		if was, there := other.Leases[name]; !there || string(was) != string(text) {
			return false
		}
	}
	return true
}

// FilesReading is what legacy files say.
type FilesReading struct {
	Name  string // of the arm, in what is reported
	files Files
	doc   *markdown
	rows  []*todoRow // those that a head can have
	view  view
	not   []Unjudged
}

// Unjudged is what this reader cannot judge of legacy files, and why: it is left out on
// both sides of a comparison.
type Unjudged struct{ What, Why string }

// NotJudged lists what was left out.
func (r *FilesReading) NotJudged() []Unjudged { return r.not }

// ReadFiles reads legacy files. What stands against them by themselves is a *Defect.
func ReadFiles(name string, f Files) (*FilesReading, error) {
	r := &FilesReading{Name: name, files: f, doc: newMarkdown(string(f.State)), view: newView(f.Goal)}
	var err error
	if r.view.mode, err = r.doc.handoffMode(); err != nil {
		return nil, err
	}
	rows, err := r.doc.todoRows()
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if err := r.take(row); err != nil {
			return nil, err
		}
	}
	return r, r.takeLeases()
}

// take puts a row into the view, unless it is an archived one that enters no head.
func (r *FilesReading) take(row *todoRow) error {
	id := row.fields["todo_id"].string0()
	role := row.role
	if row.archived {
		role = row.fields["role"].string0()
		switch row.fields["task_class"].string0() {
		case "advancement_task", "continuous_monitor", "blocker": // only agents have these
			if role == "" {
				role = "agent"
			}
		}
		if id == "" || role == "" {
			r.not = append(r.not, Unjudged{"archived row at line " + itoa(row.from+1) + " of arm " + r.Name, "it has no id or no role and enters no head"})
			return nil
		}
	}
	if id == "" {
		return fileDefect("identity", "line "+itoa(row.from+1), "a Todo has no id of its own")
	}
	if r.view.todos[id] != nil {
		return fileDefect("identity", place("todos", id), "the Todo stands there twice")
	}
	record, unsure := row.record(role)
	for _, field := range unsure {
		r.view.leave(id, field)
		r.not = append(r.not, Unjudged{place("todos", id) + "." + field + " of arm " + r.Name, "its spelling is not the plain one, which is all this reader knows"})
	}
	row.id = id
	r.rows = append(r.rows, row)
	r.view.todos[id] = carried(record)
	if !row.archived {
		r.view.active[id] = true
		r.view.order[role] = append(r.view.order[role], id)
	}
	return nil
}

// takeLeases puts those of active Todos into the view: others stay outside of any head.
func (r *FilesReading) takeLeases() error {
	for name, text := range r.files.Leases {
		id := strings.TrimSuffix(name, ".json")
		lease, err := parse(string(text))
		if err != nil {
			return fileDefect("format", place("leases", id), err.Error())
		}
		if lease.string("todo_id") != id || lease.string("goal_id") != r.files.Goal {
			return fileDefect("identity", place("leases", id), "the lease is of another Todo or Goal than its place")
		}
		if r.view.active[id] {
			r.view.leases[id] = lease
		}
	}
	return nil
}

func fileDefect(check, field, detail string) error {
	return &Defect{Check: check, Field: field, Detail: detail}
}

// place names a record of a head.
func place(kind, id string) string { return kind + "[" + id + "]" }

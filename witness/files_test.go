package witness

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// unsureAtMost bounds how many of LoopX's answers this reader may leave open.
const unsureAtMost = 0.1

// Every metadata line is read as LoopX 2.1.1 read it, or said to be beyond this reader.
func TestMetadataIsReadAsLoopXDoes(t *testing.T) {
	lines := fixture.Lines[struct {
		Line   string          `json:"line"`
		Values json.RawMessage `json:"values"`
	}](t, "legacy-2.1.1", "metadata.jsonl")
	open := 0
	for _, a := range lines {
		values, unsure := metadata(a.Line)
		if len(unsure) > 0 {
			open++
			continue
		}
		want := must(t, string(a.Values))
		if want.kind == null {
			want = newObject(nil)
		}
		if got := newObject(values).canonical(); got != want.canonical() && !strings.Contains(want.canonical(), `"material_change_generation":"`) {
			t.Errorf("%q:\n got %s\nwant %s", a.Line, got, want.canonical())
		}
	}
	if len(lines) < 4000 || float64(open) > unsureAtMost*float64(len(lines)) {
		t.Errorf("of %d lines %d are left open", len(lines), open)
	}
}

// Random files, row by row, as LoopX 2.1.1 read them.
func TestDocumentsAreReadAsLoopXDoes(t *testing.T) {
	compared := 0
	for _, a := range fixture.Lines[struct {
		Text  string  `json:"text"`
		Rows  [][]any `json:"rows"`
		Error string  `json:"error"`
	}](t, "legacy-2.1.1", "documents.jsonl") {
		rows, err := newMarkdown(a.Text).todoRows()
		var beyond *Beyond
		if a.Error != "" || errors.As(err, &beyond) {
			continue // LoopX refuses it, or this reader says that it is beyond it
		}
		if err != nil {
			t.Errorf("%q: %v", a.Text, err)
			continue
		}
		compared++
		got, _ := json.Marshal(rowsAsListed(rows))
		want, _ := json.Marshal(listedRows(a.Rows))
		if string(got) != string(want) {
			t.Errorf("%q:\n got %s\nwant %s", a.Text, got, want)
		}
	}
	if compared < 1000 {
		t.Errorf("only %d were compared", compared)
	}
}

// rowsAsListed are role, text, status and id, users' first, archived last.
func rowsAsListed(rows []*todoRow) [][]any {
	listed := [][]any{}
	for _, role := range []string{"user", "agent", "archive"} {
		for _, r := range rows {
			if r.role != role {
				continue
			}
			var id any
			if r.fields["todo_id"] != nil {
				id = r.fields["todo_id"].str
			}
			listed = append(listed, []any{r.text, r.status, id})
		}
	}
	return listed
}

func listedRows(rows [][]any) [][]any {
	listed := [][]any{}
	for _, r := range rows {
		listed = append(listed, []any{r[2], r[3], r[4]})
	}
	return listed
}

// filesOf are the legacy files of a Goal that LoopX 0.5.1 made.
func filesOf(t *testing.T, name string) Files {
	t.Helper()
	root := fixture.Path(t, "legacy", name)
	states, err := filepath.Glob(filepath.Join(root, "project", ".codex", "goals", "*", "ACTIVE_GOAL_STATE.md"))
	if err != nil || len(states) != 1 {
		t.Fatal(states, err)
	}
	goal := filepath.Base(filepath.Dir(states[0]))
	f, err := LoadFiles(goal, states[0], filepath.Join(root, "runtime", "goals", goal, "task-leases"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readFiles(t *testing.T, f Files) *FilesReading {
	t.Helper()
	r, err := ReadFiles("legacy", f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// parsedFile is a JSON file of a fixture.
func parsedFile(t *testing.T, elem ...string) *value {
	t.Helper()
	text, err := os.ReadFile(fixture.Path(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	return must(t, string(text))
}

// What LoopX 0.5.1 listed of its own Goals, Todo by Todo and field by field.
func TestFilesSayWhatLoopXListed(t *testing.T) {
	for _, name := range []string{"bootstrapped", "complex", "crlf", "crlf-after-write", "empty", "recreate", "small", "soft"} {
		r := readFiles(t, filesOf(t, name))
		if mode := parsedFile(t, "legacy", name, "expected", "handoff-mode.json").string("handoff_mode"); r.view.mode != mode {
			t.Errorf("%s: handoff mode %q, LoopX's %q", name, r.view.mode, mode)
		}
		compared := 0
		for _, listed := range parsedFile(t, "legacy", name, "expected", "todo-list.json").elements("todos") {
			id := listed.string("todo_id")
			ours := r.view.todos[id]
			if ours == nil {
				t.Errorf("%s: %s is not read", name, id)
				continue
			}
			compared++
			if got, want := asListed(ours, r.rowOf(id)), asListed(listed, r.rowOf(id)); got.canonical() != want.canonical() {
				path, x, y := apart(got, want)
				t.Errorf("%s: %s%s: %v, LoopX's %v", name, id, path, x, y)
			}
		}
		if compared != len(r.view.active)-archivedIn(r) {
			t.Errorf("%s: LoopX listed %d active Todos, %d are read", name, compared, len(r.view.active))
		}
	}
}

func archivedIn(r *FilesReading) (n int) {
	for id := range r.view.active {
		if r.view.todos[id].string("archive_state") == "archive" {
			n++
		}
	}
	return n
}

func (r *FilesReading) rowOf(id string) *todoRow {
	i := slices.IndexFunc(r.rows, func(t *todoRow) bool { return t.id == id })
	return r.rows[i]
}

// asListed leaves out what docs/legacy.md, section 2, declares to differ from a listing of
// 0.5.1: a guessed class, the cut text, labels like [P12], linked files and digests.
func asListed(record *value, row *todoRow) *value {
	record = carried(record)
	for _, name := range []string{"review_materials", "content_revision", "completion_validation_sha256"} {
		record = record.with(name, nil)
	}
	if row.fields["task_class"] == nil {
		record = record.with("task_class", nil)
	}
	if len([]rune(row.text)) > 500 {
		record = record.with("text", nil).with("title", nil)
	}
	if strings.HasPrefix(row.text, "[P12]") {
		record = record.with("priority", nil).with("title", nil)
	}
	return record
}

// The heads that LoopX 2.1.1 stored of the same files: whole, but for a guessed class.
func TestFilesSayWhatLoopXImported(t *testing.T) {
	for _, name := range []string{"bootstrapped", "complex-roles", "crlf", "crlf-after-write", "empty", "small", "soft"} {
		f := filesOf(t, strings.TrimSuffix(name, "-roles"))
		if before, err := os.ReadFile(fixture.Path(t, "legacy-2.1.1", name) + "/before.md"); err == nil {
			f.State = before
		}
		f.Leases = map[string][]byte{}
		leases, err := filepath.Glob(fixture.Path(t, "legacy-2.1.1", name) + "/leases/*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range leases {
			if f.Leases[filepath.Base(path)], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		r := readFiles(t, f)
		head := viewOf(parsedFile(t, "legacy-2.1.1", name, "imported.json"))
		for id, todo := range head.todos {
			if row := r.view.todos[id]; row != nil && row.member("task_class") == nil {
				head.todos[id] = todo.with("task_class", nil)
			}
		}
		for _, check := range compareViews(r.view, head, 0) {
			if check.Name == CheckMode { // an import sets the mode that it was asked for
				continue
			}
			if check.Total > 0 || check.Compared == 0 {
				t.Errorf("%s: %+v", name, check)
			}
		}
	}
}

// Every difference that is planted in copies of LoopX's own files is found where it was
// made, against the files themselves.
func TestFindsWhatItPlantsInFiles(t *testing.T) {
	for _, name := range []string{"complex", "crlf", "small", "soft", "recreate"} {
		f := filesOf(t, name)
		stale := f
		stale.State = []byte(strings.ReplaceAll(string(f.State), "status=open", "status=blocked"))
		proof, err := ProveFiles(readFiles(t, f), &stale, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !proof.Holds() || len(proof.Planted)+len(proof.Unplanted) != len(filePlantings)+1 {
			t.Errorf("%s: %+v", name, proof)
		}
		if name == "complex" && len(proof.Unplanted) > 0 {
			t.Errorf("not planted: %+v", proof.Unplanted)
		}
	}
}

// A verifier of files that looks away is caught: without the findings of its check no
// planted difference counts as found.
func TestABlindVerifierOfFilesProvesNothing(t *testing.T) {
	r := readFiles(t, filesOf(t, "complex"))
	p := &filesPlanter{r: r, against: r.view}
	for _, planting := range filePlantings {
		spoilt := Files{Goal: r.files.Goal, State: r.files.State, Leases: maps.Clone(r.files.Leases)}
		field := planting.spoil(&spoilt, p)
		found, err := p.look(spoilt)
		if err != nil || field == "" {
			t.Fatalf("%s: %q, %v", planting.name, field, err)
		}
		blind := slices.DeleteFunc(found, func(f Finding) bool { return f.Check == planting.check })
		if p.judged(planting.name, planting.check, field, blind).Found {
			t.Errorf("%s counts as found without the check %s", planting.name, planting.check)
		}
	}
}

// What stands against files by themselves is named.
func TestDefectsOfFilesAreNamed(t *testing.T) {
	const head = "## Agent Todo\n- [ ] One\n  <!-- loopx:todo todo_id=todo_one -->\n"
	for name, c := range map[string]struct {
		state, lease string
		check, field string
	}{
		"an id of its own":     {"## Agent Todo\n- [ ] One\n", "", "identity", "line 2"},
		"twice":                {head + head[len("## Agent Todo\n"):], "", "identity", "todos[todo_one]"},
		"a mode":               {"---\nhandoff_mode: firm\n---\n" + head, "", "format", "handoff_mode"},
		"front matter":         {"---\nhandoff_mode: legacy\n" + head, "", "format", "front matter"},
		"a region":             {strings.Replace(head, "\n", "\n<!-- loopx:todo-region-v0 role=agent begin -->\n", 1), "", "format", "region"},
		"a lease's place":      {head, `{"goal_id":"g","todo_id":"todo_two"}`, "identity", "leases[todo_one]"},
		"a lease's Goal":       {head, `{"goal_id":"h","todo_id":"todo_one"}`, "identity", "leases[todo_one]"},
		"a lease that is none": {head, `{`, "format", "leases[todo_one]"},
	} {
		f := Files{Goal: "g", State: []byte(c.state), Leases: map[string][]byte{}}
		if c.lease != "" {
			f.Leases["todo_one.json"] = []byte(c.lease)
		}
		_, err := ReadFiles("legacy", f)
		var defect *Defect
		if !errors.As(err, &defect) || defect.Check != c.check || defect.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the plain reader does not know is left out by name on both sides, and a file that
// mixes generated sections with others is beyond it.
func TestWhatIsBeyondTheReaderIsNamed(t *testing.T) {
	const todo = "- [ ] One\n  <!-- loopx:todo todo_id=todo_one task_repository=git@example.com:a/b.git reason=%FF -->\n"
	r := readFiles(t, Files{Goal: "g", State: []byte("## Agent Todo\n" + todo + "## Completed Work Archive\n- [x] Two\n  <!-- loopx:todo todo_id=todo_two -->\n")})
	var what []string
	for _, not := range r.NotJudged() {
		what = append(what, not.What)
	}
	if want := []string{"todos[todo_one].reason of arm legacy", "todos[todo_one].task_repository of arm legacy", "archived row at line 5 of arm legacy"}; !slices.Equal(what, want) {
		t.Errorf("%q, want %q", what, want)
	}
	head := viewOf(must(t, `{"goal_id":"g","handoff_mode":"legacy","leases":[],"todos":[{"archive_state":"active","done":false,"index":1,"role":"agent","status":"open",`+
		`"task_repository":"git:example.com/a/b","text":"One","todo_id":"todo_one"}]}`))
	for _, check := range compareViews(r.view, head, 7) {
		if check.Total > 0 {
			t.Errorf("%+v", check)
		}
	}
	head.todos["todo_one"] = head.todos["todo_one"].with("claimed_by", newText("bob"))
	if found := compareViews(r.view, head, 7)[1].Findings; len(found) != 1 || found[0].Field != "todos[todo_one].claimed_by" || found[0].Cursor != 7 || found[0].Left != "absent" {
		t.Errorf("%+v", found)
	}
	_, err := ReadFiles("legacy", Files{Goal: "g", State: []byte("## Agent Todo\n<!-- loopx:todo-region-v0 role=agent begin -->\n<!-- loopx:todo-region-v0 role=agent end -->\n## User Todo\n- [ ] Two\n")})
	var beyond *Beyond
	if !errors.As(err, &beyond) {
		t.Errorf("%v", err)
	}
}

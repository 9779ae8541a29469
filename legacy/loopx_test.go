package legacy

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// declared are the fields in which our record of a Todo differs from what LoopX's
// command line listed, and why. docs/legacy.md has the same table.
var declared = []struct {
	field string
	holds func(row *Row, ours, listed record) bool
}{
	// A class that no metadata gives is guessed from the text: a view.
	{"task_class", func(row *Row, ours, _ record) bool {
		return row.Fields["task_class"] == nil && ours["task_class"] == nil
	}},
	// Derived at read time, with a clock.
	{"resume_condition", func(row *Row, ours, _ record) bool {
		return row.Fields["resume_when"] != nil && ours["resume_condition"] == nil
	}},
	{"resume_ready", func(row *Row, ours, _ record) bool {
		return row.Fields["resume_when"] != nil && ours["resume_ready"] == nil
	}},
	// 0.5.1 lists the first 499 characters; a record keeps all.
	{"text", wholeText}, {"title", wholeText}, {"title", unlabelled},
	// [P12] is a label for 0.5.1 only.
	{"priority", unlabelled},
	// The digest stands for the declaration; 0.5.1 had no such fields.
	{"completion_validation_sha256", validated}, {"completion_validation_revision", validated},
	{"completion_validation_revision_history", validated},
	// Not in the record contract: absolute paths of linked files.
	{"review_materials", func(_ *Row, ours, _ record) bool { return ours["review_materials"] == nil }},
	// 2.1.1 adds a digest of the view.
	{"content_revision", func(_ *Row, ours, _ record) bool { return ours["content_revision"] == nil }},
}

func wholeText(row *Row, ours, listed record) bool {
	text, _ := ours["text"].(string)
	cut, _ := listed["text"].(string)
	return len([]rune(text)) > 500 && cutText(text) == cut
}

func unlabelled(row *Row, ours, listed record) bool {
	p, _ := listed["priority"].(string)
	label, _ := Priority(Release051, row.Text)
	return ours["priority"] == nil && p == "P12" && label == p
}

func validated(row *Row, _, _ record) bool { return row.Fields["validation_timeout_seconds"] != nil }

// holdAgainst compares the active rows of a listing with records of LoopX.
func holdAgainst(t *testing.T, l *Listing, listed []record) {
	t.Helper()
	type place struct {
		role  any
		index any
	}
	want := map[place]record{}
	for _, r := range listed {
		want[place{r["role"], r["index"]}] = r
	}
	for i := range l.Rows {
		row := &l.Rows[i]
		if row.Archived {
			continue
		}
		at := place{string(row.Role), float64(row.Index)}
		if want[at] == nil {
			t.Errorf("%s: LoopX lists no %v", row.TodoID, at)
			continue
		}
		ours := asRecord(t, row.Record())
		for _, name := range differences(ours, want[at]) {
			if !isDeclared(name, row, ours, want[at]) {
				t.Errorf("%s %s: ours %v, LoopX's %v", row.TodoID, name, ours[name], want[at][name])
			}
		}
		delete(want, at)
	}
	for at, r := range want {
		t.Errorf("%v: LoopX lists %v, we read nothing", at, r["todo_id"])
	}
}

func isDeclared(field string, row *Row, ours, listed record) bool {
	for _, d := range declared {
		if d.field == field && d.holds(row, ours, listed) {
			return true
		}
	}
	return false
}

// TestWhatLoopX051Listed: the reading Release051 finds the Todos that the command
// line of 0.5.1 listed, field by field.
func TestWhatLoopX051Listed(t *testing.T) {
	for _, goal := range goals {
		t.Run(goal, func(t *testing.T) {
			expected := decode[struct{ Todos []record }](t, fixtures+"legacy/"+goal+"/expected/todo-list.json")
			holdAgainst(t, mustRead(t, stateOf(t, goal), Release051), expected.Todos)
			mode := decode[struct {
				Mode string `json:"handoff_mode"`
			}](t, fixtures+"legacy/"+goal+"/expected/handoff-mode.json")
			if got, ok := Parse(stateOf(t, goal)).HandoffMode(Release051); !ok || got != mode.Mode {
				t.Errorf("handoff mode %q, LoopX's %q", got, mode.Mode)
			}
		})
	}
}

// TestModelProjection: the reading Later finds what the model beside the fixtures
// expects of a later LoopX, with whole texts; the archive as well.
func TestModelProjection(t *testing.T) {
	for _, goal := range goals {
		t.Run(goal, func(t *testing.T) {
			model := decode[struct {
				Full struct {
					Mode     string `json:"handoff_mode"`
					Todos    []record
					Archived []record `json:"archived_in_markdown"`
				} `json:"full_text"`
			}](t, fixtures+"legacy/"+goal+"/expected/model-projection.json")
			l := mustRead(t, stateOf(t, goal), Later)
			holdAgainst(t, l, model.Full.Todos)
			archived := slices.DeleteFunc(slices.Clone(l.Rows), func(r Row) bool { return !r.Archived })
			if len(archived) != len(model.Full.Archived) {
				t.Fatalf("%d archived rows, the model has %d", len(archived), len(model.Full.Archived))
			}
			for i := range archived {
				ours := asRecord(t, archived[i].Record())
				for _, name := range differences(ours, model.Full.Archived[i]) {
					if name != "role" && !isDeclared(name, &archived[i], ours, model.Full.Archived[i]) {
						t.Errorf("archived %s %s: ours %v, the model's %v", archived[i].TodoID, name, ours[name], model.Full.Archived[i][name])
					}
				}
			}
		})
	}
}

// TestWhatLoopX211Imported: the records are those that LoopX's own import stored.
func TestWhatLoopX211Imported(t *testing.T) {
	for _, name := range imported(t) {
		t.Run(name, func(t *testing.T) {
			stored := decode[struct{ Todos []record }](t, fixtures+"legacy-2.1.1/"+name+"/imported.json").Todos
			l := mustRead(t, beforeImport(t, name), Later)
			want := map[any]record{}
			for _, r := range stored {
				want[r["todo_id"]] = r
			}
			if len(want) != len(l.Rows) {
				t.Errorf("%d rows, LoopX stored %d", len(l.Rows), len(want))
			}
			for i := range l.Rows {
				ours := asRecord(t, l.Rows[i].Record())
				for _, field := range differences(ours, want[l.Rows[i].TodoID]) {
					if !isDeclared(field, &l.Rows[i], ours, want[l.Rows[i].TodoID]) {
						t.Errorf("%s %s: ours %v, LoopX's %v", l.Rows[i].TodoID, field, ours[field], want[l.Rows[i].TodoID][field])
					}
				}
			}
		})
	}
}

// imported are the Goals that LoopX 2.1.1 imported itself.
func imported(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(fixtures + "legacy-2.1.1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// beforeImport is the state file that LoopX 2.1.1 imported.
func beforeImport(t testing.TB, name string) []byte {
	t.Helper()
	switch {
	case name == "complex-roles":
		return readFile(t, fixtures+"legacy-2.1.1/"+name+"/before.md")
	case strings.Contains(name[:1], "0") || strings.Contains(name[:1], "1") || strings.Contains(name[:1], "2"):
		return caseState(t, name)
	}
	return stateOf(t, name)
}

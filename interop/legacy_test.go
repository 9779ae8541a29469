//go:build interop

package interop

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// filesGoal is a Goal in the legacy files: LoopX 0.5.1's small one under the Goal id and
// the agents of the other fixtures, in hard_lease mode, without the traces of 0.5.1.
type filesGoal struct {
	goal
	accepted []string // what every command back has to accept
}

func newFilesGoal(t *testing.T) *filesGoal {
	t.Helper()
	g := newGoal(t, filepath.Join("legacy", "small"))
	for _, parent := range []string{"project/.codex/goals", "runtime/goals"} {
		must(t, os.Rename(filepath.Join(g.root, parent, "demo-small"), filepath.Join(g.root, parent, goalID)))
	}
	f := &filesGoal{goal: g}
	renamed := strings.NewReplacer("demo-small", goalID, "alice", "agent-north", "bob", "agent-south",
		"adapter_id: demo-small\n", "adapter_id: "+goalID+"\nhandoff_mode: hard_lease\n")
	for _, path := range []string{g.registry(), f.state(), filepath.Join(g.runtime(), "registry.global.json"), f.leaseFile("todo_fce99541009e")} {
		f.put(path, renamed.Replace(f.read(path)))
	}
	f.put(f.state(), strings.Replace(f.read(f.state()), "adapter_id: harbour-crane\n", "adapter_id: harbour-crane\nhandoff_mode: hard_lease\n", 1))
	f.edit(f.leaseFile("todo_fce99541009e"), `"status": "active"`, `"status": "released"`)
	must(t, os.Remove(f.state()+".lock"))
	must(t, os.Remove(f.leaseFile(".task-leases.lock")))
	for _, hold := range []string{"receipts_not_replayable", "legacy_read_only_in_loopx_2_1"} {
		f.accepted = append(f.accepted, "--accept", hold+":"+goalID)
	}
	return f
}

func (f *filesGoal) state() string {
	return filepath.Join(f.root, "project", ".codex", "goals", goalID, "ACTIVE_GOAL_STATE.md")
}

func (f *filesGoal) leaseFile(id string) string {
	if !strings.HasPrefix(id, ".") {
		id += ".json"
	}
	return filepath.Join(f.runtime(), "goals", goalID, "task-leases", id)
}

func (f *filesGoal) read(path string) string {
	f.t.Helper()
	text, err := os.ReadFile(path)
	must(f.t, err)
	return string(text)
}

func (f *filesGoal) put(path, text string) {
	f.t.Helper()
	must(f.t, os.WriteFile(path, []byte(text), 0o600))
}

func (f *filesGoal) edit(path, from, to string) {
	f.t.Helper()
	text := f.read(path)
	if strings.Count(text, from) != 1 {
		f.t.Fatalf("%s has not one %q", filepath.Base(path), from)
	}
	f.put(path, strings.Replace(text, from, to, 1))
}

// prose are the lines of the state file that are neither Todo nor metadata, nor what a
// display adds to its sections, blank ones left out.
func (f *filesGoal) prose() []string {
	f.t.Helper()
	var prose []string
	for line := range strings.Lines(f.read(f.state())) {
		machine := strings.TrimSpace(line) == "" || strings.HasPrefix(line, "- [") || strings.HasPrefix(strings.TrimSpace(line), "<!-- loopx:todo") || strings.HasPrefix(line, "updated_at:")
		if !machine {
			prose = append(prose, line)
		}
	}
	return prose
}

// filesFields are those of a listed Todo in which files and store differ: its place, what
// Markdown has no room for, and what LoopX derives (docs/legacy.md 2 and 6).
var filesFields = []string{"index", "source_section", "schema_version", "created_by", "completion_result", "handoff_note",
	"resume_condition", "resume_ready", "content_revision", "review_materials"}

// todos are the listed Todos by id, without the fields in which files and store differ.
func todosOf(t testing.TB, list answer) map[string]any {
	t.Helper()
	found := map[string]any{}
	todos, _ := list.done(t).at("todos").([]any)
	for _, todo := range todos {
		fields := maps.Clone(todo.(map[string]any))
		for _, name := range filesFields {
			delete(fields, name)
		}
		maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil || reflect.DeepEqual(value, []any{}) })
		found[fields["todo_id"].(string)] = fields
	}
	return found
}

// sameTodos fails unless LoopX listed the same Todos twice, field by field.
func sameTodos(t testing.TB, before, after answer) {
	t.Helper()
	b, a := todosOf(t, before), todosOf(t, after)
	for _, id := range slices.Sorted(maps.Keys(b)) {
		if !reflect.DeepEqual(b[id], a[id]) {
			t.Errorf("%s was listed as\n%v, is\n%v", id, b[id], a[id])
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d Todos were listed, %d are", len(b), len(a))
	}
}

// readsFiles fails unless LoopX reads the legacy files.
func (f *filesGoal) readsFiles() answer {
	f.t.Helper()
	list := f.list().done(f.t)
	if list.is("source") != "markdown_active_state" || list.is("authority_read", "cursor") != "" {
		f.t.Errorf("LoopX does not read the files: %s", list.text)
	}
	return list
}

func (f *filesGoal) into(target string) {
	f.t.Helper()
	frozen := f.do("freeze", "--to", target, "--writers-stopped")
	if probe := frozen.is("facts", "result", "probe"); !strings.HasPrefix(probe, "loopx: ") {
		f.t.Errorf("freeze was proved by %q", probe)
	}
	for _, step := range []string{"import", "compare", "promote"} {
		f.do(step)
	}
}

func (f *filesGoal) back() {
	f.t.Helper()
	f.do(append(append([]string{"rollback"}, f.accepted...), "--owner", "ops", "--reason", "known")...)
}

// TestInteropFilesThereAndBack takes a Goal out of its files, has LoopX work on it, brings
// it back, and takes it there again: LoopX reads the files as exactly the head, prose keeps
// its bytes, and what was answered once is answered again.
func TestInteropFilesThereAndBack(t *testing.T) {
	t.Parallel()
	for target, authority := range map[string]string{"sqlite:": "sqlite_v0", "file:": "file_v0"} {
		t.Run(authority, func(t *testing.T) {
			t.Parallel()
			newFilesGoal(t).thereAndBack(target, authority)
		})
	}
}

func (f *filesGoal) thereAndBack(target, authority string) {
	f.t.Helper()
	before, prose := f.readsFiles(), f.prose()
	f.add("too-early").refused(f.t, "canonical_authority_required")
	f.into(target)
	list := f.list()
	readBy(f.t, list, authority)
	sameTodos(f.t, before, list)
	f.worksOnFiles()
	first := f.addsOnce("on-the-target")
	for i := range 4 {
		f.add(fmt.Sprintf("more-%d", i)).done(f.t)
	}
	list, history := f.list(), f.export()
	f.sound(target)

	f.back()
	sameTodos(f.t, list, f.readsFiles())
	if got := f.prose(); !slices.Equal(got, prose) {
		f.t.Errorf("the prose is now %q, was %q", got, prose)
	}
	if !strings.Contains(f.read(f.state()), "todo-section-projection-v0") {
		f.t.Error("LoopX's display was current and the way back wrote over it")
	}
	f.add("too-late").refused(f.t, "canonical_authority_required")
	f.migrate("status").done(f.t)
	f.migrate("inspect").done(f.t)

	f.into(target)
	history.begins(f.t, f.export())
	sameTodos(f.t, list, f.list())
	if got, want := len(f.export().transactions), len(history.transactions)+1; got != want {
		f.t.Errorf("%d transactions, want the old ones and one for the time between: %d", got, want)
	}
	f.replays(first)
	f.addsOnce("second-time")
	f.sound(target)
}

// worksOnFiles uses every verb that writes, on Todos that the files had.
func (f *filesGoal) worksOnFiles() {
	f.t.Helper()
	f.leases("todo_fce99541009e")
	f.loopx("todo", "update", "--todo-id", "todo_cb537be46f07", "--agent-id", "agent-north", "--note", "50% | a=b <c>").done(f.t)
	f.add("to-complete").done(f.t)
	f.completes(f.todoOf("to-complete"))
}

// todoOf is the id of the Todo that an operation of add made.
func (f *filesGoal) todoOf(operation string) string {
	f.t.Helper()
	for id, todo := range todosOf(f.t, f.list()) {
		if text, _ := todo.(map[string]any)["text"].(string); strings.HasSuffix(text, "Work for "+operation) {
			return id
		}
	}
	f.t.Fatalf("no Todo of %s", operation)
	return ""
}

// TestInteropFilesReleasesRaceTheFreeze: what LoopX 2.1.1 still writes to a Goal in files
// is the release of a lease. Each one that it was told of is in the import, and every
// other one was refused.
func TestInteropFilesReleasesRaceTheFreeze(t *testing.T) {
	t.Parallel()
	f := newFilesGoal(t)
	todos := []string{"todo_eceaa0620298", "todo_ea9f53d270de", "todo_cb537be46f07", "todo_846ffcda7abf", "todo_f8fd110dbe71"}
	for _, id := range todos {
		lease := strings.NewReplacer("todo_fce99541009e", id, `"released"`, `"active"`, "2026-12-01T15:47:19Z", "2026-11-30T15:48:19Z").Replace(f.read(f.leaseFile("todo_fce99541009e")))
		f.put(f.leaseFile(id), lease)
	}
	held := todos[len(todos)-1]
	release := func(id string) answer {
		return f.loopx("task-lease", "release", "--todo-id", id, "--owner", "agent-north", "--idempotency-key", "small-run-1", "--expected-version", "1")
	}
	answers := map[string]answer{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, id := range todos[:len(todos)-1] {
			answers[id] = release(id)
		}
	}()
	f.freezeUnderFire(todos)
	<-ended
	answers[held] = release(held)
	for _, step := range []string{"import", "compare", "promote"} {
		f.do(step)
	}
	released := 0
	for _, id := range todos {
		a := f.loopx("task-lease", "inspect", "--todo-id", id).done(t)
		status, done := a.is("lease", "status"), answers[id].exit == 0
		if done != (status == "released") || !done && status != "active" {
			t.Errorf("the release of %s ended with %d, and the store has it as %q: %s", id, answers[id].exit, status, answers[id].text)
		}
		if done {
			released++
		}
	}
	if answers[held].exit == 0 {
		t.Errorf("a release behind the fence was done: %s", answers[held].text)
	}
	t.Logf("%d releases were done, %d refused", released, len(todos)-released)
}

// freezeUnderFire freezes, as often as it takes: while leases are released the plan
// changes, and the freeze says so.
func (f *filesGoal) freezeUnderFire(todos []string) {
	f.t.Helper()
	for range 60 {
		words := []string{"freeze", "--to", "sqlite:", "--writers-stopped", "--owner", "ops", "--reason", "expired"}
		for _, id := range todos {
			if strings.Contains(f.read(f.leaseFile(id)), `"active"`) {
				words = append(words, "--accept", "lease_expired_still_active:"+id)
			}
		}
		a := f.migrate(words...)
		list, _ := a.at("next", "argv").([]any)
		if a.exit == 0 && len(list) > 0 {
			var argv []string
			for _, word := range list {
				argv = append(argv, word.(string))
			}
			a = command(f.t, nil, argv...)
		}
		switch {
		case a.exit == 0:
			return
		case a.exit != 2 && a.exit != 3 && a.exit != 5 && a.exit != 7:
			f.t.Fatalf("the freeze ended with %d: %s", a.exit, a.text)
		}
	}
	f.t.Fatal("no freeze went through")
}

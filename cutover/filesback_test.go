package cutover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// backToFiles accepts what every rollback to the files has to be accepted for.
func backToFiles(more ...manifest.Accepted) cutover.Request {
	r := onlyRollback()
	for _, hold := range []string{"receipts_not_replayable", "legacy_read_only_in_loopx_2_1"} {
		r.Accept = append(r.Accept, manifest.Accepted{Hold: hold, Record: filesGoal, Owner: "ops", Reason: "known"})
	}
	r.Accept = append(r.Accept, more...)
	return r
}

// head is a head as encoding/json reads it.
type head map[string]any

func (h head) records(list string) map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, item := range h[list].([]any) {
		record := item.(map[string]any)
		found[record["todo_id"].(string)] = record
	}
	return found
}

// mutate commits n changes, one after the other, onto whatever store a commit function is
// of: claims, status, texts, new Todos, archiving, leases that go up in version and epoch.
func (r *filesRig) mutate(s cutover.History, name string, n int) {
	r.Helper()
	for i := range n {
		now, err := s.Load(context.Background())
		if err != nil {
			r.Fatal(err)
		}
		var h head
		if err := json.Unmarshal(now.Projection, &h); err != nil {
			r.Fatal(err)
		}
		h.change(name, i)
		id := fmt.Sprintf("%s-%d", name, i)
		_, err = s.Commit(context.Background(), authority.CommitRequest{Expected: now.Revision, OperationID: id, Projection: fixture.Canonical(map[string]any(h)),
			Events: []byte(`[{"schema_version":"case_event_v0","operation_id":"` + id + `"}]`), Receipts: []byte(`[{"operation_id":"` + id + `"}]`)})
		if err != nil {
			r.Fatal(err)
		}
	}
}

func (h head) change(name string, i int) {
	todos := h.records("todos")
	todo := todos["todo_fce99541009e"]
	switch i % 8 {
	case 0:
		todo["claimed_by"] = fmt.Sprintf("agent-%d", i)
	case 1:
		todo["text"] = fmt.Sprintf("[P0] Implement the parser, part %d – ✓ <!-- x -->", i)
		todo["title"] = fmt.Sprintf("Implement the parser, part %d – ✓ <!-- x -->", i)
	case 2:
		todo = todos["todo_cb537be46f07"]
		todo["status"], todo["done"], todo["evidence"] = "done", true, "50% | a=b, <c> --> Ü"
	case 3:
		todo = todos["todo_cb537be46f07"]
		todo["status"], todo["done"], todo["archive_state"] = "done", true, "archive"
	case 4:
		todo = todos["todo_cb537be46f07"]
		todo["status"], todo["done"], todo["archive_state"] = "blocked", false, "active"
	case 5:
		id := fmt.Sprintf("todo_%s_%03d", name, i)
		todos[id] = map[string]any{"schema_version": "todo_item_v0", "todo_id": id, "role": []string{"user", "agent"}[i%2], "status": "open", "done": false,
			"text": "Made in the store", "archive_state": "active", "source_section": "Agent Todo", "task_class": "advancement_task"}
	case 6:
		todo["note"] = fmt.Sprintf("note %d", i)
	case 7:
		lease := h.records("leases")["todo_fce99541009e"]
		lease["version"], lease["lease_epoch"] = lease["version"].(float64)+2, lease["lease_epoch"].(float64)+1
		lease["owner"], lease["idempotency_key"] = "bob", fmt.Sprintf("run-%d", i)
	}
	var list []any
	for _, id := range slices.Sorted(keys(todos)) {
		list = append(list, todos[id])
	}
	h["todos"] = list
	model := h["todo_read_model"].(map[string]any)
	model["todo_count"], model["records_sha256"] = len(list), fixture.SHA256(fixture.Canonical(list))
}

func keys(m map[string]map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// proseOf are the lines of a state file that are neither Todo nor metadata.
func proseOf(state []byte) []string {
	var prose []string
	for line := range strings.Lines(string(state)) {
		if !strings.HasPrefix(line, "- [") && !strings.HasPrefix(line, "  <!-- loopx:todo") {
			prose = append(prose, line)
		}
	}
	return prose
}

// readsAs fails unless the files on disk say exactly what a head says, Todo by Todo in
// every field that Markdown has, and lease by lease in all.
func (r *filesRig) readsAs(want authority.Canonical) {
	r.Helper()
	files, err := legacy.Load(r.flow.Place, r.state(), nil)
	if err != nil {
		r.Fatal(err)
	}
	projection, err := legacy.Inspect(files, r.flow.Clock()).Projection()
	if err != nil {
		r.Fatal(err)
	}
	var got, wanted head
	if err := errors.Join(json.Unmarshal(projection, &got), json.Unmarshal(want, &wanted)); err != nil {
		r.Fatal(err)
	}
	if g, w := fixture.Canonical(got["leases"]), fixture.Canonical(wanted["leases"]); !bytes.Equal(g, w) {
		r.Errorf("leases %s, want %s", g, w)
	}
	gotTodos, wantTodos := got.records("todos"), wanted.records("todos")
	if len(gotTodos) != len(wantTodos) {
		r.Errorf("%d Todos, want %d", len(gotTodos), len(wantTodos))
	}
	for id, todo := range wantTodos {
		for _, placed := range []string{"index", "source_section"} {
			delete(todo, placed)
			delete(gotTodos[id], placed)
		}
		if g, w := fixture.Canonical(gotTodos[id]), fixture.Canonical(todo); !bytes.Equal(g, w) {
			r.Errorf("Todo %s is\n%s, want\n%s", id, g, w)
		}
	}
}

// There and back with forty changes in between, and there again: the files say what the
// head said, prose keeps its bytes, and every old receipt is in the second store.
func TestFilesThereAndBack(t *testing.T) {
	r := newFilesRig(t)
	prose := proseOf(r.read(r.state()))
	var operations []string
	before := r.leaseNow("todo_fce99541009e")
	for round := range 2 {
		r.forward()
		s := r.sqlite(cutover.AccessWrite)
		r.mutate(s, fmt.Sprintf("round%d", round), 40)
		last, err := s.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		view, err := s.View(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		all, err := view.Operations(context.Background())
		if err = errors.Join(err, view.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(all[:len(operations)], operations) || len(all) != len(operations)+41 {
			t.Fatalf("%d operations begin with other ones than the %d before", len(all), len(operations))
		}
		operations = all
		result := r.do(backToFiles())
		if result.Facts["exported_transactions"] != "40" || result.Facts["archive"] == "" {
			t.Errorf("%v", result.Facts)
		}
		r.authority(authority.KindLegacy)
		r.readsAs(last.Projection)
		lease := r.leaseNow("todo_fce99541009e")
		if lease.Version <= before.Version || lease.Epoch <= before.Epoch {
			t.Errorf("round %d: the lease was %+v and is %+v", round, before, lease)
		}
		before = lease
		if got := proseOf(r.read(r.state())); !slices.Equal(without(got, "## Completed Work Archive\n", "\n"), without(prose, "## Completed Work Archive\n", "\n")) {
			t.Errorf("prose is %q, was %q", got, prose)
		}
		if _, err := os.Stat(r.flow.Place.WriterFence()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the writer fence: %v", err)
		}
	}
	if proof, err := r.flow.ProveRecord(context.Background()); err != nil || proof.Sides[0].Problem != "" {
		t.Errorf("%+v, %v", proof.Sides, err)
	}
}

// counters are what of a lease only ever goes up.
type counters struct {
	Version int `json:"version"`
	Epoch   int `json:"lease_epoch"`
}

func (r *filesRig) leaseNow(id string) (c counters) {
	r.Helper()
	if err := json.Unmarshal(r.read(r.lease(id)), &c); err != nil {
		r.Fatal(err)
	}
	return c
}

func without(lines []string, drop ...string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(drop, line) })
}

// Prose that is written while the store is the authority comes along; an edit that cannot
// is held, and when it is accepted the edited file is kept in the migration's folder.
func TestFilesEditedAfterPromotion(t *testing.T) {
	r := newFilesRig(t)
	r.forward()
	r.edit(r.state(), "- Nothing yet.", "- Prose of after the promotion.")
	s := r.sqlite(cutover.AccessWrite)
	r.mutate(s, "a", 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r.refused(onlyRollback(), cutover.KindRefused, "legacy_read_only_in_loopx_2_1")
	r.do(backToFiles())
	if !bytes.Contains(r.read(r.state()), []byte("- Prose of after the promotion.\n")) {
		t.Errorf("the prose is lost:\n%s", r.read(r.state()))
	}
	r.forward()
	r.edit(r.state(), "todo_id=todo_fce99541009e", "todo_id=todo_of_nobody")
	r.edit(r.state(), "Small goal\n\n", "Another goal\n\n")
	refusal := r.refused(backToFiles(), cutover.KindRefused, "state_file_edited")
	r.do(backToFiles(manifest.Accepted{Hold: refusal.Holds[0].Code, Record: refusal.Holds[0].Record, Owner: "ops", Reason: "a stray edit"}))
	r.authority(authority.KindLegacy)
	if bytes.Contains(r.read(r.state()), []byte("todo_of_nobody")) {
		t.Error("the stray edit came back")
	}
	kept, err := filepath.Glob(filepath.Join(r.flow.Folder.Frozen(r.manifest().MigrationID), "before-rollback-*.json"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v %v", kept, err)
	}
	if before, err := legacy.DecodeKept(r.read(kept[0])); err != nil || !bytes.Contains(before.Files.State, []byte("todo_of_nobody")) {
		t.Errorf("the edited file was not kept: %v", err)
	}
}

// A rollback that died behind the fence is taken back, with every commit, or finished.
func TestFilesUndoAndResume(t *testing.T) {
	r := newFilesRig(t)
	r.forward()
	s := r.sqlite(cutover.AccessWrite)
	r.mutate(s, "a", 8)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := r.read(r.state())
	good := r.flow.Probes
	r.flow.Probes = broken
	if _, err := r.try(backToFiles()); cutover.AsRefusal(err).Kind != cutover.KindUnproved {
		t.Fatalf("a rollback without a probe: %v", err)
	}
	r.flow.Probes = good
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindSQLite)
	if !bytes.Equal(before, r.read(r.state())) {
		t.Error("the state file changed")
	}
	s = r.sqlite(cutover.AccessWrite)
	r.mutate(s, "b", 8)
	last, err := s.Load(context.Background())
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	r.flow.Probes = broken
	if _, err := r.try(backToFiles()); err == nil {
		t.Fatal("a rollback without a probe went through")
	}
	r.flow.Probes = good
	r.do(cutover.Request{Command: cutover.CommandResume})
	r.authority(authority.KindLegacy)
	r.readsAs(last.Projection)
}

// What Markdown cannot hold is refused before the fence, Todo and field named; an active
// lease too.
func TestFilesRollbackHolds(t *testing.T) {
	r := newFilesRig(t)
	r.forward()
	s := r.sqlite(cutover.AccessWrite)
	commit := func(id string, change func(h head)) {
		now, err := s.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var h head
		if err := json.Unmarshal(now.Projection, &h); err != nil {
			t.Fatal(err)
		}
		change(h)
		h.change("x", 0)
		if _, err := s.Commit(context.Background(), authority.CommitRequest{Expected: now.Revision, OperationID: id, Events: []byte("[]"),
			Projection: fixture.Canonical(map[string]any(h)), Receipts: []byte("[]")}); err != nil {
			t.Fatal(err)
		}
	}
	commit("lease", func(h head) {
		lease := h.records("leases")["todo_fce99541009e"]
		lease["status"], lease["expires_at"] = "active", "2099-01-01T00:00:00Z"
	})
	r.refused(onlyRollback(), cutover.KindRefused, "lease_active")
	commit("release", func(h head) { h.records("leases")["todo_fce99541009e"]["status"] = "released" })
	commit("scope", func(h head) {
		h.records("todos")["todo_ea9f53d270de"]["decision_scope"].(map[string]any)["decision_id"] = "d-1"
	})
	refusal := r.refused(onlyRollback(), cutover.KindRefused, "field_not_expressible")
	if len(refusal.Holds) == 0 || !strings.HasPrefix(refusal.Holds[0].Record, "todo_ea9f53d270de.") {
		t.Errorf("%+v", refusal.Holds)
	}
	r.authority(authority.KindSQLite)
}

// The history that came back must be the one that was written, or nothing moves forward;
// a command that names another state file than the migration began with is refused, and
// one that names none works on that.
func TestFilesAreTheSameAllTheWay(t *testing.T) {
	r := newFilesRig(t)
	r.forward()
	registered := r.flow.Registration.StateFile
	other := filepath.Join(r.dir, "other.md")
	if err := os.WriteFile(other, r.read(r.state()), 0o600); err != nil {
		t.Fatal(err)
	}
	r.flow.Registration.StateFile = other
	r.refused(backToFiles(), cutover.KindRefused, "two_state_files")
	r.flow.Registration.StateFile = ""
	s := r.sqlite(cutover.AccessWrite)
	r.mutate(s, "a", 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r.do(backToFiles())
	if r.flow.Registration.StateFile != registered || !bytes.Contains(r.read(registered), []byte("part 1")) {
		t.Error("the rollback did not work on the state file of the freeze")
	}
	archive := filepath.Join(r.flow.Place.Root(), r.manifest().Rollback.Archive.Where)
	text := r.read(archive)
	if err := os.WriteFile(archive, text[:len(text)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	r.refused(freezeFiles(), cutover.KindUnproved, "retained_history_damaged")
	if err := os.WriteFile(archive, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.forward()
}

package cutover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

const filesGoal = "demo-small"

// filesRig is a Goal that LoopX 0.5.1 made in Markdown and lease files, brought to a
// state that can be promoted: hard_lease, its lease released, the traces of 0.5.1 gone.
type filesRig struct {
	*rig
	dir string
}

func newFilesRig(t *testing.T) *filesRig {
	t.Helper()
	dir := fixture.Copy(t, filepath.Join("legacy", "small"))
	r := &filesRig{rig: &rig{T: t}, dir: dir}
	r.edit(r.state(), "adapter_id: demo-small\n", "adapter_id: demo-small\nhandoff_mode: hard_lease\n")
	r.edit(r.lease("todo_fce99541009e"), `"status": "active"`, `"status": "released",`+"\n"+`  "released_at": "2026-11-30T16:00:00Z"`)
	r.remove(r.state()+".lock", r.lease(".task-leases.lock"))
	r.rig.moveTo(filepath.Join(dir, "runtime"))
	r.use(filesGoal)
	return r
}

// use makes the flow one over a Goal of the registry in the folder.
func (r *filesRig) use(id string) {
	r.Helper()
	place, err := authority.NewPlace(filepath.Join(r.dir, "runtime"), id)
	if err != nil {
		r.Fatal(err)
	}
	registration, err := fence.ReadRegistry(filepath.Join(r.dir, "project", ".loopx", "registry.json"), id)
	if err != nil {
		r.Fatal(err)
	}
	r.flow.Place, r.flow.Folder, r.flow.Registration = place, manifest.Open(place), registration
	r.flow.Probes = func(arm authority.Kind) fence.Prober { return seesFrozen{place, arm} }
}

func (r *filesRig) state() string {
	return filepath.Join(r.dir, "project", ".codex", "goals", filesGoal, "ACTIVE_GOAL_STATE.md")
}

func (r *filesRig) lease(id string) string {
	name := id + ".json"
	if strings.HasPrefix(id, ".") {
		name = id
	}
	return filepath.Join(r.dir, "runtime", "goals", filesGoal, "task-leases", name)
}

func (r *filesRig) read(path string) []byte {
	r.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	return text
}

// edit changes a file as an editor does, which asks no lock and no fence.
func (r *filesRig) edit(path, from, to string) {
	r.Helper()
	text := r.read(path)
	if bytes.Count(text, []byte(from)) != 1 {
		r.Fatalf("%s has not one %q", filepath.Base(path), from)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r *filesRig) remove(paths ...string) {
	r.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.Fatal(err)
		}
	}
}

func freezeFiles() cutover.Request {
	return cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindSQLite}, WritersStopped: true}
}

func (r *filesRig) forward() {
	r.Helper()
	r.do(freezeFiles())
	r.do(cutover.Request{Command: cutover.CommandImport})
	compared := r.do(cutover.Request{Command: cutover.CommandCompare})
	if report, is := compared.Report.(parity.Report); !is || len(report.Check(parity.CheckConsumers).Notes) != 0 {
		r.Errorf("compare: %+v", compared.Report)
	}
	r.do(cutover.Request{Command: cutover.CommandPromote})
	r.authority(authority.KindSQLite)
}

// sqlite opens the promoted database.
func (r *filesRig) sqlite(access cutover.Access) cutover.History {
	r.Helper()
	s, err := r.flow.Stores.Open(context.Background(), cutover.Ref{Kind: authority.KindSQLite, Goal: r.flow.Place.GoalID(), Path: r.flow.Place.Database(), Access: access})
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// The first transaction says what LoopX's own import says: one event and one receipt
// with the operation that the writer fence names, plan and projection digest.
func TestFilesForward(t *testing.T) {
	r := newFilesRig(t)
	before := r.read(r.state())
	goal := legacy.Inspect(legacy.Files{Goal: filesGoal, State: before}, r.flow.Clock())
	r.forward()
	var writers struct {
		Schema    string `json:"schema_version"`
		ID        string `json:"fence_id"`
		Operation string `json:"import_operation_id"`
		Plan      string `json:"import_plan_sha256"`
	}
	text := r.read(r.flow.Place.WriterFence())
	if err := json.Unmarshal(text, &writers); err != nil {
		t.Fatal(err)
	}
	spelled := fmt.Sprintf("{\n  \"schema_version\": %q,\n  \"state\": \"engaged\",\n  \"goal_id\": \"demo-small\",\n  \"fence_id\": \"cold-import:op-1\",\n  \"import_operation_id\": \"op-1\",\n  \"import_plan_sha256\": %q\n}\n",
		"loopx_cold_source_import_writer_fence_v0", writers.Plan)
	if string(text) != spelled {
		t.Errorf("the writer fence is\n%s", text)
	}
	page, err := r.sqlite(cutover.AccessUntouched).Scan(context.Background(), 0, 5)
	if err != nil || len(page.Transactions) != 1 || page.HasMore {
		t.Fatalf("%d transactions, %v", len(page.Transactions), err)
	}
	first := page.Transactions[0]
	mark := `[{"goal_id":"demo-small","import_plan_sha256":"` + writers.Plan + `","operation_id":"op-1","schema_version":"loopx_cold_source_import_%s_v0","source_projection_sha256":"` +
		fixture.SHA256(first.Projection) + `"}]`
	if first.OperationID != "op-1" || string(first.Events) != fmt.Sprintf(mark, "event") || string(first.Receipts) != fmt.Sprintf(mark, "receipt") {
		t.Errorf("operation %s, events %s, receipts %s", first.OperationID, first.Events, first.Receipts)
	}
	if len(goal.Listing.Rows) != 6 || strings.Count(string(first.Projection), `"schema_version":"todo_item_v0"`) != 6 || strings.Count(string(first.Projection), `"task_lease_v0"`) != 1 {
		t.Errorf("projection %s", first.Projection)
	}
	if !bytes.Equal(before, r.read(r.state())) {
		t.Error("the state file changed")
	}
	m := r.manifest()
	if len(m.Accepted) != 1 || m.Accepted[0].Hold != "writers_not_stopped" || m.Accepted[0].Owner != r.flow.Principal || m.Kept == nil {
		t.Errorf("accepted %+v, kept %+v", m.Accepted, m.Kept)
	}
}

// An abort from each phase gives the Goal back to its files, byte for byte, selector and
// fence gone; a fence of somebody else is never lifted.
func TestFilesAbort(t *testing.T) {
	for steps := range 4 {
		r := newFilesRig(t)
		before := fixture.TreeHash(t, filepath.Join(r.dir, "project", ".codex"))
		r.do(freezeFiles())
		for _, command := range []string{cutover.CommandImport, cutover.CommandCompare}[:min(steps, 2)] {
			r.do(cutover.Request{Command: command})
		}
		r.do(cutover.Request{Command: cutover.CommandAbort})
		r.authority(authority.KindLegacy)
		for _, path := range []string{r.flow.Place.WriterFence(), r.flow.Place.Selector(), r.flow.Place.Database()} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after %d steps %s is there: %v", steps, filepath.Base(path), err)
			}
		}
		r.remove(r.state() + ".lock")
		if diff := before.Diff(fixture.TreeHash(t, filepath.Join(r.dir, "project", ".codex"))); len(diff) != 0 {
			t.Errorf("changed: %v", diff)
		}
		if steps == 3 {
			r.forward()
		}
	}
	r := newFilesRig(t)
	r.do(freezeFiles())
	r.edit(r.flow.Place.WriterFence(), `"op-1"`, `"op-2"`)
	if _, err := r.try(cutover.Request{Command: cutover.CommandAbort}); !errors.Is(err, fence.ErrForeignFence) {
		t.Errorf("abort over a foreign fence: %v", err)
	}
}

// What stands against a freeze is named and nothing is changed; what has come up since
// the preview is found under the locks.
func TestFilesHolds(t *testing.T) {
	r := newFilesRig(t)
	unattested := freezeFiles()
	unattested.WritersStopped = false
	r.refused(unattested, cutover.KindRefused, "writers_not_stopped")
	r.refused(cutover.Request{Command: cutover.CommandImport, To: cutover.Target{Kind: authority.KindSQLite}}, cutover.KindRefused, "source_not_frozen")
	released := r.read(r.lease("todo_fce99541009e"))
	r.edit(r.lease("todo_fce99541009e"), `"status": "released"`, `"status": "active"`)
	r.edit(r.lease("todo_fce99541009e"), "2026-12-01T15:47:19Z", "2099-12-01T15:47:19Z")
	refusal := r.refused(freezeFiles(), cutover.KindRefused, "lease_active")
	if len(refusal.Holds) != 1 || refusal.Holds[0].Record != "todo_fce99541009e" || !strings.Contains(refusal.Holds[0].Detail, "owner alice, key sha256:fcf51793af01, expires 2099") || strings.Contains(refusal.Holds[0].Detail, "small-run-1") {
		t.Errorf("%+v", refusal.Holds)
	}
	active := r.read(r.lease("todo_fce99541009e"))
	write := func(text []byte) {
		if err := os.WriteFile(r.lease("todo_fce99541009e"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(released)
	request := freezeFiles()
	request.OperationID = "op-late"
	preview, err := r.flow.Run(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	write(active)
	request.Execute, request.PlanDigest, request.Through = true, preview.PlanDigest, 1
	if _, err := r.flow.Run(context.Background(), request); cutover.AsRefusal(err).Reason != "lease_active" {
		t.Errorf("a lease since the preview: %v", err)
	}
	r.authority(authority.KindLegacy)
	if r.manifest() != nil {
		t.Error("a refused freeze left a record")
	}
}

// A Todo that is written behind the fence is named, and promote refuses; prose may be
// written.
func TestFilesWrittenBehindTheFence(t *testing.T) {
	r := newFilesRig(t)
	r.do(freezeFiles())
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.edit(r.state(), "- Nothing yet.", "- Prose that somebody wrote.")
	before := r.read(r.state())
	r.edit(r.state(), "[P3] Wait for the staging host", "[P3] Wait no more")
	r.refused(cutover.Request{Command: cutover.CommandPromote}, cutover.KindRefused, "source_written")
	if err := os.WriteFile(r.state(), before, 0o600); err != nil {
		t.Fatal(err)
	}
	r.do(cutover.Request{Command: cutover.CommandPromote})
	r.authority(authority.KindSQLite)
	if !bytes.Contains(r.read(r.state()), []byte("Prose that somebody wrote.")) {
		t.Error("prose is lost")
	}
}

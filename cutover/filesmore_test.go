package cutover_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/manifest"
)

func TestFilesToPostgreSQLAndBack(t *testing.T) {
	r := newFilesRig(t)
	r.onServer()
	for _, name := range []string{"one", "two"} {
		request := toServer(r.rig, cutover.CommandFreeze)
		request.WritersStopped = true
		r.do(request)
		for _, command := range []string{cutover.CommandImport, cutover.CommandCompare} {
			r.do(cutover.Request{Command: command})
		}
		r.do(cutover.Request{Command: cutover.CommandPromote, Accept: unrehearsed()})
		r.authority(authority.KindPostgreSQL)
		s, err := r.flow.Stores.Open(context.Background(), cutover.Ref{Kind: authority.KindPostgreSQL, Goal: filesGoal, Server: r.flow.Server, Tenant: tenant, Access: cutover.AccessWrite})
		if err != nil {
			t.Fatal(err)
		}
		r.mutate(s, name, 40)
		last, err := s.Load(context.Background())
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		r.do(backToFiles())
		r.authority(authority.KindLegacy)
		r.readsAs(last.Projection)
	}
}

// In one command: within its budget it goes through; one that grows too long is undone
// altogether, fence and selector with it.
func TestFilesCutover(t *testing.T) {
	r := newFilesRig(t)
	request := freezeFiles()
	request.Command, request.MaxStall = cutover.CommandCutover, time.Microsecond
	r.refused(request, cutover.KindRefused, "stall_too_long")
	r.authority(authority.KindLegacy)
	good := r.flow.Probes
	r.flow.Probes = func(authority.Kind) fence.Prober { return neverEnds{} }
	request.MaxStall = 3 * time.Second
	r.refused(request, cutover.KindRefused, "stall_exceeded")
	r.authority(authority.KindLegacy)
	for _, path := range []string{r.flow.Place.WriterFence(), r.flow.Place.Selector()} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there after the undo: %v", filepath.Base(path), err)
		}
	}
	request.MaxStall = time.Minute
	for range 2 { // each time one that died is undone, and none is in the way of the next
		r.flow.Probes = broken
		if _, err := r.try(request); err == nil {
			t.Fatal("a cutover without a probe went through")
		}
		r.authority(authority.KindLegacy)
		r.edit(r.state(), "[P3] Wait for the", "[P3] Wait for the the")
	}
	r.flow.Probes = good
	r.do(request)
	r.authority(authority.KindSQLite)
	if m := r.manifest(); len(m.Verdicts) != 1 || !m.Verdicts[0].Passed || !m.Promotion.FullReread {
		t.Errorf("verdicts %+v, promotion %+v", m.Verdicts, m.Promotion)
	}
}

// A Goal that LoopX 0.5.1 worked on last is held until the operator says that it is gone.
func TestFilesOfAnOldRelease(t *testing.T) {
	r := newFilesRig(t)
	holder := fixture.Read(t, "legacy", "small", "project", ".codex", "goals", filesGoal, "ACTIVE_GOAL_STATE.md.lock")
	if err := os.WriteFile(r.state()+".lock", holder, 0o600); err != nil {
		t.Fatal(err)
	}
	r.refused(freezeFiles(), cutover.KindRefused, "loopx_0_5_1_seen")
	request := freezeFiles()
	request.Accept = []manifest.Accepted{{Hold: "loopx_0_5_1_seen", Record: filesGoal, Owner: "ops", Reason: "upgraded"}}
	r.do(request)
	r.do(cutover.Request{Command: cutover.CommandAbort})
	if strings.Contains(string(r.read(r.state()+".lock")), string(holder)) {
		t.Fatal("the record of the old release was not overwritten")
	}
	r.refused(freezeFiles(), cutover.KindRefused, "loopx_0_5_1_seen")
	seen, err := r.flow.Inspect(context.Background())
	if err != nil || len(seen.Holds) != 1 || seen.Holds[0].Code != "loopx_0_5_1_seen" || !seen.Holds[0].Acceptable {
		t.Errorf("inspect after the abort: %v, %+v", err, seen.Holds)
	}
	r.do(request)
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.refused(freezeFiles(), cutover.KindRefused, "loopx_0_5_1_seen") // it is in an earlier manifest too

	later := strings.Replace(string(holder), `"pid":`, `"host":"h","pid":`, 1)
	if err := os.WriteFile(r.state()+".lock", []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	if seen, err = r.flow.Inspect(context.Background()); err != nil || len(seen.Holds) != 0 {
		t.Errorf("after a later LoopX: %v, %+v", err, seen.Holds)
	}
	r.do(freezeFiles())
}

// What stands at a store's place beside legacy files would become the authority on the
// way back, and holds.
func TestFilesBesideAStore(t *testing.T) {
	r := newFilesRig(t)
	if err := errors.Join(os.MkdirAll(r.flow.Place.FileDir(), 0o700), os.WriteFile(r.flow.Place.Journal(), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r.refused(freezeFiles(), cutover.KindRefused, "journal_not_authority")
}

// A file that a crash or an editor left: either the freeze refuses, says why and changes
// nothing, or every Todo that the file names is in the head.
func TestFilesNothingIsDropped(t *testing.T) {
	second := "\n## Codex Todo\n\n- [ ] Further\n  <!-- loopx:todo todo_id=todo_further status=open task_class=advancement_task -->\n"
	for name, c := range map[string]struct {
		change  func(state string) string
		refused string
	}{
		"emptied": {func(string) string { return "" }, "state_file_empty"},
		"cut":     {func(s string) string { return s[:strings.Index(s, "## User Todo")] }, "agent_section_missing"},
		"twice":   {func(s string) string { return strings.Replace(s, "todo_846ffcda7abf", "todo_fce99541009e", 1) }, "todo_id_twice"},
		"fenced heading": {func(s string) string {
			return strings.Replace(s, "## Agent Todo\n", "```\n## Agent Todo\n```\n", 1)
		}, "readings_differ"},
		"second section": {func(s string) string { return s + second }, ""},
		"CRLF":           {func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }, ""},
	} {
		r := newFilesRig(t)
		state := c.change(string(r.read(r.state())))
		if err := os.WriteFile(r.state(), []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.refused != "" {
			before := fixture.TreeHash(t, r.dir)
			_, err := r.try(freezeFiles())
			refusal := cutover.AsRefusal(err)
			blocks := func(h cutover.Hold) bool { return h.Code == c.refused && h.Record != "" && !h.Acceptable }
			if refusal.Kind != cutover.KindRefused || !slices.ContainsFunc(refusal.Holds, blocks) {
				t.Errorf("%s: %v, %+v", name, err, refusal.Holds)
			}
			fixture.Unchanged(t, r.dir, before)
			continue
		}
		r.acceptedFreeze()
		head := r.restOfTheWay()
		for _, found := range regexp.MustCompile(`todo_id=(\w+)`).FindAllStringSubmatch(state, -1) {
			if !strings.Contains(head, `"todo_id":"`+found[1]+`"`) {
				t.Errorf("%s: %s is not in the head", name, found[1])
			}
		}
	}
}

// onCase makes the flow one over a Goal of testdata/cases.
func onCase(t *testing.T, name, id string) *filesRig {
	t.Helper()
	r := newFilesRig(t)
	r.dir = fixture.Case(t, name)
	if err := os.MkdirAll(filepath.Join(r.dir, "runtime"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.use(id)
	return r
}

// acceptedFreeze freezes with every hold accepted that may be, and says which there were.
func (r *filesRig) acceptedFreeze() (codes []string) {
	r.Helper()
	request := freezeFiles()
	request.OperationID = "look"
	preview, err := r.flow.Run(context.Background(), request)
	if preview.Plan == nil {
		r.Fatal(err)
	}
	for _, h := range preview.Plan.Holds {
		if h.Acceptable {
			codes = append(codes, h.Code+" "+h.Record)
			request.Accept = append(request.Accept, manifest.Accepted{Hold: h.Code, Record: h.Record, Owner: "ops", Reason: "seen"})
		}
	}
	request.OperationID = ""
	r.do(request)
	return codes
}

func (r *filesRig) restOfTheWay() string {
	r.Helper()
	for _, command := range []string{cutover.CommandImport, cutover.CommandCompare, cutover.CommandPromote} {
		r.do(cutover.Request{Command: command})
	}
	head, err := r.sqlite(cutover.AccessUntouched).Load(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	return string(head.Projection)
}

func TestCase12Flow(t *testing.T) {
	r := onCase(t, "12-archived-revocation-must-travel", "revoke-goal")
	r.acceptedFreeze()
	head := r.restOfTheWay()
	if strings.Count(head, `"schema_version":"todo_item_v0"`) != 3 || strings.Count(head, `"decision_outcome":"reject"`) != 1 || strings.Count(head, `"archive_state":"archive"`) != 1 {
		t.Errorf("head %s", head)
	}
}

// Each token that LoopX drops is held until it is accepted; the line itself stays.
func TestCase14Flow(t *testing.T) {
	r := onCase(t, "14-unknown-and-invalid-metadata", "meta-goal")
	refusal := cutover.AsRefusal(func() error { _, err := r.try(freezeFiles()); return err }())
	if refusal.Kind != cutover.KindRefused {
		t.Fatalf("%v", refusal)
	}
	codes := strings.Join(r.acceptedFreeze(), "\n")
	for _, want := range []string{"metadata_key_unknown todo_x_new.future_field", "metadata_value_invalid todo_x_bad.status", "metadata_value_invalid todo_x_bad.action_kind"} {
		if !strings.Contains(codes, want) {
			t.Errorf("%s is not among the holds:\n%s", want, codes)
		}
	}
	r.restOfTheWay()
	r.do(func() cutover.Request {
		back := onlyRollback()
		back.Accept = []manifest.Accepted{{Hold: "legacy_read_only_in_loopx_2_1", Record: "meta-goal", Owner: "ops", Reason: "known"}}
		return back
	}())
	if !strings.Contains(string(r.read(r.flow.Registration.StateFile)), "future_field=abc") {
		t.Error("the unknown token is lost")
	}
}

func TestCase17Flow(t *testing.T) {
	r := onCase(t, "17-text-longer-than-500", "long-goal")
	r.acceptedFreeze()
	head := r.restOfTheWay()
	if strings.Contains(head, "…") || len([]rune(head)) < 1400 {
		t.Errorf("a text was cut: %d characters", len([]rune(head)))
	}
}

func TestCase23Flow(t *testing.T) {
	r := onCase(t, "23-lease-expired-but-active-status", "exp-goal")
	before := fixture.TreeHash(t, r.dir)
	for _, attested := range []bool{false, true} {
		request := freezeFiles()
		request.WritersStopped = attested
		refusal := cutover.AsRefusal(func() error { _, err := r.try(request); return err }())
		named := ""
		for _, h := range refusal.Holds {
			named += h.Code + " " + h.Record + ": " + h.Detail + "\n"
		}
		for _, want := range []string{"lease_active todo_ex_run", "lease_expired_still_active todo_ex_old", "owner ", "key sha256:", "expires 2099", "clock "} {
			if refusal.Kind != cutover.KindRefused || !strings.Contains(named, want) {
				t.Errorf("attested %t: %q is not named in\n%s", attested, want, named)
			}
		}
		if strings.Contains(named, "writers_not_stopped") == attested {
			t.Errorf("attested %t: %s", attested, named)
		}
	}
	fixture.Unchanged(t, r.dir, before)
}

func TestCase25Flow(t *testing.T) {
	r := onCase(t, "25-lease-folder-with-strangers", "dir-goal")
	if err := os.Symlink("/nowhere/lease.json", filepath.Join(r.flow.Place.LeaseDir(), "todo_dr_link.json")); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	refusal := cutover.AsRefusal(func() error { _, err := r.try(freezeFiles()); return err }())
	named := ""
	for _, h := range refusal.Holds {
		named += h.Code + " " + h.Record + "\n"
	}
	for _, want := range []string{"lease_todo_differs todo_dr_wrong", "lease_malformed todo_dr_bad", "lease_not_regular todo_dr_link.json"} {
		if !strings.Contains(named, want) {
			t.Errorf("%q is not named in\n%s", want, named)
		}
	}
	if strings.Contains(named, ".tmp") || strings.Contains(named, ".lock") {
		t.Errorf("residue holds:\n%s", named)
	}
}

// Undrained capture holds with the names of its entries, and is left alone.
func TestCase35Flow(t *testing.T) {
	r := onCase(t, "35-shadow-capture-still-open", "out-goal")
	refusal := cutover.AsRefusal(func() error { _, err := r.try(freezeFiles()); return err }())
	named := ""
	for _, h := range refusal.Holds {
		named += h.Code + " " + h.Record + "\n"
	}
	if refusal.Kind != cutover.KindRefused || !strings.Contains(named, "shadow_outbox_pending todos/00000001.prepared.json") || !strings.Contains(named, "00000002.committed.json") {
		t.Errorf("%v\n%s", refusal, named)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "runtime", "authority-shadow")); err != nil {
		t.Fatal(err)
	}
	if refusal := cutover.AsRefusal(func() error { _, err := r.try(freezeFiles()); return err }()); strings.Contains(refusal.Reason, "shadow") {
		t.Errorf("after LoopX took it away: %v", refusal)
	}
}

// The display is LoopX's: watermark, the head's Todos, prose untouched; a stale and an
// edited one are told apart and repaired, and a current one is no write. The way back goes
// from a displayed file as well.
func TestProject(t *testing.T) {
	r := newFilesRig(t)
	project := func() cutover.Result {
		t.Helper()
		preview, err := r.flow.Project(context.Background(), cutover.Request{OperationID: "show"})
		if err != nil {
			t.Fatal(err)
		}
		if preview.Status == "nothing_to_do" {
			return preview
		}
		done, err := r.flow.Project(context.Background(), cutover.Request{OperationID: "show", Execute: true, PlanDigest: preview.PlanDigest})
		if err != nil {
			t.Fatal(err)
		}
		done.Plan = preview.Plan
		return done
	}
	if _, err := r.flow.Project(context.Background(), cutover.Request{OperationID: "early"}); cutover.AsRefusal(err).Reason != "no_store_is_authority" {
		t.Errorf("before the promotion: %v", err)
	}
	r.forward()
	said := func(result cutover.Result, what string) {
		t.Helper()
		if result.Status != "done" || !strings.HasSuffix(result.Plan.Effects[0], "the display there is "+what) {
			t.Errorf("%s, want %s: %+v", result.Status, what, result.Plan)
		}
	}
	said(project(), "missing")
	if shown := string(r.read(r.state())); strings.Count(shown, "todo-section-projection-v0") < 2 || !strings.HasSuffix(shown, "## Next Action\n\n- Nothing yet.\n") {
		t.Errorf("shown is\n%s", shown)
	}
	if again := project(); again.Status != "nothing_to_do" {
		t.Errorf("a current display: %s", again.Status)
	}
	s := r.sqlite(cutover.AccessWrite)
	r.mutate(s, "a", 1)
	last, err := s.Load(context.Background())
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	said(project(), "stale")
	r.edit(r.state(), "[P3] Wait for the staging host", "[P3] Wait no more")
	said(project(), "edited by hand")
	r.do(backToFiles())
	r.readsAs(last.Projection)
}

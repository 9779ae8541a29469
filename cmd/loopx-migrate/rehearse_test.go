package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgserver"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/parity"
	"github.com/loopx-project/loopx-migrate/witness"
)

// rehearsedGoal is LoopX's fixture in a place of its own, and the flags that name it.
func rehearsedGoal(t *testing.T, name string) (dir string, flags []string) {
	t.Helper()
	dir = fixture.Copy(t, filepath.Join("legacy", name))
	return dir, []string{"--goal-id", "demo-" + name, "--registry", filepath.Join(dir, "project", ".loopx", "registry.json"), "--output", "json"}
}

// rehearser is the program, as these tests run it.
func rehearser(t *testing.T) string {
	t.Helper()
	return buildProgram(t, "rehearse")
}

// answeredBy runs the program and reads what it says, which must come with that status.
func answeredBy(t *testing.T, program string, exit int, words ...string) (a struct {
	Reason string `json:"reason_code"`
	Facts  struct {
		Rehearsal *evidence.Rehearsal `json:"rehearsal"`
	} `json:"facts"`
	Next struct {
		Argv []string `json:"argv"`
	} `json:"next"`
}) {
	t.Helper()
	cmd := exec.Command(program, words...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != exit {
		t.Fatalf("%v: exit %d (%v), want %d\n%s%s", words, got, err, exit, out, complaint.String())
	}
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return a
}

// LoopX's own complex Goal of legacy files on four arms: the files, a journal, SQLite and,
// where there are server programs, PostgreSQL. The source is left alone, the report is
// complete, and the real cutover takes its result.
func TestRehearseLegacyFiles(t *testing.T) {
	program := rehearser(t)
	dir, flags := rehearsedGoal(t, "complex")
	fixture.Leased(t, dir)
	arms := []string{"legacy", "file", "sqlite"}
	if pgserver.Programs() != "" {
		arms = append(arms, "postgresql")
	}
	out := filepath.Join(t.TempDir(), "result.json")
	t.Setenv("TMPDIR", t.TempDir())
	before := fixture.TreeHash(t, dir)
	said := answeredBy(t, program, 0, append(flags, "rehearse", "--arms", strings.Join(arms, ","), "--release-leases", "--operations", "18", "--out", out)...)
	fixture.Unchanged(t, dir, before)
	if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "loopx-migrate-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	report, err := evidence.DecodeRehearsal(text)
	if err != nil || report.Result != evidence.Passed || said.Facts.Rehearsal == nil {
		t.Fatalf("%v, %+v", err, report)
	}
	complete(t, report, arms)
	if shared := string(text); strings.Contains(shared, dir) || strings.Contains(shared, os.Getenv("TMPDIR")) || strings.Contains(shared, "Rehearse turn") {
		t.Error("the result holds a path or a record's text")
	}
	held := answeredBy(t, program, 3, append(flags, "cutover", "--to", "sqlite:", "--writers-stopped", "--rehearsal", out)...)
	if held.Reason != "lease_active" { // the next thing that holds it, its leases not being released
		t.Errorf("the cutover does not take the rehearsal: %s", held.Reason)
	}
	spoilt := strings.Replace(string(text), `"found":true`, `"found":false`, 1)
	writeFile(t, out, []byte(spoilt))
	if said := answeredBy(t, program, 3, append(flags, "cutover", "--to", "sqlite:", "--writers-stopped", "--rehearsal", out)...); said.Reason != "rehearsal_invalid" {
		t.Errorf("a spoilt result: %s", said.Reason)
	}
}

// A promotion waits for a lease that is active, so that its arm ends before the work. Nothing
// differs, and the result says from which step on nothing was checked.
func TestRehearseNotBroughtToItsEnd(t *testing.T) {
	program := rehearser(t)
	dir, flags := rehearsedGoal(t, "complex")
	fixture.Leased(t, dir)
	said := answeredBy(t, program, 3, append(flags, "rehearse", "--operations", "4")...)
	report := said.Facts.Rehearsal
	if said.Reason != "rehearsal_incomplete" || report == nil || report.Result != evidence.Incomplete {
		t.Fatalf("%s, %+v", said.Reason, report)
	}
	if len(report.Arms) != 1 || report.Arms[0].Name != "legacy" {
		t.Errorf("arms %+v", report.Arms)
	}
	if !slices.ContainsFunc(report.NotChecked, func(n evidence.NotChecked) bool { return n.What == "arm sqlite from cutover on" }) {
		t.Errorf("not checked: %+v", report.NotChecked)
	}
}

// complete fails unless every arm was compared, contradicted and brought back.
func complete(t *testing.T, report *evidence.Rehearsal, arms []string) {
	t.Helper()
	var named []string
	for _, a := range report.Arms {
		named = append(named, a.Name)
		if a.Driver != "model" || a.HeadDigest.IsZero() {
			t.Errorf("arm %+v", a)
		}
	}
	if !slices.Equal(named, arms) {
		t.Errorf("arms %v, want %v", named, arms)
	}
	if len(report.WayBack) != len(arms)-1 || len(report.Probes) == 0 {
		t.Errorf("%d ways back, %d probes, %d planted", len(report.WayBack), len(report.Probes), len(report.Planted))
	}
	planted := map[string]int{}
	for _, p := range report.Planted {
		planted[p.Arm]++
	}
	for _, arm := range arms { // on each, beside the copy in which nothing was planted
		if planted[arm] < 8 {
			t.Errorf("%d differences were planted on %s: %+v", planted[arm], arm, report.NotChecked)
		}
	}
	by, witnessed := map[string]bool{}, map[string]bool{}
	for _, v := range report.Verdicts {
		for _, arm := range v.Arms {
			witnessed[arm] = witnessed[arm] || v.By == evidence.ByWitness
		}
		if v.Outcome == parity.Equal && v.Compared > 0 {
			by[v.By+" "+v.Check] = true
		}
	}
	for _, arm := range arms {
		if !witnessed[arm] {
			t.Errorf("no witness of %s", arm)
		}
	}
	for _, check := range []string{"parity head", "parity receipts", "parity consumers", "rehearsal answers", "rehearsal way_back", "witness receipts", "witness scans", "witness order",
		"witness files_todos", "witness files_leases", "witness files_places", "witness files_mode"} {
		if !by[check] {
			t.Errorf("no check %s found its arms equal", check)
		}
	}
}

// Every way to point a rehearsal at production through the command line.
func TestRehearsePointedAtProduction(t *testing.T) {
	program := rehearser(t)
	dir, flags := rehearsedGoal(t, "small")
	runtime := filepath.Join(dir, "runtime")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(runtime, link); err != nil {
		t.Fatal(err)
	}
	copies := t.TempDir()
	before := fixture.TreeHash(t, dir)
	for name, more := range map[string][]string{
		"copies in the runtime root":       {"--work-dir", runtime},
		"copies in a folder of it":         {"--work-dir", filepath.Join(runtime, "goals")},
		"copies through a link":            {"--work-dir", link},
		"copies beside the state file":     {"--work-dir", filepath.Join(dir, "project", ".codex", "goals", "demo-small")},
		"copies in a configured path":      {"--work-dir", copies, "--production", copies},
		"copies in a configured store":     {"--work-dir", copies, "--production", "file:" + copies},
		"copies below a configured path":   {"--work-dir", copies, "--production", filepath.Dir(copies)},
		"the result in the runtime root":   {"--out", filepath.Join(runtime, "result.json")},
		"the result in a linked folder":    {"--out", filepath.Join(link, "result.json")},
		"the result in a configured place": {"--out", filepath.Join(copies, "result.json"), "--production", copies},
	} {
		said := answeredBy(t, program, 3, append(append(slices.Clone(flags), "rehearse"), more...)...)
		if said.Reason != "rehearsal_on_production" {
			t.Errorf("%s: %s", name, said.Reason)
		}
	}
	t.Setenv("TMPDIR", runtime)
	if said := answeredBy(t, program, 3, append(slices.Clone(flags), "rehearse")...); said.Reason != "rehearsal_on_production" {
		t.Errorf("a temporary folder in the runtime root: %s", said.Reason)
	}
	fixture.Unchanged(t, dir, before)
}

// The witness and the import name the same projection of legacy files.
func TestTheWitnessComparesThroughTheDeclaredProjection(t *testing.T) {
	if witness.FilesProjection != legacy.CompatibleName {
		t.Errorf("%s and %s", witness.FilesProjection, legacy.CompatibleName)
	}
}

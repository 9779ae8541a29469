//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgserver"
	"github.com/loopx-project/loopx-migrate/parity"
)

// earlier is an earlier release of LoopX, which writes legacy files.
func earlier(version string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(installed.loopx))), "loopx-"+version, "bin", "loopx")
}

// rehearse rehearses LoopX's complex Goal of legacy files with a program that drives them,
// and sees that the source is left alone to the byte. The report is nil without one.
func rehearse(t *testing.T, loopx string, words ...string) (answer, *evidence.Rehearsal) {
	t.Helper()
	dir := fixture.Copy(t, filepath.Join("legacy", "complex"))
	fixture.Leased(t, dir)
	out := filepath.Join(t.TempDir(), "rehearsal.json")
	line := append([]string{program(t, built), "--goal-id", "demo-complex", "--registry", filepath.Join(dir, "project", ".loopx", "registry.json"),
		"--loopx", loopx, "--output", "json", lockWait, "rehearse", "--release-leases", "--out", out}, words...)
	before := fixture.TreeHash(t, dir)
	a := command(t, nil, line...)
	fixture.Unchanged(t, dir, before)
	text, err := os.ReadFile(out)
	if os.IsNotExist(err) {
		return a, nil
	}
	must(t, err)
	report, err := evidence.DecodeRehearsal(text)
	must(t, err)
	return a, report
}

// LoopX's arm and those of this program agree on the built-in workload, in the head that
// comes of it, and after the way back.
func TestRehearsalDrivenByLoopX(t *testing.T) {
	arms := "file,sqlite"
	if pgserver.Programs() != "" {
		arms += ",postgresql"
	}
	a, report := rehearse(t, earlier("0.5.2"), "--arms", arms, "--operations", "18")
	agreed(t, a, report)
	if len(report.Arms) != strings.Count(arms, ",")+2 || !report.Source.Untouched() || report.Environment.LoopX != "0.5.2" {
		t.Errorf("%d arms, source untouched %v, environment %+v", len(report.Arms), report.Source.Untouched(), report.Environment)
	}
}

// agreed fails unless LoopX drove its arm, and no check found it odd.
func agreed(t *testing.T, a answer, report *evidence.Rehearsal) {
	t.Helper()
	if a.exit != 0 || report == nil || report.Result != evidence.Passed {
		t.Fatalf("%d %s", a.exit, a.text)
	}
	for _, arm := range report.Arms {
		if driver := arm.Driver + " " + arm.DriverVersion; (arm.Name == "legacy") != (driver == "loopx 0.5.2") {
			t.Errorf("%s was driven by %s", arm.Name, driver)
		}
	}
	throughFiles := false
	for _, v := range report.Verdicts {
		throughFiles = throughFiles || v.Check == string(parity.CheckHead) && v.Outcome == parity.Equal && len(v.Arms) == 3 && v.Arms[2] == "legacy"
	}
	if !throughFiles {
		t.Errorf("the head of LoopX's arm was not compared: %+v", report.Verdicts)
	}
}

// Agents that contradict each other: LoopX and this program refuse the same, for the same
// reasons, and write the same where they do not. The Todo of the first lines is the fixture's.
func TestRehearsalOfContradictionsDrivenByLoopX(t *testing.T) {
	const header = `{"schema_version":"loopx_migrate_workload_v1","name":"contradictions","begins_at":"2026-12-01T09:00:00Z"}`
	lines := []string{header}
	for i, operation := range strings.Split(strings.TrimSpace(`
"op":"claim","todo_id":"todo_260e9dc7b534","agent":"dora"
"op":"lease_acquire","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1","ttl_seconds":600
"op":"lease_acquire","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1","ttl_seconds":600
"op":"lease_acquire","todo_id":"todo_260e9dc7b534","agent":"emil","idempotency_key":"e1","ttl_seconds":600
"op":"claim","todo_id":"todo_260e9dc7b534","agent":"emil"
"op":"claim","todo_id":"todo_260e9dc7b534","agent":"dora"
"op":"claim","todo_id":"todo_260e9dc7b534","agent":"emil"
"op":"note","todo_id":"todo_260e9dc7b534","agent":"emil","text":"not mine"
"op":"complete","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d2"
"op":"complete","todo_id":"todo_260e9dc7b534","agent":"dora"
"op":"lease_renew","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1","ttl_seconds":30
"op":"lease_renew","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1","ttl_seconds":600
"op":"complete","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1"
"op":"lease_acquire","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1","ttl_seconds":600
"op":"lease_acquire","todo_id":"todo_260e9dc7b534","agent":"emil","idempotency_key":"e1","ttl_seconds":600
"op":"lease_release","todo_id":"todo_260e9dc7b534","agent":"emil","idempotency_key":"e1"
"op":"lease_release","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1"
"op":"lease_release","todo_id":"todo_260e9dc7b534","agent":"dora","idempotency_key":"d1"
"op":"add","todo_id":"todo_mine","text":"[P1-follow-up] Grüße, 你好: 50 % <done> & more","role":"agent"
"op":"lease_acquire","todo_id":"todo_mine","agent":"emil","idempotency_key":"e2","ttl_seconds":600
"op":"complete","todo_id":"todo_mine","agent":"emil","idempotency_key":"e2"
"op":"complete","todo_id":"todo_mine","agent":"emil","idempotency_key":"e2"
"op":"note","todo_id":"todo_mine","text":"after it was done"
"op":"lease_renew","todo_id":"todo_mine","agent":"emil","idempotency_key":"e2","ttl_seconds":600
"op":"lease_acquire","todo_id":"todo_none","agent":"emil","idempotency_key":"e3","ttl_seconds":600
"op":"claim","todo_id":"todo_none","agent":"emil"
"op":"archive","todo_id":"todo_mine"`), "\n") {
		lines = append(lines, fmt.Sprintf(`{"operation_id":"w-%02d",%s}`, i+1, operation))
	}
	path := filepath.Join(t.TempDir(), "contradictions.jsonl")
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	a, report := rehearse(t, earlier("0.5.2"), "--arms", "file,sqlite", "--workload", path)
	agreed(t, a, report)
}

// spoilt is a program that does what LoopX does, but for what the lines of shell do with
// its words in $*, and behind it with its --todo-id in $todo and its --runtime-root in $root.
func spoilt(t *testing.T, instead, behind string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "loopx")
	script := "#!/bin/sh\n" + instead + "\n'" + earlier("0.5.2") + "' \"$@\"; status=$?\n" +
		`all="$*"; root=; todo=; while [ $# -gt 0 ]; do case $1 in --runtime-root) root=$2;; --todo-id) todo=$2;; esac; shift; done` + "\n" +
		behind + "\nexit $status\n"
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// A LoopX that means something else is the odd arm, by the record and the field, or by the
// operation. 0.5.1 is one: a lease that ends takes its file with it.
func TestRehearsalNamesALoopXThatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		loopx       string
		code, field string
	}{
		"another epoch": {spoilt(t, "", `case $all in *"task-lease release"*) sed -i 's/"lease_epoch": [0-9]*/"lease_epoch": 77/' "$root"/goals/*/task-leases/$todo.json;; esac`),
			"record_differs", "].lease_epoch"},
		"an add that is lost": {spoilt(t, `case $* in *"Rehearse turn"*) echo '{"ok":true,"todo_id":"todo_0123456789ab"}'; exit 0;; esac`, ""), "", ""},
		"LoopX 0.5.1":         {earlier("0.5.1"), "record_missing", "leases["},
	} {
		t.Run(name, func(t *testing.T) {
			a, report := rehearse(t, c.loopx, "--arms", "file,sqlite", "--operations", "18")
			if a.exit != 4 || report == nil || report.OddArm != "legacy" || report.First == nil {
				t.Fatalf("%d %s", a.exit, a.text)
			}
			if (c.code != "" && report.First.Code != c.code) || !strings.Contains(report.First.Field, c.field) || report.First.TodoID == "" {
				t.Errorf("first difference %+v", report.First)
			}
		})
	}
}

// LoopX 2.1.1 writes no legacy files, and says so before anything was driven.
func TestRehearsalRefusesALoopXThatWritesNoFiles(t *testing.T) {
	a, report := rehearse(t, installed.loopx, "--arms", "sqlite")
	if a.exit != 3 || a.reason() != "loopx_not_usable" || report != nil || !strings.Contains(a.text, "canonical_authority_required") {
		t.Errorf("%d %s", a.exit, a.text)
	}
}

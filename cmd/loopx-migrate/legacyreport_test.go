package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A Goal without a store has evidence too: behind the fence and after an abort. The texts
// of its files are looked for, and so those without its files have none.
func TestReportOfLegacyFiles(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		exit   int
		code   string
	}{
		"clean":           {"upgraded", 0, "done"},
		"a Todo's text":   {"we had to Implement the parser first", 3, "evidence_private"},
		"a lease's value": {"run one of alice was the last", 3, "evidence_private"},
	} {
		t.Run(name, func(t *testing.T) {
			g, state := legacyGoal(t)
			lease := filepath.Join(filepath.Dir(state), "..", "..", "..", "..", "runtime", "goals", "demo-small", "task-leases", "todo_fce99541009e.json")
			text, err := os.ReadFile(lease)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, lease, bytes.Replace(text, []byte("small-run-1"), []byte("run one of alice"), 1))
			execute(t, 0, with(g, "freeze", "--to", "sqlite:", "--writers-stopped", "--accept", "loopx_0_5_1_seen:demo-small", "--owner", "ops", "--reason", c.reason)...)
			report := func() {
				t.Helper()
				dir := filepath.Join(t.TempDir(), "bundle")
				if got := ask(t, c.exit, with(g, "report", "--to", dir)...); got.ReasonCode != c.code {
					t.Errorf("report: %q, want %q", got.ReasonCode, c.code)
				}
				if c.exit == 0 {
					ask(t, 0, "evidence", "verify", dir)
				} else if _, err := os.Stat(dir); err == nil {
					t.Error("something was written")
				}
			}
			report()
			execute(t, 0, with(g, "abort")...)
			report()
			if err := os.WriteFile(state, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := ask(t, 3, with(g, "report", "--to", filepath.Join(t.TempDir(), "bundle"))...); got.ReasonCode != "privacy_scan_incomplete" {
				t.Errorf("without its files: %q", got.ReasonCode)
			}
		})
	}
}

// A state file that cannot be read behind the fence is no proof either.
func TestReportOfUnreadableFiles(t *testing.T) {
	g, state := legacyGoal(t)
	execute(t, 0, with(g, "freeze", "--to", "sqlite:", "--writers-stopped", "--accept", "loopx_0_5_1_seen:demo-small", "--owner", "ops", "--reason", "upgraded")...)
	if err := errors.Join(os.Remove(state), os.Mkdir(state, 0o700)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, 7, with(g, "report", "--to", filepath.Join(t.TempDir(), "bundle"))...); got.ReasonCode != "privacy_scan_incomplete" {
		t.Errorf("report: %q", got.ReasonCode)
	}
}

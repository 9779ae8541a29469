package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/canary"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgserver"
)

// canaryReport runs a canary that must end well and returns what the judge found.
func canaryReport(t *testing.T, kind string, args ...string) canary.Report {
	t.Helper()
	got := run(t, append([]string{"--output=json"}, args...)...)
	var said struct {
		Facts struct{ Arms map[string]canary.Report }
	}
	if err := json.Unmarshal([]byte(got.stdout), &said); err != nil || got.exit != 0 {
		t.Fatalf("exit %d, %v\n%s%s", got.exit, err, got.stdout, got.stderr)
	}
	report := said.Facts.Arms[kind]
	if report.Verdict != canary.Proved || report.Agents != 2 || report.Todos == 0 || report.Effects != canarySteps*report.Todos {
		t.Errorf("%+v", report)
	}
	for _, private := range []string{"/tmp", "password", os.TempDir(), "sing"} {
		if strings.Contains(got.stdout+got.stderr, private) {
			t.Errorf("%q was printed:\n%s%s", private, got.stdout, got.stderr)
		}
	}
	return report
}

// TestCanaryWantsItsMark: without a mark that names the Goal nothing is opened and not one
// byte changes; with it two processes work on the Goal's file journal.
func TestCanaryWantsItsMark(t *testing.T) {
	t.Parallel()
	dir := fixture.Copy(t, "goal-file-v1")
	root := filepath.Join(dir, "runtime")
	line := []string{"--runtime-root=" + root, "--goal-id=harbour-crane", "canary", "--todos=2"}
	for _, mark := range []string{"", "another-goal\n", "harbour-crane", "harbour-crane\nanother\n"} {
		if mark != "" {
			if err := os.WriteFile(filepath.Join(root, canary.MarkName), []byte(mark), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := fixture.TreeHash(t, dir)
		if got := ask(t, 3, line...); got.ReasonCode != "goal_not_disposable" {
			t.Fatalf("mark %q: %s", mark, got.ReasonCode)
		}
		fixture.Unchanged(t, dir, before)
	}
	if err := os.Remove(filepath.Join(root, canary.MarkName)); err != nil {
		t.Fatal(err)
	}
	if err := canary.Mark(root, "harbour-crane"); err != nil {
		t.Fatal(err)
	}
	canaryReport(t, "file", line...)
}

func TestCanaryOnSQLite(t *testing.T) {
	t.Parallel()
	canaryReport(t, "sqlite", "canary", "--store=sqlite", "--todos=2")
}

// TestCanaryWhilePostgreSQLGoesDown: the server is stopped in the middle and started again;
// what was acknowledged stays, and nobody performs an effect without a proof.
func TestCanaryWhilePostgreSQLGoesDown(t *testing.T) {
	t.Parallel()
	if pgserver.Programs() == "" {
		t.Skip("PostgreSQL tests skipped: no server programs (initdb, postgres) were found")
	}
	if report := canaryReport(t, "postgresql", "canary", "--store=postgres", "--todos=2"); report.Unreachable == 0 {
		t.Errorf("nobody met the outage: %+v", report)
	}
}

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/parity"
)

// brokenImports are the defects of bootstrap under the build tag brokenimport, and a check
// that has to find each.
var brokenImports = map[string]parity.CheckName{
	"drops_a_row":          parity.CheckScans,
	"stops_early":          parity.CheckHead,
	"swaps_two_rows":       parity.CheckScans,
	"repeats_a_row":        parity.CheckReceipts,
	"renames_an_operation": parity.CheckReceipts,
	"alters_a_receipt":     parity.CheckReceipts,
	"loses_a_receipt":      parity.CheckReceipts,
	"alters_an_event":      parity.CheckScans,
	"keeps_an_old_state":   parity.CheckScans,
	"turns_a_list_round":   parity.CheckScans,
}

// An import that errs and believes itself ends well each time, and compare finds it each
// time. The same program without a defect is found in order.
func TestCompareFindsABrokenImport(t *testing.T) {
	program := buildProgram(t, "brokenimport")
	root := filepath.Join(fixture.Copy(t, "goal-file-v1"), "runtime")
	for defect, check := range brokenImports {
		t.Run(defect, func(t *testing.T) {
			checks := brokenImport(t, program, root, defect, 4)
			if !slices.Contains(checks, string(check)) {
				t.Errorf("found by %v, and not by %s", checks, check)
			}
		})
	}
	if checks := brokenImport(t, program, root, "", 0); len(checks) != 0 {
		t.Errorf("without a defect: %v", checks)
	}
}

// brokenImport copies a journal with a defect, which has to end well, and returns the
// checks of the comparison that differ.
func brokenImport(t *testing.T, program, root, defect string, exit int) (differing []string) {
	t.Helper()
	target := "sqlite:" + filepath.Join(t.TempDir(), "copy.sqlite")
	run := func(want int, words ...string) (answer struct {
		Facts struct {
			Report parity.Report `json:"report"`
		} `json:"facts"`
		Next struct {
			Argv []string `json:"argv"`
		} `json:"next"`
	}) {
		t.Helper()
		cmd := exec.Command(program, words...)
		cmd.Env = append(os.Environ(), "LOOPX_MIGRATE_BROKEN_IMPORT="+defect)
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != want || json.Unmarshal(out, &answer) != nil {
			t.Fatalf("%v: exit %d, %v\n%s", words, cmd.ProcessState.ExitCode(), err, out)
		}
		return answer
	}
	globals := []string{"--runtime-root", root, "--goal-id", "harbour-crane", "--output", "json"}
	preview := run(0, append(globals, "import", "--from", "file:", "--to", target)...)
	run(0, preview.Next.Argv[1:]...)
	for _, c := range run(exit, append(globals, "compare", "--left", "file:", "--right", target)...).Facts.Report.Checks {
		if c.Outcome == parity.Differs || c.Outcome == parity.Failed {
			differing = append(differing, string(c.Name))
		}
	}
	return differing
}

// buildProgram builds the program under a build tag.
func buildProgram(t *testing.T, tag string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "loopx-migrate")
	if out, err := exec.Command("go", "build", "-tags", tag, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

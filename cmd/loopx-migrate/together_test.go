package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// TestSameCommandHundredTimes runs one executed line 100 times in each of two
// processes at once: one outcome, and after the first not one byte more.
func TestSameCommandHundredTimes(t *testing.T) {
	times := 100
	if testing.Short() {
		times = 10
	}
	dir := fixture.Copy(t, "goal-file-v1")
	g := []string{"--runtime-root=" + filepath.Join(dir, "runtime"), "--goal-id=harbour-crane"}
	line := ask(t, 0, with(g, "freeze", "--to", "sqlite:", "--operation-id", "op-one")...).Next.Argv[2:]
	var group sync.WaitGroup
	statuses := make([]map[string]int, 2)
	for i := range statuses {
		statuses[i] = map[string]int{}
		group.Go(func() {
			for range times {
				statuses[i][ask(t, 0, line...).Status]++
			}
		})
	}
	group.Wait()
	if done := statuses[0]["done"] + statuses[1]["done"]; done != 1 || statuses[0]["replayed"]+statuses[1]["replayed"] != 2*times-1 {
		t.Errorf("%v", statuses)
	}
	before := fixture.TreeHash(t, dir)
	if got := ask(t, 0, line...); got.Status != "replayed" {
		t.Errorf("status %s", got.Status)
	}
	other := append(append([]string{}, line...), "--execute")
	for i, word := range other {
		if word == "231" {
			other[i] = "230"
		}
	}
	if got := ask(t, 5, other[:len(other)-1]...); got.ReasonCode != "operation_identity_mismatch" {
		t.Errorf("other content: %s", got.ReasonCode)
	}
	fixture.Unchanged(t, dir, before)
}

// TestTwoOperators: two freezes under two operation ids at once. One wins, the other
// gets a typed refusal and changes nothing.
func TestTwoOperators(t *testing.T) {
	dir := fixture.Copy(t, "goal-file-v1")
	g := []string{"--output=json", "--runtime-root=" + filepath.Join(dir, "runtime"), "--goal-id=harbour-crane"}
	lines := [][]string{}
	for _, id := range []string{"op-a", "op-b"} {
		lines = append(lines, ask(t, 0, with(g[1:], "freeze", "--to", "sqlite:", "--operation-id", id)...).Next.Argv[1:])
	}
	answers := make([]answered, len(lines))
	var group sync.WaitGroup
	for i, line := range lines {
		group.Go(func() { answers[i] = run(t, line...) })
	}
	group.Wait()
	won := 0
	for _, a := range answers {
		switch a.exit {
		case 0:
			won++
		case 3, 5, 6:
		default:
			t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
		}
	}
	if won != 1 {
		t.Errorf("%d operators won", won)
	}
}

// TestForeignRuntimeRoot: a root that belongs to somebody else is looked at and never
// changed. That a fresh operation was refused is stored once, in this tool's own folder.
func TestForeignRuntimeRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := fixture.Copy(t, "goal-file-v1")
	root := filepath.Join(dir, "runtime")
	g := []string{"--runtime-root=" + root, "--goal-id=harbour-crane"}
	line := ask(t, 0, with(g, "freeze", "--to", "sqlite:")...).Next.Argv[2:]
	if err := os.Chown(root, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	ask(t, 3, line...)
	before := fixture.TreeHash(t, dir)
	ask(t, 0, with(g, "inspect")...)
	for range 3 {
		if got := ask(t, 3, line...); got.ReasonCode != "permission_denied" {
			t.Errorf("%s", got.ReasonCode)
		}
	}
	fixture.Unchanged(t, dir, before)
}

// TestWatchStatus: it prints a status, and again when that changes, until Ctrl-C,
// which is never exit 0.
func TestWatchStatus(t *testing.T) {
	dir := fixture.Copy(t, "goal-file-v1")
	g := []string{"--runtime-root=" + filepath.Join(dir, "runtime"), "--goal-id=harbour-crane"}
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("loopx-migrate", with(g, "status", "--watch", "--every", "20ms")...)
	cmd.Stdout = output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says := func(text string) func() bool {
		return func() bool {
			printed, err := os.ReadFile(output.Name())
			return err == nil && strings.Contains(string(printed), text)
		}
	}
	waitFor(t, says("never migrated"))
	execute(t, 0, with(g, "freeze", "--to", "sqlite:")...)
	waitFor(t, says("phase        frozen"))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its end is read from the state
	if exit := cmd.ProcessState.ExitCode(); exit != 130 {
		t.Errorf("exit %d", exit)
	}
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// legacyGoal is LoopX 0.5.1's small Goal in a state that can be promoted, and the flags
// that name it.
func legacyGoal(t *testing.T) (g []string, state string) {
	t.Helper()
	dir := fixture.Copy(t, filepath.Join("legacy", "small"))
	state = filepath.Join(dir, "project", ".codex", "goals", "demo-small", "ACTIVE_GOAL_STATE.md")
	lease := filepath.Join(dir, "runtime", "goals", "demo-small", "task-leases", "todo_fce99541009e.json")
	for path, change := range map[string][2]string{state: {"\nadapter_id", "\nhandoff_mode: hard_lease\nadapter_id"}, lease: {`"active"`, `"released"`}} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1))
	}
	return flags(dir, "demo-small"), state
}

// The legacy files through the command line, there and back: the writer that must fail is
// a process of its own, and nothing that is printed as JSON holds the text of a Todo.
func TestLegacyGoalThereAndBack(t *testing.T) {
	g, state := legacyGoal(t)
	before, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	seen := ask(t, 3, with(g, "inspect")...)
	if seen.ReasonCode != "loopx_0_5_1_seen" || len(seen.Facts.Holds) != 1 {
		t.Errorf("inspect: %s %+v", seen.ReasonCode, seen.Facts.Holds)
	}
	printed := run(t, with(g, "inspect", "--output", "json")...).stdout
	if strings.Contains(printed, "Implement the parser") || !strings.Contains(printed, `"todo_fce99541009e"`) {
		t.Errorf("inspect prints\n%s", printed)
	}
	owned := []string{"--owner", "ops", "--reason", "upgraded"}
	if got := ask(t, 3, with(g, append([]string{"freeze", "--to", "sqlite:", "--accept", "loopx_0_5_1_seen:demo-small"}, owned...)...)...); got.ReasonCode != "writers_not_stopped" {
		t.Errorf("without the attestation: %s", got.ReasonCode)
	}
	execute(t, 0, with(g, append([]string{"freeze", "--to", "sqlite:", "--writers-stopped", "--accept", "loopx_0_5_1_seen:demo-small"}, owned...)...)...)
	for _, command := range []string{"import", "compare", "promote", "project"} {
		execute(t, 0, with(g, command)...)
	}
	ask(t, 0, with(g, "project")...)
	if got := ask(t, 0, with(g, "status")...); got.Status != "promoted" {
		t.Errorf("status %s", got.Status)
	}
	ask(t, 0, with(g, "manifest", "verify")...)
	back := execute(t, 0, with(g, append([]string{"rollback", "--accept", "legacy_read_only_in_loopx_2_1:demo-small"}, owned...)...)...)
	if back.Status != "done" {
		t.Errorf("rollback %s", back.Status)
	}
	if got := ask(t, 3, with(g, "inspect")...); got.ReasonCode != "loopx_0_5_1_seen" || len(got.Facts.Holds) != 1 {
		t.Errorf("after the way back: %+v", got.Facts.Holds)
	}
	for name, next := range map[string][]string{"status": ask(t, 0, with(g, "status")...).Next.Argv[2:], "rollback": back.Next.Argv[2:],
		"compare": ask(t, 3, with(g, "compare")...).Next.Argv[2:]} {
		if got := ask(t, 3, next...); got.ReasonCode != "loopx_0_5_1_seen" {
			t.Errorf("what %s says to run next is held by %s", name, got.ReasonCode)
		}
		accepted := append(append(next, "--accept", "loopx_0_5_1_seen:demo-small"), owned...)
		if got := ask(t, 0, accepted...); got.Status != statusPreview {
			t.Errorf("what %s says to run next, with the hold accepted: %s", name, got.Status)
		}
	}
	after, err := os.ReadFile(state)
	if err != nil || proseLines(string(after)) != proseLines(string(before)) {
		t.Errorf("%v, the prose is now\n%s", err, after)
	}
}

// proseLines are the lines that no section of Todos has, blank ones left out.
func proseLines(state string) string {
	var prose strings.Builder
	for line := range strings.Lines(state) {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "- [") && !strings.HasPrefix(strings.TrimSpace(line), "<!-- loopx:todo") {
			prose.WriteString(line)
		}
	}
	return prose.String()
}

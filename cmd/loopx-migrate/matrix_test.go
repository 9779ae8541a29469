//go:build faultinject

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// remains is what a kill leaves: who accepts writes, and what status says.
type remains struct {
	accepts, state, phase string
	untried               bool // not killed at in a short run
}

// matrix is the crash matrix of one command: its durable effects in order, and what
// a kill right before each of them leaves behind. docs/crash-matrix.md is made of it.
type matrix struct {
	command string
	all     int // durable effects of a command that is broken at some of them only
	effects []string
	left    []remains
}

// compare fails unless the published matrix of the command is this one; with -update
// it is rewritten.
func (m matrix) compare(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "crash-matrix", m.command+".md")
	if *update && testing.Short() {
		t.Fatal("a short run knows too little to rewrite the crash matrix")
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(m.text()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(path)
	if err != nil || !agrees(string(published), m.text()) {
		t.Errorf("docs/crash-matrix/%s.md is not what was found (%v); run make golden and read the difference. Found:\n%s", m.command, err, m.text())
	}
}

// agrees compares line by line: of an effect that was not tried, found has the beginning.
func agrees(published, found string) bool {
	want, got := strings.Split(published, "\n"), strings.Split(found, "\n")
	if len(want) != len(got) {
		return false
	}
	for i := range got {
		if began, cut := strings.CutSuffix(got[i], untried); got[i] != want[i] && !(cut && strings.HasPrefix(want[i], began)) {
			return false
		}
	}
	return true
}

const untried = " (not tried)"

func (m matrix) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %d durable effects\n\n", m.command, max(m.all, len(m.effects)))
	if len(m.effects) < m.all {
		fmt.Fprintf(&b, "Broken at the %d that change a store, the selector or the record.\n", len(m.effects))
	}
	b.WriteString("Killed right before effect N, this is who accepts writes and what `status` says.\n\n")
	b.WriteString("| N | effect | accepts writes | status |\n|---|---|---|---|\n")
	for i, effect := range m.effects {
		number, rest, _ := strings.Cut(effect, " ")
		left := m.left[i]
		if left.untried {
			fmt.Fprintf(&b, "| %s | `%s` |%s\n", number, rest, untried)
			continue
		}
		accepts, status := left.accepts, left.state
		if accepts == "" {
			accepts = "nobody"
		}
		if left.phase != "" && left.phase != left.state {
			status += ", phase " + left.phase
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", number, rest, accepts, status)
	}
	return b.String()
}

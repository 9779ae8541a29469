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
type remains struct{ accepts, state, phase string }

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
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(m.text()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(path)
	if err != nil || string(published) != m.text() {
		t.Errorf("docs/crash-matrix/%s.md is not what was found (%v); run make golden and read the difference. Found:\n%s", m.command, err, m.text())
	}
}

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

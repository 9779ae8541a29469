//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// saved is a copy of all that stands in a Goal's folder.
type saved struct{ at string }

func (g goal) save() saved {
	g.t.Helper()
	at := g.t.TempDir()
	must(g.t, os.CopyFS(at, os.DirFS(g.root)))
	return saved{at}
}

// restore puts the Goal back to what was saved, at the same place: the record of a
// migration is bound to it.
func (g goal) restore(s saved) {
	g.t.Helper()
	must(g.t, os.RemoveAll(g.root))
	must(g.t, os.CopyFS(g.root, os.DirFS(s.at)))
}

// effect is the number of the durable effect of a command before which it is to be
// stopped: the first one whose trace holds the text. For that the command runs to its
// end, and the Goal is put back.
func (g goal) effect(text string, words ...string) int {
	g.t.Helper()
	before := g.save()
	trace := filepath.Join(g.t.TempDir(), "trace")
	line := g.preview(broken, words...)
	command(g.t, []string{"LM_FAULT_TRACE=" + trace, "LM_FAULT_ROOT=" + g.runtime()}, line...).done(g.t)
	g.restore(before)
	effects, err := os.ReadFile(trace)
	must(g.t, err)
	for i, effect := range strings.Split(string(effects), "\n") {
		if strings.Contains(effect, text) {
			return i + 1
		}
	}
	g.t.Fatalf("%v has no effect %q:\n%s", words, text, effects)
	return 0
}

// killed previews a command and kills the process that executes it before an effect.
func (g goal) killed(effect int, words ...string) {
	g.t.Helper()
	a := command(g.t, []string{fmt.Sprintf("LM_FAULT=kill:%d", effect)}, g.preview(broken, words...)...)
	if !a.killed {
		g.t.Fatalf("%v was not killed at effect %d: %s", words, effect, a.text)
	}
}

// paused is a command of this program that waits before one of its effects.
type paused struct {
	*process
	gate string
}

func (g goal) paused(effect int, words ...string) paused {
	g.t.Helper()
	gate := filepath.Join(g.t.TempDir(), "gate")
	line := g.preview(broken, words...)
	p := paused{start(g.t, []string{fmt.Sprintf("LM_PAUSE=%d:%s", effect, gate)}, line...), gate}
	g.t.Cleanup(func() { p.cancel() })
	until(g.t, "the command reaches its pause", func() bool { _, err := os.Stat(gate + ".reached"); return err == nil })
	return p
}

// goOn lets it go on and returns its answer.
func (p paused) goOn(t testing.TB) answer {
	t.Helper()
	must(t, os.WriteFile(p.gate, nil, 0o600))
	return p.wait(t)
}

// until waits for something that another process does.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s in vain until %s", patience, what)
		}
	}
}

// tree is what stands in the Goal's folder.
func (g goal) tree() fixture.Tree { g.t.Helper(); return fixture.TreeHash(g.t, g.root) }

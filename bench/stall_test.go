package bench

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// BenchmarkCutoverStall measures how long nobody can write: from the frozen selector
// to the published one, with 100 transactions that came after the history had been
// copied. The targets are a second, and with a history ten times as long at most half
// as much again.
func BenchmarkCutoverStall(b *testing.B) {
	const tail = 100
	for _, l := range []load{
		kib64("v0", 1000),
		{name: "v0-10000x4KiB", format: "v0", rows: 10_000, todos: 4, text: 550},
		{name: "v1-1000x1KiB", format: "v1", rows: 1000, todos: 2, text: 100},
		{name: "v1-10000x1KiB", format: "v1", rows: 10_000, todos: 2, text: 100},
		{name: "v1-100000x1KiB", format: "v1", rows: 100_000, todos: 2, text: 100},
	} {
		b.Run(l.name, func(b *testing.B) {
			pristine := newGoal(b, l)
			before := pristine.effectsBeforeLocks(b)
			var stalls time.Duration
			runs := 0
			for b.Loop() {
				g := pristine.copied(b)
				stalls += g.cutOver(b, before, l.tail(tail))
				runs++
			}
			b.ReportMetric(float64(stalls.Milliseconds())/float64(runs), "ms-stall")
		})
	}
}

// firstLock is the first durable effect of a cutover after everything was copied and
// before anything is locked or fenced.
const firstLock = "authority-transition/file-v0/shadow-management-"

// effectsBeforeLocks is the number of that effect, by a cutover of a copy.
func (g goal) effectsBeforeLocks(b *testing.B) int {
	b.Helper()
	rehearsed := g.copied(b)
	trace := filepath.Join(b.TempDir(), "trace")
	argv := rehearsed.cutoverLine(b)
	run(b, argv, "LM_FAULT_TRACE="+trace, "LM_FAULT_ROOT="+rehearsed.runtime)
	text, err := os.ReadFile(trace)
	must(b, err)
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, firstLock) {
			return i + 1
		}
	}
	b.Fatal("a cutover took no lock")
	return 0
}

// cutoverLine is the line that a preview prints, for the program that can be made to wait.
func (g goal) cutoverLine(b *testing.B) []string {
	b.Helper()
	argv := g.preview(b, "cutover", "--to", "sqlite:", "--max-stall", "1m")
	argv[0] = program(b, broken)
	return argv
}

// cutOver cuts a Goal over that takes a tail of commits right before it is locked.
func (g goal) cutOver(b *testing.B, effect int, tail iter.Seq[fixture.Step]) time.Duration {
	b.Helper()
	argv := g.cutoverLine(b)
	gate := filepath.Join(b.TempDir(), "gate")
	process := exec.Command(argv[0], argv[1:]...)
	process.Env = append(os.Environ(), fmt.Sprintf("LM_PAUSE=%d:%s", effect, gate))
	process.Stderr = os.Stderr
	must(b, process.Start())
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	for reached := false; !reached; {
		select {
		case err := <-ended:
			b.Fatalf("the cutover ended before it locked anything: %v", err)
		case <-time.After(5 * time.Millisecond):
			_, err := os.Stat(gate + ".reached")
			reached = err == nil
		}
	}
	g.append(b, tail)
	must(b, os.WriteFile(gate, nil, 0o600))
	must(b, <-ended)
	return g.stall(b)
}

// stall is what the record of the migration says.
func (g goal) stall(b *testing.B) time.Duration {
	b.Helper()
	found, err := filepath.Glob(filepath.Join(g.runtime, "authority-transition", "loopx-migrate", "*", "manifest.json"))
	must(b, err)
	if len(found) != 1 {
		b.Fatalf("%d manifests", len(found))
	}
	text, err := os.ReadFile(found[0])
	must(b, err)
	var sealed struct {
		Body struct {
			Promotion struct {
				Stall int64 `json:"stall_ms"`
			} `json:"promotion"`
		} `json:"body"`
	}
	must(b, json.Unmarshal(text, &sealed))
	return time.Duration(sealed.Body.Promotion.Stall) * time.Millisecond
}

// tail are the rows of a longer history that this one lacks.
func (l load) tail(rows int) iter.Seq[fixture.Step] {
	longer := l
	longer.rows += rows
	return func(yield func(fixture.Step) bool) {
		for step := range longer.steps() {
			if step.Cursor > l.rows && !yield(step) {
				return
			}
		}
	}
}

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

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
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
			before := pristine.effectsBeforeLocks(b, cutover()...)
			var total time.Duration
			runs := 0
			for b.Loop() {
				g := pristine.copied(b)
				g.pausedAt(b, before, func() { g.append(b, l.tail(tail)) }, cutover()...)
				total += g.stalls(b).Promotion.duration()
				runs++
			}
			b.ReportMetric(float64(total.Milliseconds())/float64(runs), "ms-stall")
		})
	}
}

// BenchmarkRollbackStall measures the same of a rollback from SQLite: from the fence to the
// restored selector, with 100 transactions that came after the export had been made and
// compared, and 100 that came before.
func BenchmarkRollbackStall(b *testing.B) {
	const tail = 100
	for _, l := range []load{
		{name: "v1-1000x1KiB", format: "v1", rows: 1000, todos: 2, text: 100},
		{name: "v1-10000x1KiB", format: "v1", rows: 10_000, todos: 2, text: 100},
		{name: "v1-100000x1KiB", format: "v1", rows: 100_000, todos: 2, text: 100},
	} {
		b.Run(l.name, func(b *testing.B) {
			pristine := newGoal(b, l)
			pristine.do(b, cutover()...)
			pristine.commit(b, l.tail(tail))
			before := pristine.effectsBeforeLocks(b, "rollback")
			var total time.Duration
			runs := 0
			for b.Loop() {
				g := pristine.copied(b)
				g.pausedAt(b, before, func() { g.commit(b, l.tail(2*tail)) }, "rollback")
				total += g.stalls(b).Rollback.duration()
				runs++
			}
			b.ReportMetric(float64(total.Milliseconds())/float64(runs), "ms-stall")
		})
	}
}

func cutover() []string { return []string{"cutover", "--to", "sqlite:", "--max-stall", "1m"} }

// firstLock is the first durable effect of a step after everything was copied and
// before anything is locked or fenced.
const firstLock = "authority-transition/file-v0/shadow-management-"

// effectsBeforeLocks is the number of that effect, by a step on a copy.
func (g goal) effectsBeforeLocks(b *testing.B, words ...string) int {
	b.Helper()
	rehearsed := g.copied(b)
	trace := filepath.Join(b.TempDir(), "trace")
	run(b, rehearsed.breakable(b, words...), "LM_FAULT_TRACE="+trace, "LM_FAULT_ROOT="+rehearsed.runtime)
	text, err := os.ReadFile(trace)
	must(b, err)
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, firstLock) {
			return i + 1
		}
	}
	b.Fatalf("%q took no lock", words)
	return 0
}

// breakable is the line that a preview prints, for the program that can be made to wait.
func (g goal) breakable(b *testing.B, words ...string) []string {
	b.Helper()
	argv := g.preview(b, words...)
	argv[0] = program(b, broken)
	return argv
}

// pausedAt runs a step and lets something happen right before one of its effects.
func (g goal) pausedAt(b *testing.B, effect int, meanwhile func(), words ...string) {
	b.Helper()
	argv := g.breakable(b, words...)
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
			b.Fatalf("%q ended before it locked anything: %v", words, err)
		case <-time.After(5 * time.Millisecond):
			_, err := os.Stat(gate + ".reached")
			reached = err == nil
		}
	}
	meanwhile()
	must(b, os.WriteFile(gate, nil, 0o600))
	must(b, <-ended)
}

// commit makes those of the steps that the promoted Goal lacks in its database, one by one.
func (g goal) commit(b *testing.B, steps iter.Seq[fixture.Step]) {
	b.Helper()
	place, err := authority.NewPlace(g.runtime, fixture.HistoryGoal)
	must(b, err)
	store, err := sqlitestore.Open(sqlitestore.Options{Path: place.Database(), GoalID: fixture.HistoryGoal, Mode: sqlitestore.ExistingOnly})
	must(b, err)
	for s := range steps {
		head, err := store.Load(b.Context())
		must(b, err)
		if uint64(s.Cursor) <= uint64(head.Cursor) {
			continue
		}
		_, err = store.Commit(b.Context(), authority.CommitRequest{Expected: head.Revision, OperationID: s.OperationID,
			Events: s.Events, Projection: s.Projection, Receipts: s.Receipts})
		must(b, err)
	}
	must(b, store.Close())
}

// stalls are what the record of the migration says.
type stalls struct{ Promotion, Rollback stall }

type stall struct {
	Milliseconds int64 `json:"stall_ms"`
}

func (s stall) duration() time.Duration { return time.Duration(s.Milliseconds) * time.Millisecond }

func (g goal) stalls(b *testing.B) stalls {
	b.Helper()
	found, err := filepath.Glob(filepath.Join(g.runtime, "authority-transition", "loopx-migrate", "*", "manifest.json"))
	must(b, err)
	if len(found) != 1 {
		b.Fatalf("%d manifests", len(found))
	}
	text, err := os.ReadFile(found[0])
	must(b, err)
	var sealed struct {
		Body stalls `json:"body"`
	}
	must(b, json.Unmarshal(text, &sealed))
	return sealed.Body
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

package bench

import (
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/perf"
)

// BenchmarkMemory walks Goals with projections of 1 MiB, and one with many operation
// ids, forward and back, and reports the most memory that each command had resident,
// and what is left of the budget: 96 MiB and 64 bytes an operation id.
func BenchmarkMemory(b *testing.B) {
	for _, l := range []load{
		{name: "v0-100x1MiB", format: "v0", rows: 100, todos: 120, text: 8400},
		{name: "v0-400x1MiB", format: "v0", rows: 400, todos: 120, text: 8400},
		{name: "v1-300x1MiB", format: "v1", rows: 300, todos: 120, text: 8400},
		{name: "v1-100000x1KiB", format: "v1", rows: 100_000, todos: 2, text: 100},
	} {
		b.Run(l.name, func(b *testing.B) {
			g := newGoal(b, l)
			for _, command := range []string{"inspect", "freeze", "import", "compare", "promote", "rollback"} {
				cost := g.step(b, command)
				b.Run(command, func(b *testing.B) { reportPeak(b, cost, l.rows) })
			}
		})
	}
}

// step takes one step of the way, which cannot be taken twice.
func (g goal) step(b *testing.B, command string) perf.Cost {
	b.Helper()
	switch command {
	case "inspect":
		_, cost := run(b, g.line(program(b, released), command))
		return cost
	case "freeze":
		return g.do(b, command, "--to", "sqlite:")
	}
	return g.do(b, command)
}

func reportPeak(b *testing.B, cost perf.Cost, operations int) {
	b.Helper()
	const budget, perOperation = 96 << 20, 64
	b.ReportMetric(0, "ns/op") // it was measured once, before
	b.ReportMetric(float64(cost.Peak)/(1<<20), "MiB-peak")
	b.ReportMetric(float64(budget+perOperation*int64(operations)-cost.Peak)/(1<<20), "MiB-left")
}

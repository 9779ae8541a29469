//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// longGoal is a Goal with a v0 journal of 200 transactions of 64 KiB, 13 MB: LoopX
// needs a minute for what is measured, and the time that either program takes to start
// is lost in it.
func longGoal(b *testing.B) goal {
	b.Helper()
	const transactions, todos, projection = 200, 40, 64 << 10
	g := newGoal(b, goalV0)
	dir := filepath.Dir(g.journal())
	must(b, os.RemoveAll(dir))
	fixture.FileV0(b, dir, goalID, fixture.History(1, transactions, todos, projection/todos))
	return g
}

// timed runs a command line to its good end.
func timed(b *testing.B, argv []string) time.Duration {
	b.Helper()
	began := time.Now()
	command(b, nil, argv...).done(b)
	return time.Since(began)
}

// report gives both times and their ratio: the one number that machines agree on.
func report(b *testing.B, loopx, ours time.Duration) {
	n := float64(b.N)
	b.ReportMetric(loopx.Seconds()/n, "loopx-s/op")
	b.ReportMetric(ours.Seconds()/n, "ours-s/op")
	b.ReportMetric(loopx.Seconds()/ours.Seconds(), "x")
}

// BenchmarkInteropVerify verifies one v0 journal with both programs. LoopX 2.1.1
// reads that format in the preview of its upgrade, which verifies every revision and
// makes the v1 document, and writes nothing.
func BenchmarkInteropVerify(b *testing.B) {
	g := longGoal(b)
	mine := g.lineOf(program(b, built), "verify", "file:")
	var loopx, ours time.Duration
	for b.Loop() {
		loopx += timed(b, g.loopxLine("authority-archive", "upgrade"))
		ours += timed(b, mine)
	}
	report(b, loopx, ours)
}

// BenchmarkInteropImport moves one history from a v1 journal into SQLite, verified
// before and after: LoopX by its own migration, this program by an import.
func BenchmarkInteropImport(b *testing.B) {
	g := longGoal(b)
	g.upgrade()
	before := g.save()
	var loopx, ours time.Duration
	for b.Loop() {
		b.StopTimer()
		g.restore(before)
		plan := filepath.Join(b.TempDir(), "plan.json")
		planned := g.loopx("authority-archive", "plan-migration", "--plan", plan, "--provider", "sqlite").done(b)
		mine := g.preview(built, "import", "--from", "file:", "--to", "sqlite:"+filepath.Join(b.TempDir(), "copy.sqlite"))
		b.StartTimer()
		ours += timed(b, mine)
		loopx += timed(b, g.loopxLine("authority-archive", "migrate", "--goal-id", goalID, "--plan", plan,
			"--plan-sha256", planned.is("plan_sha256"), "--execute"))
	}
	report(b, loopx, ours)
}

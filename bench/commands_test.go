package bench

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/perf"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

// measured are the journals that commands are measured on. In format v0 LoopX cannot
// read more text than the longest has.
var measured = []load{kib64("v0", 1000), kib64("v0", 7500)}

// against measures commands, each a process from its start to its end, against
// hashing the journal that they work on.
func against(b *testing.B, g goal, work func() perf.Cost) {
	b.Helper()
	var ratio perf.Ratio
	for b.Loop() {
		ratio.Yardstick(b, func() error { return perf.Hash(g.journal) })
		ratio.Add(work())
	}
	ratio.Report(b, "hash")
}

// BenchmarkInspect: targets 2 for a canonical journal, 4 for one spelled otherwise.
func BenchmarkInspect(b *testing.B) {
	for _, l := range append(measured, kib64("respelled", 1000)) {
		b.Run(l.name, func(b *testing.B) {
			g := newGoal(b, l)
			line := g.line(program(b, released), "inspect")
			against(b, g, func() perf.Cost {
				_, cost := run(b, line)
				return cost
			})
		})
	}
}

// BenchmarkImport: the command, which audits the candidate in full when it is sealed.
func BenchmarkImport(b *testing.B) {
	for _, l := range measured {
		b.Run(l.name, func(b *testing.B) {
			frozen := newGoal(b, l)
			frozen.do(b, "freeze", "--to", "sqlite:")
			var ratio perf.Ratio
			for b.Loop() {
				g := frozen.copied(b)
				ratio.Yardstick(b, func() error { return perf.Hash(g.journal) })
				ratio.Add(g.do(b, "import"))
			}
			ratio.Report(b, "hash")
		})
	}
}

// BenchmarkImportOnly: the same without that audit. The source is proved in full, the
// candidate sealed and durable. The target is 3.5.
func BenchmarkImportOnly(b *testing.B) {
	for _, l := range measured {
		b.Run(l.name, func(b *testing.B) {
			g := newGoal(b, l)
			source, err := filestore.Open(filestore.Options{Dir: filepath.Dir(g.journal), GoalID: fixture.HistoryGoal, Existence: filestore.ExistingOnly})
			must(b, err)
			var ratio perf.Ratio
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "candidate.sqlite")
				ratio.Yardstick(b, func() error { return perf.Hash(g.journal) })
				ratio.Work(b, func() error { return importInto(path, source) })
			}
			ratio.Report(b, "hash")
		})
	}
}

func importInto(path string, source *filestore.Store) error {
	ctx := context.Background()
	candidate, err := sqlitestore.CreateCandidate(ctx, sqlitestore.CandidateOptions{Path: path, GoalID: source.GoalID(),
		Identity: "sqlite:0123456789abcdef0123456789abcdef"})
	if err != nil {
		return err
	}
	_, err = bootstrap.Copy(ctx, source, nil, candidate, nil)
	return errors.Join(err, candidate.Close())
}

// BenchmarkCompare: the target is 5.
func BenchmarkCompare(b *testing.B) {
	for _, l := range measured {
		b.Run(l.name, func(b *testing.B) {
			g := newGoal(b, l)
			g.do(b, "freeze", "--to", "sqlite:")
			g.do(b, "import")
			line := g.line(program(b, released), "compare")
			against(b, g, func() perf.Cost {
				_, cost := run(b, line)
				return cost
			})
		})
	}
}

package sqlitestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// Only ratios inside one run count: each benchmark measures its yardstick beside itself.

const (
	benchTodos = 64 // of about 1 KiB each: projections of 64 KiB
	benchText  = 624
)

// benchRows is a history in memory, and how many bytes its projections have.
func benchRows(b *testing.B, transactions int) (rows []authority.Row, size int) {
	b.Helper()
	for row := range steps(b, transactions, benchTodos, benchText) {
		rows = append(rows, row)
		size += len(row.Projection)
	}
	return rows, size
}

// againstHash measures work against one core that hashes every projection once, by the
// clock and, which a busy machine spoils less, by processor time.
type againstHash struct {
	rows              []authority.Row
	wall, cpu         time.Duration // of the work
	hashWall, hashCPU time.Duration
}

func (a *againstHash) measure(work func()) {
	wall, cpu := timed(work)
	hashWall, hashCPU := timed(func() {
		sum := sha256.New()
		for _, row := range a.rows {
			sum.Write(row.Projection)
		}
		sum.Sum(nil)
	})
	a.wall, a.cpu, a.hashWall, a.hashCPU = a.wall+wall, a.cpu+cpu, a.hashWall+hashWall, a.hashCPU+hashCPU
}

func (a *againstHash) report(b *testing.B) {
	b.ReportMetric(a.wall.Seconds()/a.hashWall.Seconds(), "xhash")
	b.ReportMetric(a.cpu.Seconds()/a.hashCPU.Seconds(), "xhash-cpu")
}

func timed(work func()) (wall, cpu time.Duration) {
	start, before := time.Now(), processorTime()
	work()
	return time.Since(start), processorTime() - before
}

func processorTime() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkBulkLoad(b *testing.B) {
	rows, size := benchRows(b, 1000)
	b.SetBytes(int64(size))
	ratio := againstHash{rows: rows}
	for b.Loop() {
		ratio.measure(func() {
			c := newCandidate(b, candidateOptions(b, fixture.HistoryGoal, identitySmall))
			requireLoaded(b, c, slices.Values(rows))
			if err := c.Seal(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
	ratio.report(b)
}

func BenchmarkAudit(b *testing.B) {
	rows, size := benchRows(b, 1000)
	c := newCandidate(b, candidateOptions(b, fixture.HistoryGoal, identitySmall))
	requireLoaded(b, c, slices.Values(rows))
	if err := c.Seal(context.Background()); err != nil {
		b.Fatal(err)
	}
	s := openStore(b, Options{Path: c.options.Path, GoalID: fixture.HistoryGoal})
	b.SetBytes(int64(size))
	ratio := againstHash{rows: rows}
	for b.Loop() {
		ratio.measure(func() {
			if _, err := s.Audit(context.Background(), nil, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
	ratio.report(b)
}

// BenchmarkDurableCommit alternates a commit with the yardstick: 12 KiB written over
// themselves and fdatasync, in the same folder.
func BenchmarkDurableCommit(b *testing.B) {
	rows, _ := benchRows(b, 500)
	folder := b.TempDir()
	s := openStore(b, Options{Path: filepath.Join(folder, "d.sqlite"), GoalID: fixture.HistoryGoal, Mode: ReadWrite})
	plain, err := os.Create(filepath.Join(folder, "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer requireClosed(b, plain)
	block := make([]byte, 12<<10)
	var commits, writes []time.Duration
	var expected authority.Revision
	next := 0
	for b.Loop() {
		row := rows[next%len(rows)]
		next++
		request := authority.CommitRequest{Expected: expected, OperationID: fmt.Sprint("op-", next),
			Events: row.Events, Projection: row.Projection, Receipts: row.Receipts}
		start := time.Now()
		applied, err := s.Commit(context.Background(), request)
		commits = append(commits, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		expected = applied.Revision
		start = time.Now()
		if _, err := plain.WriteAt(block, 0); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(plain.Fd())); err != nil {
			b.Fatal(err)
		}
		writes = append(writes, time.Since(start))
	}
	reportQuantiles(b, commits, writes)
}

func reportQuantiles(b *testing.B, of, against []time.Duration) {
	for _, q := range []float64{0.50, 0.95} {
		mine, plain := quantile(of, q), quantile(against, q)
		b.ReportMetric(float64(mine.Microseconds()), fmt.Sprintf("us/p%.0f", 100*q))
		b.ReportMetric(float64(mine)/float64(plain), fmt.Sprintf("xplain/p%.0f", 100*q))
	}
}

func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[int(q*float64(len(sorted)-1))]
}

// BenchmarkHistoryLength asks a long history and a short one in turns.
func BenchmarkHistoryLength(b *testing.B) {
	short, long := smallRows(b, 1_000), smallRows(b, 100_000)
	ctx := context.Background()
	for name, ask := range map[string]func(*Store, int) error{
		"load": func(s *Store, _ int) error { _, err := s.Load(ctx); return err },
		"receipt": func(s *Store, n int) error {
			_, err := s.Receipt(ctx, fmt.Sprint("op-", 1+n*37%1000))
			return err
		},
		"scan100": func(s *Store, n int) error {
			_, err := s.Scan(ctx, authority.Cursor(n*37%900), 100)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took [2][]time.Duration
			n := 0
			for b.Loop() {
				n++
				for i, s := range []*Store{long, short} {
					start := time.Now()
					if err := ask(s, n); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			b.ReportMetric(float64(quantile(took[0], 0.95).Microseconds()), "us-long/p95")
			b.ReportMetric(float64(quantile(took[0], 0.95))/float64(quantile(took[1], 0.95)), "xshort/p95")
		})
	}
}

// smallRows is an open store of that many rows of a few hundred bytes.
func smallRows(b *testing.B, transactions int) *Store {
	b.Helper()
	o := candidateOptions(b, fixture.HistoryGoal, identitySmall)
	c := newCandidate(b, o)
	for n := 1; n <= transactions; n++ {
		row := authority.Row{Transaction: authority.Transaction{
			Cursor: authority.Cursor(n), OperationID: fmt.Sprint("op-", n),
			Events: []byte(`[{"kind":"step"}]`), Receipts: []byte(`[{"done":true}]`),
			Projection: fmt.Appendf(nil, `{"goal_id":"harbour-crane","n":%d,"text":"%0400d"}`, n, n),
		}}
		if err := c.Append(context.Background(), row); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Seal(context.Background()); err != nil {
		b.Fatal(err)
	}
	return openStore(b, Options{Path: o.Path, GoalID: fixture.HistoryGoal, Mode: ExistingOnly})
}

package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// BenchmarkHistoryLength asks a long history and a short one on the same server in turns;
// xshort, at the 95th percentile, is to be at most 1.5.
func BenchmarkHistoryLength(b *testing.B) {
	bench := installed(b)
	stores := []*Store{smallRows(b, bench, 100_000), smallRows(b, bench, 1_000)}
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
				for i, s := range stores {
					start := time.Now()
					if err := ask(s, n); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			b.ReportMetric(float64(percentile(took[0], 95).Microseconds()), "us-long/p95")
			b.ReportMetric(float64(percentile(took[0], 95))/float64(percentile(took[1], 95)), "xshort/p95")
		})
	}
}

// smallRows is a candidate of that many rows of a few hundred bytes, and the statistics
// that the server makes of it by itself sooner or later.
func smallRows(b *testing.B, bench *bench, transactions int) *Store {
	b.Helper()
	o := bench.candidate(bench.operator, freshGoal())
	c := createCandidate(b, o)
	for n := 1; n <= transactions; n++ {
		text := func(format string, args ...any) authority.Canonical {
			value, err := canonical.Append(nil, fmt.Appendf(nil, format, args...))
			if err != nil {
				b.Fatal(err)
			}
			return value
		}
		row := authority.Row{Transaction: authority.Transaction{Cursor: authority.Cursor(n), OperationID: fmt.Sprint("op-", n),
			Events: text(`[{"kind":"step"}]`), Receipts: text(`[{"done":true}]`), Projection: text(`{"n":%d,"text":"%0400d"}`, n, n)}}
		if err := c.Append(context.Background(), row); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Seal(context.Background()); err != nil {
		b.Fatal(err)
	}
	bench.Exec(b, "ANALYZE")
	return bench.store(b, o.GoalID)
}

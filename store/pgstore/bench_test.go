package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// benchRows are transactions of 64 KiB projections, of which consecutive ones differ in
// one record, as in spec'd measurements.
func benchRows(n int) []authority.Row {
	var rows []authority.Row
	for step := range fixture.History(3, n, 64, 600) {
		rows = append(rows, authority.Row{Transaction: authority.Transaction{Cursor: authority.Cursor(step.Cursor), OperationID: step.OperationID,
			Events: step.Events, Projection: step.Projection, Receipts: step.Receipts}, StateDigest: authority.DigestOf(step.Projection)})
	}
	return rows
}

// plainCopy copies the same rows into tables of the same shape without anything of ours, in
// batches of the same size: the yardstick of an import.
func plainCopy(b *testing.B, conn *pgx.Conn, o CandidateOptions, rows []authority.Row) {
	b.Helper()
	c := &Candidate{options: o}
	for chunk := range slices.Chunk(rows, defaultBatchRows) {
		text := c.blank()
		for _, row := range chunk {
			text.add(row)
		}
		tx, err := conn.Begin(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		for i, part := range []*bytes.Buffer{&text.commits, &text.events, &text.receipts} {
			if _, err := conn.PgConn().CopyFrom(context.Background(), part, "COPY plain."+copies[i].table+" ("+copies[i].columns+") FROM STDIN"); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func plainTables(b *testing.B, db *pgtest.Database) {
	b.Helper()
	db.Exec(b, "CREATE SCHEMA plain", `CREATE TABLE plain.authority_heads (LIKE loopx_control_plane.authority_heads INCLUDING ALL)`,
		`CREATE TABLE plain.authority_commits (LIKE loopx_control_plane.authority_commits INCLUDING ALL)`,
		`CREATE TABLE plain.authority_events (LIKE loopx_control_plane.authority_events INCLUDING ALL)`,
		`CREATE TABLE plain.authority_receipts (LIKE loopx_control_plane.authority_receipts INCLUDING ALL)`)
}

// BenchmarkImport measures the load of 1,000 rows against COPY of the same rows on the same
// server in turn; copy-ratio is to be at most 1.25.
func BenchmarkImport(b *testing.B) {
	bench := installed(b)
	plainTables(b, bench.Database)
	rows := benchRows(1000)
	var copying, loading time.Duration
	conn := bench.Connect(b, pgtest.Admin)
	for b.Loop() {
		o := bench.candidate(bench.operator, freshGoal())
		o.BatchRows = 0
		start := time.Now()
		plainCopy(b, conn, o, rows)
		copying += time.Since(start)
		start = time.Now()
		c := createCandidate(b, o)
		for _, row := range rows {
			if err := c.Append(context.Background(), row); err != nil {
				b.Fatal(err)
			}
		}
		if err := c.Seal(context.Background()); err != nil {
			b.Fatal(err)
		}
		loading += time.Since(start)
	}
	size := 0
	for _, row := range rows {
		size += len(row.Projection) + len(row.Events) + len(row.Receipts)
	}
	b.ReportMetric(float64(loading)/float64(copying), "copy-ratio")
	b.ReportMetric(float64(size)*float64(b.N)/1e6/loading.Seconds(), "MB/s")
}

// BenchmarkCommit measures durable commits of 64 KiB projections against bare transactions
// that write the same rows, head included; bare-ratio, at the 95th percentile, is to be at most 2.
func BenchmarkCommit(b *testing.B) {
	bench := installed(b)
	plainTables(b, bench.Database)
	rows := benchRows(200)
	conn := bench.Connect(b, pgtest.Admin)
	s := bench.store(b, freshGoal())
	var on authority.Applied
	var bare, ours []time.Duration
	for b.Loop() {
		row := rows[int(on.Cursor)%len(rows)]
		operation := fmt.Sprintf("op-%d", on.Cursor)
		start := time.Now()
		bareInsert(b, conn, on.Cursor+1, operation, row)
		bare = append(bare, time.Since(start))
		start = time.Now()
		applied, err := s.Commit(context.Background(), authority.CommitRequest{Expected: on.Revision, OperationID: operation, Events: row.Events, Projection: row.Projection, Receipts: row.Receipts})
		if err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(start))
		on = applied
	}
	b.ReportMetric(float64(percentile(ours, 95))/float64(percentile(bare, 95)), "bare-ratio-p95")
	b.ReportMetric(float64(percentile(ours, 50))/float64(percentile(bare, 50)), "bare-ratio-p50")
}

func bareInsert(b *testing.B, conn *pgx.Conn, cursor authority.Cursor, operation string, row authority.Row) {
	b.Helper()
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, insert := range []struct {
		sql  string
		text []byte
	}{
		{"INSERT INTO plain.authority_commits (tenant_id, goal_id, cursor, provider_revision, operation_id, projection) VALUES ('t', 'g', $1, $1, $2, $3)", row.Projection},
		{"INSERT INTO plain.authority_events (tenant_id, goal_id, cursor, event_index, event) SELECT 't', 'g', $1, 0, $3::jsonb WHERE $2 <> ''", row.Events},
		{"INSERT INTO plain.authority_receipts (tenant_id, goal_id, cursor, receipt_index, receipt) SELECT 't', 'g', $1, 0, $3::jsonb WHERE $2 <> ''", row.Receipts},
		{`INSERT INTO plain.authority_heads (tenant_id, goal_id, cursor, provider_revision, head) SELECT 't', 'g', $1, $1, $3::jsonb WHERE $2 <> ''
			ON CONFLICT (tenant_id, goal_id) DO UPDATE SET cursor = excluded.cursor, provider_revision = excluded.cursor, head = excluded.head`, row.Projection},
	} {
		if _, err := conn.Exec(ctx, insert.sql, int64(cursor), operation, string(insert.text)); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		b.Fatal(err)
	}
}

func percentile(times []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)*p/100]
}

// BenchmarkAudit proves 1,000 rows.
func BenchmarkAudit(b *testing.B) {
	bench := installed(b)
	o := bench.candidate(bench.operator, freshGoal())
	c := createCandidate(b, o)
	size := 0
	for _, row := range benchRows(1000) {
		size += len(row.Projection)
		if err := c.Append(context.Background(), row); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Seal(context.Background()); err != nil {
		b.Fatal(err)
	}
	s := bench.store(b, o.GoalID)
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := s.Audit(context.Background(), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

package pgstore

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

var _ bootstrap.Candidate = (*Candidate)(nil)

func (b *bench) candidate(role, goal string) CandidateOptions {
	return CandidateOptions{Server: Server{DSN: b.DSN(role)}, Tenant: "tenant-a", GoalID: goal, CandidateID: "loopx-migrate:m1", BatchRows: 64}
}

func createCandidate(t testing.TB, o CandidateOptions) *Candidate {
	t.Helper()
	c, err := CreateCandidate(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it never fails
	return c
}

// historyRows are the first n rows of one made history, as an audit of a source shows them.
func historyRows(n int) iter.Seq[authority.Row] {
	return func(yield func(authority.Row) bool) {
		for step := range fixture.History(7, 1000, 6, 60) {
			if step.Cursor > n {
				return
			}
			row := authority.Row{Transaction: authority.Transaction{Cursor: authority.Cursor(step.Cursor), OperationID: step.OperationID,
				Events: step.Events, Projection: step.Projection, Receipts: step.Receipts}, StateDigest: authority.DigestOf(step.Projection)}
			if !yield(row) {
				return
			}
		}
	}
}

func load(t testing.TB, c *Candidate, rows iter.Seq[authority.Row]) {
	t.Helper()
	have, _, err := c.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for row := range rows {
		if row.Cursor <= have {
			continue
		}
		if err := c.Append(context.Background(), row); err != nil {
			t.Fatal(err)
		}
	}
}

// logicalOf is the logical digest of rows, which stores must agree on.
func logicalOf(rows iter.Seq[authority.Row]) authority.Digest {
	sum := authority.NewLogicalHash()
	for row := range rows {
		sum.Add(row)
	}
	return sum.Digest()
}

// TestCandidate loads in batches, dies, goes on, and is audited; as a role under row-level
// security and as one that passes it.
func TestCandidate(t *testing.T) {
	b := installed(t)
	for name, role := range map[string]string{"operator": b.operator, "superuser": pgtest.Admin} {
		t.Run(name, func(t *testing.T) {
			o := b.candidate(role, freshGoal())
			_, err := OpenCandidate(t.Context(), o)
			requireReason(t, "open before it was made", err, authority.ClassMissing, authority.ReasonNone)
			c := createCandidate(t, o)
			load(t, c, historyRows(100))
			if err := c.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			load(t, c, historyRows(150)) // these die with it
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if c, err = OpenCandidate(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			have, sum, err := c.Head(t.Context())
			if err != nil || have != 100 {
				t.Fatalf("it goes on at %s, %v", have, err)
			}
			for row := range historyRows(int(have)) {
				if row.Cursor == have && row.StateDigest != sum {
					t.Error("the digest of its head is another")
				}
			}
			load(t, c, historyRows(200))
			if err := c.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			requireLoaded(t, b, o, 200)
		})
	}
}

// requireLoaded audits a candidate, sees that only its importer can write it, and releases it.
func requireLoaded(t *testing.T, b *bench, o CandidateOptions, n int) {
	t.Helper()
	s := b.store(t, o.GoalID)
	lineage := audited(t, s)
	if lineage.Logical != logicalOf(historyRows(n)) || int(lineage.Transactions) != n {
		t.Errorf("the candidate holds %d rows with digest %s", lineage.Transactions, lineage.Logical)
	}
	on := authority.Applied{Cursor: lineage.End.Cursor, Revision: lineage.End.Revision}
	if err := b.loopx(t, o.GoalID, "").commit(int64(n)+1, "too-early"); !fencedBy(err, o.CandidateID) {
		t.Errorf("LoopX's commit into a candidate: %v", err)
	}
	_, err := s.Commit(t.Context(), request(on, "too-early"))
	requireReason(t, "our commit into a candidate", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	requireReason(t, "a fence over a candidate", s.EngageFence(t.Context(), "fence-1", on), authority.ClassConflict, ReasonFenceHeld)
	requireReason(t, "release by another", s.ReleaseCandidate(t.Context(), "other", on), authority.ClassConflict, ReasonFenceHeld)
	requireReason(t, "release elsewhere", s.ReleaseCandidate(t.Context(), o.CandidateID, authority.Applied{Cursor: 1, Revision: "x"}), authority.ClassConflict, authority.ReasonRevisionMismatch)
	for range 2 {
		if err := s.ReleaseCandidate(t.Context(), o.CandidateID, on); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.loopx(t, o.GoalID, "").commit(int64(n)+1, "in-time"); err != nil {
		t.Errorf("LoopX's commit after the release: %v", err)
	}
	audited(t, s)
	_, err = CreateCandidate(t.Context(), o)
	requireReason(t, "a candidate over an authority", err, authority.ClassFailed, authority.ReasonForeignStore)
	_, err = OpenCandidate(t.Context(), o)
	requireReason(t, "opening an authority as a candidate", err, authority.ClassFailed, authority.ReasonForeignStore)
}

// TestCandidateRefusals: rows out of turn, rows that PostgreSQL cannot hold, ids that stand
// twice, a place that is taken, a role that may not.
func TestCandidateRefusals(t *testing.T) {
	b := installed(t)
	o := b.candidate(b.operator, freshGoal())
	row := func(cursor int, id, receipts string) authority.Row {
		return authority.Row{Transaction: authority.Transaction{Cursor: authority.Cursor(cursor), OperationID: id, Events: []byte(`[]`), Projection: []byte(`{}`), Receipts: []byte(receipts)}}
	}
	c := createCandidate(t, o)
	requireReason(t, "out of turn", c.Append(t.Context(), row(2, "op-2", `[]`)), authority.ClassFailed, authority.ReasonInvalidCommit)
	nul := requireReason(t, "NUL", c.Append(t.Context(), row(1, "op-1", `[{"a":"x\u0000"}]`)), authority.ClassFailed, authority.ReasonInvalidCommit)
	if nul.Field != "receipts[0].a" || nul.Cursor != 1 {
		t.Errorf("it names %s at %s", nul.Field, nul.Cursor)
	}
	odd := "op\t1\\n\r\nwith 'odd' \"characters\" ☃"
	if err := c.Append(t.Context(), row(1, odd, `[{"a":"\\u0000 \n\t\\"}]`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	receipt, err := b.store(t, o.GoalID).Receipt(t.Context(), odd)
	if err != nil || string(receipt.Receipts) != `[{"a":"\\u0000 \n\t\\"}]` {
		t.Errorf("it came back as %s, %v", receipt.Receipts, err)
	}
	if err := c.Append(t.Context(), row(2, odd, `[]`)); err != nil {
		t.Fatal(err)
	}
	requireReason(t, "an id twice", c.Flush(t.Context()), authority.ClassConflict, authority.ReasonOperationExists)
	other := o
	other.CandidateID = "loopx-migrate:m2"
	_, err = OpenCandidate(t.Context(), other)
	requireReason(t, "another's candidate", err, authority.ClassConflict, ReasonFenceHeld)
	_, err = CreateCandidate(t.Context(), b.candidate(b.runtime, freshGoal()))
	requireReason(t, "as the runtime role", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	two, err := OpenCandidate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	three, err := OpenCandidate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer three.Close()
	if err := two.Append(t.Context(), row(2, "op-2", `[]`)); err != nil {
		t.Fatal(err)
	}
	if err := two.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := three.Append(t.Context(), row(2, "op-2b", `[]`)); err != nil {
		t.Fatal(err)
	}
	requireReason(t, "two importers", three.Flush(t.Context()), authority.ClassFailed, authority.ReasonForeignStore)
	audited(t, b.store(t, o.GoalID))
}

// TestThereAndBack sets a candidate aside, loads again, releases, goes on with LoopX's
// statements, fences, sets aside, brings back, sets aside again, and loads a third time.
func TestThereAndBack(t *testing.T) {
	b := installed(t)
	o := b.candidate(b.operator, freshGoal())
	s := b.store(t, o.GoalID)
	_, err := s.SetAside(t.Context(), o.CandidateID)
	requireReason(t, "nothing to set aside", err, authority.ClassMissing, authority.ReasonNone)
	fill(t, createCandidate(t, o), 20)
	first := setAside(t, s, o.CandidateID)
	if now, err := s.Standing(t.Context()); err != nil || now.State != FenceOpen {
		t.Errorf("behind a candidate that was set aside: %+v, %v", now, err)
	}
	fill(t, createCandidate(t, o), 30)
	lineage := audited(t, s)
	if err := s.ReleaseCandidate(t.Context(), o.CandidateID, at(lineage)); err != nil {
		t.Fatal(err)
	}
	if err := b.loopx(t, o.GoalID, "").commit(31, "by-loopx"); err != nil {
		t.Fatal(err)
	}
	lineage = audited(t, s)
	before := contents(t, s)
	if err := s.EngageFence(t.Context(), "fence-back", at(lineage)); err != nil {
		t.Fatal(err)
	}
	fenced := contents(t, s)
	_, err = s.SetAside(t.Context(), "other-fence")
	requireReason(t, "set aside under another fence", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	second := setAside(t, s, "fence-back")
	if err := b.loopx(t, o.GoalID, "").commit(1, "second-lineage"); !fencedBy(err, "fence-back") {
		t.Errorf("a writer that found the place empty: %v", err)
	}
	for range 2 {
		if id, err := s.BringBack(t.Context(), second); err != nil || id != "fence-back" {
			t.Fatalf("bring back: %q, %v", id, err)
		}
	}
	if after := contents(t, s); after != fenced {
		t.Error("what came back is not what was set aside")
	}
	if err := s.LiftFence(t.Context(), "fence-back"); err != nil {
		t.Fatal(err)
	}
	if after := contents(t, s); after != before {
		t.Error("after lifting it is not what it was")
	}
	if err := s.EngageFence(t.Context(), "fence-again", at(audited(t, s))); err != nil {
		t.Fatal(err)
	}
	third := setAside(t, s, "fence-again")
	fill(t, createCandidate(t, o), 40)
	audited(t, s)
	_, err = s.BringBack(t.Context(), third)
	requireReason(t, "bring back where a candidate stands", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	if ids := strings.Join([]string{first, second, third}, " "); first == second || second == third {
		t.Errorf("quarantines: %s", ids)
	}
	kept := b.Text(t, "SELECT string_agg(quarantine_id || ' ' || n, ',' ORDER BY n) FROM (SELECT quarantine_id, count(*) AS n FROM loopx_control_plane.loopx_migrate_quarantine_commits GROUP BY 1) AS q")
	if kept != first+" 20,"+third+" 31" {
		t.Errorf("the quarantine keeps %s", kept)
	}
}

func at(lineage authority.Lineage) authority.Applied {
	return authority.Applied{Cursor: lineage.End.Cursor, Revision: lineage.End.Revision}
}

func fill(t testing.TB, c *Candidate, n int) {
	t.Helper()
	load(t, c, historyRows(n))
	if err := c.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// setAside does it twice: the second time is a retry, which must say the same.
func setAside(t testing.TB, s *Store, fence string) string {
	t.Helper()
	id, err := s.SetAside(context.Background(), fence)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.SetAside(context.Background(), fence); err != nil || again != id {
		t.Fatalf("set aside again: %q, %v", again, err)
	}
	if _, err := s.Load(context.Background()); !strings.Contains(err.Error(), "missing") {
		t.Fatalf("load behind it: %v", err)
	}
	return id
}

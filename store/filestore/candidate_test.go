package filestore

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf16"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

const candidateIdentity = authority.Identity("file:1a1710e50cdf4a95a03f277164661ccc")

func newCandidateOptions(t testing.TB) CandidateOptions {
	dir := filepath.Join(t.TempDir(), "staging")
	return CandidateOptions{Path: DocumentPath(dir, fixture.HistoryGoal), IdentityPath: IdentityPath(dir), GoalID: fixture.HistoryGoal, Identity: candidateIdentity}
}

func openCandidate(t testing.TB, o CandidateOptions) *Candidate {
	t.Helper()
	c, err := OpenCandidate(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// historyRows are transactions with the revisions of no store.
func historyRows(n int) iter.Seq[authority.Row] {
	return func(yield func(authority.Row) bool) {
		for step := range fixture.History(7, n, 4, 20) {
			row := authority.Row{Transaction: authority.Transaction{
				Cursor: authority.Cursor(step.Cursor), OperationID: step.OperationID,
				Events: step.Events, Projection: step.Projection, Receipts: step.Receipts,
			}}
			if !yield(row) {
				return
			}
		}
	}
}

// byCommits makes the same journal with one commit a row and returns its text.
func byCommits(t testing.TB, n int) string {
	t.Helper()
	o := newCandidateOptions(t)
	if err := AdoptIdentity(o.IdentityPath, o.Identity); err != nil {
		t.Fatal(err)
	}
	s, err := OpenDocument(o.Path, o.IdentityPath, Options{GoalID: o.GoalID})
	if err != nil {
		t.Fatal(err)
	}
	var at authority.Applied
	for row := range historyRows(n) {
		at, err = s.Commit(context.Background(), authority.CommitRequest{Expected: at.Revision, OperationID: row.OperationID,
			Events: row.Events, Projection: row.Projection, Receipts: row.Receipts})
		if err != nil {
			t.Fatal(err)
		}
	}
	return textOf(t, o.Path)
}

func textOf(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A candidate loaded over several checkpoints, with flushes and with a process that gave
// up in between, is byte for byte the journal that single commits make.
func TestCandidateIsWhatCommitsMake(t *testing.T) {
	const n = 200
	o := newCandidateOptions(t)
	c := openCandidate(t, o)
	for row := range historyRows(n) {
		if row.Cursor == 90 { // rows 71 to 89 were not flushed
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			c = openCandidate(t, o)
			again(t, c, 70, n)
		}
		if err := c.Append(context.Background(), row); err != nil {
			t.Fatalf("row %s: %v", row.Cursor, err)
		}
		if row.Cursor == 70 {
			if err := c.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	if head, sum, err := c.Head(context.Background()); err != nil || head != n || sum.IsZero() {
		t.Errorf("head %s %s, %v", head, sum, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if textOf(t, o.Path) != byCommits(t, n) {
		t.Error("the journal is not the one that commits make")
	}
	entries, err := os.ReadDir(filepath.Dir(o.Path))
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the journal and its identity: %v, %v", entries, err)
	}
}

// again appends the rows after the head up to 89.
func again(t *testing.T, c *Candidate, head authority.Cursor, n int) {
	t.Helper()
	if at, _, err := c.Head(context.Background()); err != nil || at != head {
		t.Fatalf("taken up at %s, %v", at, err)
	}
	for row := range historyRows(n) {
		if row.Cursor == 90 {
			return
		}
		if row.Cursor > head {
			if err := c.Append(context.Background(), row); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCandidateRefuses(t *testing.T) {
	ctx := context.Background()
	row := func(cursor int, id string) authority.Row {
		return authority.Row{Transaction: authority.Transaction{Cursor: authority.Cursor(cursor), OperationID: id, Events: []byte("[]"), Projection: []byte("{}"), Receipts: []byte("[]")}}
	}
	for _, c := range []struct {
		name   string
		rows   []authority.Row
		class  authority.Class
		reason authority.Reason
	}{
		{"a gap", []authority.Row{row(1, "a"), row(3, "b")}, authority.ClassFailed, authority.ReasonInvalidCommit},
		{"an operation twice", []authority.Row{row(1, "a"), row(2, "a")}, authority.ClassConflict, authority.ReasonOperationExists},
	} {
		o := newCandidateOptions(t)
		candidate := openCandidate(t, o)
		var err error
		for _, r := range c.rows {
			err = errors.Join(err, candidate.Append(ctx, r))
		}
		if class, reason := authority.ReasonOf(err); class != c.class || reason != c.reason {
			t.Errorf("%s: %s %s, %v", c.name, class, reason, err)
		}
		if err := candidate.Close(); err != nil {
			t.Errorf("%s: close: %v", c.name, err)
		}
		if _, err := os.Stat(o.Path); !os.IsNotExist(err) {
			t.Errorf("%s: a journal stands there: %v", c.name, err)
		}
	}
	o := newCandidateOptions(t)
	_ = openCandidate(t, o)
	o.Identity = "file:ffffffffffffffffffffffffffffffff"
	_, err := OpenCandidate(ctx, o)
	if _, reason := authority.ReasonOf(err); reason != authority.ReasonForeignStore {
		t.Errorf("another identity: %v", err)
	}
	if textOf(t, o.IdentityPath) != string(candidateIdentity) {
		t.Error("the identity was replaced")
	}
}

// The measure of a journal is its length, and it refuses what LoopX could not read.
func TestMeasure(t *testing.T) {
	const n = 130
	text := byCommits(t, n)
	m, err := NewMeasure(fixture.HistoryGoal, candidateIdentity, authority.FormatFileV1, 0, authority.Applied{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for row := range historyRows(n) {
		if err := m.Add(row.Transaction); err != nil {
			t.Fatal(err)
		}
	}
	got, units := m.appender.out.units+m.rest(), len(utf16.Encode([]rune(text)))
	if over := got - int64(units); over < 0 || over > 512 {
		t.Errorf("measured %d of %d units", got, units)
	}
	full, err := NewMeasure(fixture.HistoryGoal, candidateIdentity, authority.FormatFileV1, MaxUnits-int64(len(text))/2, authority.Applied{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	refusedAt := authority.Cursor(0)
	for row := range historyRows(n) {
		if err := full.Add(row.Transaction); err != nil {
			if _, reason := authority.ReasonOf(err); reason != authority.ReasonCapacity && refusedAt == 0 {
				t.Fatal(err)
			}
			refusedAt = row.Cursor
			break
		}
	}
	if refusedAt < 10 || refusedAt > n-10 {
		t.Errorf("refused at row %s of %d", refusedAt, n)
	}
}

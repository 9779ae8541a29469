package sqlitestore

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

const identitySmall = authority.Identity("sqlite:1a1710e50cdf4a95a03f277164661ccc")

func candidateOptions(t testing.TB, goal string, id authority.Identity) CandidateOptions {
	t.Helper()
	return CandidateOptions{Path: filepath.Join(t.TempDir(), "staging", DatabaseName(goal)), GoalID: goal, Identity: id}
}

func newCandidate(t testing.TB, o CandidateOptions) *Candidate {
	t.Helper()
	c, err := CreateCandidate(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { requireClosed(t, c) })
	return c
}

func requireLoaded(t testing.TB, c *Candidate, rows iter.Seq[authority.Row]) {
	t.Helper()
	for row := range rows {
		if err := c.Append(context.Background(), row); err != nil {
			t.Fatalf("row %s: %v", row.Cursor, err)
		}
	}
}

func rowsOfCommits(t testing.TB, commits []fixture.Commit, after int) iter.Seq[authority.Row] {
	return func(yield func(authority.Row) bool) {
		for i := after; i < len(commits); i++ {
			if !yield(rowOf(t, i+1, commits[i])) {
				return
			}
		}
	}
}

// The file store's history, loaded under the identity of LoopX's database, is that
// database: every row and column, and the text of the schema.
func TestCandidateIsLoopXsDatabase(t *testing.T) {
	for _, from := range []struct{ commits, database string }{{"file-v0-small", "sqlite-v2-small"}, {"sqlite-v2-traps", "sqlite-v2-traps"}} {
		want := fixture.Expected(t, from.database)
		o := candidateOptions(t, string(want.Goal), authority.Identity(want.Identity.StoreIdentity))
		o.BatchRows = 5
		c := newCandidate(t, o)
		requireLoaded(t, c, rowsOfCommits(t, fixture.Commits(t, from.commits), 0))
		if err := c.Seal(context.Background()); err != nil {
			t.Fatal(err)
		}
		requireAlone(t, o.Path)
		requireSameDatabase(t, databaseOf(t, from.database, string(want.Goal)), o.Path)
	}
}

// requireAlone fails when anything stands beside the file.
func requireAlone(t testing.TB, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside %s: %v, %v", filepath.Base(path), entries, err)
	}
}

func steps(t testing.TB, transactions, todos, text int) iter.Seq[authority.Row] {
	return func(yield func(authority.Row) bool) {
		for step := range fixture.History(7, transactions, todos, text) {
			row := authority.Row{Transaction: authority.Transaction{
				Cursor: authority.Cursor(step.Cursor), OperationID: step.OperationID,
				Events: step.Events, Projection: step.Projection, Receipts: step.Receipts,
			}}
			row.StateDigest = authority.DigestOf(step.Projection)
			if !yield(row) {
				return
			}
		}
	}
}

// A history over several checkpoints, taken up again at several places, is the same
// database as one loaded in one go and as one committed row by row.
func TestCandidateIsTakenUpAgain(t *testing.T) {
	ctx := context.Background()
	const n = 200
	o := candidateOptions(t, fixture.HistoryGoal, identitySmall)
	o.BatchRows = 16
	c := newCandidate(t, o)
	for row := range steps(t, n, 4, 20) {
		if row.Cursor%50 == 0 {
			if err := c.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			requireClosed(t, c)
			var err error
			if c, err = OpenCandidate(ctx, o); err != nil {
				t.Fatal(err)
			}
			if head, sum, err := c.Head(ctx); err != nil || head != row.Cursor-1 || sum.IsZero() {
				t.Fatalf("head %s %s, %v at row %s", head, sum, err, row.Cursor)
			}
		}
		if err := c.Append(ctx, row); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	requireAlone(t, o.Path)
	requireSameDatabase(t, committed(t, n), o.Path)
	logical := authority.NewLogicalHash()
	for row := range steps(t, n, 4, 20) {
		logical.Add(row)
	}
	s := openStore(t, Options{Path: o.Path, GoalID: o.GoalID})
	lineage, err := s.Audit(ctx, nil, nil)
	if err != nil || lineage.Logical != logical.Digest() || lineage.Transactions != n || len(lineage.Findings) != 0 {
		t.Errorf("audit: %+v, %v", lineage, err)
	}
}

// committed makes the same history with Commit and returns the closed database.
func committed(t testing.TB, transactions int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), DatabaseName(fixture.HistoryGoal))
	s := openStore(t, Options{Path: path, GoalID: fixture.HistoryGoal, Mode: ReadWrite, ExpectedIdentity: identitySmall})
	var expected authority.Revision
	for row := range steps(t, transactions, 4, 20) {
		applied, err := s.Commit(context.Background(), authority.CommitRequest{Expected: expected, OperationID: row.OperationID,
			Events: row.Events, Projection: row.Projection, Receipts: row.Receipts})
		if err != nil {
			t.Fatal(err)
		}
		expected = applied.Revision
	}
	requireClosed(t, s)
	return path
}

func TestCandidateRefusesRows(t *testing.T) {
	ctx := context.Background()
	row := rowOf(t, 1, fixture.Commits(t, "file-v0-small")[0])
	with := func(change func(*authority.Row)) authority.Row {
		changed := row
		change(&changed)
		return changed
	}
	for name, refused := range map[string]struct {
		row    authority.Row
		reason authority.Reason
		field  string
	}{
		"out of turn":    {with(func(r *authority.Row) { r.Cursor = 2 }), authority.ReasonInvalidCommit, "cursor"},
		"lone surrogate": {with(func(r *authority.Row) { r.OperationID = "op\xed\xa0\x80" }), authority.ReasonInvalidCommit, "operation_id"},
		"spaced id":      {with(func(r *authority.Row) { r.OperationID = "op " }), authority.ReasonInvalidCommit, "operation_id"},
		"too large": {with(func(r *authority.Row) {
			r.Projection = append(append(authority.Canonical(`{"a":"`), make([]byte, capacity)...), `"}`...)
		}), authority.ReasonCapacity, ""},
	} {
		c := newCandidate(t, candidateOptions(t, goalSmall, identitySmall))
		requireRefusal(t, name, c.Append(ctx, refused.row), authority.ClassFailed, refused.reason, refused.field)
	}
	c := newCandidate(t, candidateOptions(t, goalSmall, identitySmall))
	again := with(func(r *authority.Row) { r.Cursor = 2 })
	if err := errors.Join(c.Append(ctx, row), c.Append(ctx, again)); err != nil {
		t.Fatal(err)
	}
	requireRefusal(t, "repeated", c.Flush(ctx), authority.ClassConflict, authority.ReasonOperationExists, "operation_id")
}

func requireRefusal(t testing.TB, name string, err error, class authority.Class, reason authority.Reason, field string) *authority.Error {
	t.Helper()
	var e *authority.Error
	if !errors.As(err, &e) || e.Class != class || e.Reason != reason || field != "" && e.Field != field {
		t.Errorf("%s: %v, want %s/%s at %s", name, err, class, reason, field)
		return &authority.Error{}
	}
	return e
}

// Case 52: five files at the target's place.
func TestCandidatePlaces(t *testing.T) {
	const goal = "sq-own"
	folder := t.TempDir()
	execute(t, filepath.Join(folder, "d1.db"), "CREATE TABLE customers(a)")
	metadata := "CREATE TABLE metadata(singleton INTEGER PRIMARY KEY, schema_version TEXT, goal_id TEXT, store_identity TEXT)"
	execute(t, filepath.Join(folder, "d4.db"), metadata, "PRAGMA user_version=2",
		"INSERT INTO metadata VALUES(1,'loopx_sqlite_authority_store_v2','other-goal','sqlite:0123456789abcdef0123456789abcdef')")
	execute(t, filepath.Join(folder, "d5.db"), metadata, "PRAGMA user_version=1",
		"INSERT INTO metadata VALUES(1,'loopx_sqlite_authority_store_v1','sq-own','sqlite:0123456789abcdef0123456789abcdef')")
	for name, content := range map[string]string{"d2.db": "", "d3.db": "hello\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := fixture.TreeHash(t, folder)
	sentences := map[string]bool{}
	for name, reason := range map[string]authority.Reason{
		"d1.db": authority.ReasonForeignStore, "d3.db": authority.ReasonForeignStore,
		"d4.db": authority.ReasonForeignStore, "d5.db": authority.ReasonFormatUnsupported,
	} {
		_, err := CreateCandidate(context.Background(), CandidateOptions{Path: filepath.Join(folder, name), GoalID: goal, Identity: identitySmall})
		sentences[requireRefusal(t, name, err, authority.ClassFailed, reason, "").Detail] = true
	}
	if len(sentences) != 4 {
		t.Errorf("sentences %v, want four", sentences)
	}
	fixture.Unchanged(t, folder, before)
	o := CandidateOptions{Path: filepath.Join(folder, "d2.db"), GoalID: goal, Identity: identitySmall}
	if err := newCandidate(t, o).Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, err := CreateCandidate(context.Background(), o)
	requireRefusal(t, "second", err, authority.ClassFailed, authority.ReasonForeignStore, "path")
	o.Identity = "sqlite:ffffffffffffffffffffffffffffffff"
	_, err = OpenCandidate(context.Background(), o)
	requireRefusal(t, "other identity", err, authority.ClassFailed, authority.ReasonForeignStore, "path")
	o.Path = filepath.Join(folder, "absent.db")
	_, err = OpenCandidate(context.Background(), o)
	requireRefusal(t, "absent", err, authority.ClassMissing, authority.ReasonNone, "")
}

// LoopX's version 1, as LoopX wrote it, is recognised and refused.
func TestVersionOne(t *testing.T) {
	path := databaseOf(t, "sqlite-v1-small", goalSmall)
	before := fixture.TreeHash(t, filepath.Dir(path))
	s := openStore(t, Options{Path: path, GoalID: goalSmall})
	_, err := s.Load(context.Background())
	requireRefusal(t, "load", err, authority.ClassFailed, authority.ReasonProtocolViolation, "user_version")
	_, err = s.Audit(context.Background(), nil, nil)
	requireRefusal(t, "audit", err, authority.ClassFailed, authority.ReasonFormatUnsupported, "user_version")
	_, err = CreateCandidate(context.Background(), CandidateOptions{Path: path, GoalID: goalSmall, Identity: identitySmall})
	requireRefusal(t, "candidate", err, authority.ClassFailed, authority.ReasonFormatUnsupported, "user_version")
	fixture.Unchanged(t, filepath.Dir(path), before)
}

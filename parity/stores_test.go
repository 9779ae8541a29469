package parity_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/perf"
	"github.com/loopx-project/loopx-migrate/parity"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

// armOf views a store and arms it with its own decision on commits.
func armOf(t testing.TB, name string, store authority.Store) parity.Arm {
	t.Helper()
	view, err := store.(authority.Viewer).View(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	})
	return parity.Arm{Name: name, View: view, CheckCommit: store.CheckCommit}
}

func journal(t testing.TB, dir, goal string) authority.Store {
	t.Helper()
	store, err := filestore.Open(filestore.Options{Dir: dir, GoalID: goal, Existence: filestore.ExistingOnly})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// database loads every row of a journal into a new SQLite store.
func database(t testing.TB, from authority.Store) authority.Store {
	t.Helper()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "candidate.sqlite")
	candidate, err := sqlitestore.CreateCandidate(ctx, sqlitestore.CandidateOptions{Path: path, GoalID: from.GoalID(),
		Identity: "sqlite:0123456789abcdef0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = from.(authority.Auditor).Audit(ctx, nil, func(row authority.Row) error { return candidate.Append(ctx, row) })
	if err != nil {
		t.Fatal(err)
	}
	if err := candidate.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	store, err := sqlitestore.Open(sqlitestore.Options{Path: path, GoalID: from.GoalID()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// TestStoresSayTheSame compares LoopX's own journals, in both formats, with each
// other and with a database made of them.
func TestStoresSayTheSame(t *testing.T) {
	expected := fixture.ExpectedGoal(t, "goal-file-v0")
	for _, name := range []string{"goal-file-v0", "goal-file-v1"} {
		dir := filepath.Join(fixture.Copy(t, name), "runtime", "authority", "file-v0")
		file := journal(t, dir, expected.Goal)
		source := armOf(t, "file", file)
		source.Digest = func(context.Context) (authority.Digest, error) {
			return authority.DigestOf([]byte(fixture.TreeHash(t, dir))), nil
		}
		report, err := parity.Compare(context.Background(), []parity.Arm{source, armOf(t, "sqlite", database(t, file))},
			parity.Options{MinimumOperations: 231, RequireEventKinds: []string{"todo_upsert", "lease_upsert"}})
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != parity.Qualified || report.Coverage.Operations != 231 || report.Coverage.EventKinds["lease_upsert"] != 133 {
			t.Errorf("%s: %s, coverage %+v, checks %+v", name, report.Verdict, report.Coverage, report.Checks)
		}
	}
}

// TestStoresDiffer: a database that took one more commit, and one that holds another history.
func TestStoresDiffer(t *testing.T) {
	dir := t.TempDir()
	fixture.FileV0(t, dir, fixture.HistoryGoal, fixture.History(9, 150, 10, 60))
	file := journal(t, dir, fixture.HistoryGoal)
	other := t.TempDir()
	fixture.FileV0(t, other, fixture.HistoryGoal, edited(fixture.History(9, 150, 10, 60), 100))
	report, err := parity.Compare(context.Background(),
		[]parity.Arm{armOf(t, "file", file), armOf(t, "sqlite", database(t, journal(t, other, fixture.HistoryGoal)))}, parity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := report.Check(parity.CheckScans).Differences
	if report.Verdict != parity.Drifted || len(found) != 1 || found[0].Cursor != 100 || found[0].Field != "projection.handoff_mode" {
		t.Errorf("%s: %+v", report.Verdict, found)
	}
}

// edited changes the handoff mode in one transaction.
func edited(history iter.Seq[fixture.Step], cursor int) iter.Seq[fixture.Step] {
	return func(yield func(fixture.Step) bool) {
		for step := range history {
			if step.Cursor == cursor {
				step.Projection = []byte(strings.Replace(string(step.Projection), `"hard_lease"`, `"soft_claim"`, 1))
			}
			if !yield(step) {
				return
			}
		}
	}
}

// BenchmarkCompare compares a journal of 1,000 transactions of 64 KiB with a
// database of the same rows, audits of both and digests included, against SHA-256
// over the journal: by the clock and by processor time. The target is 5 by the
// clock on two idle cores.
func BenchmarkCompare(b *testing.B) {
	dir := b.TempDir()
	path, _ := fixture.FileV0(b, dir, fixture.HistoryGoal, fixture.History(1, 1000, 64, 550))
	file := journal(b, dir, fixture.HistoryGoal)
	sqlite := database(b, file)
	var ratio perf.Ratio
	for b.Loop() {
		ratio.Yardstick(b, func() error { return perf.Hash(path) })
		ratio.Work(b, func() error { return compareAsCutover(path, file, sqlite) })
	}
	ratio.Report(b, "hash")
}

// compareAsCutover takes all the steps that cutover takes for a comparison.
func compareAsCutover(path string, file, sqlite authority.Store) (err error) {
	digest := func(context.Context) (authority.Digest, error) { return authority.Digest{1}, perf.Hash(path) }
	arms := []parity.Arm{{Name: "file", Digest: digest}, {Name: "sqlite", CheckCommit: sqlite.CheckCommit}}
	errs := make([]error, 3)
	var views sync.WaitGroup
	for i, store := range []authority.Store{file, sqlite} {
		views.Go(func() { arms[i].View, errs[i] = store.(authority.Viewer).View(context.Background()) })
	}
	views.Go(func() { arms[0].Before, errs[2] = digest(context.Background()) })
	views.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	arms[0].CheckCommit = arms[0].View.(interface {
		CheckCommit(context.Context, authority.CommitRequest) error
	}).CheckCommit
	report, err := parity.Compare(context.Background(), arms, parity.Options{})
	if err == nil && report.Verdict != parity.Qualified {
		err = fmt.Errorf("%s: %+v", report.Verdict, report.Checks)
	}
	return errors.Join(err, arms[0].View.Close(), arms[1].View.Close())
}

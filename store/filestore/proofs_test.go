package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// longWriter is a handle that wrote rows over a checkpoint, one commit each.
func longWriter(t *testing.T, format authority.Format) (*filestore.Store, []fixture.Step) {
	t.Helper()
	steps := slices.Collect(fixture.History(1, 80, 9, 20))
	dir := t.TempDir()
	must(t, os.WriteFile(filestore.IdentityPath(dir), []byte(fixture.Identity), 0o600))
	store := open(t, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal, NewFormat: format})
	var at authority.Revision
	for _, s := range steps[:75] {
		applied, err := store.Commit(context.Background(), ofStep(at, s))
		must(t, err)
		at = applied.Revision
	}
	return store, steps
}

func ofStep(at authority.Revision, s fixture.Step) authority.CommitRequest {
	return authority.CommitRequest{Expected: at, OperationID: s.OperationID, Events: s.Events, Projection: s.Projection, Receipts: s.Receipts}
}

// another is a second handle on the same document, which remembers nothing.
func another(t *testing.T, store *filestore.Store) *filestore.Store {
	t.Helper()
	fresh, err := filestore.OpenDocument(store.Path(), filestore.IdentityPath(dirOf(store)), filestore.Options{GoalID: fixture.HistoryGoal})
	must(t, err)
	return fresh
}

func dirOf(store *filestore.Store) string {
	return store.Path()[:len(store.Path())-len(filestore.DocumentPath("", fixture.HistoryGoal))-1]
}

// A handle that wrote the document answers as one that has to prove it.
func TestWriterAnswersAsAFreshHandle(t *testing.T) {
	for _, format := range []authority.Format{authority.FormatFileV0, authority.FormatFileV1} {
		t.Run(string(format), func(t *testing.T) {
			ctx := context.Background()
			writer, steps := longWriter(t, format)
			fresh := another(t, writer)
			for i := 0; i < len(steps); i += 6 {
				s := steps[i]
				got, gotErr := writer.Receipt(ctx, s.OperationID)
				want, wantErr := fresh.Receipt(ctx, s.OperationID)
				if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) || (gotErr == nil) != (s.Cursor <= 75) {
					t.Fatalf("receipt of row %d: %+v, %v; want %+v, %v", s.Cursor, got, gotErr, want, wantErr)
				}
			}
			for after := authority.Cursor(0); after <= 76; after += 5 {
				got, gotErr := writer.Scan(ctx, after, 7)
				want, wantErr := fresh.Scan(ctx, after, 7)
				if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) || (gotErr == nil) != (after <= 75) {
					t.Fatalf("page after %s: %v; want %v", after, gotErr, wantErr)
				}
				if n := min(7, 75-int(after)); gotErr == nil && (len(got.Transactions) != n || n > 0 && string(got.Transactions[0].Projection) != string(steps[after].Projection)) {
					t.Fatalf("page after %s has %d rows, or another one", after, len(got.Transactions))
				}
			}
		})
	}
}

// What others do between two calls of a handle that wrote the document.
func TestWriterSeesWhatOthersDo(t *testing.T) {
	ctx := context.Background()
	writer, steps := longWriter(t, authority.FormatFileV1)
	head, err := writer.Load(ctx)
	must(t, err)
	clear(head.Projection) // the caller's own

	other := another(t, writer)
	applied, err := other.Commit(ctx, ofStep(head.Revision, steps[75]))
	must(t, err)
	conflict(t, writer, ofStep(head.Revision, steps[76]), authority.ReasonRevisionMismatch)
	conflict(t, writer, ofStep(applied.Revision, steps[75]), authority.ReasonOperationExists)
	next, err := writer.Commit(ctx, ofStep(applied.Revision, steps[76]))
	must(t, err)

	// A failed append leaves its operation ids free.
	failing := func(yield func(authority.Transaction, error) bool) {
		s := steps[77]
		_ = yield(authority.Transaction{OperationID: s.OperationID, Events: s.Events, Projection: s.Projection, Receipts: s.Receipts}, nil) &&
			yield(authority.Transaction{}, errors.New("no more"))
	}
	if _, err := writer.Append(ctx, next, failing); err == nil {
		t.Fatal("an append that failed was not refused")
	}
	next, err = writer.Commit(ctx, ofStep(next.Revision, steps[77]))
	must(t, err)
	loaded, err := writer.Load(ctx)
	if err != nil || string(loaded.Projection) != string(steps[77].Projection) || loaded.Cursor != 78 {
		t.Fatalf("head at %s, %v", loaded.Cursor, err)
	}

	// A byte that changes under the same size and time.
	info, err := os.Stat(writer.Path())
	must(t, err)
	text, err := os.ReadFile(writer.Path())
	must(t, err)
	spoilt := slices.Clone(text)
	spoilt[len(spoilt)/2] ^= 1
	must(t, os.WriteFile(writer.Path(), spoilt, 0o600))
	must(t, os.Chtimes(writer.Path(), info.ModTime(), info.ModTime()))
	if _, err := writer.Load(ctx); err == nil {
		t.Error("a changed byte was not seen by a load")
	}
	if _, err := writer.Commit(ctx, ofStep(next.Revision, steps[78])); err == nil {
		t.Error("a changed byte was not seen by a commit")
	}
	must(t, os.WriteFile(writer.Path(), text, 0o600))
	must(t, os.WriteFile(filestore.IdentityPath(dirOf(writer)), []byte("file:ffffffffffffffffffffffffffffffff"), 0o600))
	if _, err := writer.Load(ctx); err == nil {
		t.Error("another identity was not seen")
	}
	must(t, os.Remove(writer.Path()))
	if _, err := writer.Load(ctx); !errors.Is(err, authority.ErrMissing) {
		t.Errorf("a document that is gone: %v", err)
	}
}

func conflict(t *testing.T, store *filestore.Store, request authority.CommitRequest, want authority.Reason) {
	t.Helper()
	_, err := store.Commit(context.Background(), request)
	if class, reason := authority.ReasonOf(err); class != authority.ClassConflict || reason != want {
		t.Fatalf("%v, want a conflict for %s", err, want)
	}
}

// Stores that share their proofs prove a journal twice and then know it. What one of them
// knows is of these bytes, this identity and this goal alone.
func TestStoresShareProofs(t *testing.T) {
	ctx, shared := context.Background(), &filestore.Proofs{}
	writer, _ := longWriter(t, authority.FormatFileV1)
	opened := func() *filestore.Store {
		s, err := filestore.OpenDocument(writer.Path(), filestore.IdentityPath(dirOf(writer)), filestore.Options{GoalID: fixture.HistoryGoal, Proofs: shared})
		must(t, err)
		return s
	}
	want, err := another(t, writer).Audit(ctx, nil, nil)
	must(t, err)
	for range 4 {
		got, err := opened().Audit(ctx, nil, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		got.Findings = append(got.Findings, authority.Finding{Code: "the_callers_own"})
		view, err := opened().View(ctx)
		must(t, err)
		if got := view.Lineage(); !reflect.DeepEqual(got, want) {
			t.Fatalf("a view of %+v, want %+v", got, want)
		}
		must(t, view.Close())
		rows := 0
		if _, err := opened().Audit(ctx, nil, func(authority.Row) error { rows++; return nil }); err != nil || rows != 75 {
			t.Fatalf("a visitor saw %d rows, %v", rows, err)
		}
	}
	foreign, err := filestore.OpenDocument(writer.Path(), filestore.IdentityPath(dirOf(writer)), filestore.Options{GoalID: "another", Proofs: shared})
	must(t, err)
	if _, err := foreign.Audit(ctx, nil, nil); err == nil {
		t.Error("another goal was not refused")
	}
	text, err := os.ReadFile(writer.Path())
	must(t, err)
	for _, at := range []int{0, len(text) / 3, len(text) - 40} {
		spoilt := slices.Clone(text)
		spoilt[at] ^= 1
		must(t, os.WriteFile(writer.Path(), spoilt, 0o600))
		if _, err := opened().Audit(ctx, nil, nil); err == nil {
			t.Errorf("byte %d was changed and nobody saw it", at)
		}
	}
}

// The third audit of a process, which reads and hashes the file alone, beside the first.
func BenchmarkAuditKnown(b *testing.B) {
	dir, size := journal(b, "v1")
	options := filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal, Proofs: &filestore.Proofs{}}
	for range 2 {
		_, err := open(b, options).Audit(context.Background(), nil, nil)
		must(b, err)
	}
	b.SetBytes(size)
	for b.Loop() {
		_, err := open(b, options).Audit(context.Background(), nil, nil)
		must(b, err)
	}
}

// A commit of a handle that wrote the row before, and of one that has to prove the history.
func BenchmarkCommitOnOwn(b *testing.B)     { benchmarkCommits(b, false) }
func BenchmarkCommitOnForeign(b *testing.B) { benchmarkCommits(b, true) }

func benchmarkCommits(b *testing.B, foreign bool) {
	dir := b.TempDir()
	steps := slices.Collect(fixture.History(1, 1064, 80, 400))
	makeJournalOf(b, dir, "v1", steps[:1000])
	options := filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal}
	store := open(b, options)
	head, err := store.Load(context.Background())
	must(b, err)
	at := head.Revision
	commit := func(n int) {
		step := steps[1000+n%64]
		step.OperationID = fmt.Sprint("again-", n)
		applied, err := store.Commit(context.Background(), ofStep(at, step))
		must(b, err)
		at = applied.Revision
	}
	commit(0)
	for n := 1; b.Loop(); n++ {
		if foreign {
			store = open(b, options)
		}
		commit(n)
	}
}

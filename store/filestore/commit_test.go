package filestore_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// emptyStore opens an empty folder with the identity of a fixture.
func emptyStore(t testing.TB, name string, want fixture.Answers, format authority.Format) *filestore.Store {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filestore.IdentityPath(dir), []byte(want.Identity.StoreIdentity), 0o600))
	return open(t, filestore.Options{Dir: dir, GoalID: string(want.Goal), NewFormat: format})
}

func request(c fixture.Commit) authority.CommitRequest {
	return authority.CommitRequest{
		Expected: authority.Revision(c.Expected), OperationID: string(c.OperationID),
		Events: c.Events, Projection: c.Projection, Receipts: c.Receipts,
	}
}

func formatOf(name string) authority.Format { return authority.Format(name[:len("file-v0")]) }

func expectDocument(t *testing.T, store *filestore.Store, name string) {
	t.Helper()
	got, err := os.ReadFile(store.Path())
	must(t, err)
	if want := fixture.Read(t, name, "store", filepath.Base(store.Path())); string(got) != string(want) {
		t.Errorf("the document differs from LoopX's: %d bytes, want %d", len(got), len(want))
	}
}

func TestCommitsMakeLoopXsDocument(t *testing.T) {
	for _, name := range []string{"file-v0-small", "file-v0-traps", "file-v1-small", "file-v1-traps"} {
		t.Run(name, func(t *testing.T) {
			want := fixture.Expected(t, name)
			store := emptyStore(t, name, want, formatOf(name))
			for i, commit := range fixture.Commits(t, name) {
				must(t, store.CheckCommit(context.Background(), request(commit)))
				applied, err := store.Commit(context.Background(), request(commit))
				must(t, err)
				if string(applied.Revision) != want.ProviderRevisions[i] || int(applied.Cursor) != i+1 {
					t.Fatalf("commit %d: %+v, want %s", i+1, applied, want.ProviderRevisions[i])
				}
			}
			expectDocument(t, store, name)
		})
	}
}

// transactions are the commits of a fixture, under cursors from 1 and revisions
// of another store.
func transactions(commits []fixture.Commit) iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		for i, c := range commits {
			t := authority.Transaction{
				Cursor: authority.Cursor(i + 1), Revision: "sqlite:0123456789abcdef0123456789abcdef:7", OperationID: string(c.OperationID),
				Events: authority.Canonical(c.Events), Projection: authority.Canonical(c.Projection), Receipts: authority.Canonical(c.Receipts),
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

func skip(n int, all iter.Seq2[authority.Transaction, error]) iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		for t, err := range all {
			if n--; n < 0 && !yield(t, err) {
				return
			}
		}
	}
}

func TestAppendMakesLoopXsDocument(t *testing.T) {
	for _, name := range []string{"file-v0-small", "file-v0-mixed", "file-v0-traps", "file-v1-small", "file-v1-traps"} {
		t.Run(name, func(t *testing.T) {
			want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
			store := emptyStore(t, name, want, formatOf(name))
			half := len(commits) / 2
			first, err := store.Append(context.Background(), authority.Applied{}, transactions(commits[:half]))
			must(t, err)
			head := authority.Applied{Cursor: authority.Cursor(half), Revision: first[half-1]}
			second, err := store.Append(context.Background(), head, skip(half, transactions(commits)))
			must(t, err)
			for i, revision := range append(first, second...) {
				if string(revision) != want.ProviderRevisions[i] {
					t.Errorf("revision %d is %s, want %s", i+1, revision, want.ProviderRevisions[i])
				}
			}
			expectDocument(t, store, name)
		})
	}
}

// A respelled document is written anew in canonical form.
func TestCommitOnRespelledDocument(t *testing.T) {
	for _, name := range []string{"file-v0-small", "file-v1-small"} {
		want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
		store := emptyStore(t, name, want, formatOf(name))
		last := len(commits) - 1
		_, err := store.Append(context.Background(), authority.Applied{}, transactions(commits[:last]))
		must(t, err)
		respell(t, store.Path())
		applied, err := store.Commit(context.Background(), request(commits[last]))
		must(t, err)
		if string(applied.Revision) != want.ProviderRevisions[last] {
			t.Errorf("%s: %s", name, applied.Revision)
		}
		expectDocument(t, store, name)
	}
}

func respell(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	out, err := os.Create(path)
	must(t, err)
	_, err = fixture.Respelled(out).Write(text)
	must(t, errors.Join(err, out.Close()))
}

func TestAppendRefusesAndWritesNothing(t *testing.T) {
	const name = "file-v0-small"
	want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
	store := emptyStore(t, name, want, authority.FormatFileV0)
	revisions, err := store.Append(context.Background(), authority.Applied{}, transactions(commits))
	must(t, err)
	head := authority.Applied{Cursor: 12, Revision: revisions[11]}
	before := fixture.TreeHash(t, filepath.Dir(store.Path()))
	broken := errors.New("the other store broke")
	for what, c := range map[string]struct {
		expected authority.Applied
		rows     iter.Seq2[authority.Transaction, error]
		class    authority.Class
		reason   authority.Reason
	}{
		"other cursor":   {authority.Applied{Cursor: 11, Revision: head.Revision}, transactions(nil), authority.ClassConflict, authority.ReasonRevisionMismatch},
		"repeated":       {head, renumbered(12, transactions(commits[3:4])), authority.ClassConflict, authority.ReasonOperationExists},
		"gap":            {head, renumbered(20, renamed(transactions(commits[:1]))), authority.ClassFailed, authority.ReasonInvalidCommit},
		"source":         {head, func(yield func(authority.Transaction, error) bool) { yield(authority.Transaction{}, broken) }, "", ""},
		"nothing to add": {head, transactions(nil), "", ""},
	} {
		_, err := store.Append(context.Background(), c.expected, c.rows)
		class, reason := authority.ReasonOf(err)
		if class != c.class && what != "source" || reason != c.reason && what != "source" || what == "source" && !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
		fixture.Unchanged(t, filepath.Dir(store.Path()), before)
	}
}

func renumbered(after int, all iter.Seq2[authority.Transaction, error]) iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		for t, err := range all {
			after++
			t.Cursor = authority.Cursor(after)
			if !yield(t, err) {
				return
			}
		}
	}
}

func renamed(all iter.Seq2[authority.Transaction, error]) iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		for t, err := range all {
			t.OperationID += "-again"
			if !yield(t, err) {
				return
			}
		}
	}
}

func TestCommitRefusals(t *testing.T) {
	const name = "file-v0-small"
	want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
	valid := request(commits[0])
	with := func(change func(*authority.CommitRequest)) authority.CommitRequest {
		r := valid
		change(&r)
		return r
	}
	deep := make([]byte, 0, 8000)
	for range 1501 {
		deep = append(deep, `{"a":`...)
	}
	for what, c := range map[string]struct {
		request authority.CommitRequest
		reason  authority.Reason
		field   string
	}{
		"spaced id":        {with(func(r *authority.CommitRequest) { r.OperationID = "op " }), authority.ReasonInvalidCommit, "operation_id"},
		"events no list":   {with(func(r *authority.CommitRequest) { r.Events = []byte("{}") }), authority.ReasonInvalidCommit, "events"},
		"receipt no map":   {with(func(r *authority.CommitRequest) { r.Receipts = []byte("[1]") }), authority.ReasonInvalidCommit, "receipts"},
		"projection array": {with(func(r *authority.CommitRequest) { r.Projection = []byte("[]") }), authority.ReasonInvalidCommit, "next_projection"},
		"infinite":         {with(func(r *authority.CommitRequest) { r.Projection = []byte(`{"a":1e400}`) }), authority.ReasonInvalidCommit, "next_projection"},
		"no JSON":          {with(func(r *authority.CommitRequest) { r.Events = []byte("[") }), authority.ReasonInvalidCommit, "events"},
		"too deep":         {with(func(r *authority.CommitRequest) { r.Projection = deep }), authority.ReasonDepth, "next_projection"},
	} {
		store := emptyStore(t, name, want, "")
		before := fixture.TreeHash(t, filepath.Dir(store.Path()))
		_, err := store.Commit(context.Background(), c.request)
		var e *authority.Error
		if !errors.As(err, &e) || e.Class != authority.ClassFailed || e.Reason != c.reason || e.Field != c.field {
			t.Errorf("%s: %v", what, err)
		}
		if check := store.CheckCommit(context.Background(), c.request); check == nil || check.Error() != err.Error() {
			t.Errorf("%s: CheckCommit says %v", what, check)
		}
		fixture.Unchanged(t, filepath.Dir(store.Path()), before)
	}
}

func TestRepeatedOperationIsAConflict(t *testing.T) {
	const name = "file-v0-small"
	want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
	store := emptyStore(t, name, want, "")
	first, err := store.Commit(context.Background(), request(commits[0]))
	must(t, err)
	again := request(commits[0])
	for expected, reason := range map[authority.Revision]authority.Reason{
		"":             authority.ReasonRevisionMismatch, // the exact replay
		"any text":     authority.ReasonRevisionMismatch,
		first.Revision: authority.ReasonOperationExists,
	} {
		again.Expected = expected
		_, err := store.Commit(context.Background(), again)
		var e *authority.Error
		if !errors.As(err, &e) || !errors.Is(err, authority.ErrConflict) || e.Reason != reason || e.Current != first {
			t.Errorf("expecting %q: %v", expected, err)
		}
		if check := store.CheckCommit(context.Background(), again); check == nil || check.Error() != err.Error() {
			t.Errorf("expecting %q: CheckCommit says %v", expected, check)
		}
	}
}

func TestLiveHolderTimesOut(t *testing.T) {
	const name = "file-v0-small"
	want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
	dir := t.TempDir()
	store := open(t, filestore.Options{Dir: dir, GoalID: string(want.Goal), LockWait: 60 * time.Millisecond})
	lock, err := lockfile.AcquireMarker(context.Background(), store.Path(), time.Second)
	must(t, err)
	_, err = store.Commit(context.Background(), request(commits[0]))
	if class, reason := authority.ReasonOf(err); class != authority.ClassFailed || reason != authority.ReasonLockTimeout {
		t.Errorf("with a live holder: %v", err)
	}
	must(t, store.CheckCommit(context.Background(), request(commits[0])))
	must(t, lock.Release())
	_, err = store.Commit(context.Background(), request(commits[0]))
	must(t, err)
	identity, err := store.Identity(context.Background())
	if err != nil || !identity.Valid(authority.KindFile) {
		t.Errorf("minted identity %q: %v", identity, err)
	}
	names, err := os.ReadDir(dir)
	must(t, err)
	if len(names) != 2 {
		t.Errorf("left behind: %v", names)
	}
}

func TestReadOnlyAndExistingOnlyWriteNothing(t *testing.T) {
	const name = "file-v0-small"
	commits := fixture.Commits(t, name)
	for _, options := range []filestore.Options{{Access: filestore.ReadOnly}, {Existence: filestore.ExistingOnly}} {
		options.Dir, options.GoalID = t.TempDir(), "goal-small"
		before := fixture.TreeHash(t, options.Dir)
		_, err := open(t, options).Commit(context.Background(), request(commits[0]))
		if !errors.Is(err, authority.ErrFailed) {
			t.Errorf("%+v: %v", options, err)
		}
		fixture.Unchanged(t, options.Dir, before)
	}
}

// The same rows in both formats: revisions, heads and logical digests agree.
func TestFormatsHoldTheSameRows(t *testing.T) {
	const name = "file-v0-mixed"
	want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
	var digests []authority.Digest
	for _, format := range []authority.Format{authority.FormatFileV0, authority.FormatFileV1} {
		store := emptyStore(t, name, want, format)
		_, err := store.Append(context.Background(), authority.Applied{}, transactions(commits))
		must(t, err)
		lineage, err := store.Audit(context.Background(), nil, func(row authority.Row) error {
			if string(row.Revision) != want.ProviderRevisions[row.Cursor-1] {
				t.Errorf("%s row %s: %s", format, row.Cursor, row.Revision)
			}
			return nil
		})
		must(t, err)
		if lineage.Format != format || lineage.Transactions != 200 || lineage.Events != countObjects(t, commits) {
			t.Errorf("%+v", lineage)
		}
		digests = append(digests, lineage.Logical)
	}
	if digests[0] != digests[1] {
		t.Errorf("logical digests %v", digests)
	}
}

func countObjects(t *testing.T, commits []fixture.Commit) (n uint64) {
	t.Helper()
	for _, c := range commits {
		var events []json.RawMessage
		must(t, json.Unmarshal(c.Events, &events))
		n += uint64(len(events))
	}
	return n
}

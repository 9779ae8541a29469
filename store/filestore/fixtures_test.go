package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// histories are the fixtures with all of LoopX's answers.
var histories = []string{
	"file-v0-small", "file-v0-mixed", "file-v0-traps", "file-v1-small", "file-v1-traps", "migrated-file-v0-to-v1-small",
}

// openFixture opens a fresh copy of a fixture's store and proves at the end of
// the test that nothing in it changed.
func openFixture(t testing.TB, name string) *filestore.Store {
	t.Helper()
	dir := filepath.Join(fixture.Copy(t, name), "store")
	before := fixture.TreeHash(t, dir)
	t.Cleanup(func() { fixture.Unchanged(t, dir, before) })
	return open(t, filestore.Options{Dir: dir, GoalID: string(fixture.Expected(t, name).Goal)})
}

func open(t testing.TB, options filestore.Options) *filestore.Store {
	t.Helper()
	store, err := filestore.Open(options)
	must(t, err)
	return store
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each runs a check against the store and against a view of it.
func each(t *testing.T, check func(t *testing.T, reader authority.Reader, want fixture.Answers)) {
	for _, name := range histories {
		t.Run(name, func(t *testing.T) {
			store, want := openFixture(t, name), fixture.Expected(t, name)
			check(t, store, want)
			view, err := store.View(context.Background())
			must(t, err)
			check(t, view, want)
			must(t, view.Close())
		})
	}
}

func TestLoopXHeads(t *testing.T) {
	each(t, func(t *testing.T, reader authority.Reader, want fixture.Answers) {
		identity, err := reader.Identity(context.Background())
		must(t, err)
		if string(identity) != want.Identity.StoreIdentity {
			t.Errorf("identity %s, want %s", identity, want.Identity.StoreIdentity)
		}
		head, err := reader.Load(context.Background())
		must(t, err)
		if head.Cursor.String() != want.Load.Cursor || string(head.Revision) != want.Load.ProviderRevision {
			t.Errorf("head at %s %s", head.Cursor, head.Revision)
		}
		same(t, "head", head.Projection, want.Load.Head)
	})
}

func TestLoopXReceipts(t *testing.T) {
	each(t, func(t *testing.T, reader authority.Reader, want fixture.Answers) {
		for _, answer := range want.Receipts {
			got, err := reader.Receipt(context.Background(), string(answer.OperationID))
			if answer.Result.Status == "missing" {
				if !errors.Is(err, authority.ErrMissing) {
					t.Errorf("receipt of %q: %v", answer.OperationID, err)
				}
				continue
			}
			must(t, err)
			if got.Cursor.String() != answer.Result.Cursor || string(got.Revision) != answer.Result.ProviderRevision {
				t.Errorf("receipt of %q at %s %s", answer.OperationID, got.Cursor, got.Revision)
			}
			same(t, "receipts of "+string(answer.OperationID), got.Receipts, answer.Result.Receipts)
		}
	})
}

func TestLoopXPages(t *testing.T) {
	each(t, func(t *testing.T, reader authority.Reader, want fixture.Answers) {
		for limit, pages := range want.Scans {
			for _, answer := range pages {
				if testing.Short() && limit == "1" && len(pages) > 20 {
					break
				}
				comparePage(t, reader, answer)
			}
		}
	})
}

func comparePage(t *testing.T, reader authority.Reader, want fixture.ScanAnswer) {
	t.Helper()
	page, err := reader.Scan(context.Background(), cursor(t, want.After), want.Limit)
	must(t, err)
	if page.Next != cursor(t, want.Page.NextCursor) || page.HasMore != want.Page.HasMore {
		t.Errorf("after %q: next %s more %v", want.After, page.Next, page.HasMore)
	}
	if want.Page.TransactionsSHA256 != "" {
		if got := fixture.SHA256(listOf(page.Transactions)); got != want.Page.TransactionsSHA256 {
			t.Errorf("after %q limit %d: rows %s, want %s", want.After, want.Limit, got, want.Page.TransactionsSHA256)
		}
		return
	}
	if len(page.Transactions) != len(want.Page.Transactions) {
		t.Fatalf("after %q: %d rows", want.After, len(page.Transactions))
	}
	for i, row := range want.Page.Transactions {
		got := page.Transactions[i]
		if got.Cursor.String() != row.Cursor || string(got.Revision) != row.ProviderRevision || got.OperationID != string(row.OperationID) {
			t.Errorf("row %s: %s %s %q", row.Cursor, got.Cursor, got.Revision, got.OperationID)
		}
		same(t, "events", got.Events, row.Events)
		same(t, "projection", got.Projection, row.Projection)
		same(t, "receipts", got.Receipts, row.Receipts)
	}
}

// listOf prints rows as the canonical list whose digest the fixtures give.
func listOf(transactions []authority.Transaction) []byte {
	out := []byte{'['}
	for i, tx := range transactions {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"cursor":"`+tx.Cursor.String()+`","events":`...)
		out = append(out, tx.Events...)
		out = canonical.AppendString(append(out, `,"operation_id":`...), tx.OperationID)
		out = append(append(out, `,"projection":`...), tx.Projection...)
		out = append(out, `,"provider_revision":"`+string(tx.Revision)+`","receipts":`...)
		out = append(append(out, tx.Receipts...), '}')
	}
	return append(out, ']')
}

func cursor(t testing.TB, text string) authority.Cursor {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	must(t, err)
	return authority.Cursor(n)
}

// same compares with what LoopX printed; its JSON went through a file of
// answers, so that it is brought into canonical form first.
func same(t testing.TB, what string, got authority.Canonical, printed []byte) {
	t.Helper()
	want, err := canonical.Append(nil, printed)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differ:\n got %.300s\nwant %.300s", what, got, want)
	}
}

func TestLoopXGoals(t *testing.T) {
	for _, name := range []string{"goal-file-v0", "goal-file-v1"} {
		t.Run(name, func(t *testing.T) {
			want := fixture.ExpectedGoal(t, name)
			dir := filepath.Join(fixture.Copy(t, name), "runtime", "authority", "file-v0")
			before := fixture.TreeHash(t, dir)
			view, err := open(t, filestore.Options{Dir: dir, GoalID: want.Goal}).View(context.Background())
			must(t, err)
			head, err := view.Load(context.Background())
			must(t, err)
			if authority.DigestOf(head.Projection).String() != want.HeadSHA256 || head.Cursor.String() != want.Cursor {
				t.Errorf("head %s at %s", authority.DigestOf(head.Projection), head.Cursor)
			}
			for _, answer := range want.Receipts {
				got, err := view.Receipt(context.Background(), answer.OperationID)
				must(t, err)
				if authority.DigestOf(got.Receipts).String() != answer.ReceiptsSHA256 || string(got.Revision) != answer.ProviderRevision {
					t.Errorf("receipt of %s at %s", answer.OperationID, got.Revision)
				}
			}
			must(t, view.Close())
			fixture.Unchanged(t, dir, before)
		})
	}
}

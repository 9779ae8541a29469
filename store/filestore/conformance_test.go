package filestore_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/storetest"
)

// TestConformance runs the suite that all stores pass, in both formats. The file
// store has no declared difference.
func TestConformance(t *testing.T) {
	for _, format := range []authority.Format{authority.FormatFileV0, authority.FormatFileV1} {
		t.Run(string(format), func(t *testing.T) {
			options := func(dir string) filestore.Options {
				return filestore.Options{Dir: dir, GoalID: "harbour-crane", NewFormat: format}
			}
			storetest.Run(t, storetest.Harness{
				Kind: authority.KindFile,
				New:  func(t testing.TB) authority.Store { return open(t, options(t.TempDir())) },
				Reopen: func(t testing.TB, store authority.Store) authority.Store {
					return open(t, options(folder(store)))
				},
				Snapshot: func(t testing.TB, store authority.Store) fixture.Tree { return fixture.TreeHash(t, folder(store)) },
				Rewrite:  func(t testing.TB, store authority.Store) { rewriteNewest(t, store, options(t.TempDir())) },
			})
		})
	}
}

func folder(store authority.Store) string { return filepath.Dir(store.(*filestore.Store).Path()) }

// rewriteNewest writes the store's history a second time, with another newest
// projection, under the same identity.
func rewriteNewest(t testing.TB, store authority.Store, options filestore.Options) {
	t.Helper()
	identity, err := os.ReadFile(filestore.IdentityPath(folder(store)))
	must(t, err)
	must(t, os.WriteFile(filestore.IdentityPath(options.Dir), identity, 0o600))
	forged, page := open(t, options), scanAll(t, store)
	last := &page[len(page)-1]
	last.Projection = authority.Canonical(bytes.Replace(last.Projection, []byte("{"), []byte(`{"a":"forged",`), 1))
	_, err = forged.Append(context.Background(), authority.Applied{}, func(yield func(authority.Transaction, error) bool) {
		for _, row := range page {
			if !yield(row, nil) {
				return
			}
		}
	})
	must(t, err)
	must(t, os.Rename(forged.Path(), store.(*filestore.Store).Path()))
}

func scanAll(t testing.TB, store authority.Reader) []authority.Transaction {
	t.Helper()
	page, err := store.Scan(context.Background(), 0, 1<<20)
	must(t, err)
	return page.Transactions
}

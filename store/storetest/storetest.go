// Package storetest is the conformance suite that every store passes: the
// comments of authority/store.go, made to fail.
//
// A store's test calls Run with a Harness that makes empty stores of its kind.
// What a kind really does differently is declared in Differences, with the
// reason beside it; nothing is skipped in silence.
package storetest

import (
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// Harness makes the stores under test. The suite closes every store it is given.
type Harness struct {
	// Kind is what the stores must say of themselves.
	Kind authority.Kind

	// New returns an empty store of any Goal, open for writing.
	New func(t testing.TB) authority.Store

	// Reopen returns a second handle on the store, open for writing. The first
	// one stays open and is used further.
	Reopen func(t testing.TB, store authority.Store) authority.Store

	// Snapshot describes all that the store keeps durably, so that two snapshots
	// are equal when nothing was written. For a store in a folder that is
	// fixture.TreeHash, without what a mere reader of a database may touch.
	Snapshot func(t testing.TB, store authority.Store) fixture.Tree

	// Rewrite replaces the newest transaction of the store by another one with
	// the same cursor and operation id, all its digests made right, as if history
	// had been rewritten underneath. Nil where no such forgery is at hand; the
	// suite then only tries bookmarks of another store.
	Rewrite func(t testing.TB, store authority.Store)

	Differences Differences
}

// Differences are the declared real differences between kinds of stores.
type Differences struct {
	// InvalidReceiptID is the reason given to a receipt asked by a malformed id.
	// LoopX's file and PostgreSQL stores say invalid_operation_id, its SQLite
	// store provider_protocol_violation. Empty means invalid_operation_id.
	InvalidReceiptID authority.Reason

	// ExpectedMustHaveShape: an expected revision that is not spelled as this
	// kind spells revisions is invalid_commit_request. The file store takes any
	// text as a token and answers with a conflict.
	ExpectedMustHaveShape bool

	// CapacityBytes is the largest canonical request the store takes, counted over
	// {events, expected_provider_revision, next_projection, operation_id, receipts};
	// 0 where there is no limit, as in the file store.
	CapacityBytes int

	// RefusesLoneSurrogateIDs: an operation id with a lone surrogate is refused.
	// LoopX's SQLite store applies it and cannot read itself from then on; the file
	// store keeps it.
	RefusesLoneSurrogateIDs bool

	// RefusesNULAndSurrogates: a NUL or a lone surrogate in any string or key is
	// refused, as jsonb cannot hold them.
	RefusesNULAndSurrogates bool
}

func (d Differences) invalidReceiptID() authority.Reason {
	if d.InvalidReceiptID == authority.ReasonNone {
		return authority.ReasonInvalidOperationID
	}
	return d.InvalidReceiptID
}

// check is one part of the suite.
type check struct {
	name string
	run  func(t testing.TB, h Harness)
}

// checks is the suite, in the order in which a new store is best made to pass it.
var checks = []check{
	{"empty store", emptyStore},
	{"first commit", firstCommit},
	{"invalid requests", invalidRequests},
	{"conflicts", conflicts},
	{"spelling", spelling},
	{"long history", longHistory},
	{"random commits", randomCommits},
	{"operation ids", operationIDs},
	{"documents", documents},
	{"nesting", nesting},
	{"capacity", capacity},
	{"two handles", twoHandles},
	{"committers on one handle", committersOneHandle},
	{"committers on many handles", committersManyHandles},
	{"cancelled", cancelled},
	{"check commit", checkCommit},
	{"reads change nothing", readsChangeNothing},
	{"view is a snapshot", viewIsSnapshot},
	{"bookmarks", bookmarks},
	{"rewritten history", rewrittenHistory},
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, h) })
	}
}

// open makes an empty store that is closed when the test ends.
func open(t testing.TB, h Harness) authority.Store {
	t.Helper()
	store := h.New(t)
	t.Cleanup(func() { closeStore(t, store) })
	return store
}

// reopen makes another handle that is closed when the test ends.
func reopen(t testing.TB, h Harness, store authority.Store) authority.Store {
	t.Helper()
	other := h.Reopen(t, store)
	t.Cleanup(func() { closeStore(t, other) })
	return other
}

func closeStore(t testing.TB, store authority.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

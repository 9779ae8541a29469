package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// checkCommit: it answers what Commit then answers, and writes nothing.
func checkCommit(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	for i := range 3 {
		before := snapshot(t, h, store)
		good := plain(fmt.Sprintf("op-%d", i))
		if err := store.CheckCommit(context.Background(), m.request(good)); err != nil {
			t.Fatalf("check of a good commit: %v", err)
		}
		for name, spoil := range spoilers {
			request := m.request(plain("op-bad"))
			spoil(&request)
			if err := store.CheckCommit(context.Background(), request); err == nil {
				t.Fatalf("check of %s: nil", name)
			}
		}
		same(t, before, snapshot(t, h, store), "CheckCommit")
		m.reads(t, store)
		m.commit(t, store, good)
		if h.Snapshot != nil && i > 0 && snapshot(t, h, store) == before {
			t.Fatal("the harness's snapshot does not notice a commit, so it proves nothing")
		}
	}
}

// readsChangeNothing: no read writes, also not the ones that fail.
func readsChangeNothing(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	for i := range 3 {
		m.commit(t, store, plain(fmt.Sprintf("op-%d", i)))
	}
	before := snapshot(t, h, store)
	m.reads(t, store)
	m.scan(t, store, 9, 1)
	m.scan(t, store, 0, 0)
	m.audit(t, store, nil)
	view := viewOf(t, store)
	m.reads(t, view)
	if err := view.Close(); err != nil {
		t.Fatalf("close of a view: %v", err)
	}
	if _, err := store.Identity(context.Background()); err != nil {
		t.Fatalf("identity: %v", err)
	}
	same(t, before, snapshot(t, h, store), "a read")
}

func snapshot(t testing.TB, h Harness, store authority.Store) fixture.Tree {
	t.Helper()
	if h.Snapshot == nil {
		return ""
	}
	return h.Snapshot(t, store)
}

func same(t testing.TB, before, after fixture.Tree, what string) {
	t.Helper()
	if before != after {
		t.Fatalf("%s changed the store:\n%v", what, before.Diff(after))
	}
}

// viewIsSnapshot: a view shows the history as it was when it was made.
func viewIsSnapshot(t testing.TB, h Harness) {
	store := open(t, h)
	then := &model{}
	for i := range 3 {
		then.commit(t, store, plain(fmt.Sprintf("op-%d", i)))
	}
	view := viewOf(t, store)
	now := &model{rows: append([]row{}, then.rows...)}
	for i := range 3 {
		now.commit(t, store, plain(fmt.Sprintf("op-later-%d", i)))
	}
	then.reads(t, view)
	then.operations(t, view)
	then.absent(t, view, "op-later-0")
	then.scan(t, view, 3, 5)
	then.scan(t, view, 4, 5)
	then.proved(t, "view", view.Lineage())
	now.reads(t, store)
	if _, err := view.Receipt(context.Background(), " "); err == nil {
		t.Fatal("a view takes a malformed operation id")
	}
	if err := view.Close(); err != nil {
		t.Fatalf("close of a view: %v", err)
	}
}

// bookmarks: an audit that goes on from where another ended proves the same.
func bookmarks(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	stops := []int{0, 1, 2, 64, 65, 70, 130}
	var marks []authority.Bookmark
	for n := 0; n <= stops[len(stops)-1]; n++ {
		if n > 0 {
			m.commit(t, store, plain(fmt.Sprintf("op-%d", n)))
		}
		if n == stops[len(marks)] {
			marks = append(marks, stored(t, m.audit(t, store, nil).End))
		}
	}
	whole := m.audit(t, store, nil)
	other := reopen(t, h, store)
	for i, mark := range marks {
		if int(mark.Cursor) != stops[i] {
			t.Fatalf("the audit at %d transactions ended at cursor %d", stops[i], mark.Cursor)
		}
		tail := m.audit(t, other, &mark)
		if tail.Logical != whole.Logical || tail.End.Cursor != whole.End.Cursor || tail.End.Revision != whole.End.Revision {
			t.Fatalf("audit from cursor %d ends in %+v, the whole one in %+v", mark.Cursor, tail.End, whole.End)
		}
		m.commit(t, store, plain(fmt.Sprintf("op-more-%d", i)))
		after := m.audit(t, other, ptr(stored(t, tail.End)))
		whole = m.audit(t, store, nil)
		if after.Logical != whole.Logical {
			t.Fatalf("audit of one more row has logical digest %s, the whole one %s", after.Logical, whole.Logical)
		}
	}
	stop := errors.New("visit ends it")
	_, err := store.(authority.Auditor).Audit(context.Background(), nil, func(r authority.Row) error {
		if r.Cursor == 5 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Fatalf("audit ended by its visit: %v", err)
	}
}

// stored is the bookmark as a manifest gives it back.
func stored(t testing.TB, mark authority.Bookmark) authority.Bookmark {
	t.Helper()
	text, err := json.Marshal(mark)
	if err != nil {
		t.Fatal(err)
	}
	var back authority.Bookmark
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func ptr(mark authority.Bookmark) *authority.Bookmark { return &mark }

// rewrittenHistory: a bookmark whose row does not stand there any more is refused.
func rewrittenHistory(t testing.TB, h Harness) {
	store, other, short := open(t, h), open(t, h), open(t, h)
	m, elsewhere := &model{}, &model{}
	for i := range 4 {
		m.commit(t, store, plain(fmt.Sprintf("op-%d", i)))
		elsewhere.commit(t, other, plain(fmt.Sprintf("op-else-%d", i)))
	}
	mark := m.audit(t, store, nil).End
	for name, target := range map[string]authority.Store{"another history": other, "an empty history": short} {
		mustBeRewritten(t, name, target, mark)
	}
	forged := mark
	forged.StateDigest = authority.DigestOf([]byte("{}"))
	mustBeRewritten(t, "another state digest", store, forged)
	forged = mark
	forged.Revision = elsewhere.head()
	mustBeRewritten(t, "another revision", store, forged)
	forged = mark
	forged.Cursor += 7
	mustBeRewritten(t, "a shorter history", store, forged)
	if h.Rewrite != nil {
		h.Rewrite(t, store)
		mustBeRewritten(t, "the newest row rewritten", reopen(t, h, store), mark)
	}
}

func mustBeRewritten(t testing.TB, name string, store authority.Store, mark authority.Bookmark) {
	t.Helper()
	_, err := store.(authority.Auditor).Audit(context.Background(), &mark, nil)
	refused(t, "audit from a bookmark on "+name, err, authority.ClassFailed, authority.ReasonRewritten)
}

package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// longTransactions is past three checkpoints of the delta formats (1, 65, 129).
const longTransactions = 140

// longHistory commits a realistic history and reads it in every way.
func longHistory(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	for step := range fixture.History(11, longTransactions, 8, 40) {
		m.commit(t, store, row{step.OperationID, string(step.Events), string(step.Projection), string(step.Receipts), 1, 1, ""})
	}
	m.reads(t, store)
	m.counted(t, m.audit(t, store, nil))
	m.pages(t, store)
	other := reopen(t, h, store)
	m.load(t, other)
	view := viewOf(t, other)
	m.reads(t, view)
	m.pages(t, view)
	m.operations(t, view)
	m.counted(t, view.Lineage())
	m.proved(t, "view", view.Lineage())
	if err := view.Close(); err != nil {
		t.Fatalf("close of a view: %v", err)
	}
}

// pages walks the history at several limits, then asks at and beyond its ends.
func (m *model) pages(t reporter, reader authority.Reader) {
	t.Helper()
	limits := []int{1, 2, 7, 64, 1000}
	if testing.Short() {
		limits = limits[2:]
	}
	for _, limit := range limits {
		after, more := authority.Cursor(0), true
		for more {
			after, more = m.scan(t, reader, after, limit)
		}
	}
	n := authority.Cursor(len(m.rows))
	for _, after := range []authority.Cursor{0, 63, 64, n - 2, n - 1, n, n + 1, 1<<64 - 1} {
		for _, limit := range []int{-1, 0, 1, 2, 65, int(n), 1<<53 - 1} {
			m.scan(t, reader, after, limit)
		}
	}
}

func (m *model) operations(t reporter, view authority.View) {
	t.Helper()
	ids, err := view.Operations(context.Background())
	if err != nil || len(ids) != len(m.rows) {
		t.Fatalf("operations of a view: %d of %d ids, %v", len(ids), len(m.rows), err)
	}
	for i, id := range ids {
		if id != m.rows[i].operation {
			t.Fatalf("operation %d is %q, want %q", i+1, id, m.rows[i].operation)
		}
	}
}

// counted compares the numbers of a lineage that was proved from the beginning.
func (m *model) counted(t reporter, lineage authority.Lineage) {
	t.Helper()
	var events, receipts int
	for _, r := range m.rows {
		events, receipts = events+r.nEvents, receipts+r.nReceipts
	}
	if int(lineage.Transactions) != len(m.rows) || int(lineage.Events) != events || int(lineage.Receipts) != receipts {
		t.Fatalf("lineage counts %d transactions, %d events, %d receipts, want %d, %d, %d", lineage.Transactions,
			lineage.Events, lineage.Receipts, len(m.rows), events, receipts)
	}
	if lineage.Format == "" || lineage.Identity == "" {
		t.Fatalf("lineage names format %q and identity %q", lineage.Format, lineage.Identity)
	}
}

func viewOf(t testing.TB, store authority.Store) authority.View {
	t.Helper()
	viewer, ok := store.(authority.Viewer)
	if !ok {
		t.Fatalf("%T is no authority.Viewer", store)
	}
	view, err := viewer.View(context.Background())
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	return view
}

// randomCommits lets rapid choose values and mistakes, and shrink what fails.
func randomCommits(t testing.TB, h Harness) {
	rapid.Check(t, func(r *rapid.T) {
		store := h.New(t)
		defer closeStore(t, store)
		m := &model{}
		for i := range rapid.IntRange(1, 9).Draw(r, "steps") {
			m.randomStep(r, store, i)
		}
		m.reads(r, store)
		m.counted(r, m.audit(r, store, nil))
	})
}

// randomStep offers a good commit, or one with a mistake that leaves no trace.
func (m *model) randomStep(r *rapid.T, store authority.Store, i int) {
	fresh := randomRow(r, fmt.Sprintf("op-%d", i))
	request := m.request(fresh)
	request.Projection = indented(fresh.projection)
	mistake := rapid.SampledFrom([]string{"none", "none", "none", "stale", "replay"}).Draw(r, "mistake")
	switch {
	case mistake == "stale" && len(m.rows) > 0:
		request.Expected = m.rows[rapid.IntRange(0, len(m.rows)-1).Draw(r, "seen")].revision
		if request.Expected != m.head() {
			m.mustConflict(r, store, request, authority.ReasonRevisionMismatch)
			return
		}
	case mistake == "replay" && len(m.rows) > 0:
		request.OperationID = m.rows[rapid.IntRange(0, len(m.rows)-1).Draw(r, "known")].operation
		m.mustConflict(r, store, request, authority.ReasonOperationExists)
		return
	}
	if err := store.CheckCommit(context.Background(), request); err != nil {
		r.Fatalf("check of a good commit: %v", err)
	}
	m.applied(r, store, request, fresh)
	after := authority.Cursor(rapid.IntRange(0, len(m.rows)+1).Draw(r, "after"))
	m.scan(r, store, after, rapid.IntRange(0, 4).Draw(r, "limit"))
}

func (m *model) mustConflict(r *rapid.T, store authority.Store, request authority.CommitRequest, reason authority.Reason) {
	conflict(r, "check", store.CheckCommit(context.Background(), request), reason, m.current())
	_, err := store.Commit(context.Background(), request)
	conflict(r, "commit", err, reason, m.current())
}

func randomRow(r *rapid.T, operation string) row {
	events := rapid.SliceOfN(object(2), 0, 3).Draw(r, "events")
	receipts := rapid.SliceOfN(object(2), 0, 3).Draw(r, "receipts")
	return row{operation: operation, nEvents: len(events), nReceipts: len(receipts), events: string(fixture.Canonical(listOf(events))),
		receipts: string(fixture.Canonical(listOf(receipts))), projection: string(fixture.Canonical(object(3).Draw(r, "projection")))}
}

// listOf never is nil, which would print as null.
func listOf(values []map[string]any) []map[string]any { return append([]map[string]any{}, values...) }

// object generates values within what fixture.Canonical prints rightly: no
// floats, no keys like array indexes, no U+2028 and U+2029.
func object(depth int) *rapid.Generator[map[string]any] {
	key := rapid.StringMatching(`[a-zé～😀_][a-z0-9é～😀<&"\\]{0,5}`)
	return rapid.MapOfN(key, value(depth-1), 0, 4)
}

func value(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.IntRange(-1<<53, 1<<53).AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil),
		rapid.StringOf(rapid.SampledFrom([]rune("ab\"\\/<>&\n\t\x01\x7fé～😀"))).AsAny(),
	}
	if depth > 0 {
		leaves = append(leaves, object(depth).AsAny(), rapid.SliceOfN(value(depth-1), 0, 5).AsAny())
	}
	return rapid.OneOf(leaves...)
}

// indented is the same object over many lines.
func indented(canonical string) []byte {
	var out strings.Builder
	var value json.RawMessage = []byte(canonical)
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		panic("storetest: canonical text is no JSON: " + err.Error())
	}
	return []byte(out.String())
}

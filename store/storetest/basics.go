package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// plain makes a row with ordinary content.
func plain(operation string) row {
	return row{operation: operation, nEvents: 1, nReceipts: 2,
		events:     fmt.Sprintf(`[{"kind":"step","operation_id":%q}]`, operation),
		projection: fmt.Sprintf(`{"goal_id":"g","last":%q,"leases":[],"todos":[{"todo_id":"todo_a"},{"todo_id":"todo_b"}]}`, operation),
		receipts:   fmt.Sprintf(`[{"operation_id":%q,"status":"applied"},{"n":1}]`, operation)}
}

func emptyStore(t testing.TB, h Harness) {
	store := open(t, h)
	if store.Kind() != h.Kind || store.GoalID() == "" {
		t.Fatalf("the store says it is %q of Goal %q, want kind %q", store.Kind(), store.GoalID(), h.Kind)
	}
	m := &model{}
	m.reads(t, store)
	for _, limit := range []int{1, 64, 1 << 40} {
		m.scan(t, store, 0, limit)
		m.scan(t, store, 1, limit)
	}
	m.scan(t, store, 0, 0)
	m.scan(t, store, 5, -1)
	lineage := m.audit(t, store, nil)
	if lineage.Transactions != 0 || lineage.Events != 0 || lineage.Receipts != 0 {
		t.Fatalf("audit of an empty store counts %+v", lineage)
	}
	view := viewOf(t, store)
	m.reads(t, view)
	if err := view.Close(); err != nil {
		t.Fatalf("close of a view: %v", err)
	}
}

func firstCommit(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	request := m.request(plain("op-1"))
	request.Expected = authority.Revision(foreignRevision(t, h))
	_, err := store.Commit(context.Background(), request)
	conflict(t, "a first commit that expects a revision", err, authority.ReasonRevisionMismatch, authority.Applied{})
	m.reads(t, store)

	m.commit(t, store, plain("op-1"))
	m.reads(t, store)
	identity, err := store.Identity(context.Background())
	if err != nil || !identity.Valid(h.Kind) {
		t.Fatalf("identity %q: %v", identity, err)
	}
	m.commit(t, store, plain("op-2"))
	other := reopen(t, h, store)
	m.reads(t, other)
	again, err := other.Identity(context.Background())
	if err != nil || again != identity {
		t.Fatalf("identity is %q (%v) on another handle, was %q", again, err, identity)
	}
}

// foreignRevision is a revision of the right shape that belongs to another store.
func foreignRevision(t testing.TB, h Harness) string {
	t.Helper()
	other := open(t, h)
	m := &model{}
	m.commit(t, other, plain("elsewhere"))
	return string(m.head())
}

func invalidRequests(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	for round := range 2 {
		for name, spoil := range spoilers {
			request := m.request(plain(fmt.Sprintf("op-bad-%d", round)))
			spoil(&request)
			refused(t, "check of "+name, store.CheckCommit(context.Background(), request), authority.ClassFailed, authority.ReasonInvalidCommit)
			_, err := store.Commit(context.Background(), request)
			refused(t, "commit with "+name, err, authority.ClassFailed, authority.ReasonInvalidCommit)
		}
		for _, id := range []string{"", " ", " a", "a\n", "\u00a0a", "a\ufeff"} {
			_, err := store.Receipt(context.Background(), id)
			refused(t, fmt.Sprintf("receipt of %q", id), err, authority.ClassFailed, h.Differences.invalidReceiptID())
		}
		m.reads(t, store)
		m.commit(t, store, plain(fmt.Sprintf("op-good-%d", round)))
	}
	odd := m.request(plain("op-odd"))
	odd.Expected = "no-such-token"
	_, err := store.Commit(context.Background(), odd)
	if h.Differences.ExpectedMustHaveShape {
		refused(t, "expected revision of another shape", err, authority.ClassFailed, authority.ReasonInvalidCommit)
	} else {
		conflict(t, "expected revision of another shape", err, authority.ReasonRevisionMismatch, m.current())
	}
	m.reads(t, store)
}

// spoilers each break one rule of a commit request.
var spoilers = map[string]func(*authority.CommitRequest){
	"an empty operation id":        func(r *authority.CommitRequest) { r.OperationID = "" },
	"a blank operation id":         func(r *authority.CommitRequest) { r.OperationID = "  " },
	"an untrimmed operation id":    func(r *authority.CommitRequest) { r.OperationID += "\u3000" },
	"a BOM after the operation id": func(r *authority.CommitRequest) { r.OperationID += "\ufeff" },
	"events that are an object":    func(r *authority.CommitRequest) { r.Events = []byte(`{}`) },
	"an event that is a string":    func(r *authority.CommitRequest) { r.Events = []byte(`[{},"x"]`) },
	"an event that is null":        func(r *authority.CommitRequest) { r.Events = []byte(`[null]`) },
	"no events":                    func(r *authority.CommitRequest) { r.Events = nil },
	"receipts that are null":       func(r *authority.CommitRequest) { r.Receipts = []byte(`null`) },
	"a receipt that is a list":     func(r *authority.CommitRequest) { r.Receipts = []byte(`[[]]`) },
	"a projection that is a list":  func(r *authority.CommitRequest) { r.Projection = []byte(`[]`) },
	"a projection that is text":    func(r *authority.CommitRequest) { r.Projection = []byte(`"x"`) },
	"a projection cut off":         func(r *authority.CommitRequest) { r.Projection = []byte(`{"a":1`) },
	"text after the projection":    func(r *authority.CommitRequest) { r.Projection = []byte(`{} x`) },
	"two projections":              func(r *authority.CommitRequest) { r.Projection = []byte(`{}{}`) },
	"an infinite number":           func(r *authority.CommitRequest) { r.Projection = []byte(`{"a":1e400}`) },
	"a number that is none":        func(r *authority.CommitRequest) { r.Projection = []byte(`{"a":01}`) },
	"a control character":          func(r *authority.CommitRequest) { r.Receipts = []byte("[{\"a\":\"\x01\"}]") },
	"a byte-order mark":            func(r *authority.CommitRequest) { r.Events = []byte("\ufeff[]") },
}

// conflicts tries the orders in which a revision and an operation id can be wrong.
func conflicts(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	for i := range 3 {
		m.commit(t, store, plain(fmt.Sprintf("op-%d", i)))
	}
	stale := m.rows[0].revision
	other := plain("op-1")
	other.projection = `{"changed":true}`
	for _, try := range []struct {
		name     string
		expected authority.Revision
		row      row
		reason   authority.Reason
	}{
		{"a stale revision", stale, plain("op-new"), authority.ReasonRevisionMismatch},
		{"no revision on a store that has a head", "", plain("op-new"), authority.ReasonRevisionMismatch},
		{"an exact replay with its own old revision", m.rows[1].revision, plain("op-2"), authority.ReasonRevisionMismatch},
		{"a stale revision and a known id", stale, other, authority.ReasonRevisionMismatch},
		{"an exact replay at the head", m.head(), plain("op-2"), authority.ReasonOperationExists},
		{"a known id with other content", m.head(), other, authority.ReasonOperationExists},
		{"the oldest id again", m.head(), plain("op-0"), authority.ReasonOperationExists},
	} {
		request := m.request(try.row)
		request.Expected = try.expected
		conflict(t, "check of "+try.name, store.CheckCommit(context.Background(), request), try.reason, m.current())
		_, err := store.Commit(context.Background(), request)
		conflict(t, try.name, err, try.reason, m.current())
		m.reads(t, store)
	}
	m.commit(t, store, plain("op-after"))
	m.reads(t, store)
}

// current is what a conflict must say of the head.
func (m *model) current() authority.Applied {
	return authority.Applied{Cursor: authority.Cursor(len(m.rows)), Revision: m.head()}
}

func conflict(t reporter, what string, err error, reason authority.Reason, current authority.Applied) {
	t.Helper()
	refused(t, what, err, authority.ClassConflict, reason)
	var refusal *authority.Error
	if errors.As(err, &refusal) && refusal.Current != current {
		t.Fatalf("%s: the conflict says the head is %+v, it is %+v", what, refusal.Current, current)
	}
	if !errors.Is(err, authority.ErrConflict) {
		t.Fatalf("%s: %v is not ErrConflict", what, err)
	}
}

// spelling offers values in other spellings; they come back in canonical form.
func spelling(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	want := row{operation: "op-spelled", nEvents: 1, nReceipts: 1,
		events: `[{"2":1,"10":2,"a":3}]`, projection: `{"A":"é/","a":{"x":2},"n":[1,0,1e+21,1e-7,9007199254740992]}`, receipts: `[{"k":"\u001f"}]`}
	request := m.request(want)
	request.Events = []byte(" [ {\"a\" :3,\"10\":2,\"2\":1.0} ]\n")
	request.Projection = []byte(`{"n":[1.0,-0,1E21,0.0000001,9007199254740993],"a":{"x":1},"\u0041":"\u00E9\/","a":{"x":2}}`)
	request.Receipts = []byte("\t[{\"k\":\"\\u001F\"}]")
	m.applied(t, store, request, want)
	m.reads(t, store)
	m.audit(t, store, nil)

	empty := row{operation: "op-empty", events: `[]`, projection: `{}`, receipts: `[]`}
	m.commit(t, store, empty)
	same := empty
	same.operation = "op-same-state"
	m.commit(t, store, same)
	m.reads(t, store)
	m.audit(t, store, nil)
}

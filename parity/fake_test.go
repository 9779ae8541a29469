package parity

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// fake is a view in memory that a test can spoil in any one place.
type fake struct {
	kind     authority.Kind
	identity authority.Identity
	rows     []authority.Transaction
	// receipts answers Receipt; rows alone do not.
	receipts map[string]authority.Receipt
	head     *authority.Transaction // nil: the last row
	lineage  authority.Lineage
	ids      []string
	scan     func(page authority.Page, after authority.Cursor, limit int, err error) (authority.Page, error)
	load     error
}

// history makes a view of a made-up history of n transactions.
func history(kind authority.Kind, n int) *fake {
	f := &fake{kind: kind, identity: authority.Identity(string(kind) + ":0123456789abcdef0123456789abcdef")}
	for _, step := range steps(n) {
		f.rows = append(f.rows, authority.Transaction{Cursor: authority.Cursor(step.Cursor), OperationID: step.OperationID,
			Revision: authority.Revision(fmt.Sprintf("%s:%d", kind, step.Cursor)), Events: step.Events, Projection: step.Projection, Receipts: step.Receipts})
	}
	f.prove()
	return f
}

var (
	made   = map[int][]fixture.Step{}
	making sync.Mutex
)

// steps makes a history once; a test that spoils one replaces values whole.
func steps(n int) []fixture.Step {
	making.Lock()
	defer making.Unlock()
	if _, known := made[n]; !known {
		made[n] = fixture.Steps(fixture.History(5, n, 17, 30))
	}
	return made[n]
}

// prove works out lineage, receipts and ids anew, as an honest audit of the rows would.
func (f *fake) prove() {
	f.receipts, f.ids = map[string]authority.Receipt{}, nil
	f.lineage = authority.Lineage{Format: authority.FormatFileV0, Identity: f.identity, Transactions: uint64(len(f.rows))}
	hash := authority.NewLogicalHash()
	for _, row := range f.rows {
		state := authority.DigestOf(row.Projection)
		hash.Add(authority.Row{Transaction: row, StateDigest: state})
		if _, twice := f.receipts[row.OperationID]; !twice {
			f.receipts[row.OperationID] = authority.Receipt{Cursor: row.Cursor, Revision: row.Revision, Receipts: row.Receipts}
		}
		f.ids = append(f.ids, row.OperationID)
		f.lineage.Events += uint64(len(elements(row.Events)))
		f.lineage.Receipts += uint64(len(elements(row.Receipts)))
		f.lineage.End = authority.Bookmark{Cursor: row.Cursor, Revision: row.Revision, StateDigest: state}
	}
	f.lineage.Logical = hash.Digest()
}

// edit replaces text in one value of a row.
func (f *fake) edit(cursor int, field func(*authority.Transaction) *authority.Canonical, from, to string) {
	value := field(&f.rows[cursor-1])
	if !bytes.Contains(*value, []byte(from)) {
		panic(fmt.Sprintf("cursor %d has no %q", cursor, from))
	}
	*value = bytes.Replace(*value, []byte(from), []byte(to), 1)
}

func projection(t *authority.Transaction) *authority.Canonical { return &t.Projection }
func receipts(t *authority.Transaction) *authority.Canonical   { return &t.Receipts }
func events(t *authority.Transaction) *authority.Canonical     { return &t.Events }

// lists of a projection, rebuilt.
func (f *fake) rebuild(cursor int, key string, change func([][]byte) [][]byte) {
	row := &f.rows[cursor-1]
	list := member(row.Projection, key)
	changed := append(append([]byte{'['}, bytes.Join(change(elements(list)), []byte{','})...), ']')
	row.Projection = bytes.Replace(row.Projection, append([]byte(`"`+key+`":`), list...), append([]byte(`"`+key+`":`), changed...), 1)
}

func (f *fake) Kind() authority.Kind { return f.kind }
func (f *fake) GoalID() string       { return fixture.HistoryGoal }
func (f *fake) Close() error         { return nil }

func (f *fake) Identity(context.Context) (authority.Identity, error) { return f.identity, nil }
func (f *fake) Lineage() authority.Lineage                           { return f.lineage }
func (f *fake) Operations(context.Context) ([]string, error)         { return f.ids, nil }

func (f *fake) refuse(class authority.Class, reason authority.Reason) error {
	return &authority.Error{Verb: "test", Kind: f.kind, Class: class, Reason: reason, Detail: "/a/path"}
}

func (f *fake) Load(context.Context) (authority.Head, error) {
	if f.load != nil || len(f.rows) == 0 {
		if f.load != nil {
			return authority.Head{}, f.load
		}
		return authority.Head{}, f.refuse(authority.ClassMissing, "")
	}
	last := f.rows[len(f.rows)-1]
	if f.head != nil {
		last = *f.head
	}
	return authority.Head{Cursor: last.Cursor, Revision: last.Revision, Projection: last.Projection}, nil
}

func (f *fake) Receipt(_ context.Context, id string) (authority.Receipt, error) {
	receipt, known := f.receipts[id]
	if !known {
		return receipt, f.refuse(authority.ClassMissing, "")
	}
	return receipt, nil
}

func (f *fake) Scan(_ context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	page, err := f.page(after, limit)
	if f.scan != nil {
		return f.scan(page, after, limit, err)
	}
	return page, err
}

func (f *fake) page(after authority.Cursor, limit int) (authority.Page, error) {
	end := authority.Cursor(0)
	if len(f.rows) > 0 {
		end = f.rows[len(f.rows)-1].Cursor
	}
	switch {
	case limit < 1:
		return authority.Page{}, f.refuse(authority.ClassFailed, authority.ReasonInvalidScan)
	case after > end:
		return authority.Page{}, f.refuse(authority.ClassFailed, authority.ReasonScanRange)
	}
	page := authority.Page{Next: after}
	for _, row := range f.rows {
		if row.Cursor <= after {
			continue
		}
		if len(page.Transactions) == limit {
			page.HasMore = true
			break
		}
		page.Transactions, page.Next = append(page.Transactions, row), row.Cursor
	}
	return page, nil
}

// known answers CheckCommit as a right store does.
func (f *fake) known(_ context.Context, request authority.CommitRequest) error {
	last := f.rows[len(f.rows)-1]
	conflict := &authority.Error{Class: authority.ClassConflict, Current: authority.Applied{Cursor: last.Cursor, Revision: last.Revision}}
	conflict.Reason = authority.ReasonRevisionMismatch
	if request.Expected == last.Revision {
		conflict.Reason = authority.ReasonOperationExists
		if _, known := f.receipts[request.OperationID]; !known {
			return nil
		}
	}
	return conflict
}

func (f *fake) arm(name string) Arm {
	return Arm{Name: name, View: f, CheckCommit: f.known,
		Digest: func(context.Context) (authority.Digest, error) {
			var all []byte
			for _, row := range f.rows {
				all = append(append(append(append(all, row.OperationID...), row.Events...), row.Projection...), row.Receipts...)
			}
			return authority.DigestOf(all), nil
		}}
}

// compare runs a comparison of fakes named a, b and c.
func compare(t *testing.T, options Options, fakes ...*fake) Report {
	t.Helper()
	var arms []Arm
	for i, f := range fakes {
		arms = append(arms, f.arm(string(rune('a'+i))))
	}
	report, err := Compare(context.Background(), arms, options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// has fails the test when a check lacks a difference like the one wanted; empty
// fields of it are not compared.
func has(t *testing.T, report Report, name CheckName, want Difference) {
	t.Helper()
	check := report.Check(name)
	if check.Outcome != Differs {
		t.Errorf("check %s is %s, want it to differ", name, check.Outcome)
	}
	for _, got := range check.Differences {
		if got.Code == want.Code && (want.Arm == "" || got.Arm == want.Arm) && (want.Cursor == 0 || got.Cursor == want.Cursor) &&
			(want.Field == "" || got.Field == want.Field) && (want.TodoID == "" || got.TodoID == want.TodoID) &&
			(want.OperationID == "" || strings.HasPrefix(got.OperationID, want.OperationID)) {
			return
		}
	}
	t.Errorf("check %s has no difference like %+v among %+v", name, want, check.Differences)
}

// mustCanonical guards the spoiled rows: a test that plants text which is not
// canonical would prove nothing.
func mustCanonical(t *testing.T, f *fake) {
	t.Helper()
	for _, row := range f.rows {
		if err := canonical.Check(row.Projection); err != nil {
			t.Fatalf("cursor %d: %v", row.Cursor, err)
		}
	}
}

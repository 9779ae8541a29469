package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// reporter is what a comparison needs of a test: a testing.TB or a *rapid.T.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// row is one transaction as the model keeps it: canonical text, worked out
// without the code under test.
type row struct {
	operation  string
	events     string
	projection string
	receipts   string
	nEvents    int
	nReceipts  int
	revision   authority.Revision // as the store gave it
}

// model is the naive store that answers are compared with: a slice of rows.
type model struct{ rows []row }

func (m *model) head() authority.Revision {
	if len(m.rows) == 0 {
		return ""
	}
	return m.rows[len(m.rows)-1].revision
}

// request offers the row on top of what the model has.
func (m *model) request(r row) authority.CommitRequest {
	return authority.CommitRequest{Expected: m.head(), OperationID: r.operation,
		Events: []byte(r.events), Projection: []byte(r.projection), Receipts: []byte(r.receipts)}
}

// commit applies a row to store and model alike.
func (m *model) commit(t reporter, store authority.Store, r row) {
	t.Helper()
	m.applied(t, store, m.request(r), r)
}

// applied commits a request, which must be taken, and remembers the row it stands for.
func (m *model) applied(t reporter, store authority.Store, request authority.CommitRequest, r row) {
	t.Helper()
	got, err := store.Commit(context.Background(), request)
	if err != nil {
		t.Fatalf("commit %q on cursor %d: %v", request.OperationID, len(m.rows), err)
	}
	if got.Cursor != authority.Cursor(len(m.rows)+1) || got.Revision == "" || got.Revision == m.head() {
		t.Fatalf("commit %q on cursor %d was applied as %+v", request.OperationID, len(m.rows), got)
	}
	r.revision = got.Revision
	m.rows = append(m.rows, r)
}

// page is the model's own reading of the rules of a scan.
func (m *model) page(after authority.Cursor, limit int) (rows []row, more bool, reason authority.Reason) {
	n := authority.Cursor(len(m.rows))
	switch {
	case limit < 1:
		return nil, false, authority.ReasonInvalidScan
	case after > n:
		return nil, false, authority.ReasonScanRange
	}
	rest := m.rows[after:]
	if limit < len(rest) {
		return rest[:limit], true, ""
	}
	return rest, false, ""
}

// same compares a store's transaction with the model's row at a cursor.
func (m *model) same(t reporter, where string, cursor authority.Cursor, got authority.Transaction) {
	t.Helper()
	if err := m.difference(cursor, got); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
}

// difference names the first field in which a transaction is not the model's row.
func (m *model) difference(cursor authority.Cursor, got authority.Transaction) error {
	if cursor < 1 || int(cursor) > len(m.rows) {
		return fmt.Errorf("row at cursor %d, the history has %d", cursor, len(m.rows))
	}
	want := m.rows[cursor-1]
	for _, field := range []struct{ name, got, want string }{
		{"cursor", got.Cursor.String(), cursor.String()},
		{"provider_revision", string(got.Revision), string(want.revision)},
		{"operation_id", got.OperationID, want.operation},
		{"events", string(got.Events), want.events},
		{"projection", string(got.Projection), want.projection},
		{"receipts", string(got.Receipts), want.receipts},
	} {
		if field.got != field.want {
			return fmt.Errorf("cursor %d %s:\n got %.300q\nwant %.300q", cursor, field.name, field.got, field.want)
		}
	}
	return nil
}

// reads compares Load, a scan and the receipts of all operations with the model.
func (m *model) reads(t reporter, reader authority.Reader) {
	t.Helper()
	m.load(t, reader)
	m.scan(t, reader, 0, len(m.rows)+1)
	for i, r := range m.rows {
		m.receipt(t, reader, authority.Cursor(i+1), r.operation)
	}
	m.absent(t, reader, "never-committed", "op", "a", "\u180e")
}

func (m *model) load(t reporter, reader authority.Reader) {
	t.Helper()
	head, err := reader.Load(context.Background())
	if len(m.rows) == 0 {
		refused(t, "load of an empty store", err, authority.ClassMissing, authority.ReasonNone)
		return
	}
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	last := m.rows[len(m.rows)-1]
	if head.Cursor != authority.Cursor(len(m.rows)) || head.Revision != last.revision || string(head.Projection) != last.projection {
		t.Fatalf("load: head is cursor %d revision %q projection %.200q\nwant cursor %d revision %q projection %.200q",
			head.Cursor, head.Revision, head.Projection, len(m.rows), last.revision, last.projection)
	}
}

func (m *model) receipt(t reporter, reader authority.Reader, cursor authority.Cursor, operation string) {
	t.Helper()
	got, err := reader.Receipt(context.Background(), operation)
	if err != nil {
		t.Fatalf("receipt of %q at cursor %d: %v", operation, cursor, err)
	}
	want := m.rows[cursor-1]
	if got.Cursor != cursor || got.Revision != want.revision || string(got.Receipts) != want.receipts {
		t.Fatalf("receipt of %q: got cursor %d revision %q %.200q\nwant cursor %d revision %q %.200q",
			operation, got.Cursor, got.Revision, got.Receipts, cursor, want.revision, want.receipts)
	}
}

// absent asks for ids that were never committed.
func (m *model) absent(t reporter, reader authority.Reader, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if m.has(id) {
			continue
		}
		got, err := reader.Receipt(context.Background(), id)
		if err == nil {
			t.Fatalf("receipt of absent operation %q: %+v", id, got)
		}
		refused(t, fmt.Sprintf("receipt of absent operation %q", id), err, authority.ClassMissing, authority.ReasonNone)
	}
}

func (m *model) has(id string) bool {
	for _, r := range m.rows {
		if r.operation == id {
			return true
		}
	}
	return false
}

// scan compares one page with the model, refusals included, and returns where it ends.
func (m *model) scan(t reporter, reader authority.Reader, after authority.Cursor, limit int) (next authority.Cursor, more bool) {
	t.Helper()
	where := fmt.Sprintf("scan after %d limit %d", after, limit)
	want, wantMore, reason := m.page(after, limit)
	page, err := reader.Scan(context.Background(), after, limit)
	if reason != "" {
		refused(t, where, err, authority.ClassFailed, reason)
		return after, false
	}
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	wantNext := after + authority.Cursor(len(want))
	if len(page.Transactions) != len(want) || page.Next != wantNext || page.HasMore != wantMore {
		t.Fatalf("%s: %d rows, next %d, has more %t; want %d rows, next %d, has more %t",
			where, len(page.Transactions), page.Next, page.HasMore, len(want), wantNext, wantMore)
	}
	for i, got := range page.Transactions {
		m.same(t, where, after+authority.Cursor(i+1), got)
	}
	return page.Next, page.HasMore
}

// logical is the logical digest after n rows, from its definition: SHA-256 over
// a line [cursor, events, operation_id, receipts, state_digest] a row.
func (m *model) logical(n int) authority.Digest {
	h := sha256.New()
	for i, r := range m.rows[:n] {
		state := sha256.Sum256([]byte(r.projection))
		fmt.Fprintf(h, "[\"%d\",%s,%s,%s,\"%s\"]\n", i+1, r.events, fixture.Canonical(r.operation), r.receipts, hex.EncodeToString(state[:]))
	}
	return authority.Digest(h.Sum(nil))
}

// audit audits from a place and compares the rows shown and what was proved.
func (m *model) audit(t reporter, store authority.Reader, from *authority.Bookmark) authority.Lineage {
	t.Helper()
	auditor, ok := store.(authority.Auditor)
	if !ok {
		t.Fatalf("%T is no authority.Auditor", store)
	}
	at := authority.Cursor(0)
	if from != nil {
		at = from.Cursor
	}
	lineage, err := auditor.Audit(context.Background(), from, func(r authority.Row) error {
		at++
		if err := m.difference(at, r.Transaction); err != nil {
			return err
		}
		if r.StateDigest != authority.DigestOf([]byte(m.rows[at-1].projection)) {
			return fmt.Errorf("cursor %d has state digest %s", at, r.StateDigest)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	if int(at) != len(m.rows) {
		t.Fatalf("audit showed rows up to %d of %d", at, len(m.rows))
	}
	m.proved(t, "audit", lineage)
	return lineage
}

// proved compares what an audit or a view says it proved.
func (m *model) proved(t reporter, where string, lineage authority.Lineage) {
	t.Helper()
	n := len(m.rows)
	end := authority.Bookmark{Cursor: authority.Cursor(n), Revision: m.head()}
	if n > 0 {
		end.StateDigest = authority.DigestOf([]byte(m.rows[n-1].projection))
	}
	if lineage.End.Cursor != end.Cursor || lineage.End.Revision != end.Revision || lineage.End.StateDigest != end.StateDigest {
		t.Fatalf("%s ends at %d %q %s, want %d %q %s", where, lineage.End.Cursor, lineage.End.Revision,
			lineage.End.StateDigest, end.Cursor, end.Revision, end.StateDigest)
	}
	if n > 0 && lineage.Logical != m.logical(n) {
		t.Fatalf("%s: logical digest %s, want %s", where, lineage.Logical, m.logical(n))
	}
}

// refused demands a refusal of a class and reason, as *authority.Error.
func refused(t reporter, what string, err error, class authority.Class, reason authority.Reason) {
	t.Helper()
	var refusal *authority.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("%s: got %v, want %s/%s", what, err, class, reason)
	}
	if refusal.Class != class || refusal.Reason != reason {
		t.Fatalf("%s: got %v, want %s/%s", what, err, class, reason)
	}
}

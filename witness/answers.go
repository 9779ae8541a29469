package witness

import (
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
)

// CheckAnswers: what a store answers is what the witness read by itself.
const CheckAnswers = "answers"

// Ask puts the questions of the store contract to a store and holds the answers
// against what was read without it: the head, the receipts of every operation, an
// operation that never was, and pages of several sizes from the start, the middle and
// the end.
func Ask(ctx context.Context, r *Reading, store authority.Reader) (Check, error) {
	a := asking{r: r, check: Check{Name: CheckAnswers}}
	head, err := store.Load(ctx)
	if err != nil {
		return a.check, err
	}
	last := r.rows[len(r.rows)-1]
	a.same(last, "projection", last.projection, head.Projection)
	a.equal(last, "cursor", uint64(head.Cursor) == last.cursor && string(head.Revision) == r.header.revision)
	for _, t := range r.rows {
		receipt, err := store.Receipt(ctx, t.operation)
		if err != nil {
			return a.check, err
		}
		a.same(t, "receipts", t.receipts, receipt.Receipts)
		a.equal(t, "receipt.cursor", uint64(receipt.Cursor) == t.cursor)
	}
	_, err = store.Receipt(ctx, "witness-operation-that-never-was")
	var answer *authority.Error
	a.equal(last, "absent operation", errors.As(err, &answer) && answer.Class == authority.ClassMissing)
	return a.check, a.pages(ctx, store)
}

type asking struct {
	r     *Reading
	check Check
}

func (a *asking) same(t trace, field, want string, got authority.Canonical) {
	a.equal(t, field, digest(string(got)) == want)
}

func (a *asking) equal(t trace, field string, alike bool) {
	a.check.Compared++
	if alike {
		return
	}
	if a.check.Total++; len(a.check.Findings) < listed {
		a.check.Findings = append(a.check.Findings, Finding{Check: CheckAnswers, Cursor: authority.Cursor(t.cursor), OperationID: t.operation, Field: field})
	}
}

// pages reads windows of the history, page by page.
func (a *asking) pages(ctx context.Context, store authority.Reader) error {
	n := len(a.r.rows)
	for _, size := range []int{1, 7, 64} {
		for _, from := range []int{0, n / 2, max(0, n-size), n} {
			page, err := store.Scan(ctx, authority.Cursor(from), size)
			if err != nil {
				return err
			}
			a.page(page, from, size)
		}
	}
	return nil
}

func (a *asking) page(page authority.Page, from, size int) {
	rows := a.r.rows[from:min(from+size, len(a.r.rows))]
	at := trace{cursor: uint64(from)}
	a.equal(at, "page", len(page.Transactions) == len(rows) && page.HasMore == (from+size < len(a.r.rows)))
	for i, t := range rows {
		if i >= len(page.Transactions) {
			return
		}
		got := page.Transactions[i]
		a.equal(t, "operation_id", got.OperationID == t.operation && uint64(got.Cursor) == t.cursor)
		a.same(t, "events", t.events, got.Events)
		a.same(t, "projection", t.projection, got.Projection)
		a.same(t, "receipts", t.receipts, got.Receipts)
	}
}

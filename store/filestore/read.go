package filestore

import (
	"bytes"
	"context"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Load proves the whole document and returns its head.
func (s *Store) Load(ctx context.Context) (authority.Head, error) {
	d, err := s.verify(ctx, &walk{})
	if err != nil {
		return authority.Head{}, s.refuse("load", err)
	}
	defer d.close()
	return d.head(), nil
}

// head is the head of a document that was proved.
func (d *document) head() authority.Head {
	cursor, err := authority.ParseCursor(d.header.cursor)
	if err != nil {
		panic("filestore: a proved header has no cursor: " + err.Error())
	}
	return authority.Head{Cursor: cursor, Revision: authority.Revision(d.header.revision), Projection: d.header.head}
}

// Receipt proves the whole document and returns what the operation got.
func (s *Store) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	if err := checkOperation(operationID); err != nil {
		return authority.Receipt{}, s.refuse("receipt", err)
	}
	var found *authority.Receipt
	d, err := s.verify(ctx, &walk{visit: func(r *row) error {
		if r.operationID == operationID {
			found = &authority.Receipt{Cursor: r.place, Revision: authority.Revision(r.claimed), Receipts: bytes.Clone(r.entry.receipts)}
		}
		return nil
	}})
	if err != nil {
		return authority.Receipt{}, s.refuse("receipt", err)
	}
	d.close()
	if found == nil {
		absent := missing()
		absent.OperationID = operationID
		return authority.Receipt{}, s.refuse("receipt", absent)
	}
	return *found, nil
}

func checkOperation(id string) error {
	if canonical.ValidID(id) {
		return nil
	}
	return failed(authority.ReasonInvalidOperationID, "operation id must be a non-empty trimmed string").at(0, "operation_id")
}

// Scan proves the whole document and returns a page of it.
func (s *Store) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	if err := checkLimit(limit); err != nil {
		return authority.Page{}, s.refuse("scan", err)
	}
	page := authority.Page{Next: after}
	d, err := s.verify(ctx, &walk{visit: func(r *row) error {
		if r.place <= after {
			return nil
		}
		if len(page.Transactions) == limit {
			page.HasMore = true
			return nil
		}
		page.Transactions = append(page.Transactions, r.clone())
		page.Next = r.place
		return nil
	}})
	var head authority.Cursor
	if err == nil {
		head = d.head().Cursor
		d.close()
	} else if !isMissing(err) {
		return authority.Page{}, s.refuse("scan", err)
	}
	if after > head {
		return authority.Page{}, s.refuse("scan", beyondHead(after))
	}
	return page, nil
}

func checkLimit(limit int) error {
	const largest = 1<<53 - 1 // of a JavaScript safe integer
	if limit >= 1 && int64(limit) <= largest {
		return nil
	}
	return failed(authority.ReasonInvalidScan, "scan limit must be a positive safe integer").at(0, "limit")
}

func beyondHead(after authority.Cursor) *refusal {
	return failed(authority.ReasonScanRange, "scan cursor is ahead of the provider head").at(after, "after")
}

// clone is the row as a transaction that outlives the pass.
func (r *row) clone() authority.Transaction {
	t := r.transaction()
	t.Events, t.Projection, t.Receipts = bytes.Clone(t.Events), bytes.Clone(t.Projection), bytes.Clone(t.Receipts)
	return t
}

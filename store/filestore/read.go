package filestore

import (
	"bytes"
	"context"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Load proves the whole document and returns its head.
func (s *Store) Load(ctx context.Context) (authority.Head, error) {
	v, err := s.proved(ctx)
	if err != nil {
		return authority.Head{}, s.refuse("load", err)
	}
	defer v.document.close()
	head := v.document.head()
	head.Projection = bytes.Clone(head.Projection) // what this Store remembers is not the caller's to change
	return head, nil
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
	v, err := s.proved(ctx)
	if err != nil {
		return authority.Receipt{}, s.refuse("receipt", err)
	}
	defer v.document.close()
	receipt, err := v.receipt(ctx, operationID)
	return receipt, s.refuse("receipt", err)
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
	v, err := s.proved(ctx)
	switch {
	case isMissing(err) && after > 0:
		return authority.Page{}, s.refuse("scan", beyondHead(after))
	case isMissing(err):
		return authority.Page{Next: after}, nil
	case err != nil:
		return authority.Page{}, s.refuse("scan", err)
	}
	defer v.document.close()
	page, err := v.scan(ctx, after, limit)
	return page, s.refuse("scan", err)
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

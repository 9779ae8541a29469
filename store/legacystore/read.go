package legacystore

import (
	"context"
	"errors"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
)

// errFound ends an audit that has seen enough.
var errFound = errors.New("found")

// Load is what the files say, behind the history that was retained.
func (s *Store) Load(ctx context.Context) (authority.Head, error) {
	var head authority.Head
	_, err := s.Audit(ctx, nil, func(row authority.Row) error {
		head = authority.Head{Cursor: row.Cursor, Revision: row.Revision, Projection: slices.Clone(row.Projection)}
		return nil
	})
	return head, err
}

// Receipt looks through the history for an operation.
func (s *Store) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	var receipt authority.Receipt
	_, err := s.Audit(ctx, nil, func(row authority.Row) error {
		if row.OperationID != operationID {
			return nil
		}
		receipt = authority.Receipt{Cursor: row.Cursor, Revision: row.Revision, Receipts: slices.Clone(row.Receipts)}
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return receipt, nil
	case err == nil:
		err = s.refusal("receipt", authority.ClassMissing, authority.ReasonNone, "no such operation", nil)
	}
	return receipt, err
}

// Scan reads the history from its beginning up to the page.
func (s *Store) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	if limit < 1 {
		return authority.Page{}, s.refusal("scan", authority.ClassFailed, authority.ReasonInvalidScan, "a page has at least one row", nil)
	}
	page := authority.Page{Next: after}
	lineage, err := s.Audit(ctx, nil, func(row authority.Row) error {
		if row.Cursor <= after || len(page.Transactions) == limit {
			return nil
		}
		tx := row.Transaction
		tx.Events, tx.Projection, tx.Receipts = slices.Clone(tx.Events), slices.Clone(tx.Projection), slices.Clone(tx.Receipts)
		page.Transactions = append(page.Transactions, tx)
		page.Next = tx.Cursor
		return nil
	})
	if err != nil {
		return authority.Page{}, err
	}
	if after > lineage.End.Cursor {
		return authority.Page{}, s.refusal("scan", authority.ClassFailed, authority.ReasonScanRange, "the history ends before that cursor", nil)
	}
	page.HasMore = page.Next < lineage.End.Cursor
	return page, nil
}

// Commit is refused: the legacy files are written by LoopX's commands and by nothing here.
func (s *Store) Commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	return authority.Applied{}, s.CheckCommit(ctx, request)
}

// CheckCommit refuses.
func (s *Store) CheckCommit(context.Context, authority.CommitRequest) error {
	return s.refusal("commit", authority.ClassUnavailable, authority.ReasonWriteUnavailable, "the legacy files take no commit", nil)
}

// View is the history as it was audited; the files of a store are read once.
func (s *Store) View(ctx context.Context) (authority.View, error) {
	lineage, err := s.Audit(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	return view{s, lineage}, nil
}

type view struct {
	*Store
	lineage authority.Lineage
}

// Lineage is what the audit proved.
func (v view) Lineage() authority.Lineage { return v.lineage }

// Operations returns every operation id in cursor order.
func (v view) Operations(ctx context.Context) (ids []string, err error) {
	_, err = v.Audit(ctx, nil, func(row authority.Row) error {
		ids = append(ids, row.OperationID)
		return nil
	})
	return ids, err
}

// Close keeps the store open, whose files these are.
func (v view) Close() error { return nil }

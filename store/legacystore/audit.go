package legacystore

import (
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// audit walks the history and sums it up.
type audit struct {
	store   *Store
	from    *authority.Bookmark
	visit   func(authority.Row) error
	logical *authority.LogicalHash
	lineage authority.Lineage
	stood   bool // the bookmark's row stands where it stood
}

var errRewritten = errors.New("rewritten")

// Audit proves the retained history and reads the files. A bookmark spares no work; it
// says which row must stand where, and rows up to it are not shown to visit. Its
// refusals are *authority.Error: ReasonDefect for files that something blocks, ReasonRewritten.
func (s *Store) Audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	a := &audit{store: s, from: from, visit: visit, logical: authority.NewLogicalHash(), stood: from == nil || from.Cursor == 0}
	a.lineage.Format, a.lineage.Identity = authority.FormatLegacy, Identity(s.options.GoalID)
	if s.options.Retained != nil {
		if _, err := s.options.Retained.Audit(ctx, nil, a.take); err != nil {
			return authority.Lineage{}, a.answer(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return authority.Lineage{}, err
	}
	row, err := s.transaction(a.lineage.End.Cursor)
	if err != nil {
		return authority.Lineage{}, s.unread("audit", err)
	}
	if err := a.take(row); err != nil {
		return authority.Lineage{}, a.answer(err)
	}
	if !a.stood {
		return authority.Lineage{}, a.answer(errRewritten)
	}
	kept, err := s.kept()
	a.lineage.Bytes, a.lineage.Logical = int64(len(kept.Files.State)), a.logical.Digest()
	return a.lineage, err
}

func (a *audit) answer(err error) error {
	if errors.Is(err, errRewritten) {
		return a.store.refusal("audit", authority.ClassFailed, authority.ReasonRewritten, "what was read before no longer stands there", nil)
	}
	return err
}

// take adds a row.
func (a *audit) take(row authority.Row) error {
	a.logical.Add(row)
	a.lineage.End = authority.Bookmark{Cursor: row.Cursor, Revision: row.Revision, StateDigest: row.StateDigest, Logical: a.logical.State()}
	if a.from != nil && row.Cursor == a.from.Cursor {
		if row.Revision != a.from.Revision || row.StateDigest != a.from.StateDigest {
			return errRewritten
		}
		a.stood = true
	}
	if a.from != nil && row.Cursor <= a.from.Cursor {
		return nil
	}
	a.lineage.Transactions++
	a.lineage.Events += count(row.Events)
	a.lineage.Receipts += count(row.Receipts)
	if a.visit == nil {
		return nil
	}
	return a.visit(row)
}

func count(list authority.Canonical) (n uint64) {
	for range canonical.Elements(list) {
		n++
	}
	return n
}

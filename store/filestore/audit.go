package filestore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
)

// position is this store's own note in a bookmark, and the bookmark's proof with it.
type position struct {
	Format     authority.Format `json:"format"`
	Row        int64            `json:"row"`        // byte offset of the row
	Checkpoint int64            `json:"checkpoint"` // format v1: of the checkpoint that covers it
	Events     uint64           `json:"events"`     // up to the row
	Receipts   uint64           `json:"receipts"`

	cursor   authority.Cursor
	revision authority.Revision
	digest   authority.Digest
	logical  authority.LogicalState
}

// positionOf reads a bookmark; nil is the beginning.
func positionOf(from *authority.Bookmark) (*position, error) {
	if from == nil || from.Cursor == 0 {
		return nil, nil
	}
	p := &position{cursor: from.Cursor, revision: from.Revision, digest: from.StateDigest, logical: from.Logical}
	if err := json.Unmarshal([]byte(from.Position), p); err != nil {
		return nil, rewritten(from.Cursor).because(err)
	}
	return p, nil
}

// Audit proves the whole document, or from a bookmark on. A resumed audit reads
// the remembered row (in format v1 from the checkpoint that covers it), all that
// follows, and the header. It trusts that the rows before are what they were: an
// operation id that stands there is not found to be repeated after it. A document
// that is not in LoopX's own spelling is framed from its beginning in any case.
//
// Findings name the first row that has an oddity and how many rows have it.
func (s *Store) Audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	if from == nil || from.Cursor == 0 {
		v, err := s.view(ctx, visit)
		if err != nil {
			return authority.Lineage{}, s.refuse("audit", err)
		}
		if v.document != nil {
			v.document.close()
		}
		return v.lineage, nil
	}
	d, lineage, err := s.audit(ctx, from, auditing(visit))
	if err != nil {
		return authority.Lineage{}, s.refuse("audit", err)
	}
	d.close()
	return lineage, nil
}

func auditing(visit func(authority.Row) error) *walk {
	w := &walk{audited: true}
	if visit != nil {
		w.visit = func(r *row) error { return visit(r.authorityRow()) }
	}
	return w
}

// view audits the document from its first row, unless its bytes were audited before and
// nobody wants to see the rows.
func (s *Store) view(ctx context.Context, visit func(authority.Row) error) (*view, error) {
	if visit == nil && ctx.Err() == nil {
		if v, ok := s.known(ctx); ok && v.audited {
			v.lineage.Findings = slices.Clone(v.lineage.Findings)
			return v, nil
		} else if ok {
			v.document.close()
		}
	}
	w := auditing(visit)
	v := &view{store: s}
	var err error
	if v.document, v.lineage, err = s.audit(ctx, nil, w); err != nil {
		return nil, err
	}
	if v.document == nil {
		return v, nil
	}
	v.index, v.audited = w.index, true
	lineage := v.lineage
	s.proofs.note(ctx, v, &lineage)
	return v, nil
}

// audit returns the proved document, nil when there is none.
func (s *Store) audit(ctx context.Context, from *authority.Bookmark, w *walk) (*document, authority.Lineage, error) {
	var err error
	if w.resume, err = positionOf(from); err != nil {
		return nil, authority.Lineage{}, err
	}
	d, err := s.verify(ctx, w)
	switch {
	case isMissing(err) && w.resume != nil:
		return nil, authority.Lineage{}, rewritten(w.resume.cursor)
	case isMissing(err):
		lineage, err := s.emptyLineage()
		return nil, lineage, err
	case err != nil:
		return nil, authority.Lineage{}, err
	}
	lineage, err := w.lineage(d)
	return d, lineage, err
}

// emptyLineage is that of a folder without the document.
func (s *Store) emptyLineage() (authority.Lineage, error) {
	identity, err := readIdentity(s.identityPath)
	if err != nil && !isMissing(err) {
		return authority.Lineage{}, err
	}
	logical := authority.NewLogicalHash()
	return authority.Lineage{
		Identity: identity, Logical: logical.Digest(),
		End: authority.Bookmark{Logical: logical.State()},
	}, nil
}

func (w *walk) lineage(d *document) (authority.Lineage, error) {
	note, err := json.Marshal(position{
		Format: d.header.format, Row: w.last.span.start, Checkpoint: w.covering, Events: w.events, Receipts: w.receipts,
	})
	if err != nil {
		return authority.Lineage{}, err
	}
	return authority.Lineage{
		Format: d.header.format, Identity: d.identity, Transactions: uint64(w.rows),
		Events: w.events, Receipts: w.receipts, Bytes: d.size, Logical: w.logical.Digest(),
		End: authority.Bookmark{
			Cursor: w.rows, Revision: authority.Revision(w.last.claimed), StateDigest: w.last.digest,
			Logical: w.logical.State(), Position: string(note),
		},
		Findings: w.findings.list(),
	}, nil
}

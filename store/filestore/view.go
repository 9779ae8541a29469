package filestore

import (
	"context"
	"errors"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
)

// View audits the document and keeps it open, with the place of each row (12
// bytes) and of each operation id (20 bytes and a map's overhead). Its answers
// are read from that open file: a commit that replaces the document does not
// disturb it. A file that is changed in place, which no writer of LoopX does, is
// refused as unavailable from then on; that it was not changed is why what the
// audit proved is not proved again.
//
// The view answers CheckCommit, too, for the document as it was proved.
func (s *Store) View(ctx context.Context) (authority.View, error) {
	v, err := s.view(ctx, nil)
	if err != nil {
		return nil, s.refuse("audit", err)
	}
	return v, nil
}

type view struct {
	store    *Store
	document *document // nil when there is none
	lineage  authority.Lineage
	audited  bool // lineage is there
	index

	mu     sync.Mutex
	cutter *cutter // behind the last row of the newest page, from which the next one goes on
}

// Kind is KindFile.
func (v *view) Kind() authority.Kind { return authority.KindFile }

// GoalID is that of the store.
func (v *view) GoalID() string { return v.store.GoalID() }

// Lineage is what the audit proved that made the view.
func (v *view) Lineage() authority.Lineage { return v.lineage }

// Close releases the descriptor.
func (v *view) Close() error {
	if v.document == nil {
		return nil
	}
	return v.document.file.Close()
}

// Identity is that of the proved document.
func (v *view) Identity(ctx context.Context) (authority.Identity, error) {
	if v.document == nil {
		return v.store.Identity(ctx)
	}
	return v.document.identity, nil
}

// Load returns the proved head; nothing is read.
func (v *view) Load(context.Context) (authority.Head, error) {
	if v.document == nil {
		return authority.Head{}, v.store.refuse("load", missing())
	}
	return v.document.head(), nil
}

// Receipt reads what it needs of the operation's row.
func (v *view) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	receipt, err := v.receipt(ctx, operationID)
	return receipt, v.store.refuse("receipt", err)
}

func (v *view) receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	if err := checkOperation(operationID); err != nil {
		return authority.Receipt{}, err
	}
	cursor, ok := v.operations[keyOf(operationID)]
	if !ok {
		absent := missing()
		absent.OperationID = operationID
		return authority.Receipt{}, absent
	}
	if err := errors.Join(v.unchanged(), ctx.Err()); err != nil {
		return authority.Receipt{}, err
	}
	found, err := v.excerpt(int(cursor - 1))
	if err == nil && found.operation != operationID {
		err = v.moved()
	}
	if err != nil {
		return authority.Receipt{}, err
	}
	return authority.Receipt{Cursor: authority.Cursor(cursor), Revision: authority.Revision(found.revision), Receipts: found.receipts}, nil
}

// Scan reads the rows of the page. The audit proved that there are more, and read them.
func (v *view) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	page, err := v.scan(ctx, after, limit)
	return page, v.store.refuse("scan", err)
}

func (v *view) scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	if err := checkLimit(limit); err != nil {
		return authority.Page{}, err
	}
	end := authority.Cursor(len(v.at))
	if after > end {
		return authority.Page{}, beyondHead(after)
	}
	page := authority.Page{Next: after}
	if after == end {
		return page, nil
	}
	page.Next = end
	if uint64(limit) < uint64(end-after) {
		page.Next, page.HasMore = after+authority.Cursor(limit), true
	}
	var err error
	page.Transactions, err = v.read(ctx, after+1, page.Next)
	if err != nil {
		return authority.Page{}, err
	}
	return page, nil
}

// read returns the rows first to last, which exist.
func (v *view) read(ctx context.Context, first, last authority.Cursor) (rows []authority.Transaction, err error) {
	if err := v.unchanged(); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.cutterAt(first)
	if c.end = v.document.rows.end; last < authority.Cursor(len(v.at)) {
		c.end = v.at[last]
	}
	var arena []byte
	for c.next <= last {
		wanted := c.next >= first // the rows before are only replayed
		if arena = arena[:0]; wanted {
			arena = make([]byte, 0, cap(arena)) // it is the caller's from here on
		}
		r, err := c.cut(&arena)
		if err != nil {
			return nil, v.moved().because(err)
		}
		if !wanted {
			continue
		}
		if err := errors.Join(r.check(), r.inOrder(), ctx.Err()); err != nil {
			return nil, err
		}
		rows = append(rows, r.transaction())
	}
	v.cutter = c
	return rows, nil
}

// cutterAt is a cutter in front of a row, or in front of the checkpoint that covers
// it. It is forgotten when it is given away: one that failed is not used again.
func (v *view) cutterAt(first authority.Cursor) *cutter {
	c := v.cutter
	if v.cutter = nil; c != nil && c.next == first {
		return c
	}
	from := first
	if v.document.header.format == authority.FormatFileV1 {
		from = (first-1)/checkpointEvery*checkpointEvery + 1
	}
	c = newCutter(v.document, start{cursor: from, offset: v.at[from-1]})
	c.proved = true
	return c
}

// unchanged proves that the open file was not written to since the audit.
func (v *view) unchanged() error {
	info, err := v.document.file.Stat()
	if err != nil {
		return unreadable(err)
	}
	if info.Size() != v.document.size || !info.ModTime().Equal(v.document.modified) {
		return v.moved()
	}
	return nil
}

func (v *view) moved() *refusal {
	r := unreadable(nil)
	r.Detail = "the journal was changed in place after it was proved"
	return r
}

// CheckCommit decides as Commit would on the document as it was proved, from the
// operation ids that the audit met, and reads no row.
func (v *view) CheckCommit(ctx context.Context, request authority.CommitRequest) error {
	if v.document == nil {
		return v.store.CheckCommit(ctx, request)
	}
	next, err := normalise(request)
	if err == nil {
		err = v.unchanged()
	}
	if err != nil {
		return v.store.refuse("commit", err)
	}
	stands := v.base()
	err = stands.conflict(func(head authority.Applied) bool { return head.Revision == request.Expected }, next)
	if err == nil {
		err = v.store.writable(ctx, stands, next)
	}
	return v.store.refuse("commit", err)
}

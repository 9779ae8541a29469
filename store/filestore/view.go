package filestore

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// View audits the document and keeps it open, with the place of each row (8
// bytes) and of each operation id (20 bytes and a map's overhead). Its answers
// are read from that open file: a commit that replaces the document does not
// disturb it. A file that is changed in place, which no writer of LoopX does, is
// refused as unavailable from then on.
func (s *Store) View(ctx context.Context) (authority.View, error) {
	v := &view{store: s}
	w := &walk{audited: true, visit: func(r *row) error {
		v.at = append(v.at, r.span.start)
		return nil
	}}
	var err error
	if v.document, v.lineage, err = s.audit(ctx, nil, w); err != nil {
		return nil, s.refuse("audit", err)
	}
	v.operations = w.operations
	return v, nil
}

type view struct {
	store      *Store
	document   *document // nil when there is none
	lineage    authority.Lineage
	at         []int64 // byte offset of each row
	operations map[operationKey]uint32
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

// Receipt reads the operation's row.
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
	var receipt authority.Receipt
	err := v.read(ctx, authority.Cursor(cursor), authority.Cursor(cursor), func(r *row) error {
		if r.operationID != operationID {
			return v.moved()
		}
		receipt = authority.Receipt{Cursor: r.place, Revision: authority.Revision(r.claimed), Receipts: bytes.Clone(r.entry.receipts)}
		return nil
	})
	return receipt, err
}

// Scan reads the rows of the page and the one after it.
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
	// One row more than the limit is read, as the proof that there is more.
	last := end
	if uint64(limit) < uint64(end-after) {
		last = after + authority.Cursor(limit) + 1
	}
	err := v.read(ctx, after+1, last, func(r *row) error {
		if len(page.Transactions) == limit {
			page.HasMore = true
			return nil
		}
		page.Transactions = append(page.Transactions, r.clone())
		page.Next = r.place
		return nil
	})
	if err != nil {
		return authority.Page{}, err
	}
	return page, nil
}

// read shows the rows first to last, which exist.
func (v *view) read(ctx context.Context, first, last authority.Cursor, see func(*row) error) error {
	if err := v.unchanged(); err != nil {
		return err
	}
	from := first
	if v.document.header.format == authority.FormatFileV1 {
		from = (first-1)/checkpointEvery*checkpointEvery + 1
	}
	c := newCutter(v.document, start{cursor: from, offset: v.at[from-1]})
	if last < authority.Cursor(len(v.at)) {
		c.end = v.at[last]
	}
	var arena []byte
	for place := from; place <= last; place++ {
		arena = arena[:0]
		r, err := c.cut(&arena)
		if err != nil {
			return v.moved().because(err)
		}
		if place < first {
			continue
		}
		if err := errors.Join(r.check(), r.inOrder(), ctx.Err()); err != nil {
			return err
		}
		if err := see(r); err != nil {
			return err
		}
	}
	return nil
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

// Operations reads the beginning of each row. Its cursor, events and operation id
// come first in both formats, so that projections are not read.
func (v *view) Operations(ctx context.Context) ([]string, error) {
	operations := make([]string, 0, len(v.at))
	if v.document == nil {
		return operations, nil
	}
	if err := v.unchanged(); err != nil {
		return nil, v.store.refuse("audit", err)
	}
	for i := range v.at {
		operation, err := v.operation(i)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, v.store.refuse("audit", err)
		}
		operations = append(operations, operation)
	}
	return operations, nil
}

// prefixSize is how much of a row is read to find its operation id.
const prefixSize = 4 << 10

func (v *view) operation(i int) (string, error) {
	end := v.document.rows.end
	if i+1 < len(v.at) {
		end = v.at[i+1]
	}
	for size := int64(prefixSize); ; size *= 8 {
		text := make([]byte, min(size, end-v.at[i]))
		if _, err := v.document.file.ReadAt(text, v.at[i]); err != nil && !errors.Is(err, io.EOF) {
			return "", unreadable(err)
		}
		if operation, ok := v.operationOf(text, end-v.at[i] <= size); ok {
			return operation, nil
		}
		if size >= end-v.at[i] {
			return "", v.moved()
		}
	}
}

// operationOf finds the operation id in the beginning of an element, or in all of it.
func (v *view) operationOf(text []byte, whole bool) (string, bool) {
	if v.document.respelled {
		if !whole {
			return "", false
		}
		var f framer
		n, _ := f.feed(text)
		element, err := canonical.Append(nil, text[:n])
		if err != nil {
			return "", false
		}
		return identifier(parseEntry(element).operation)
	}
	s := splitter{text: text}
	s.expect(`{"cursor":`)
	s.value()
	s.expect(`,"events":`)
	s.value()
	s.expect(`,"operation_id":`)
	at := s.value()
	if s.stuck() {
		return "", false
	}
	return identifier(text[at[0]:at[1]])
}

package filestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// memory is a document that this Store wrote on top of one that it proved. A file that
// holds the same bytes under the same identity need not be proved again. It is never
// changed once made.
type memory struct {
	sum      authority.Digest // of all bytes
	size     int64
	identity authority.Identity
	frame    frame
	index    index
}

// index says where the rows of a proved document stand.
type index struct {
	at         []int64  // byte offset of each row
	tails      []uint32 // length of what follows its projection, in LoopX's own spelling of v0
	operations map[operationKey]uint32
}

func (x *index) place(r *row) {
	x.at = append(x.at, r.span.start)
	x.tails = append(x.tails, r.tail())
}

// proved opens the document as a view, and proves it unless it is the one that this Store
// wrote last. The caller closes it.
func (s *Store) proved(ctx context.Context) (*view, error) {
	if v, ok := s.remembered(ctx); ok {
		return v, nil
	}
	w := &walk{}
	d, err := s.verify(ctx, w)
	if err != nil {
		return nil, err
	}
	return &view{store: s, document: d, index: w.index}, nil
}

// remembered opens the document as a view, where it is what this Store wrote last. Who
// gets one closes it. False says nothing but that the document has to be proved, whatever
// the reason: the proof will name it.
func (s *Store) remembered(ctx context.Context) (*view, bool) {
	m := s.memory.Load()
	if m == nil || ctx.Err() != nil {
		return nil, false
	}
	d, err := s.open()
	if err != nil {
		return nil, false
	}
	if d.size != m.size || d.identity != m.identity || !d.sums(ctx, m.sum) {
		d.close()
		return nil, false
	}
	d.frame = m.frame
	return &view{store: s, document: d, index: m.index}, true
}

// sums reads the whole document and reports whether its SHA-256 is sum.
func (d *document) sums(ctx context.Context, sum authority.Digest) bool {
	const block = 256 << 10
	hash, buf := sha256.New(), make([]byte, block)
	for at := int64(0); at < d.size; {
		n, err := d.file.ReadAt(buf[:min(block, d.size-at)], at)
		if n == 0 || err != nil && err != io.EOF || ctx.Err() != nil {
			return false
		}
		hash.Write(buf[:n])
		at += int64(n)
	}
	return bytes.Equal(hash.Sum(nil), sum[:])
}

// base is what a commit stands on, for a view of what this Store wrote. The operation ids
// are copied: a commit adds its own, and may fail.
func (v *view) base() *base {
	head := v.document.head()
	x := index{slices.Clip(v.at), slices.Clip(v.tails), maps.Clone(v.operations)}
	return &base{document: v.document, identity: v.document.identity, projection: head.Projection,
		head: authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, index: x}
}

// note is what the appender wrote, for the next call; nil where the places of the rows
// before are not those of the new document, since they were spelled anew.
func (a *appender) note(sum authority.Digest) *memory {
	if d := a.base.document; d != nil && d.respelled {
		return nil
	}
	return &memory{
		sum: sum, size: a.out.bytes, identity: a.base.identity, index: a.base.index,
		frame: frame{rows: span{int64(len(rowsOpen)), a.end}, header: header{
			format: a.format, revision: string(a.head.Revision), cursor: a.head.Cursor.String(), head: slices.Clip(a.state)}},
	}
}

// placed puts a row that is about to be written into the index.
func (a *appender) placed(r *row, text []byte) {
	start, end := a.out.bytes, a.out.bytes+int64(len(text))
	if r.place > 1 {
		start++ // behind the comma
	}
	r.span, r.revision = span{start, end}, canonical.AppendString(nil, r.claimed)
	a.base.place(r)
}

package filestore

import (
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Proofs remembers which journals were proved, by the SHA-256 of all their bytes: a file
// that holds the same bytes under the same identity need not be proved again. Stores that
// share one, and goroutines, may use it at once. The zero value has met nothing.
//
// A journal is hashed when one of its length is proved a second time, so that who asks
// once pays nothing.
type Proofs struct {
	mu    sync.Mutex
	met   []meeting // the newest last
	known []*proof
}

// remembered is how many proofs are kept, each with some 40 bytes a row and the head.
const remembered = 4

// meeting is what is seen of a journal without reading it.
type meeting struct {
	goal     string
	identity authority.Identity
	size     int64
}

func (d *document) meeting() meeting { return meeting{d.goal, d.identity, d.size} }

// proof is a document that was proved, or written on top of one. It is never changed once
// made.
type proof struct {
	meeting
	sum     authority.Digest // of all bytes
	frame   frame
	index   index
	lineage *authority.Lineage // nil where nobody audited
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

// candidates are the proofs of journals that look like this one.
func (p *Proofs) candidates(m meeting) (found []*proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.known {
		if known.meeting == m {
			found = append(found, known)
		}
	}
	return found
}

// again reports whether a journal that looks like this one was met before.
func (p *Proofs) again(m meeting) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.met, m) {
		return true
	}
	p.met = append(p.met[max(0, len(p.met)-2*remembered):], m)
	return false
}

// keep takes a proof in, in the place of one of the same bytes.
func (p *Proofs) keep(made *proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = slices.DeleteFunc(p.known, func(old *proof) bool { return old.meeting == made.meeting && old.sum == made.sum })
	p.known = append(p.known[max(0, len(p.known)-remembered+1):], made)
}

// note remembers a document that was just proved, where it is worth it. A document that
// cannot be read again, or that was changed meanwhile, is not remembered.
func (p *Proofs) note(ctx context.Context, v *view, lineage *authority.Lineage) {
	d := v.document
	if again := p.again(d.meeting()); !again && len(p.candidates(d.meeting())) == 0 {
		return
	}
	if sum, ok := d.sum(ctx); ok && v.unchanged() == nil {
		p.keep(&proof{meeting: d.meeting(), sum: sum, frame: d.frame, index: v.index, lineage: lineage})
	}
}

// proved opens the document as a view, and proves it unless its bytes were proved before.
// The caller closes it.
func (s *Store) proved(ctx context.Context) (*view, error) {
	if v, ok := s.known(ctx); ok {
		return v, nil
	}
	w := &walk{}
	d, err := s.verify(ctx, w)
	if err != nil {
		return nil, err
	}
	v := &view{store: s, document: d, index: w.index}
	s.proofs.note(ctx, v, nil)
	return v, nil
}

// known opens the document as a view, where its bytes were proved before; the view has a
// lineage if they were audited. Who gets one closes it. False says nothing but that the
// document has to be proved, whatever the reason: the proof will name it.
func (s *Store) known(ctx context.Context) (*view, bool) {
	d, err := s.open()
	if err != nil {
		return nil, false
	}
	p := s.proofs.of(ctx, d)
	if p == nil {
		d.close()
		return nil, false
	}
	d.frame = p.frame
	v := &view{store: s, document: d, index: p.index}
	if p.lineage != nil {
		v.lineage, v.audited = *p.lineage, true
	}
	return v, true
}

// of is the proof of the document's bytes, nil where there is none.
func (p *Proofs) of(ctx context.Context, d *document) *proof {
	among := p.candidates(d.meeting())
	if len(among) == 0 {
		return nil
	}
	sum, ok := d.sum(ctx)
	i := slices.IndexFunc(among, func(known *proof) bool { return ok && known.sum == sum })
	if i < 0 {
		return nil
	}
	return among[i]
}

// sum is the SHA-256 of the whole document; false when it cannot be read.
func (d *document) sum(ctx context.Context) (sum authority.Digest, ok bool) {
	const block = 256 << 10
	hash, buf := sha256.New(), make([]byte, block)
	for at := int64(0); at < d.size; {
		n, err := d.file.ReadAt(buf[:min(block, d.size-at)], at)
		if n == 0 || err != nil && err != io.EOF || ctx.Err() != nil {
			return sum, false
		}
		hash.Write(buf[:n])
		at += int64(n)
	}
	return authority.Digest(hash.Sum(nil)), true
}

// base is what a commit stands on, for a document that was proved.
func (v *view) base() *base {
	head := v.document.head()
	return &base{document: v.document, identity: v.document.identity, projection: head.Projection,
		head: authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, index: v.index}
}

// copied is an index that rows can be added to: what a proof remembers stays as it is.
func (x index) copied() index {
	return index{slices.Clip(x.at), slices.Clip(x.tails), maps.Clone(x.operations)}
}

// proof is that of the document as it was written, for the next call; nil where the places
// of the rows before are not those of the new document, since they were spelled anew.
func (a *appender) proof(sum authority.Digest) *proof {
	if d := a.base.document; d != nil && d.respelled {
		return nil
	}
	return &proof{
		meeting: meeting{a.store.options.GoalID, a.base.identity, a.out.bytes}, sum: sum, index: a.base.index,
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

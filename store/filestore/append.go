package filestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

// MaxUnits is the longest string of Node's V8 in UTF-16 units. LoopX reads a
// journal into one string, so that a longer one is lost to it.
const MaxUnits = 1<<29 - 24

// errNothing ends an append of no rows before anything is replaced.
var errNothing = errors.New("nothing to append")

// written is what an append comes to.
type written struct {
	head      authority.Applied
	revisions []authority.Revision
}

// replace writes the document anew: what it holds, and rows.
func (s *Store) replace(ctx context.Context, b *base, rows iter.Seq2[*row, error]) (written, error) {
	if b.identity == "" {
		var err error
		if b.identity, err = s.mintIdentity(ctx); err != nil {
			return written{}, err
		}
	}
	a, sum := s.appender(b), sha256.New()
	err := atomicfile.ReplaceFrom(s.path, 0o600, func(out io.Writer) error { return a.write(ctx, io.MultiWriter(out, sum), rows) })
	if err != nil {
		return written{}, replaceRefusal(err)
	}
	if made := a.proof(authority.Digest(sum.Sum(nil))); made != nil {
		s.proofs.keep(made)
	}
	return a.written, nil
}

// rehearse refuses what replace would refuse by its size alone.
func (s *Store) rehearse(ctx context.Context, b *base, next *row) error {
	longest := int64(2*len(next.projection) + len(next.entry.events) + len(next.entry.receipts) + len(next.operation))
	const frame = 4 << 10 // header and keys, with room to spare
	if b.document != nil {
		longest += 2 * b.document.size // a respelled document may grow; a canonical one never doubles
	}
	if longest+frame <= MaxUnits {
		return nil
	}
	if b.identity == "" {
		b.identity = "file:00000000000000000000000000000000" // as long as the one that would be minted
	}
	return s.appender(b).write(ctx, io.Discard, func(yield func(*row, error) bool) { yield(next, nil) })
}

// appender writes one document.
type appender struct {
	store  *Store
	base   *base
	format authority.Format
	seal   *sealer
	out    *unitWriter
	state  []byte // the newest projection
	text   []byte
	end    int64 // byte offset behind the rows
	written
}

func (s *Store) appender(b *base) *appender {
	b.index = b.copied() // a commit adds its own, and may fail
	a := &appender{store: s, base: b, format: s.options.NewFormat, seal: newSealer(s.options.GoalID, b.identity)}
	if b.document != nil {
		a.format = b.document.header.format
	}
	a.state = append(a.state, b.projection...)
	a.head = b.head
	return a
}

func (a *appender) write(ctx context.Context, out io.Writer, rows iter.Seq2[*row, error]) error {
	a.out = &unitWriter{out: out}
	if err := a.retained(ctx); err != nil {
		return err
	}
	for next, err := range rows {
		if err == nil {
			err = a.row(next)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	if len(a.revisions) == 0 {
		return errNothing
	}
	return a.header()
}

// retained writes the document up to the end of its rows: the bytes it has where
// they are in canonical form, which was proved.
func (a *appender) retained(ctx context.Context) error {
	d := a.base.document
	if d == nil {
		return a.put([]byte(rowsOpen))
	}
	if !d.respelled {
		_, err := io.Copy(a.out, io.NewSectionReader(d.file, 0, d.rows.end))
		return err
	}
	if err := a.put([]byte(rowsOpen)); err != nil {
		return err
	}
	return d.each(ctx, func(place authority.Cursor, raw []byte, _ span) error {
		text := a.text[:0]
		if place > 1 {
			text = append(text, ',')
		}
		text, err := canonical.Append(text, raw)
		if err != nil {
			return ofJSON(err)
		}
		a.text = text
		return a.put(text)
	})
}

// row writes one more row.
func (a *appender) row(next *row) error {
	place := a.head.Cursor + 1
	if next.place != 0 && next.place != place {
		return failed(authority.ReasonInvalidCommit, "the transactions to append do not run on").at(next.place, "cursor")
	}
	if err := a.base.newOperation(next); err != nil {
		return err
	}
	a.base.operations[next.key] = uint32(place)
	next.place, next.previous = place, string(a.head.Revision)
	next.claimed = a.seal.revision(next)
	text, err := a.entry(a.text[:0], next)
	if err != nil {
		return err
	}
	a.text = text
	a.state = append(a.state[:0], next.projection...)
	a.head = authority.Applied{Cursor: place, Revision: authority.Revision(next.claimed)}
	a.revisions = append(a.revisions, a.head.Revision)
	a.placed(next, text)
	return a.put(text)
}

// entry prints a row in the document's format, its keys in canonical order.
func (a *appender) entry(b []byte, r *row) ([]byte, error) {
	if r.place > 1 {
		b = append(b, ',')
	}
	b = append(b, `{"cursor":"`...)
	b = strconv.AppendUint(b, uint64(r.place), 10)
	b = append(b, `","events":`...)
	b = append(b, r.entry.events...)
	b = append(b, `,"operation_id":`...)
	b = append(b, r.operation...)
	if a.format == authority.FormatFileV0 {
		b = append(b, `,"projection":`...)
		b = append(b, r.projection...)
	}
	b = append(b, `,"provider_revision":`...)
	b = canonical.AppendString(b, r.claimed)
	b = append(b, `,"receipts":`...)
	b = append(b, r.entry.receipts...)
	if a.format == authority.FormatFileV1 {
		return a.stateOf(append(b, `,"state":`...), r)
	}
	return append(b, '}'), nil
}

// stateOf prints the state of a v1 row. A delta is replayed before it is
// believed, as LoopX's writer does.
func (a *appender) stateOf(b []byte, r *row) ([]byte, error) {
	if isCheckpoint(r.place) {
		b = append(b, `{"kind":"checkpoint","projection":`...)
		b = append(b, r.projection...)
		return append(b, "}}"...), nil
	}
	delta, err := canonical.Diff(a.state, r.projection)
	if err != nil {
		return nil, ofJSON(err)
	}
	replayed, err := delta.Apply(nil, a.state)
	if err != nil || !bytes.Equal(replayed, r.projection) {
		return nil, violation("authority state delta does not reconstruct its commit").at(r.place, "state.delta").because(err)
	}
	b = append(b, `{"delta":`...)
	b = delta.AppendSorted(b)
	return append(b, `,"kind":"delta"}}`...), nil
}

// header writes what follows the rows.
func (a *appender) header() error {
	a.end = a.out.bytes
	b := append(a.text[:0], `],"cursor":"`...)
	b = strconv.AppendUint(b, uint64(a.head.Cursor), 10)
	b = append(b, `","goal_id":`...)
	b = append(b, a.seal.goal...)
	b = append(b, `,"head":`...)
	b = append(b, a.state...)
	b = append(b, `,"provider_revision":`...)
	b = canonical.AppendString(b, string(a.head.Revision))
	b = append(b, `,"schema_version":"`...)
	b = append(b, schemaOf(a.format)...)
	b = append(b, `","store_identity":`...)
	b = append(b, a.seal.identity...)
	return a.put(append(b, '}'))
}

func schemaOf(format authority.Format) string {
	if format == authority.FormatFileV0 {
		return schemaV0
	}
	return schemaV1
}

func (a *appender) put(text []byte) error {
	_, err := a.out.Write(text)
	return err
}

// unitWriter passes UTF-8 on until it would be more than MaxUnits units of UTF-16.
type unitWriter struct {
	out   io.Writer
	units int64
	bytes int64
}

// Write counts one unit a character, two for those of four bytes.
func (u *unitWriter) Write(text []byte) (int, error) {
	for _, c := range text {
		if c&0xC0 != 0x80 {
			u.units++
		}
		if c >= 0xF0 {
			u.units++
		}
	}
	if u.units > MaxUnits {
		return 0, failed(authority.ReasonCapacity, "the journal would be longer than LoopX can read")
	}
	u.bytes += int64(len(text))
	return u.out.Write(text)
}

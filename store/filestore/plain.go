package filestore

import (
	"bytes"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// cutPlain cuts a v0 entry in LoopX's own spelling. The projection's end is
// sought by the cursor that follows it: what is found that way is the projection
// exactly when it is a canonical value. Its form is proved against the projection
// before, so that unchanged text is compared and not scanned.
func (c *cutter) cutPlain(r *row, arena *[]byte) error {
	if err := c.toNext(); err != nil {
		return err
	}
	c.expectOne()
	start := c.offset()
	for {
		parts, ok, err := c.findParts(c.rest(), r.place)
		if err != nil {
			return err
		}
		if ok {
			text := keep(arena, c.take(parts.end))
			c.last = len(text)
			r.span = span{start, start + int64(len(text))}
			r.entry = parts.of(text)
			if c.length = len(r.projection); c.proved {
				return nil
			}
			return c.proveForm(r)
		}
		if c.more() != nil {
			return errGiveUp
		}
	}
}

// proveForm proves that the parts of a plainly cut row are canonical.
func (c *cutter) proveForm(r *row) error {
	if err := c.tracker.Check(r.projection); err != nil {
		return errGiveUp
	}
	r.compared = true
	for _, part := range [][]byte{r.entry.events, r.operation, r.revision, r.entry.receipts} {
		odd, err := canonical.Inspect(part)
		if err != nil || odd.Respelled {
			return errGiveUp
		}
		r.odd.InexactInteger = r.odd.InexactInteger || odd.InexactInteger
	}
	return nil
}

// parts are the places of a plain entry's values.
type parts struct {
	cursor, events, operation, projection, revision, receipts [2]int
	end                                                       int
}

func (p *parts) of(text []byte) entry {
	cut := func(at [2]int) []byte { return text[at[0]:at[1]:at[1]] }
	return entry{
		cursor: cut(p.cursor), events: cut(p.events), operation: cut(p.operation),
		projection: cut(p.projection), revision: cut(p.revision), receipts: cut(p.receipts),
	}
}

// findParts finds the values of the entry with a cursor at the start of text; ok
// is false when text ends too early to tell.
func (c *cutter) findParts(text []byte, cursor authority.Cursor) (p parts, ok bool, err error) {
	s := splitter{text: text}
	s.expect(`{"cursor":`)
	c.mark = strconv.AppendUint(append(c.mark[:0], '"'), uint64(cursor), 10)
	p.cursor = s.exactly(append(c.mark, '"'))
	s.expect(`,"events":`)
	p.events = s.value()
	s.expect(`,"operation_id":`)
	p.operation = s.value()
	s.expect(`,"projection":`)
	c.mark = append(c.mark[:0], `,"provider_revision":"file:`...)
	c.mark = append(strconv.AppendUint(c.mark, uint64(cursor), 10), ':')
	p.projection = s.until(c.mark, c.length)
	s.expect(revisionName)
	p.revision = s.value()
	s.expect(receiptsName)
	p.receipts = s.value()
	s.expect("}")
	p.end = s.pos
	if s.odd {
		return p, false, errGiveUp
	}
	return p, !s.short, nil
}

// splitter walks over text that is expected to be laid out in one way only. Once
// it is short or odd it stays where it is.
type splitter struct {
	text  []byte
	pos   int
	short bool // text ends too early
	odd   bool // text is laid out in another way
}

func (s *splitter) stuck() bool { return s.short || s.odd }

func (s *splitter) expect(name string) { s.exactly([]byte(name)) }

func (s *splitter) exactly(want []byte) (at [2]int) {
	if s.stuck() {
		return at
	}
	rest := s.text[s.pos:]
	if !bytes.HasPrefix(rest, want) {
		s.short = bytes.HasPrefix(want, rest)
		s.odd = !s.short
		return at
	}
	at = [2]int{s.pos, s.pos + len(want)}
	s.pos = at[1]
	return at
}

// value takes a value that something must follow.
func (s *splitter) value() (at [2]int) {
	if s.stuck() {
		return at
	}
	n := canonical.Skip(s.text[s.pos:])
	at = [2]int{s.pos, s.pos + n}
	s.pos += n
	s.short = s.pos == len(s.text)
	s.odd = n == 0 && !s.short
	return at
}

// until takes text up to a mark, which is likely to stand after so many bytes.
func (s *splitter) until(mark []byte, likely int) (at [2]int) {
	if s.stuck() {
		return at
	}
	n := indexNear(s.text[s.pos:], mark, likely)
	if n < 0 {
		s.short = true
		return at
	}
	at = [2]int{s.pos, s.pos + n}
	s.pos += n
	return at
}

package filestore

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// span is a range of bytes of the document.
type span struct{ start, end int64 }

// windowSize is how much of a document is looked at together. It is kept at
// twice the length of the value at hand.
const windowSize = 1 << 20

// window is the part of a document that is in memory. Slices of it are valid
// until it moves.
type window struct {
	source io.ReaderAt
	buf    []byte
	pos    int   // of the next byte not taken
	base   int64 // offset of buf[0] in the document
	end    int64 // offset where this window's world ends
}

func newWindow(source io.ReaderAt, at span) *window {
	return &window{source: source, base: at.start, end: at.end}
}

// offset is the place of the next byte in the document.
func (w *window) offset() int64 { return w.base + int64(w.pos) }

// rest is what is in memory and not taken.
func (w *window) rest() []byte { return w.buf[w.pos:] }

// more brings in further bytes behind rest, at least doubling it where there are
// any; io.EOF when the end is in memory already.
func (w *window) more() error {
	left := copy(w.buf, w.rest())
	w.base, w.pos = w.offset(), 0
	size := int(min(int64(max(windowSize, 2*left)), w.end-w.base))
	size = max(size, left)
	if cap(w.buf) < size {
		grown := make([]byte, size)
		copy(grown, w.buf[:left])
		w.buf = grown
	}
	want := size - left
	w.buf = w.buf[:size]
	if want == 0 {
		return io.EOF
	}
	n, err := w.source.ReadAt(w.buf[left:], w.base+int64(left))
	w.buf = w.buf[:left+n]
	if n < want {
		// The file is shorter than it was when it was opened.
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	return nil
}

// ensure brings in bytes until n are there or the end is; it reports no error,
// since the next more meets it again.
func (w *window) ensure(n int) {
	for len(w.rest()) < n && w.more() == nil {
	}
}

// peek returns the next byte, 0 at the end, which is never part of a JSON structure.
func (w *window) peek() (byte, error) {
	if w.pos == len(w.buf) {
		if err := w.more(); err == io.EOF {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
	}
	return w.buf[w.pos], nil
}

// blanks skips white space and returns the byte after it, 0 at the end.
func (w *window) blanks() (byte, error) {
	for {
		c, err := w.peek()
		if err != nil || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c, err
		}
		w.pos++
	}
}

// value brings a whole value into memory and takes it.
func (w *window) value() ([]byte, error) {
	for {
		var f framer
		// Skip is the faster framer, but a value cut short ends for it where text does.
		if n := canonical.Skip(w.rest()); n > 0 && n < len(w.rest()) && nested(w.rest()) {
			return w.take(n), nil
		}
		if n, done := f.feed(w.rest()); done {
			return w.take(n), nil
		}
		if err := w.more(); err == io.EOF {
			return w.lastValue(&f)
		} else if err != nil {
			return nil, err
		}
	}
}

// nested reports whether a value ends with its own closing mark.
func nested(text []byte) bool {
	kind := canonical.Kind(text)
	return kind == canonical.Object || kind == canonical.Array || kind == canonical.String
}

// lastValue is a scalar that ends where the text does.
func (w *window) lastValue(f *framer) ([]byte, error) {
	if !f.scalar {
		return nil, w.broken("unexpected end")
	}
	return w.take(len(w.rest())), nil
}

func (w *window) take(n int) []byte {
	taken := w.buf[w.pos : w.pos+n]
	w.pos += n
	return taken
}

// pass takes a value without holding it, and returns where it stood.
func (w *window) pass() (span, error) {
	place := span{start: w.offset()}
	var f framer
	for {
		n, done := f.feed(w.rest())
		w.pos += n
		place.end = w.offset()
		if done {
			return place, nil
		}
		err := w.more()
		switch {
		case err == io.EOF && f.scalar:
			return place, nil
		case err == io.EOF:
			return place, w.broken("unexpected end")
		case err != nil:
			return place, err
		}
	}
}

func (w *window) broken(reason string) error {
	return &canonical.SyntaxError{Offset: int(w.offset()), Reason: reason}
}

// framer finds the end of a JSON value by its quotes and brackets alone. It
// proves nothing: what it frames is given to the canonical package.
type framer struct {
	depth    int
	inString bool
	escaped  bool
	scalar   bool // a number or a word, which ends where something else begins
}

// What a byte means outside and inside of strings.
const (
	plain = iota
	opening
	closing
	quote
	delimiter
)

var meaning = func() (table [256]byte) {
	table['{'], table['['] = opening, opening
	table['}'], table[']'] = closing, closing
	table['"'] = quote
	for _, c := range " \t\r\n,:" {
		table[c] = delimiter
	}
	return table
}()

// feed takes text up to the end of the value and returns how many bytes of text
// belong to it and whether it ended.
func (f *framer) feed(text []byte) (n int, done bool) {
	for i := 0; i < len(text); i++ {
		if f.inString {
			i = f.string(text, i)
			if f.inString || i == len(text) {
				return len(text), false
			}
			if f.depth == 0 {
				return i + 1, true
			}
			continue
		}
		switch meaning[text[i]] {
		case plain:
			f.scalar = f.scalar || f.depth == 0
		case opening:
			f.depth++
		case closing:
			if f.depth == 0 {
				return i, true
			}
			if f.depth--; f.depth == 0 {
				return i + 1, true
			}
		case quote:
			f.inString = true
		case delimiter:
			if f.depth == 0 {
				return i, true
			}
		}
	}
	return len(text), false
}

// string goes on inside a string and returns the place of the quote that ends
// it, or the end of text.
func (f *framer) string(text []byte, i int) int {
	if f.escaped {
		f.escaped = false
		i++
	}
	for i < len(text) {
		if i+8 <= len(text) {
			ends := marked(binary.LittleEndian.Uint64(text[i:]))
			if ends == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(ends) / 8
		}
		switch text[i] {
		case '"':
			f.inString = false
			return i
		case '\\':
			if i+1 == len(text) {
				f.escaped = true
				return len(text)
			}
			i++
		}
		i++
	}
	return len(text)
}

// marked sets the high bit of the first byte that is a quote or a backslash, and
// perhaps of later ones.
func marked(word uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quotes, slashes := word^ones*'"', word^ones*'\\'
	return ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs
}

package canonical

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// Append appends the canonical form of the one JSON document in src to dst. Any
// spelling that JSON.parse takes is accepted; bytes in strings that are not
// UTF-8 become U+FFFD, as they do when a file is read as text. On error dst
// comes back as it was. Errors: *SyntaxError, *DepthError, ErrNumberRange.
func Append(dst, src []byte) ([]byte, error) {
	if scanCanonical(src).ok {
		return append(dst, src...), nil
	}
	b := builder{src: src, dst: dst}
	if err := b.document(); err != nil {
		return dst, err
	}
	return b.dst, nil
}

// Oddities is what a document has that does no harm by itself, but that two
// readers may take differently.
type Oddities struct {
	// DuplicateKey: an object has a key twice; the last one counts.
	DuplicateKey bool
	// InexactInteger: an integer written without fraction or exponent lies beyond ±2^53.
	InexactInteger bool
	// Respelled: the text is not in canonical form.
	Respelled bool
}

// Note adds what a part of the document has, how it is spelled aside.
func (o *Oddities) Note(part Oddities) {
	o.DuplicateKey = o.DuplicateKey || part.DuplicateKey
	o.InexactInteger = o.InexactInteger || part.InexactInteger
}

// Inspect looks for oddities in one JSON document. Errors are those of Append.
func Inspect(src []byte) (Oddities, error) {
	if scan := scanCanonical(src); scan.ok {
		return Oddities{InexactInteger: scan.inexact}, nil
	}
	b := builder{src: src}
	if err := b.document(); err != nil {
		return Oddities{}, err
	}
	b.odd.Respelled = true
	return b.odd, nil
}

// overflowMark stands in the output for a number that overflowed, until it is
// known whether a later member with the same key displaces it. No canonical
// text has this byte.
const overflowMark = 0x01

// builder parses src and appends its canonical form to dst.
type builder struct {
	src      []byte
	pos      int
	dst      []byte
	depth    int
	members  []member // of all open objects, innermost last
	scratch  []byte
	odd      Oddities
	overflow int // offset + 1 of the first number that overflowed
}

// member is one member of an open object, as offsets in dst.
type member struct {
	key   int // of the opening quote
	colon int
	end   int
}

func (b *builder) refuse(offset int, reason string) error {
	return &SyntaxError{Offset: offset, Reason: reason}
}

func (b *builder) document() error {
	start := len(b.dst)
	b.blanks()
	if err := b.value(); err != nil {
		return err
	}
	b.blanks()
	if b.pos != len(b.src) {
		return b.refuse(b.pos, "unexpected text after the document")
	}
	if b.overflow != 0 && bytes.IndexByte(b.dst[start:], overflowMark) >= 0 {
		return fmt.Errorf("%w: byte %d", ErrNumberRange, b.overflow-1)
	}
	return nil
}

func (b *builder) blanks() {
	for b.pos < len(b.src) {
		switch b.src[b.pos] {
		case ' ', '\t', '\n', '\r':
			b.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end, which no token starts with.
func (b *builder) peek() byte {
	if b.pos < len(b.src) {
		return b.src[b.pos]
	}
	return 0
}

// value is recursive through array and object; their depth is bounded by
// MaxDepth, which Go's growing stacks hold with ease.
func (b *builder) value() error {
	switch c := b.peek(); {
	case c == '{':
		return b.nested(b.object)
	case c == '[':
		return b.nested(b.array)
	case c == '"':
		return b.stringLiteral()
	case c == '-' || isDigit(c):
		return b.number()
	case c == 't':
		return b.word("true")
	case c == 'f':
		return b.word("false")
	case c == 'n':
		return b.word("null")
	}
	if b.pos == len(b.src) {
		return b.refuse(b.pos, "unexpected end")
	}
	return b.refuse(b.pos, "expected a value")
}

func (b *builder) nested(parse func() error) error {
	if b.depth == MaxDepth {
		return &DepthError{Offset: b.pos}
	}
	b.depth++
	b.dst = append(b.dst, b.src[b.pos])
	b.pos++
	b.blanks()
	if err := parse(); err != nil {
		return err
	}
	b.depth--
	return nil
}

func (b *builder) word(word string) error {
	if !bytes.HasPrefix(b.src[b.pos:], []byte(word)) {
		return b.refuse(b.pos, "expected a value")
	}
	b.pos += len(word)
	b.dst = append(b.dst, word...)
	return nil
}

func (b *builder) number() error {
	length, broken, plain := numberToken(b.src[b.pos:])
	if length == 0 {
		return b.refuse(b.pos+broken, "number is malformed")
	}
	token := b.src[b.pos : b.pos+length]
	if plain && length <= 15 && token[0] != '-' {
		b.dst = append(b.dst, token...) // exact, and printed as it stands
		b.pos += length
		return nil
	}
	b.odd.InexactInteger = b.odd.InexactInteger || plain && inexactInteger(token)
	f := parseNumber(token)
	if math.IsInf(f, 0) {
		if b.overflow == 0 {
			b.overflow = b.pos + 1
		}
		b.dst = append(b.dst, overflowMark)
	} else {
		b.dst = appendNumber(b.dst, f)
	}
	b.pos += length
	return nil
}

func (b *builder) array() error {
	if b.peek() == ']' {
		b.pos++
		b.dst = append(b.dst, ']')
		return nil
	}
	for {
		if err := b.value(); err != nil {
			return err
		}
		more, err := b.separator(']')
		if err != nil || !more {
			return err
		}
	}
}

// separator takes the comma or the closing bracket after a member or element.
func (b *builder) separator(closing byte) (more bool, err error) {
	b.blanks()
	c := b.peek()
	if c != ',' && c != closing {
		return false, b.refuse(b.pos, "expected a comma or a closing bracket")
	}
	b.dst = append(b.dst, c)
	b.pos++
	if c == closing {
		return false, nil
	}
	b.blanks()
	return true, nil
}

func (b *builder) object() error {
	if b.peek() == '}' {
		b.pos++
		b.dst = append(b.dst, '}')
		return nil
	}
	first := len(b.members)
	for more := true; more; {
		m := member{key: len(b.dst)}
		if b.peek() != '"' {
			return b.refuse(b.pos, "expected a key")
		}
		if err := b.stringLiteral(); err != nil {
			return err
		}
		b.blanks()
		if b.peek() != ':' {
			return b.refuse(b.pos, "expected a colon")
		}
		b.pos++
		m.colon = len(b.dst)
		b.dst = append(b.dst, ':')
		b.blanks()
		if err := b.value(); err != nil {
			return err
		}
		m.end = len(b.dst)
		var err error
		if more, err = b.separator('}'); err != nil {
			return err
		}
		b.members = append(b.members, m)
	}
	b.arrange(b.members[first:])
	b.members = b.members[:first]
	return nil
}

// inside is the key of a member without its quotes.
func (b *builder) inside(m member) []byte { return b.dst[m.key+1 : m.colon-1] }

// arrange brings the members of the object that ends dst into printed order and
// drops all but the last of those with the same key.
func (b *builder) arrange(members []member) {
	compare := func(x, y member) int { return comparePrinted(b.inside(x), b.inside(y)) }
	ascending := true
	for i := 1; i < len(members) && ascending; i++ {
		ascending = compare(members[i-1], members[i]) < 0
	}
	if ascending {
		return
	}
	start := members[0].key
	slices.SortStableFunc(members, compare)
	b.scratch = b.scratch[:0]
	for i, m := range members {
		if i+1 < len(members) && compare(m, members[i+1]) == 0 {
			b.odd.DuplicateKey = true
			continue
		}
		b.scratch = append(b.scratch, b.dst[m.key:m.end]...)
		b.scratch = append(b.scratch, ',')
	}
	b.scratch[len(b.scratch)-1] = '}'
	b.dst = append(b.dst[:start], b.scratch...)
}

// stringLiteral appends the canonical form of the literal at pos.
func (b *builder) stringLiteral() error {
	src, i := b.src, b.pos+1
	b.dst = append(b.dst, '"')
	for i < len(src) {
		n := plainRun(src[i:])
		b.dst = append(b.dst, src[i:i+n]...)
		i += n
		if i == len(src) {
			break
		}
		switch c := src[i]; {
		case c == '"':
			b.dst = append(b.dst, '"')
			b.pos = i + 1
			return nil
		case c == '\\':
			r, size := escapeSequence(src[i:])
			if size == 0 {
				return b.refuse(i, "escape sequence is malformed")
			}
			b.dst = appendEscaped(b.dst, r)
			i += size
		case c < 0x20:
			return b.refuse(i, "control character in a string")
		default:
			size := IllFormed(string(src[i:min(i+4, len(src))]))
			b.dst = utf8.AppendRune(b.dst, utf8.RuneError)
			i += size
		}
	}
	return b.refuse(len(src), "string has no end")
}

// escapeSequence decodes the escape at the start of src, which may be two that
// make one character. A size of 0 means that it is malformed.
func escapeSequence(src []byte) (r, size int) {
	if len(src) < 2 {
		return 0, 0
	}
	if src[1] != 'u' {
		c := unescape[src[1]]
		if c == 0 {
			return 0, 0
		}
		return int(c), 2
	}
	r = hex4(src[2:])
	if r < 0 {
		return 0, 0
	}
	if isHigh(r) && len(src) >= 12 && src[6] == '\\' && src[7] == 'u' {
		if low := hex4(src[8:]); low >= 0 && isLow(low) {
			return joinSurrogates(r, low), 12
		}
	}
	return r, 6
}

// plainRun counts the leading bytes of a string's inside that canonical text has
// as they are: everything but quotes, backslashes, controls and ill-formed UTF-8.
func plainRun(src []byte) int {
	i := 0
	for {
		for i+8 <= len(src) {
			mask := special(binary.LittleEndian.Uint64(src[i:]))
			if mask != 0 {
				i += bits.TrailingZeros64(mask) >> 3
				break
			}
			i += 8
		}
		if i >= len(src) {
			return i
		}
		size := 1
		switch c := src[i]; {
		case c < 0x20 || c == '"' || c == '\\':
			return i
		case c >= utf8.RuneSelf:
			size = wellFormed(src[i:])
		}
		if size == 0 {
			return i
		}
		i += size
	}
}

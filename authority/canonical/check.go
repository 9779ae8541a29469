package canonical

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"unicode/utf8"
)

// Check returns nil exactly when src is one JSON document in canonical form. It
// is a single pass that allocates nothing. Legal JSON spelled otherwise is
// ErrNotCanonical; the rest is what Append says of it.
func Check(src []byte) error {
	scan := scanCanonical(src)
	if scan.ok {
		return nil
	}
	b := builder{src: src}
	if err := b.document(); err != nil {
		return err
	}
	return fmt.Errorf("%w: byte %d", ErrNotCanonical, scan.pos)
}

// scanners keeps scanners with room for frames, so that Check allocates nothing
// in steady state.
var scanners = sync.Pool{New: func() any { return &scanner{} }}

// frame is an open array or object. Of an object it holds the inside of the
// newest key, as offsets; key is -1 for an array and before the first key.
type frame struct {
	key, end int
	object   bool
	plain    bool // the key has no escapes
}

// scanner accepts canonical documents. It knows nothing of other spellings: the
// first byte that is not as canonical text has it ends the scan.
type scanner struct {
	src     []byte
	pos     int
	frames  []frame
	alert   int      // offset from which on the tracker is asked at each comma
	tracker *Tracker // may be nil with an alert that is never reached
	inexact bool
}

type scanResult struct {
	ok      bool
	inexact bool
	pos     int
}

func newScanner(src []byte) *scanner {
	s := scanners.Get().(*scanner)
	*s = scanner{src: src, frames: s.frames[:0], alert: math.MaxInt}
	return s
}

// release gives the scanner back, without the text it would keep alive.
func (s *scanner) release() {
	s.src, s.tracker = nil, nil
	scanners.Put(s)
}

func scanCanonical(src []byte) scanResult {
	s := newScanner(src)
	defer s.release()
	ok := s.values()
	return scanResult{ok: ok, inexact: s.inexact, pos: s.pos}
}

// step says what the scan met.
type step int

const (
	refused step = iota // not canonical
	opened              // a value is next
	ended               // a value ended
	done                // the document ended, or the tracker knows the rest
)

// values scans from the start of a value to the end of the document.
func (s *scanner) values() bool {
	return s.from(s.begin())
}

// from goes on after a step to the end of the document.
func (s *scanner) from(what step) bool {
	for {
		switch what {
		case ended:
			what = s.finish()
		case opened:
			what = s.begin()
		default:
			return what == done
		}
	}
}

// begin scans a scalar, an empty container, or the opening of another one.
func (s *scanner) begin() step {
	if s.pos >= len(s.src) {
		return refused
	}
	switch c := s.src[s.pos]; c {
	case '"':
		end, _ := scanString(s.src, s.pos+1)
		if end < 0 {
			return refused
		}
		s.pos = end + 1
		return ended
	case '{', '[':
		return s.open(c == '{')
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) word(word string) step {
	end := s.pos + len(word)
	if end > len(s.src) || string(s.src[s.pos:end]) != word {
		return refused
	}
	s.pos = end
	return ended
}

func (s *scanner) open(object bool) step {
	if len(s.frames) == MaxDepth || s.pos+1 >= len(s.src) {
		return refused
	}
	closing := closingOf(object)
	s.pos++
	if s.src[s.pos] == closing {
		s.pos++
		return ended
	}
	s.frames = append(s.frames, frame{key: -1, object: object})
	if object {
		return s.member()
	}
	return opened
}

func closingOf(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

// member scans a key and its colon, and goes on through string members, which
// are the most common by far, as long as another one follows.
func (s *scanner) member() step {
	src, pos := s.src, s.pos
	top := &s.frames[len(s.frames)-1]
	for {
		if pos >= len(src) || src[pos] != '"' {
			break
		}
		start := pos + 1
		end, plain := scanString(src, start)
		if end < 0 || end+2 >= len(src) || src[end+1] != ':' {
			break
		}
		if top.key >= 0 && !ascending(src[top.key:top.end], src[start:end], plain && top.plain) {
			break
		}
		top.key, top.end, top.plain = start, end, plain
		pos = end + 2
		if src[pos] != '"' {
			s.pos = pos
			return opened
		}
		if end, _ = scanString(src, pos+1); end < 0 {
			break
		}
		pos = end + 1
		if pos >= len(src) || src[pos] != ',' || pos+1 >= s.alert {
			s.pos = pos
			return ended
		}
		pos++
	}
	s.pos = min(pos, len(src))
	return refused
}

// ascending reports whether the key after may follow the key before. plain
// means that neither has escapes.
func ascending(before, after []byte, plain bool) bool {
	if len(before) > 0 && len(after) > 0 {
		b, a := before[0], after[0]
		if b >= 'A' && a > b && b != '\\' && a != '\\' {
			return true
		}
	}
	if plain && !startsWithDigit(before) && !startsWithDigit(after) {
		return string(before) < string(after)
	}
	return comparePrinted(before, after) < 0
}

func startsWithDigit(key []byte) bool { return len(key) > 0 && isDigit(key[0]) }

// finish scans what follows a value: a comma with the next key, or closing brackets.
func (s *scanner) finish() step {
	for depth := len(s.frames); depth > 0; depth = len(s.frames) {
		if s.pos >= len(s.src) {
			return refused
		}
		object := s.frames[depth-1].object
		c := s.src[s.pos]
		if c == ',' {
			return s.comma()
		}
		if c != closingOf(object) {
			return refused
		}
		s.pos++
		s.frames = s.frames[:depth-1]
	}
	if s.pos != len(s.src) {
		return refused
	}
	return done
}

func (s *scanner) comma() step {
	s.pos++
	if (s.pos >= s.alert || len(s.frames) == 1) && s.tracker != nil && s.tracker.reached(s) {
		return done
	}
	return s.follow()
}

// follow scans what must stand behind a comma.
func (s *scanner) follow() step {
	if s.frames[len(s.frames)-1].object {
		return s.member()
	}
	return opened
}

// number accepts integers of up to fifteen digits by their form. Anything else
// is parsed and printed again.
func (s *scanner) number() step {
	src, i := s.src, s.pos
	if src[i] == '-' {
		i++
	}
	first := i
	for i < len(src) && isDigit(src[i]) {
		i++
	}
	digits := i - first
	if digits == 0 || src[first] == '0' && (digits > 1 || first > s.pos) {
		return s.reprinted()
	}
	if digits > 15 || i < len(src) && (src[i] == '.' || src[i]|0x20 == 'e') {
		return s.reprinted()
	}
	s.pos = i
	return ended
}

func (s *scanner) reprinted() step {
	length, _, plain := numberToken(s.src[s.pos:])
	if length == 0 || length > maxNumber {
		return refused
	}
	token := s.src[s.pos : s.pos+length]
	f := parseNumber(token)
	if math.IsInf(f, 0) {
		return refused
	}
	var space [maxNumber + 7]byte
	if string(appendNumber(space[:0], f)) != string(token) {
		return refused
	}
	s.inexact = s.inexact || plain && inexactInteger(token)
	s.pos += length
	return ended
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// special marks, by its high bit, each byte of w that ends a run of plain ASCII
// in a string. Only the lowest mark is reliable.
func special(w uint64) uint64 {
	quote := w ^ everyByte*'"'
	slash := w ^ everyByte*'\\'
	return (w | (w - everyByte*0x20) | (quote - everyByte) | (slash - everyByte)) & highBits
}

// scanString finds the closing quote of a canonical string whose inside starts
// at i. It returns -1 when the string is not canonical. plain means that it has
// no escapes.
func scanString(src []byte, i int) (end int, plain bool) {
	plain = true
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
			return -1, false
		}
		size := 1
		switch c := src[i]; {
		case c == '"':
			return i, plain
		case c < 0x20:
			return -1, false
		case c == '\\':
			size, plain = canonicalEscape(src[i:]), false
		case c >= utf8.RuneSelf:
			size = wellFormed(src[i:])
		}
		if size == 0 {
			return -1, false
		}
		i += size
	}
}

// wellFormed measures the run of non-ASCII characters at the start of src, up to
// the first bytes that are not UTF-8; 0 if it starts with such.
func wellFormed(src []byte) int {
	i := 0
	for i < len(src) && src[i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return i
}

// canonicalEscape measures the escape at the start of src, 0 if canonical text
// would have spelled it otherwise.
func canonicalEscape(src []byte) int {
	r, size := escapeSequence(src)
	if size == 0 {
		return 0
	}
	var space [8]byte
	if string(appendEscaped(space[:0], r)) != string(src[:size]) {
		return 0
	}
	return size
}

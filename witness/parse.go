package witness

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parser is JSON.parse. Where it meets something else it panics with a syntaxError,
// which parse turns into an error.
type parser struct {
	in    string
	pos   int
	depth int
	// known are elements of lists by their spelling, so that a state that repeats most
	// of the one before is not made anew; met are those of this text.
	known, met map[string]*value
}

type syntaxError struct {
	pos  int
	what string
}

// deepest is how deep values may stand in each other; LoopX's own limit is lower.
const deepest = 10000

var errNotUTF8 = errors.New("it is not UTF-8")

// parse reads a whole text.
func parse(in string) (*value, error) { return (&parser{in: in}).whole() }

// memory remembers the elements of the text before.
type memory struct{ known map[string]*value }

func (m *memory) parse(in string) (*value, error) {
	p := &parser{in: in, known: m.known, met: map[string]*value{}}
	v, err := p.whole()
	m.known = p.met
	return v, err
}

func (p *parser) whole() (v *value, err error) {
	if !utf8.ValidString(p.in) {
		return nil, errNotUTF8
	}
	defer p.caught(&err)
	v = p.value()
	p.blanks()
	p.must(p.pos == len(p.in), "text behind the value")
	return v, nil
}

func (p *parser) caught(err *error) {
	failure := recover()
	if failure == nil {
		return
	}
	at, ours := failure.(syntaxError)
	if !ours {
		panic(failure)
	}
	*err = fmt.Errorf("no JSON at byte %d: %s", at.pos, at.what)
}

func (p *parser) must(ok bool, what string) {
	if !ok {
		panic(syntaxError{p.pos, what})
	}
}

func (p *parser) blanks() {
	for p.pos < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.pos]) >= 0 {
		p.pos++
	}
}

// take goes over a character if it is next.
func (p *parser) take(c byte) bool {
	p.blanks()
	if p.pos < len(p.in) && p.in[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) value() *value {
	switch {
	case p.take('{'):
		return p.object()
	case p.take('['):
		return p.list()
	case p.take('"'):
		return p.textValue()
	}
	start := p.pos
	for p.pos < len(p.in) && strings.IndexByte(",]} \t\r\n", p.in[p.pos]) < 0 {
		p.pos++
	}
	word := p.in[start:p.pos]
	switch word {
	case "null":
		return &value{kind: null, printed: word}
	case "true", "false":
		return &value{kind: truth, printed: word}
	}
	if whole, rest := digits(word); rest == "" && whole != "" && len(word) < 16 && word[0] != '0' {
		return &value{kind: number, printed: word} // a double holds it exactly and prints it so
	}
	p.must(isNumber(word), "no value")
	f, _ := strconv.ParseFloat(word, 64)
	p.must(!math.IsInf(f, 0), "a number that is not finite")
	return &value{kind: number, printed: printNumber(f)}
}

// isNumber is the grammar of RFC 8259: an optional minus, no leading zero, digits on
// both sides of a point.
func isNumber(word string) bool {
	word = strings.TrimPrefix(word, "-")
	whole, rest := digits(word)
	if whole == "" || whole[0] == '0' && whole != "0" {
		return false
	}
	if after, point := strings.CutPrefix(rest, "."); point {
		fraction, behind := digits(after)
		if fraction == "" {
			return false
		}
		rest = behind
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	rest = rest[1:]
	if strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-") {
		rest = rest[1:]
	}
	exponent, behind := digits(rest)
	return exponent != "" && behind == ""
}

func digits(s string) (front, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

func (p *parser) enter() {
	p.depth++
	p.must(p.depth <= deepest, "too deep")
}

func (p *parser) list() *value {
	p.enter()
	elements := []*value{}
	for !p.take(']') {
		p.must(len(elements) == 0 || p.take(','), "no comma")
		elements = append(elements, p.element())
	}
	p.depth--
	return newList(elements)
}

// element is a value of a list. A spelling that was met before is not read again.
func (p *parser) element() *value {
	p.blanks()
	end := p.endOfObject()
	if end < 0 {
		return p.value()
	}
	spelling := p.in[p.pos:end]
	v := p.known[spelling]
	if v == nil {
		start := p.pos
		v = p.value()
		spelling = p.in[start:p.pos]
	} else {
		p.pos = end
	}
	if p.depth <= 3 { // of a state's lists; what is deeper stands in one of these
		p.met[spelling] = v
	}
	return v
}

// endOfObject is where the object that begins here ends, or -1: only where it is
// remembered by its spelling.
func (p *parser) endOfObject() int {
	if p.met == nil || p.pos >= len(p.in) || p.in[p.pos] != '{' {
		return -1
	}
	return p.closing()
}

// closing is where the object or list that begins here ends, or -1.
func (p *parser) closing() int {
	open, quoted := 0, false
	for i := p.pos; i < len(p.in); i++ {
		switch c := p.in[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
		case c == '}' || c == ']':
			if open--; open <= 0 {
				return i + 1
			}
		}
	}
	return -1
}

func (p *parser) object() *value {
	p.enter()
	members := map[string]*value{}
	for first := true; !p.take('}'); first = false {
		p.must(first || p.take(','), "no comma")
		p.must(p.take('"'), "no key")
		key := p.text()
		p.must(p.take(':'), "no colon")
		members[key] = p.value() // a key that stands twice: the last one counts
	}
	p.depth--
	return newObject(members)
}

// textValue reads the rest of a string. One without escapes is printed as it stands.
func (p *parser) textValue() *value {
	start := p.pos
	s := p.text()
	if p.pos-start == len(s)+1 && strings.IndexByte(s, '\\') < 0 {
		return &value{kind: text, str: s, printed: p.in[start-1 : p.pos]}
	}
	return newText(s)
}

// text reads the rest of a string.
func (p *parser) text() string {
	if s, whole := p.untouched(); whole {
		return s
	}
	var b []byte
	high := uint16(0) // a surrogate that waits for its other half
	for {
		p.must(p.pos < len(p.in), "a string without an end")
		c := p.in[p.pos]
		if c == '\\' {
			p.pos++
			b, high = p.unit(b, high, p.escape())
			continue
		}
		b, high = flush(b, high), 0
		p.pos++
		if c == '"' {
			return string(b)
		}
		p.must(c >= 0x20, "a control character in a string")
		b = append(b, c)
	}
}

// untouched is a string without escapes, if this is one.
func (p *parser) untouched() (s string, whole bool) {
	for i := p.pos; i < len(p.in); i++ {
		switch c := p.in[i]; {
		case c == '"':
			s = p.in[p.pos:i]
			p.pos = i + 1
			return s, true
		case c == '\\' || c < 0x20:
			return "", false
		}
	}
	return "", false
}

// skip goes over an object or list without reading it.
func (p *parser) skip() {
	p.blanks()
	end := p.closing()
	p.must(end > 0, "no value")
	p.pos = end
}

// unit appends one escaped UTF-16 unit; two surrogates that fit make one character.
func (p *parser) unit(b []byte, high, unit uint16) (after []byte, waits uint16) {
	if high != 0 && unit >= 0xdc00 && unit < 0xe000 {
		return utf8.AppendRune(b, 0x10000+rune(high-0xd800)<<10+rune(unit-0xdc00)), 0
	}
	b = flush(b, high)
	if unit >= 0xd800 && unit < 0xdc00 {
		return b, unit
	}
	if unit >= 0xdc00 && unit < 0xe000 {
		return flush(b, unit), 0
	}
	return utf8.AppendRune(b, rune(unit)), 0
}

// flush appends a surrogate that stayed alone, in its three-byte form.
func flush(b []byte, unit uint16) []byte {
	if unit == 0 {
		return b
	}
	return append(b, 0xed, 0x80|byte(unit>>6&0x3f), 0x80|byte(unit&0x3f))
}

func (p *parser) escape() uint16 {
	p.must(p.pos < len(p.in), "a string without an end")
	c := p.in[p.pos]
	p.pos++
	if short := strings.IndexByte(`"\/bfnrt`, c); short >= 0 {
		return uint16("\"\\/\b\f\n\r\t"[short])
	}
	p.must(c == 'u' && p.pos+4 <= len(p.in), "an unknown escape")
	n, err := strconv.ParseUint(p.in[p.pos:p.pos+4], 16, 16)
	p.must(err == nil, "an escape that is not hexadecimal")
	p.pos += 4
	return uint16(n)
}

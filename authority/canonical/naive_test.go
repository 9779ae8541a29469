package canonical

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// This file is a second, slow implementation of the rules, which shares nothing
// with the one under test: it works as JavaScript does, on UTF-16 units, with
// maps, and prints numbers through encoding/json.

// utf32 is a string as big-endian UTF-32, lone surrogates included. Comparing
// two by bytes is comparing by code point.
type utf32 string

var (
	errNaiveSyntax   = errors.New("syntax")
	errNaiveInfinite = errors.New("infinite")
	errNaiveDepth    = errors.New("depth")
)

// naiveUnits is TextDecoder: the decoder of the WHATWG Encoding Standard as the
// standard writes it, giving UTF-16 units.
func naiveUnits(src []byte) []uint16 {
	var units []uint16
	need, seen, point := 0, 0, rune(0)
	low, high := byte(0x80), byte(0xbf)
	emit := func(r rune) {
		if r >= 0x10000 {
			r -= 0x10000
			units = append(units, uint16(0xd800+r>>10), uint16(0xdc00+r&0x3ff))
			return
		}
		units = append(units, uint16(r))
	}
	start := func(c byte) {
		switch {
		case c < 0x80:
			emit(rune(c))
		case c >= 0xc2 && c <= 0xdf:
			need, point = 1, rune(c&0x1f)
		case c >= 0xe0 && c <= 0xef:
			need, point = 2, rune(c&0xf)
			low = map[bool]byte{true: 0xa0, false: low}[c == 0xe0]
			high = map[bool]byte{true: 0x9f, false: high}[c == 0xed]
		case c >= 0xf0 && c <= 0xf4:
			need, point = 3, rune(c&0x7)
			low = map[bool]byte{true: 0x90, false: low}[c == 0xf0]
			high = map[bool]byte{true: 0x8f, false: high}[c == 0xf4]
		default:
			emit(0xfffd)
		}
	}
	for _, c := range src {
		if need == 0 {
			start(c)
			continue
		}
		inRange := c >= low && c <= high
		low, high = 0x80, 0xbf
		if !inRange {
			need, seen, point = 0, 0, 0
			emit(0xfffd)
			start(c)
			continue
		}
		point = point<<6 | rune(c&0x3f)
		if seen++; seen == need {
			r := point
			need, seen, point = 0, 0, 0
			emit(r)
		}
	}
	if need != 0 {
		emit(0xfffd)
	}
	return units
}

func naiveText(units []uint16) utf32 {
	var b []byte
	for i := 0; i < len(units); i++ {
		r := uint32(units[i])
		if r >= 0xd800 && r < 0xdc00 && i+1 < len(units) && units[i+1] >= 0xdc00 && units[i+1] < 0xe000 {
			r = 0x10000 + (r-0xd800)*0x400 + uint32(units[i+1]) - 0xdc00
			i++
		}
		b = binary.BigEndian.AppendUint32(b, r)
	}
	return utf32(b)
}

func (t utf32) points() []rune {
	var points []rune
	for i := 0; i < len(t); i += 4 {
		points = append(points, rune(binary.BigEndian.Uint32([]byte(t[i:i+4]))))
	}
	return points
}

// wtf8 is the form in which the package hands strings out.
func (t utf32) wtf8() string {
	var b strings.Builder
	for _, r := range t.points() {
		if r >= 0xd800 && r < 0xe000 {
			b.Write([]byte{byte(0xe0 | r>>12), byte(0x80 | r>>6&0x3f), byte(0x80 | r&0x3f)})
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// naiveParser is JSON.parse. Failures are panics with one of the errors above.
type naiveParser struct {
	units []uint16
	pos   int
	depth int
}

// naiveParse returns nil, bool, float64, utf32, []any or map[utf32]any.
func naiveParse(src []byte) (value any, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			err = failure.(error)
		}
	}()
	p := &naiveParser{units: naiveUnits(src)}
	value = p.value()
	p.blanks()
	if p.pos != len(p.units) {
		panic(errNaiveSyntax)
	}
	return value, nil
}

func (p *naiveParser) blanks() {
	for p.pos < len(p.units) && strings.ContainsRune(" \t\r\n", rune(p.units[p.pos])) {
		p.pos++
	}
}

func (p *naiveParser) take(c byte) bool {
	p.blanks()
	if p.pos < len(p.units) && p.units[p.pos] == uint16(c) {
		p.pos++
		return true
	}
	return false
}

func (p *naiveParser) must(ok bool) {
	if !ok {
		panic(errNaiveSyntax)
	}
}

func (p *naiveParser) value() any {
	p.blanks()
	p.must(p.pos < len(p.units))
	switch {
	case p.take('{'):
		return p.object()
	case p.take('['):
		return p.array()
	case p.take('"'):
		return p.text()
	}
	start := p.pos
	for p.pos < len(p.units) && !strings.ContainsRune(",]} \t\r\n", rune(p.units[p.pos])) {
		p.pos++
	}
	word := string(utf32ToASCII(p.units[start:p.pos]))
	switch word {
	case "null":
		return nil
	case "true", "false":
		return word == "true"
	}
	var number json.Number
	p.must(word != "" && word[0] != '"' && json.Unmarshal([]byte(word), &number) == nil && number != "")
	f, _ := strconv.ParseFloat(word, 64)
	return f
}

func utf32ToASCII(units []uint16) []byte {
	var b []byte
	for _, u := range units {
		if u > 0x7e {
			u = '?'
		}
		b = append(b, byte(u))
	}
	return b
}

func (p *naiveParser) enter() {
	if p.depth++; p.depth > MaxDepth {
		panic(errNaiveDepth)
	}
}

func (p *naiveParser) array() any {
	p.enter()
	list := []any{}
	for !p.take(']') {
		p.must(len(list) == 0 || p.take(','))
		list = append(list, p.value())
	}
	p.depth--
	return list
}

func (p *naiveParser) object() any {
	p.enter()
	members := map[utf32]any{}
	for first := true; !p.take('}'); first = false {
		p.must(first || p.take(','))
		p.must(p.take('"'))
		key := p.text()
		p.must(p.take(':'))
		members[key] = p.value()
	}
	p.depth--
	return members
}

func (p *naiveParser) text() utf32 {
	var units []uint16
	for {
		p.must(p.pos < len(p.units))
		c := p.units[p.pos]
		p.pos++
		p.must(c >= 0x20)
		if c == '"' {
			return naiveText(units)
		}
		if c == '\\' {
			c = p.escape()
		}
		units = append(units, c)
	}
}

func (p *naiveParser) escape() uint16 {
	p.must(p.pos < len(p.units))
	c := p.units[p.pos]
	p.pos++
	if at := strings.IndexRune(`"\/bfnrt`, rune(c)); at >= 0 {
		return uint16("\"\\/\b\f\n\r\t"[at])
	}
	p.must(c == 'u' && p.pos+4 <= len(p.units))
	digits := string(utf32ToASCII(p.units[p.pos : p.pos+4]))
	p.must(strings.Trim(digits, "0123456789abcdefABCDEF") == "")
	n, _ := strconv.ParseUint(digits, 16, 16)
	p.pos += 4
	return uint16(n)
}

// naiveCanonical parses and prints.
func naiveCanonical(src []byte) ([]byte, error) {
	value, err := naiveParse(src)
	if err != nil {
		return nil, err
	}
	if naiveInfinite(value) {
		return nil, errNaiveInfinite
	}
	return naivePrint(nil, value), nil
}

func naiveInfinite(value any) bool {
	switch v := value.(type) {
	case float64:
		return math.IsInf(v, 0)
	case []any:
		return slices.ContainsFunc(v, naiveInfinite)
	case map[utf32]any:
		for _, member := range v {
			if naiveInfinite(member) {
				return true
			}
		}
	}
	return false
}

func naivePrint(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case float64:
		if v == 0 {
			return append(dst, '0') // a minus zero loses its sign
		}
		text, _ := json.Marshal(v) // encoding/json prints ECMAScript's way
		return append(dst, text...)
	case utf32:
		return naiveQuote(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			dst = naivePrint(naiveComma(dst, i), element)
		}
		return append(dst, ']')
	}
	members := value.(map[utf32]any)
	dst = append(dst, '{')
	for i, key := range naiveKeys(members) {
		dst = append(naiveQuote(naiveComma(dst, i), key), ':')
		dst = naivePrint(dst, members[key])
	}
	return append(dst, '}')
}

func naiveComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// naiveKeys sorts by code point and then moves the index keys to the front.
func naiveKeys(members map[utf32]any) []utf32 {
	keys := naiveSorted(members)
	slices.SortStableFunc(keys, func(a, b utf32) int { return int(min(1, max(-1, naiveIndex(a)-naiveIndex(b)))) })
	return keys
}

func naiveSorted(members map[utf32]any) []utf32 {
	var keys []utf32
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// naiveIndex is the number of an index key, and one more than all of them for others.
func naiveIndex(key utf32) float64 {
	word := key.wtf8()
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil || fmt.Sprint(n) != word || n > 4294967294 {
		return 4294967295
	}
	return float64(n)
}

func naiveQuote(dst []byte, s utf32) []byte {
	dst = append(dst, '"')
	for _, r := range s.points() {
		at := strings.IndexRune("\"\\\b\f\n\r\t", r)
		switch {
		case r >= 0xd800 && r < 0xe000 || at < 0 && r < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		case at >= 0:
			dst = append(dst, '\\', `"\bfnrt`[at])
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, '"')
}

// naiveMember reads a member of a parsed object by an ASCII key.
func naiveMember(value any, key string) any {
	var units []uint16
	for _, c := range key {
		units = append(units, uint16(c))
	}
	return value.(map[utf32]any)[naiveText(units)]
}

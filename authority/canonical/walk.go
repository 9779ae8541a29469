package canonical

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// ValueKind is the kind of a JSON value.
type ValueKind byte

// The kinds of JSON values. Invalid stands for text that starts no value.
const (
	Invalid ValueKind = iota
	Object
	Array
	String
	Number
	Bool
	Null
)

var kinds = [256]ValueKind{
	'{': Object, '[': Array, '"': String, 't': Bool, 'f': Bool, 'n': Null, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// Kind tells the kind of a JSON value by its first byte.
func Kind(src []byte) ValueKind {
	if len(src) == 0 {
		return Invalid
	}
	return kinds[src[0]]
}

// Members yields key (WTF-8) and value of each member of a canonical object, in
// printed order. The values are parts of obj. Text that is not an object yields
// nothing; text that is not canonical yields something, without order.
func Members(obj []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for m := range rawMembers(obj) {
			if !yield(decodeLiteral(m.key), m.value) {
				return
			}
		}
	}
}

// Elements yields the elements of a canonical array in order, as parts of arr.
// Text that is not an array yields nothing.
func Elements(arr []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if Kind(arr) != Array {
			return
		}
		for i := 1; i < len(arr) && arr[i] != ']'; {
			end := i + Skip(arr[i:])
			if end == i || !yield(arr[i:end:end]) {
				return
			}
			i = end
			if i < len(arr) && arr[i] == ',' {
				i++
			}
		}
	}
}

// rawMember is a member of an object: its key literal, quotes included, and its value.
type rawMember struct{ key, value []byte }

func rawMembers(obj []byte) iter.Seq[rawMember] {
	return func(yield func(rawMember) bool) {
		if Kind(obj) != Object {
			return
		}
		for rest := obj[1:]; ; {
			m, after, ok := nextMember(rest)
			if !ok || !yield(m) {
				return
			}
			rest = after
		}
	}
}

// nextMember takes the first member off what is left of an object, which starts
// at the key, at the comma before it, or at the closing bracket.
func nextMember(rest []byte) (m rawMember, after []byte, ok bool) {
	if len(rest) > 0 && rest[0] == ',' {
		rest = rest[1:]
	}
	if len(rest) == 0 || rest[0] != '"' {
		return rawMember{}, rest, false
	}
	colon := skipString(rest)
	start := min(colon+1, len(rest))
	end := start + Skip(rest[start:])
	if end == start {
		return rawMember{}, rest, false
	}
	return rawMember{key: rest[:colon:colon], value: rest[start:end:end]}, rest[end:], true
}

// Skip returns the length of the first JSON value in canonical text, 0 if none
// starts there. It finds the end and proves nothing; a value cut short ends
// where src does.
func Skip(src []byte) int {
	switch Kind(src) {
	case Invalid:
		return 0
	case Object, Array:
		return skipNested(src)
	case String:
		return skipString(src)
	}
	for i, c := range src {
		if c == ',' || c == ']' || c == '}' {
			return i
		}
	}
	return len(src)
}

// skipNested measures a container.
func skipNested(src []byte) int {
	depth := 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '"':
			i = stringsEnd(src, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
	}
	return len(src)
}

// stringsEnd passes over the string literal at i, and over further ones with
// only one byte between them, which spares a look at each. In canonical text
// that byte is a comma or a colon.
func stringsEnd(src []byte, i int) int {
	for {
		i = stringEnd(src, i+1)
		if i+1 >= len(src) || src[i+1] != '"' {
			return i
		}
		i++
	}
}

// skipString returns the length of the string literal at the start of src.
func skipString(src []byte) int { return stringEnd(src, 1) }

// stringEnd returns the offset behind the string literal whose inside starts at i.
func stringEnd(src []byte, i int) int {
	for {
		for i+8 <= len(src) {
			w := binary.LittleEndian.Uint64(src[i:])
			quote, slash := w^everyByte*'"', w^everyByte*'\\'
			mask := ((quote-everyByte)&^quote | (slash-everyByte)&^slash) & highBits
			if mask != 0 {
				i += bits.TrailingZeros64(mask) >> 3
				break
			}
			i += 8
		}
		if i >= len(src) {
			return len(src)
		}
		switch src[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
}

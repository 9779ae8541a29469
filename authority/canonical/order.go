package canonical

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// CompareKeys orders two WTF-8 strings by code point, prefixes first. It is the
// order of a delta's operations and of LoopX's lists; for the order in which the
// keys of an object are printed see Less.
func CompareKeys(a, b string) int { return strings.Compare(a, b) }

// Less reports whether key a is printed before key b: array indices first, by
// number, then all other keys by code point.
func Less(a, b string) bool {
	i, aIsIndex := indexKey([]byte(a))
	j, bIsIndex := indexKey([]byte(b))
	switch {
	case aIsIndex && bIsIndex:
		return i < j
	case aIsIndex != bIsIndex:
		return aIsIndex
	}
	return a < b
}

// indexKey reads a key that JavaScript takes for an array index: the shortest
// decimal of 0 to 2^32-2.
func indexKey(key []byte) (uint64, bool) {
	if len(key) == 0 || len(key) > 10 || key[0] == '0' && len(key) > 1 {
		return 0, false
	}
	var n uint64
	for _, c := range key {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, n < 1<<32-1
}

// isDigit reports whether a key starting with c might be an index.
func isDigit(c byte) bool { return c-'0' < 10 }

// comparePrinted orders the insides of two canonical key literals as they are
// printed.
func comparePrinted(a, b []byte) int {
	if len(a) > 0 && isDigit(a[0]) || len(b) > 0 && isDigit(b[0]) {
		i, aIsIndex := indexKey(a)
		j, bIsIndex := indexKey(b)
		switch {
		case aIsIndex && bIsIndex && i < j:
			return -1
		case aIsIndex && bIsIndex:
			return int(min(i-j, 1))
		case aIsIndex:
			return -1
		case bIsIndex:
			return 1
		}
	}
	return compareRaw(a, b)
}

// compareRaw orders the insides of two canonical string literals by the code
// points they stand for.
func compareRaw(a, b []byte) int {
	n := commonPrefix(a, b)
	if n == len(a) || n == len(b) {
		// Canonical literals never end inside an escape, so one is the
		// beginning of the other and that is a beginning of its value too.
		return len(a) - len(b)
	}
	n = escapeStart(a, n)
	x, y := codePoint(a[n:]), codePoint(b[n:])
	return int(x) - int(y)
}

// escapeStart moves n back to the start of the escape sequence or the UTF-8
// sequence it lies in.
func escapeStart(a []byte, n int) int {
	for back := 1; back <= 5 && back <= n; back++ {
		if a[n-back] == '\\' && startsEscape(a, n-back) {
			if end := n - back + escapeLength(a[n-back:]); end > n {
				return n - back
			}
			return n
		}
	}
	for n > 0 && !utf8.RuneStart(a[n]) {
		n--
	}
	return n
}

// startsEscape reports whether the backslash at i is not itself escaped.
func startsEscape(a []byte, i int) bool {
	run := 0
	for i > 0 && a[i-1] == '\\' {
		i--
		run++
	}
	return run%2 == 0
}

// escapeLength is the length of the escape sequence at the start of a, which
// may be cut short.
func escapeLength(a []byte) int {
	if len(a) > 1 && a[1] == 'u' {
		return 6
	}
	return 2
}

// codePoint decodes the first character of the inside of a canonical literal.
func codePoint(a []byte) rune {
	if a[0] != '\\' {
		r, _ := utf8.DecodeRune(a)
		return r
	}
	if a[1] == 'u' {
		return rune(hex4(a[2:]))
	}
	return rune(unescape[a[1]])
}

// commonPrefix is the number of leading bytes two texts share.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+chunk <= n && bytes.Equal(a[i:i+chunk], b[i:i+chunk]) {
		i += chunk
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// commonSuffix is the number of trailing bytes two texts share.
func commonSuffix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+chunk <= n && bytes.Equal(a[len(a)-i-chunk:len(a)-i], b[len(b)-i-chunk:len(b)-i]) {
		i += chunk
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}

// chunk is the stride in which texts are compared: long enough for the vector
// code behind bytes.Equal, short enough for the byte-wise rest.
const chunk = 128

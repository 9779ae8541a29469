package canonical

import (
	"bytes"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// escapes gives the letter of the two-character escape of a byte, 0 if it has none.
var escapes = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// unescape gives the byte that an escape letter stands for, 0 if it is none.
var unescape = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hexValue gives the value of a hexadecimal digit, 0xff if it is none.
var hexValue = func() (table [256]byte) {
	for i := range table {
		table[i] = 0xff
	}
	for i, c := range []byte(hexDigits) {
		table[c] = byte(i)
		if c >= 'a' {
			table[c-'a'+'A'] = byte(i)
		}
	}
	return table
}()

// hex4 reads four hexadecimal digits, -1 if there are not four.
func hex4(src []byte) int {
	if len(src) < 4 {
		return -1
	}
	a, b, c, d := hexValue[src[0]], hexValue[src[1]], hexValue[src[2]], hexValue[src[3]]
	if a|b|c|d > 0xf {
		return -1
	}
	return int(a)<<12 | int(b)<<8 | int(c)<<4 | int(d)
}

func isHigh(r int) bool      { return r&^0x3ff == 0xd800 }
func isLow(r int) bool       { return r&^0x3ff == 0xdc00 }
func isSurrogate(r int) bool { return r&^0x7ff == 0xd800 }

// surrogate reads the three-byte form of a surrogate, -1 if s does not start with one.
func surrogate(s string) int {
	if len(s) < 3 || s[0] != 0xed || s[1]&0xe0 != 0xa0 || s[2]&0xc0 != 0x80 {
		return -1
	}
	return 0xd000 | int(s[1]&0x3f)<<6 | int(s[2]&0x3f)
}

// AppendString appends s, WTF-8 text, as a canonical JSON string. A high and a
// low surrogate side by side become the character they make, as they do in
// JavaScript; bytes that are not WTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		n := plainASCII(s[i:])
		dst = append(dst, s[i:i+n]...)
		i += n
		if i == len(s) {
			break
		}
		if s[i] < utf8.RuneSelf {
			dst = appendEscaped(dst, int(s[i]))
			i++
			continue
		}
		r, size := decodeWTF8(s[i:])
		dst = appendEscaped(dst, r)
		i += size
	}
	return append(dst, '"')
}

// plainASCII counts the leading bytes of s that stand for themselves.
func plainASCII(s string) int {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

// decodeWTF8 reads one non-ASCII character, joining surrogates that make one.
func decodeWTF8(s string) (r, size int) {
	if high := surrogate(s); high >= 0 {
		if low := surrogate(s[3:]); isHigh(high) && isLow(low) {
			return joinSurrogates(high, low), 6
		}
		return high, 3
	}
	decoded, size := utf8.DecodeRuneInString(s)
	if decoded == utf8.RuneError && size == 1 {
		return utf8.RuneError, IllFormed(s)
	}
	return int(decoded), size
}

func joinSurrogates(high, low int) int { return 0x10000 + (high-0xd800)<<10 + low - 0xdc00 }

// appendEscaped appends one character as canonical strings spell it.
func appendEscaped(dst []byte, r int) []byte {
	switch {
	case r < utf8.RuneSelf && escapes[r] != 0:
		return append(dst, '\\', escapes[r])
	case r < 0x20 || isSurrogate(r):
		return append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
	}
	return utf8.AppendRune(dst, rune(r))
}

// IllFormed is the number of bytes at the start of s, which starts with no character
// of UTF-8, that a decoder replaces by one U+FFFD: the longest beginning of some
// UTF-8 sequence, at least one byte. Node's decoder does so (WHATWG Encoding Standard),
// and so does Python's with errors="replace".
func IllFormed(s string) int {
	need, low, high := 0, byte(0x80), byte(0xbf)
	switch c := s[0]; {
	case c >= 0xc2 && c <= 0xdf:
		need = 1
	case c >= 0xe0 && c <= 0xef:
		need = 2
	case c >= 0xf0 && c <= 0xf4:
		need = 3
	}
	switch s[0] {
	case 0xe0:
		low = 0xa0
	case 0xed:
		high = 0x9f
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	n := 1
	for n <= need && n < len(s) && s[n] >= low && s[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}

// ParseString returns the WTF-8 value of one JSON string literal in any legal
// spelling, quotes included. The error is a *SyntaxError.
func ParseString(literal []byte) (string, error) {
	b := builder{src: literal}
	if len(literal) == 0 || literal[0] != '"' {
		return "", b.refuse(0, "expected a string")
	}
	if err := b.stringLiteral(); err != nil {
		return "", err
	}
	if b.pos != len(literal) {
		return "", b.refuse(b.pos, "unexpected text after the string")
	}
	return decodeLiteral(b.dst), nil
}

// decodeLiteral returns the value of a canonical literal, quotes included.
func decodeLiteral(literal []byte) string {
	inside := literal[1 : len(literal)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	value := make([]byte, 0, len(inside))
	for i := 0; i < len(inside); i++ {
		if inside[i] != '\\' {
			value = append(value, inside[i])
			continue
		}
		i++
		if inside[i] != 'u' {
			value = append(value, unescape[inside[i]])
			continue
		}
		value = appendWTF8(value, hex4(inside[i+1:]))
		i += 4
	}
	return string(value)
}

// appendWTF8 appends a character, a surrogate in its three-byte form.
func appendWTF8(dst []byte, r int) []byte {
	if isSurrogate(r) {
		return append(dst, 0xed, 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
	}
	return utf8.AppendRune(dst, rune(r))
}

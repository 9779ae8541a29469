package legacy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// LoopX reads state files with Python's str methods. What Python takes for a line
// and for white space is neither what Go nor what JavaScript takes for it.

// line is one line of a text as Python's str.splitlines cuts it: src[start:end] is
// its content, src[end:next] its terminator.
type line struct{ start, end, next int }

// splitLines cuts at LF, CR, CRLF, VT, FF, U+001C to U+001E, U+0085, U+2028, U+2029.
func splitLines(src []byte) []line {
	var lines []line
	start := 0
	for i := 0; i < len(src); {
		n := breakAt(src, i)
		if n == 0 {
			i++
			continue
		}
		lines = append(lines, line{start, i, i + n})
		i += n
		start = i
	}
	if start < len(src) {
		lines = append(lines, line{start, len(src), len(src)})
	}
	return lines
}

// breakAt is the length of the line break at src[i:], 0 if there is none.
func breakAt(src []byte, i int) int {
	switch c := src[i]; {
	case c == '\r' && i+1 < len(src) && src[i+1] == '\n':
		return 2
	case c >= '\n' && c <= '\r', c >= 0x1c && c <= 0x1e:
		return 1
	case c == 0xc2 && i+1 < len(src) && src[i+1] == 0x85:
		return 2
	case c == 0xe2 && i+2 < len(src) && src[i+1] == 0x80 && src[i+2]|1 == 0xa9:
		return 3
	}
	return 0
}

// isSpace is Python's str.isspace for one character, which its \s and split use too.
func isSpace(r rune) bool {
	switch {
	case r >= '\t' && r <= '\r', r >= 0x1c && r <= ' ', r == 0x85, r == 0xa0, r == 0x1680:
		return true
	}
	return r >= 0x2000 && r <= 0x200a || r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f || r == 0x3000
}

// strip is str.strip.
func strip(s string) string { return strings.TrimFunc(s, isSpace) }

// stripLeft is str.lstrip.
func stripLeft(s string) string { return strings.TrimLeftFunc(s, isSpace) }

// compact is " ".join(s.split()).
func compact(s string) string { return strings.Join(strings.FieldsFunc(s, isSpace), " ") }

// lower is str.lower as far as LoopX's tokens can tell: U+0130 becomes two
// characters in Python, so it must not pass for the letter i here.
func lower(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "\u0130", "i\u0307"))
}

// textLimit is where LoopX's views cut a text, in code points.
const textLimit = 500

// cutText is the view of a compacted text: at most textLimit code points, the last
// of which is an ellipsis when something was cut.
func cutText(s string) string {
	if utf8.RuneCountInString(s) <= textLimit {
		return s
	}
	kept := string([]rune(s)[:textLimit-1])
	return strings.TrimRightFunc(kept, isSpace) + "…"
}

// unquote is urllib.parse.unquote: percent sequences are bytes of UTF-8, what is no
// UTF-8 becomes U+FFFD, a plus sign stays one.
func unquote(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	decoded := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			decoded = append(decoded, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
			continue
		}
		decoded = append(decoded, s[i])
	}
	return replaceIllFormed(decoded)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

// replaceIllFormed decodes UTF-8 as Python does with errors="replace": one U+FFFD
// for each longest beginning of a character that is not one.
func replaceIllFormed(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = canonical.IllFormed(string(b[:min(4, len(b))]))
		}
		out.WriteRune(r)
		b = b[size:]
	}
	return out.String()
}

// quote is urllib.parse.quote with LoopX's safe characters: A-Z a-z 0-9 _ . : - ~.
func quote(s string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if isAlnum(s[i]) || strings.IndexByte("_.:-~", s[i]) >= 0 {
			out.WriteByte(s[i])
			continue
		}
		out.WriteByte('%')
		out.WriteByte(digits[s[i]>>4])
		out.WriteByte(digits[s[i]&15])
	}
	return out.String()
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isWord is Python's \w for one character.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

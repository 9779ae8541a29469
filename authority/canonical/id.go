package canonical

import "unicode/utf8"

// ValidID reports whether s, WTF-8 text, can be a goal id, operation id or
// revision: not empty and equal to its own JavaScript trim. JavaScript trims
// U+FEFF, which Go's strings.TrimSpace keeps, and keeps U+0085, which Go's trims.
func ValidID(s string) bool {
	if s == "" {
		return false
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	return !trimmed(first) && !trimmed(last)
}

// trimmed reports whether r is WhiteSpace or LineTerminator of ECMAScript.
func trimmed(r rune) bool {
	switch {
	case r >= 0x09 && r <= 0x0d, r >= 0x2000 && r <= 0x200a:
		return true
	}
	switch r {
	case 0x20, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff:
		return true
	}
	return false
}

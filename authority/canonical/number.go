package canonical

import (
	"math"
	"strconv"
)

// maxNumber is the length of the longest canonical number,
// "-0.000001" plus sixteen more digits.
const maxNumber = 25

// appendNumber appends f, which is finite, as ECMAScript's Number::toString does.
func appendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // also for minus zero
	}
	if f < 0 {
		dst = append(dst, '-')
		f = -f
	}
	var space [32]byte
	shortest := strconv.AppendFloat(space[:0], f, 'e', -1, 64) // d.ddde±dd
	digits, exponent := splitExponent(shortest)
	point := exponent + 1 // where the decimal point stands, counted in digits
	switch {
	case point > 21 || point < -5:
		return appendScientific(dst, digits, exponent)
	case point <= 0:
		dst = append(dst, "0."...)
		dst = append(dst, "00000"[:-point]...)
		return append(dst, digits...)
	case point >= len(digits):
		dst = append(dst, digits...)
		return append(dst, "00000000000000000000"[:point-len(digits)]...)
	}
	dst = append(dst, digits[:point]...)
	dst = append(dst, '.')
	return append(dst, digits[point:]...)
}

// splitExponent takes d.ddde±dd apart. The digits come without their point, in
// the same memory.
func splitExponent(text []byte) (digits []byte, exponent int) {
	mark := len(text) - 1
	for text[mark] != 'e' {
		mark--
	}
	for _, c := range text[mark+2:] {
		exponent = exponent*10 + int(c-'0')
	}
	if text[mark+1] == '-' {
		exponent = -exponent
	}
	if mark == 1 {
		return text[:1], exponent
	}
	text[1] = text[0]
	return text[1:mark], exponent
}

func appendScientific(dst, digits []byte, exponent int) []byte {
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(dst, '.')
		dst = append(dst, digits[1:]...)
	}
	dst = append(dst, 'e')
	if exponent > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(exponent), 10)
}

// numberToken measures the JSON number at the start of src. A length of 0 means
// that there is none; broken is the offset of the fault then. plain means
// digits alone, with or without a minus sign.
func numberToken(src []byte) (length, broken int, plain bool) {
	i := 0
	if i < len(src) && src[i] == '-' {
		i++
	}
	first := i
	i += digitRun(src[i:])
	if i == first {
		return 0, i, false
	}
	if src[first] == '0' && i > first+1 {
		return 0, first + 1, false
	}
	plain = true
	if i < len(src) && src[i] == '.' {
		n := digitRun(src[i+1:])
		if n == 0 {
			return 0, i + 1, false
		}
		i, plain = i+1+n, false
	}
	if i == len(src) || src[i]|0x20 != 'e' {
		return i, 0, plain
	}
	i++
	if i < len(src) && (src[i] == '+' || src[i] == '-') {
		i++
	}
	n := digitRun(src[i:])
	if n == 0 {
		return 0, i, false
	}
	return i + n, 0, false
}

func digitRun(src []byte) int {
	n := 0
	for n < len(src) && isDigit(src[n]) {
		n++
	}
	return n
}

// parseNumber returns the double nearest to a JSON number, infinite if it overflows.
func parseNumber(token []byte) float64 {
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil && !math.IsInf(f, 0) {
		panic("canonical: number token does not parse: " + err.Error()) // numberToken proved its grammar
	}
	return f
}

// inexactInteger reports whether digits alone name an integer beyond 2^53, of
// which a reader with doubles and one with exact integers see different values.
func inexactInteger(token []byte) bool {
	const limit = "9007199254740992"
	if token[0] == '-' {
		token = token[1:]
	}
	if len(token) != len(limit) {
		return len(token) > len(limit)
	}
	return string(token) > limit
}

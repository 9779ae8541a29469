package filestore

import "github.com/loopx-project/loopx-migrate/authority/canonical"

// shortestInexact is the number of digits of 2^53, the first integer that a
// double may stand for in place of another.
const shortestInexact = 16

// holdsInexactInteger reports whether canonical text has an integer beyond 2^53.
// Text without so long a run of digits, which is nearly all there is, is not
// looked at byte by byte.
func holdsInexactInteger(text []byte) bool {
	if !hasDigitRun(text) {
		return false
	}
	odd, err := canonical.Inspect(text)
	return err == nil && odd.InexactInteger
}

// hasDigitRun looks for shortestInexact digits in a row. Such a run covers a
// place that is a multiple of its length.
func hasDigitRun(text []byte) bool {
	for i := 0; i < len(text); i += shortestInexact {
		if !isDigit(text[i]) {
			continue
		}
		start, end := i, i+1
		for start > 0 && isDigit(text[start-1]) {
			start--
		}
		for end < len(text) && isDigit(text[end]) {
			end++
		}
		if end-start >= shortestInexact {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return c-'0' < 10 }

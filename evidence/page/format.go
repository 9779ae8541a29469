package page

import (
	"fmt"
	"strconv"
	"strings"
)

// millis prints a duration as a person says it.
func millis(ms int64) string {
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + " ms"
	case ms < 60_000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(ms)/1000), ".0") + " s"
	}
	return strings.TrimSuffix(fmt.Sprintf("%d min %d s", ms/60_000, ms%60_000/1000), " 0 s")
}

// micros prints a latency.
func micros(us int64) string {
	if us < 1000 {
		return strconv.FormatInt(us, 10) + " µs"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(us)/1000), ".0") + " ms"
}

// byteText prints a size in powers of ten.
func byteText(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1_000_000:
		return fmt.Sprintf("%.1f\u00a0kB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f\u00a0MB", float64(n)/1_000_000)
}

// short is the beginning of a digest or identity.
func short(text fmt.Stringer) string {
	s := text.String()
	if strings.Trim(s, "0") == "" {
		return "–"
	}
	return s[:min(12, len(s))]
}

// grouped prints a count with thin spaces between thousands.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

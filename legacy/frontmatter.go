package legacy

import (
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Value is one value of the front matter, "" when the key is absent. LoopX 0.5.1 has
// two readers of it that disagree; this is the one that decides (handoff_mode).
func (d *Document) Value(reading Reading, key string) string {
	if reading == Release051 {
		return d.values051()[key]
	}
	return d.valuesLater()[key]
}

// values051 takes what stands between the first two "---" of the whole text, wherever
// they are. Of a key that comes twice the later one counts.
func (d *Document) values051() map[string]string {
	text := strings.ReplaceAll(strings.ReplaceAll(string(d.src), "\r\n", "\n"), "\r", "\n")
	parts := strings.SplitN(text, "---", 3)
	values := map[string]string{}
	if !hasPrefix(text, "---") || len(parts) < 3 {
		return values
	}
	for _, l := range splitLines([]byte(parts[1])) {
		key, value, found := strings.Cut(parts[1][l.start:l.end], ":")
		if found {
			values[strip(key)] = strings.Trim(strip(value), `"`)
		}
	}
	return values
}

// valuesLater takes the lines between a first line "---" and the next line "---",
// blanks behind them allowed. Only LF ends a line; a value that is a JSON string
// literal is decoded as one.
func (d *Document) valuesLater() map[string]string {
	values := map[string]string{}
	rest, found := afterDashes(string(d.src))
	if !found {
		return values
	}
	var pending []string
	for {
		if _, ends := afterDashes(rest); ends {
			break
		}
		text, after, more := strings.Cut(rest, "\n")
		if !more {
			return values // nothing ends it, so it is none
		}
		pending, rest = append(pending, text), after
	}
	for _, text := range pending {
		key, value, found := strings.Cut(text, ":")
		if found {
			values[strip(key)] = frontValue(strip(value))
		}
	}
	return values
}

// afterDashes is what follows a line "---" at the start of text.
func afterDashes(text string) (string, bool) {
	rest, found := strings.CutPrefix(text, "---")
	if !found {
		return "", false
	}
	rest = strings.TrimLeft(rest, " \t")
	switch {
	case rest == "":
		return "", true
	case hasPrefix(rest, "\n"):
		return rest[1:], true
	case hasPrefix(rest, "\r\n"):
		return rest[2:], true
	}
	return "", false
}

func frontValue(value string) string {
	if hasPrefix(value, `"`) {
		if decoded, err := canonical.ParseString([]byte(value)); err == nil {
			return decoded
		}
	}
	return strings.Trim(value, `"`)
}

// HandoffMode is the mode that the front matter gives: legacy when it gives none.
// ok is false for a value that LoopX refuses (invalid_handoff_mode).
func (d *Document) HandoffMode(reading Reading) (mode string, ok bool) {
	switch mode = d.Value(reading, "handoff_mode"); mode {
	case "":
		return "legacy", true
	case "legacy", "soft_claim", "hard_lease":
		return mode, true
	}
	return mode, false
}

package legacy

import (
	"strings"
)

// task is a line with a check box: ^\s*[-*]\s+\[([ xX-])\]\s+(.+?)\s*$.
type task struct {
	marker byte // ' ', 'x', 'X' or '-'
	text   string
}

// parseTask reads a Todo line. Behind the box at least one character must follow a
// blank; it may itself be a blank, which gives a Todo with an empty text.
func parseTask(text string) (task, bool) {
	rest := stripLeft(text)
	if rest == "" || rest[0] != '-' && rest[0] != '*' {
		return task{}, false
	}
	box := stripLeft(rest[1:])
	if len(box) == len(rest)-1 || len(box) < 4 || box[0] != '[' || box[2] != ']' || !strings.ContainsRune(" xX-", rune(box[1])) {
		return task{}, false
	}
	tail := box[3:]
	body := stripLeft(tail)
	if len(body) == len(tail) || body == "" && len([]rune(tail)) < 2 {
		return task{}, false
	}
	return task{marker: box[1], text: compact(body)}, true
}

func isTask(text string) bool {
	_, is := parseTask(text)
	return is
}

// status is what the marker says when no metadata does.
func (t task) status() string {
	switch t.marker {
	case 'x', 'X':
		return "done"
	case '-':
		return "deferred"
	}
	return "open"
}

// isDone: a deferred Todo counts as done for LoopX.
func isDone(status string) bool { return status == "done" || status == "deferred" }

// metadataBody is what a comment <!-- loopx:todo ... --> or <!-- loopx: ... --> holds.
func metadataBody(text string) (string, bool) {
	inner, opens := strings.CutPrefix(strip(text), "<!--")
	inner, closes := strings.CutSuffix(inner, "-->")
	if !opens || !closes {
		return "", false
	}
	body, ours := strings.CutPrefix(stripLeft(inner), "loopx:")
	if !ours {
		return "", false
	}
	if rest, long := strings.CutPrefix(body, "todo"); long && rest != stripLeft(rest) {
		body = rest
	}
	return body, true
}

// rawToken is one key=value of a metadata line as it stands there.
type rawToken struct{ key, raw string }

var keyPattern = pattern(`^[a-z_][a-z0-9_]*=`)

// tokens cuts a metadata body: a key follows white space or the start, a value ends
// before white space, "<" or ">".
func tokens(body string) []rawToken {
	var found []rawToken
	for i := 0; i < len(body); {
		word := body[i:]
		if skip := len(word) - len(stripLeft(word)); skip > 0 {
			i += skip
			continue
		}
		if end := strings.IndexFunc(word, isSpace); end >= 0 {
			word = word[:end]
		}
		i += len(word)
		key := keyPattern.FindString(word)
		value := word[len(key):]
		if end := strings.IndexAny(value, "<>"); end >= 0 {
			value = value[:end]
		}
		if key != "" && value != "" {
			found = append(found, rawToken{strings.TrimSuffix(key, "="), value})
		}
	}
	return found
}

// Token is one key=value that a metadata line gives to a Todo.
type Token struct {
	Key  string
	Raw  string // as it stands in the file, percent-encoded
	Line int    // counted from 1
	// Fate says what became of it: used, overridden (a later one counts), unknown
	// (no key of this reading), invalid (LoopX ignores the value).
	Fate string
}

// parseMetadata reads the metadata of a line. ok is false when the line is none, or
// when no token of it gives a value: it is then text.
func parseMetadata(reading Reading, text string) (values map[string][]byte, seen []Token, ok bool) {
	body, is := metadataBody(text)
	if !is {
		return nil, nil, false
	}
	values = map[string][]byte{}
	for _, t := range tokens(body) {
		key, value := readField(reading, t.key, compact(unquote(t.raw)))
		fate := "used"
		switch {
		case key == "":
			fate = "unknown"
		case value == nil:
			fate = "invalid"
		default:
			values[key] = value
		}
		seen = append(seen, Token{Key: t.key, Raw: t.raw, Fate: fate})
	}
	return values, seen, len(values) > 0
}

func usableMetadata(reading Reading, text string) bool {
	_, _, ok := parseMetadata(reading, text)
	return ok
}

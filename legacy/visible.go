package legacy

import "strings"

// look finds which lines stand in front matter, in code fences or in comments of
// several lines. Those are invisible to LoopX since September 2026.
func (d *Document) look() {
	d.kinds = make([]SpanKind, len(d.lines))
	i := d.frontMatter()
	for i < len(d.lines) {
		text := d.text(i)
		switch mark := fenceMark(text); {
		case mark != "":
			i = d.fence(i, mark)
		case hasPrefix(stripLeft(text), "<!--") && !strings.Contains(text, "-->"):
			i = d.comment(i)
		default:
			d.kinds[i] = SpanProse
			i++
		}
	}
}

// frontMatter marks the front matter and returns the line behind it. Its first line,
// trimmed, is "---"; it ends with the next line that trimmed is "---" or "...".
func (d *Document) frontMatter() int {
	if len(d.lines) == 0 || strip(d.text(0)) != "---" {
		return 0
	}
	for i := 1; i < len(d.lines); i++ {
		if end := strip(d.text(i)); end == "---" || end == "..." {
			d.mark(SpanFrontMatter, 0, i+1)
			return i + 1
		}
	}
	d.frontErr = &SyntaxError{Reason: "front_matter_unterminated", Line: 1}
	d.mark(SpanFrontMatter, 0, len(d.lines))
	return len(d.lines)
}

// fence marks the code fence that begins at line i and returns the line behind it.
func (d *Document) fence(i int, mark string) int {
	end := i + 1
	for end < len(d.lines) && !closesFence(d.text(end), mark) {
		end++
	}
	if end == len(d.lines) {
		d.openEnd = i
	} else {
		end++
	}
	info := strings.TrimLeft(d.text(i), " ")[len(mark):]
	for l := i; l < end && mark[0] == '`' && strings.Contains(info, "`"); l++ {
		d.doubtful[l] = true // Markdown takes such a line for text with code in it
	}
	d.mark(SpanFence, i, end)
	return end
}

// comment marks the comment that begins at line i and returns the line behind it.
func (d *Document) comment(i int) int {
	end := i + 1
	for end < len(d.lines) && !strings.Contains(d.text(end), "-->") {
		end++
	}
	if end == len(d.lines) {
		d.openEnd = i
	} else {
		end++
	}
	d.mark(SpanComment, i, end)
	return end
}

func (d *Document) mark(kind SpanKind, from, to int) {
	for i := from; i < to; i++ {
		d.kinds[i] = kind
	}
}

// fenceMark is the run of backticks or tildes that opens a fence, "" if none does:
// at least three, after at most three spaces.
func fenceMark(text string) string {
	rest := strings.TrimLeft(text, " ")
	if len(text)-len(rest) > 3 || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return ""
	}
	n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	if n < 3 {
		return ""
	}
	return rest[:n]
}

// closesFence: the same character, at least as often, and nothing but blanks after it.
func closesFence(text, mark string) bool {
	closing := fenceMark(text)
	if len(closing) < len(mark) || closing[0] != mark[0] {
		return false
	}
	rest := strings.TrimLeft(text, " ")[len(closing):]
	return strings.Trim(rest, " \t") == ""
}

package legacy

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// SpanKind says what a span of a state file is.
type SpanKind string

// The kinds of span, under the reading Later.
const (
	SpanFrontMatter  SpanKind = "front_matter"
	SpanHeading      SpanKind = "heading" // a line that begins with "## "
	SpanProse        SpanKind = "prose"
	SpanFence        SpanKind = "fence"
	SpanComment      SpanKind = "comment" // of several lines
	SpanTodo         SpanKind = "todo"    // the line with the check box
	SpanContinuation SpanKind = "continuation"
	SpanMetadata     SpanKind = "metadata"
	SpanRegion       SpanKind = "region_marker" // begin or end
	SpanWatermark    SpanKind = "watermark"     // what a projection says about itself
)

// Span is a run of whole lines of one kind. Offsets are bytes of the file.
type Span struct {
	Kind       SpanKind
	Start, End int
	Line       int // the first line, counted from 1 as Python counts them
	Row        int // index into Listing.Rows under Later, -1 for none
}

// Document is a state file, kept whole. The zero Document is the empty file.
type Document struct {
	src   []byte
	lines []line
	kinds []SpanKind // of each line, before Todos are looked for
	// openEnd is the line of a fence or comment that nothing closes, -1 for none.
	openEnd int
	// doubtful marks lines inside fences whose opening line Markdown itself would
	// not take for one.
	doubtful map[int]bool
	frontErr error
}

// Parse keeps the bytes of a state file and finds out which lines a reader sees. It
// never fails: whether the Todos can be told is Read's matter.
func Parse(src []byte) *Document {
	d := &Document{src: bytes.Clone(src), openEnd: -1, doubtful: map[int]bool{}}
	d.lines = splitLines(d.src)
	d.look()
	return d
}

// text is the content of line i.
func (d *Document) text(i int) string { return string(d.src[d.lines[i].start:d.lines[i].end]) }

// visible reports whether a reading sees line i.
func (d *Document) visible(reading Reading, i int) bool {
	return reading == Release051 || d.kinds[i] == SpanProse
}

// Spans cuts the file into spans that joined are the file again: the first starts
// at 0, each starts where the one before ends, the last ends with the file.
func (d *Document) Spans() []Span {
	kinds, rows := d.classify()
	var spans []Span
	for i, l := range d.lines {
		last := len(spans) - 1
		if last >= 0 && spans[last].Kind == kinds[i] && spans[last].Row == rows[i] && joins(kinds[i]) {
			spans[last].End = l.next
			continue
		}
		spans = append(spans, Span{Kind: kinds[i], Start: l.start, End: l.next, Line: i + 1, Row: rows[i]})
	}
	return spans
}

// joins reports whether neighbouring lines of a kind make one span.
func joins(kind SpanKind) bool {
	switch kind {
	case SpanFrontMatter, SpanProse, SpanFence, SpanComment, SpanContinuation:
		return true
	}
	return false
}

// Bytes writes the file back from its spans.
func (d *Document) Bytes() []byte {
	out := make([]byte, 0, len(d.src))
	for _, s := range d.Spans() {
		out = append(out, d.src[s.Start:s.End]...)
	}
	return out
}

// classify gives each line its kind and the Todo it belongs to. A file whose Todos
// cannot be told has none.
func (d *Document) classify() ([]SpanKind, []int) {
	kinds, rows := append([]SpanKind(nil), d.kinds...), make([]int, len(d.lines))
	for i := range d.lines {
		rows[i] = -1
		if kinds[i] != SpanProse {
			continue
		}
		switch text := d.text(i); {
		case hasPrefix(text, "## "):
			kinds[i] = SpanHeading
		case hasPrefix(text, regionPrefix):
			kinds[i] = SpanRegion
		case hasPrefix(text, watermarkPrefix):
			kinds[i] = SpanWatermark
		}
	}
	listing, err := d.Read(Later)
	if err != nil {
		return kinds, rows
	}
	for r, row := range listing.Rows {
		for _, p := range row.parts {
			kinds[p.line], rows[p.line] = p.kind, r
		}
	}
	return kinds, rows
}

// newline is the terminator that new lines of this file get: CRLF if there is any,
// as LoopX's projection does it.
func (d *Document) newline() string {
	if bytes.Contains(d.src, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// readable refuses what no reading can take.
func (d *Document) readable(reading Reading) error {
	if !utf8.Valid(d.src) {
		return &SyntaxError{Reason: "not_utf8"}
	}
	if reading == Later && d.frontErr != nil {
		return d.frontErr
	}
	return nil
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

func decimal(n int) string { return strconv.Itoa(n) }

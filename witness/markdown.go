package witness

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// blank is Python's white space, as a class of a regular expression.
const blank = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`

func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.ReplaceAll(text, `_B_`, blank)) })
}

var (
	lineEnd     = expression("\r\n|[\n-\r\x1c-\x1e\u0085\u2028\u2029]")
	blanks      = expression(`_B_+`)
	taskLine    = expression(`^_B_*[-*]_B_+\[([ xX-])\]_B_+(.+?)_B_*$`)
	fenceOpen   = expression("^ {0,3}(```+|~~~+)")
	commentOpen = expression(`^_B_*<!--`)
	marker      = expression(`^<!-- loopx:todo-region-v0 role=(user|agent|archive) (begin|end) -->$`)
)

const anyMarker = "<!-- loopx:todo-region-v0 "

// squeezed is " ".join(s.split()) of Python.
func squeezed(s string) string {
	return strings.Trim(blanks().ReplaceAllString(s, " "), " ")
}

func itoa(n int) string { return strconv.Itoa(n) }

// markdown is a state file in lines.
type markdown struct {
	lines  []string // without their ends
	ends   []string
	hidden []bool // in front matter, a fence, or a comment of several lines
}

func newMarkdown(text string) *markdown {
	m := &markdown{}
	for text != "" {
		at := lineEnd().FindStringIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		m.lines, m.ends = append(m.lines, text[:at[0]]), append(m.ends, text[at[0]:at[1]])
		text = text[at[1]:]
	}
	m.hide()
	return m
}

// String is the file again.
func (m *markdown) String() string {
	var b strings.Builder
	for i, line := range m.lines {
		b.WriteString(line + m.ends[i])
	}
	return b.String()
}

// hide marks what LoopX does not look at for Todos.
func (m *markdown) hide() {
	m.hidden = make([]bool, len(m.lines))
	var until func(string) bool
	for i, line := range m.lines {
		if until != nil {
			m.hidden[i] = true
			if until(line) {
				until = nil
			}
			continue
		}
		if until = opens(i, line); until != nil {
			m.hidden[i] = true
		}
	}
}

// opens gives the test for the last line of what begins here, nil where nothing does.
func opens(i int, line string) func(string) bool {
	if i == 0 && squeezed(line) == "---" {
		return func(s string) bool { return squeezed(s) == "---" || squeezed(s) == "..." }
	}
	if mark := fenceOpen().FindStringSubmatch(line); mark != nil {
		closing := regexp.MustCompile("^ {0,3}" + mark[1] + mark[1][:1] + "*" + blank + "*$")
		return closing.MatchString
	}
	if commentOpen().MatchString(line) && !strings.Contains(line, "-->") {
		return func(s string) bool { return strings.Contains(s, "-->") }
	}
	return nil
}

// handoffMode is what the front matter says, between lines "---".
func (m *markdown) handoffMode() (string, error) {
	mode := ""
	parts := strings.Split(strings.ReplaceAll(m.String(), "\r\n", "\n"), "\n")
	if strings.TrimRight(parts[0], " \t") != "---" {
		return "legacy", nil
	}
	end := slices.IndexFunc(parts[1:], func(s string) bool { return strings.TrimRight(s, " \t") == "---" })
	if end < 0 {
		return "", fileDefect("format", "front matter", "it never ends")
	}
	for _, line := range parts[1 : end+1] {
		key, said, found := strings.Cut(line, ":")
		if !found || squeezed(key) != "handoff_mode" {
			continue
		}
		mode = strings.Trim(said, " \t")
		if v, err := parse(mode); err == nil && v.kind == text {
			mode = v.str
		}
		mode = strings.Trim(mode, `"`)
	}
	switch mode {
	case "":
		return "legacy", nil
	case "legacy", "soft_claim", "hard_lease":
		return mode, nil
	}
	return "", fileDefect("format", "handoff_mode", "it is none that LoopX knows")
}

// todoRow is one Todo with the lines it stands on: from is the first, to is behind the last.
type todoRow struct {
	from, to int
	role     string // of its section
	archived bool
	status   string
	text     string
	fields   map[string]*value
	unsure   map[string]bool
	id       string
}

// headings are what LoopX looks for in the heading of a section, in this order.
var headings = []struct {
	role  string
	marks []string
}{
	{"archive", []string{"todo archive", "work archive", "completed archive", "completed work", "完成归档", "待办归档"}},
	{"user", []string{"user todo", "owner review reading queue", "owner reading queue"}},
	{"agent", []string{"agent todo", "codex todo", "project agent todo"}},
}

// sectionRole looks for LoopX's marks in a heading; an archive is looked for first.
func sectionRole(heading string) string {
	heading = strings.ToLower(heading)
	for _, h := range headings {
		for _, mark := range h.marks {
			if strings.Contains(heading, mark) {
				return h.role
			}
		}
	}
	return ""
}

// Beyond is what this reader of legacy files does not know to read: nothing is said
// about such files.
type Beyond struct{ What string }

// Error says what it is.
func (b *Beyond) Error() string { return "beyond the witness: " + b.What }

// sections says for each line in which Todo section it stands; "" is none. A file with
// marked regions has its Todos in those alone.
func (m *markdown) sections() ([]string, error) {
	roles, role, marked := make([]string, len(m.lines)), "", false
	for i, line := range m.lines {
		marked = marked || !m.hidden[i] && strings.Contains(line, anyMarker)
	}
	for i, line := range m.lines {
		if m.hidden[i] {
			roles[i] = role
			continue
		}
		heading, is := strings.CutPrefix(line, "## ")
		begins := i+1 < len(m.lines) && strings.Contains(m.lines[i+1], anyMarker)
		switch {
		case marked && is && !begins && sectionRole(heading) != "":
			return nil, &Beyond{"the state file has marked and unmarked Todo sections"}
		case marked && strings.Contains(line, anyMarker):
			found := marker().FindStringSubmatch(line)
			if found == nil || (found[2] == "begin") != (role == "") || role != "" && role != found[1] {
				return nil, fileDefect("format", "line "+itoa(i+1), "a region marker does not fit")
			}
			if role = found[1]; found[2] == "end" {
				role = ""
			}
		case marked && is && role != "":
			return nil, fileDefect("format", "line "+itoa(i+1), "a heading stands in a marked region")
		case is && !marked:
			role = sectionRole(heading)
		default:
			roles[i] = role
		}
	}
	if marked && role != "" {
		return nil, fileDefect("format", "region", "it never ends")
	}
	return roles, nil
}

// todoRows are all Todos in file order.
func (m *markdown) todoRows() ([]*todoRow, error) {
	roles, err := m.sections()
	if err != nil {
		return nil, err
	}
	var rows []*todoRow
	var open *todoRow
	for i, line := range m.lines {
		if roles[i] == "" || m.hidden[i] {
			open = nil
			continue
		}
		if t := taskLine().FindStringSubmatch(line); t != nil {
			status := map[string]string{" ": "open", "x": "done", "X": "done", "-": "deferred"}[t[1]]
			open = &todoRow{from: i, to: i + 1, role: roles[i], archived: roles[i] == "archive", status: status, text: squeezed(t[2]),
				fields: map[string]*value{}, unsure: map[string]bool{}}
			rows = append(rows, open)
			continue
		}
		if open != nil && (strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")) && squeezed(line) != "" {
			open.to = i + 1
			open.add(line)
		}
	}
	return rows, nil
}

// add takes an indented line: metadata where a key of it has a value, else more text.
func (t *todoRow) add(line string) {
	values, unsure := metadata(line)
	if len(values)+len(unsure) == 0 {
		t.text = squeezed(t.text + " " + line)
		return
	}
	for key, v := range values {
		t.fields[key] = v
		delete(t.unsure, key)
	}
	for _, key := range unsure {
		t.unsure[key] = true
	}
	if status := t.fields["status"].string0(); status != "" {
		t.status = status
	}
}

// string0 is the text of a value, empty for none.
func (v *value) string0() string {
	if v == nil || v.kind != text {
		return ""
	}
	return v.str
}

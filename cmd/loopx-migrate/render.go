package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/loopx-project/loopx-migrate/cutover"
)

// resultSchema of the JSON object that --output json prints.
const resultSchema = "loopx_migrate_result_v1"

// timeShown is how tables print a moment, which is UTC.
const timeShown = "2006-01-02 15:04:05"

// answer is what a command has to say, to people and to machines.
type answer struct {
	Command  string
	Status   string
	Sentence string
	Facts    map[string]any // for machines: no path, no record's text, no credential
	blocks   []block        // for people
	raw      []byte         // instead of blocks: text that is to be printed as it is
	next     []string       // arguments of the command to run next
	alone    bool           // next stands without the global flags
	refusal  *cutover.Refusal
	cause    error
	goal     string
	color    string
}

// fact adds a fact. Empty ones say nothing and are left out.
func (a *answer) fact(name string, value any) {
	if m, ok := value.(map[string]any); value == nil || value == "" || ok && len(m) == 0 {
		return
	}
	if a.Facts == nil {
		a.Facts = map[string]any{}
	}
	a.Facts[name] = value
}

func (a *answer) show(b ...block) { a.blocks = append(a.blocks, b...) }

func (a *answer) exit() int {
	if a.refusal == nil {
		return 0
	}
	return int(a.refusal.Kind)
}

// block is one table: with a head, or plain pairs of name and value without one.
type block struct {
	title string
	head  []string
	rows  []row
}

// row is one line of a table. Failing rows are printed first, in their order.
type row struct {
	cells   []string
	failing bool
}

func pairs(title string, cells ...string) block {
	b := block{title: title}
	for i := 0; i+1 < len(cells); i += 2 {
		if cells[i+1] != "" {
			b.rows = append(b.rows, row{cells: []string{cells[i], cells[i+1]}})
		}
	}
	return b
}

// print writes an answer once, whole: on stdout the object or the tables, on stderr
// what went wrong.
func (e *env) print(a *answer, mode string) error {
	var out bytes.Buffer
	if mode == outputJSON {
		if err := e.encode(&out, a); err != nil {
			return err
		}
		_, err := e.stdout.Write(out.Bytes())
		return err
	}
	if err := e.tables(&out, a); err != nil {
		return err
	}
	if _, err := e.stdout.Write(out.Bytes()); err != nil && !isBrokenPipe(err) {
		return err
	}
	return e.complain(a)
}

// encode writes the object of --output json.
func (e *env) encode(out io.Writer, a *answer) error {
	type next struct {
		Argv  []string `json:"argv"`
		Shell string   `json:"shell"`
	}
	object := struct {
		SchemaVersion string         `json:"schema_version"`
		Command       string         `json:"command"`
		Status        string         `json:"status"`
		ReasonCode    string         `json:"reason_code"`
		Sentence      string         `json:"sentence"`
		Exit          int            `json:"exit"`
		Facts         map[string]any `json:"facts"`
		Next          *next          `json:"next"`
	}{resultSchema, a.Command, a.Status, statusDone, a.Sentence, a.exit(), a.Facts, nil}
	if object.Facts == nil {
		object.Facts = map[string]any{}
	}
	if a.goal != "" {
		object.Facts["goal_id"] = a.goal
	}
	if a.Status == statusPreview {
		object.ReasonCode = statusPreview
	}
	if r := a.refusal; r != nil {
		object.ReasonCode, object.Sentence = r.Reason, r.Sentence
	}
	if len(a.next) > 0 {
		argv := e.nextLine(a)
		object.Next = &next{argv, shellLine(argv)}
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(object)
}

// tables writes an answer for people. The line to run next comes last.
func (e *env) tables(out *bytes.Buffer, a *answer) error {
	if a.raw != nil {
		out.Write(a.raw)
		return nil
	}
	fancy := terminal(e.stdout)
	for i, b := range a.blocks {
		if i > 0 {
			out.WriteByte('\n')
		}
		if b.title != "" {
			fmt.Fprintln(out, paint(bold, b.title, wantColor(a.color, fancy)))
		}
		if err := b.render(out, fancy); err != nil {
			return err
		}
	}
	if a.refusal != nil {
		return nil
	}
	if a.Sentence != "" {
		fmt.Fprintf(out, "\n%s\n", a.Sentence)
	}
	if len(a.next) > 0 {
		fmt.Fprintf(out, "\nnext:\n  %s\n", shellLine(e.nextLine(a)))
	}
	return nil
}

// complain says on stderr what was found, where, what was not changed and what to
// do next. The cause may name a path: this is the operator's own terminal.
func (e *env) complain(a *answer) error {
	r := a.refusal
	if r == nil {
		return nil
	}
	var b strings.Builder
	color := wantColor(a.color, terminal(e.stderr))
	fmt.Fprintf(&b, "%s %s (exit %d)\n", paint(red, strings.ToUpper(a.Status), color), r.Reason, int(r.Kind))
	fmt.Fprintf(&b, "  found        %s\n", r.Sentence)
	if r.Err != nil {
		fmt.Fprintf(&b, "               %v\n", r.Err)
	}
	if where := whereLine(a); where != "" {
		fmt.Fprintf(&b, "  where        %s\n", where)
	}
	if len(a.blocks) == 0 {
		for _, h := range r.Holds {
			fmt.Fprintf(&b, "  hold         %s %s: %s\n", h.Code, h.Record, h.Detail)
		}
	}
	fmt.Fprintf(&b, "  not changed  %s\n", kinds[r.Kind].unchanged)
	if len(a.next) > 0 {
		fmt.Fprintf(&b, "  next         %s\n", shellLine(e.nextLine(a)))
	}
	_, err := io.WriteString(e.stderr, b.String())
	return err
}

func whereLine(a *answer) string {
	var parts []string
	if a.goal != "" {
		parts = append(parts, "goal "+a.goal)
	}
	where, _ := a.Facts["where"].(map[string]any)
	for _, key := range []string{"store", "cursor", "operation_id", "field", "holder_pid"} {
		if value, there := where[key]; there {
			parts = append(parts, fmt.Sprintf("%s %v", strings.ReplaceAll(key, "_", " "), value))
		}
	}
	return strings.Join(parts, ", ")
}

// width is what tables fit into on a terminal.
const width = 80

// render prints a table: ruled and wrapped on a terminal, one plain line a row in a
// pipe, so that a pipe can be searched line by line.
func (b block) render(out *bytes.Buffer, fancy bool) error {
	rendition := tw.Rendition{Borders: tw.BorderNone, Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone}}
	if fancy && b.head != nil {
		rendition = tw.Rendition{Symbols: tw.NewSymbols(tw.StyleLight)}
	}
	options := []tablewriter.Option{
		tablewriter.WithRenderer(renderer.NewBlueprint(rendition)),
		tablewriter.WithHeaderAutoFormat(tw.Off), // todo_id must stay todo_id
		tablewriter.WithHeaderAlignment(tw.AlignLeft), tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone), tablewriter.WithRowAutoWrap(tw.WrapNone),
	}
	if !fancy || b.head == nil {
		options = append(options, tablewriter.WithPadding(tw.Padding{Left: "", Right: "  ", Overwrite: true}))
	}
	head, rows := b.head, b.ordered()
	if fancy {
		whole, each := b.framing()
		head, rows = fit(head, rows, whole, each)
	}
	var text bytes.Buffer
	table := tablewriter.NewTable(&text, options...)
	if head != nil {
		table.Header(head)
	}
	for _, r := range rows {
		if err := table.Append(r); err != nil {
			return err
		}
	}
	if err := table.Render(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if b.head == nil {
			out.WriteString("  ")
		}
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return nil
}

// ordered returns the rows with failing ones first.
func (b block) ordered() [][]string {
	var failing, fine [][]string
	for _, r := range b.rows {
		if r.failing {
			failing = append(failing, r.cells)
		} else {
			fine = append(fine, r.cells)
		}
	}
	return append(failing, fine...)
}

// framing is what a table adds to its columns: for the whole, and for each.
func (b block) framing() (whole, each int) {
	if b.head == nil {
		return 2, 2
	}
	return 1, 3
}

// fit wraps cells so that the whole table is at most width wide: the widest column
// gives way first.
func fit(head []string, rows [][]string, whole, each int) ([]string, [][]string) {
	var widths []int
	for _, cells := range append([][]string{head}, rows...) {
		for column, cell := range cells {
			if column == len(widths) {
				widths = append(widths, 2) // a wide rune needs as much
			}
			widths[column] = max(widths[column], twwidth.Width(cell))
		}
	}
	total := whole
	for _, w := range widths {
		total += w + each
	}
	for ; total > width; total-- {
		widest := 0
		for column := range widths {
			if widths[column] > widths[widest] {
				widest = column
			}
		}
		widths[widest]--
	}
	wrapped := func(cells []string) []string {
		narrow := make([]string, len(cells))
		for column, cell := range cells {
			narrow[column] = wrap(cell, widths[column])
		}
		return narrow
	}
	for i := range rows {
		rows[i] = wrapped(rows[i])
	}
	if head != nil {
		head = wrapped(head)
	}
	return head, rows
}

// wrap breaks text at spaces, and inside a word only when the word alone is too long.
func wrap(text string, limit int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for twwidth.Width(word) > limit {
			piece := fitting(word, limit)
			lines = append(lines, line, piece)
			line, word = "", word[len(piece):]
		}
		if line != "" && twwidth.Width(line)+1+twwidth.Width(word) > limit {
			lines, line = append(lines, line), word
			continue
		}
		line = strings.TrimSpace(line + " " + word)
	}
	lines = append(lines, line)
	kept := lines[:0]
	for _, l := range lines {
		if l != "" {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

// fitting is the beginning of a word that is at most limit wide, and at least one rune.
func fitting(word string, limit int) string {
	end := 0
	for end < len(word) {
		_, size := utf8.DecodeRuneInString(word[end:])
		if end > 0 && twwidth.Width(word[:end+size]) > limit {
			break
		}
		end += size
	}
	return word[:end]
}

const (
	bold = "\x1b[1m"
	red  = "\x1b[31m"
)

func paint(code, text string, wanted bool) string {
	if !wanted {
		return text
	}
	return code + text + "\x1b[0m"
}

// wantColor follows --color; auto means a terminal and no NO_COLOR (no-color.org).
func wantColor(choice string, terminal bool) bool {
	switch choice {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && os.Getenv("NO_COLOR") == ""
}

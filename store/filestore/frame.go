package filestore

import (
	"bytes"
	"context"
	"os"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// The schema_version of the two formats.
const (
	schemaV0 = "loopx_file_authority_store_v0"
	schemaV1 = "loopx_file_authority_store_v1"
)

// formats maps schema_version to format.
var formats = map[string]authority.Format{schemaV0: authority.FormatFileV0, schemaV1: authority.FormatFileV1}

// document is an open journal. Its file may be replaced meanwhile; what is read
// here is the file that was opened.
type document struct {
	file     *os.File
	goal     string
	identity authority.Identity
	size     int64
	modified time.Time
	frame
}

func (d *document) close() {
	// Nothing was written through this descriptor, so that closing cannot lose anything.
	_ = d.file.Close()
}

// frame says where the parts of a document stand.
type frame struct {
	respelled bool // not LoopX's own spelling, as far as the frame shows
	rows      span // between the brackets of `committed`
	header    header
}

// header is the document without its rows.
type header struct {
	format   authority.Format
	revision string
	cursor   string
	head     authority.Canonical
}

// rowsOpen is how a document in canonical form begins.
const rowsOpen = `{"committed":[`

// canonicalFrame finds the frame of a document in LoopX's own spelling without
// reading the rows: the header follows them, and nothing that can stand in a row
// looks like a header that reaches the end of the file. It says false when the
// document is not spelled so, or is wrong in any way.
func (d *document) canonicalFrame(ctx context.Context) (frame, bool) {
	none := frame{}
	closing := []byte(`,"store_identity":` + string(canonical.AppendString(nil, string(d.identity))) + `}`)
	if !d.has(0, []byte(rowsOpen)) || !d.has(d.size-int64(len(closing)), closing) {
		return none, false
	}
	mark := append([]byte(`","goal_id":`), canonical.AppendString(nil, d.goal)...)
	mark = append(mark, `,"head":`...)
	for before := d.size; ctx.Err() == nil; {
		at, ok := d.lastIndex(mark, before)
		if !ok {
			return none, false
		}
		if f, ok := d.canonicalHeader(at, mark, closing); ok {
			return f, true
		}
		before = at + int64(len(mark)) - 1
	}
	return none, false
}

// has reports whether text stands at offset.
func (d *document) has(offset int64, text []byte) bool {
	got := make([]byte, len(text))
	if offset < 0 {
		return false
	}
	n, _ := d.file.ReadAt(got, offset) // an error shows in what is missing
	return bytes.Equal(got[:n], text)
}

// lastIndex finds the last mark that ends at or before an offset.
func (d *document) lastIndex(mark []byte, before int64) (int64, bool) {
	const block = 256 << 10
	buf := make([]byte, block)
	for end := before; end >= int64(len(mark)); end -= block - int64(len(mark)) {
		start := max(0, end-block)
		n, _ := d.file.ReadAt(buf[:end-start], start) // an error shows in what is missing
		if i := bytes.LastIndex(buf[:n], mark); i >= 0 {
			return start + int64(i), true
		}
		if start == 0 {
			break
		}
	}
	return 0, false
}

// canonicalHeader reads what would be the header around a mark.
func (d *document) canonicalHeader(at int64, mark, closing []byte) (frame, bool) {
	none := frame{}
	const longest = 64 // no cursor that counts rows is longer
	before := make([]byte, min(at, longest))
	if _, err := d.file.ReadAt(before, at-int64(len(before))); err != nil {
		return none, false
	}
	open := bytes.LastIndex(before, []byte(`],"cursor":"`))
	if open < 0 {
		return none, false
	}
	after := make([]byte, d.size-at-int64(len(mark)))
	if _, err := d.file.ReadAt(after, at+int64(len(mark))); err != nil {
		return none, false
	}
	f := frame{rows: span{int64(len(rowsOpen)), at - int64(len(before)-open)}}
	f.header.cursor = string(before[open+len(`],"cursor":"`):])
	f.header.head = after[:canonical.Skip(after):canonical.Skip(after)]
	rest := after[len(f.header.head):]
	revision, rest, ok1 := literalAfter(rest, `,"provider_revision":`)
	schema, rest, ok2 := literalAfter(rest, `,"schema_version":`)
	f.header.revision, f.header.format = revision, formats[schema]
	ok := ok1 && ok2 && bytes.Equal(rest, closing) && f.header.format != "" && isCursor(f.header.cursor) &&
		canonical.ValidID(revision) && canonical.Kind(f.header.head) == canonical.Object && canonical.Check(f.header.head) == nil
	return f, ok
}

// literalAfter takes a name and the string that follows it off text.
func literalAfter(text []byte, name string) (value string, rest []byte, ok bool) {
	text, ok = bytes.CutPrefix(text, []byte(name))
	if !ok || canonical.Kind(text) != canonical.String {
		return "", text, false
	}
	n := canonical.Skip(text)
	value, err := canonical.ParseString(text[:n])
	return value, text[n:], err == nil && canonical.Check(text[:n]) == nil
}

// outline is the top level of a document in any spelling: where the value of
// each of the seven keys stands. Of a repeated key it is the last.
type outline struct {
	members   map[string]span
	unknown   bool   // another key is there
	repeated  string // a key that is there twice
	notObject bool   // the document is a list, a string or the like: where it stands
	whole     span
}

// documentKeys are the seven keys of a document.
var documentKeys = map[string]bool{
	"schema_version": true, "goal_id": true, "store_identity": true, "provider_revision": true,
	"cursor": true, "head": true, "committed": true,
}

// outline reads the top level of the document, all of it. Errors are of reading,
// or *canonical.SyntaxError.
func (d *document) outline(ctx context.Context) (outline, error) {
	o := outline{members: map[string]span{}}
	w := newWindow(d.file, span{0, d.size})
	first, err := w.blanks()
	if err != nil {
		return o, err
	}
	if first == '{' {
		w.pos++
		err = o.object(ctx, w)
	} else {
		o.notObject = true
		o.whole, err = w.pass()
	}
	if err != nil {
		return o, err
	}
	if _, err := w.blanks(); err != nil {
		return o, err
	}
	if w.offset() != d.size {
		return o, w.broken("unexpected text after the document")
	}
	return o, nil
}

func (o *outline) object(ctx context.Context, w *window) error {
	c, err := w.blanks()
	if err != nil {
		return err
	}
	if c == '}' {
		w.pos++
		return nil
	}
	for {
		if err := o.member(w); err != nil {
			return err
		}
		c, err := w.blanks()
		if err != nil {
			return err
		}
		if c != ',' && c != '}' {
			return w.broken("expected a comma or a closing bracket")
		}
		w.pos++
		if c == '}' {
			return ctx.Err()
		}
	}
}

func (o *outline) member(w *window) error {
	if c, err := w.blanks(); err != nil || c != '"' {
		return joinBroken(err, w, "expected a key")
	}
	literal, err := w.value()
	if err != nil {
		return err
	}
	key, err := canonical.ParseString(literal)
	if err != nil {
		return err
	}
	if c, err := w.blanks(); err != nil || c != ':' {
		return joinBroken(err, w, "expected a colon")
	}
	w.pos++
	if _, err := w.blanks(); err != nil {
		return err
	}
	place, err := w.pass()
	if err == nil && place.start == place.end {
		err = w.broken("expected a value")
	}
	if !documentKeys[key] {
		o.unknown = true
		return err
	}
	if _, twice := o.members[key]; twice {
		o.repeated = key
	}
	o.members[key] = place
	return err
}

func joinBroken(err error, w *window, reason string) error {
	if err != nil {
		return err
	}
	return w.broken(reason)
}

// value reads one value of the document in canonical form.
func (d *document) value(at span) (authority.Canonical, error) {
	text := make([]byte, at.end-at.start)
	if _, err := d.file.ReadAt(text, at.start); err != nil {
		return nil, unreadable(err)
	}
	value, err := canonical.Append(nil, text)
	if err != nil {
		return nil, ofJSON(err)
	}
	return value, nil
}

// frameOf makes the checks of a document's header, in LoopX's order.
func (d *document) frameOf(o outline) (frame, error) {
	f := frame{respelled: true}
	if o.notObject || o.unknown || len(o.members) != len(documentKeys) {
		return f, violation("file authority store schema mismatch")
	}
	schema, err := d.text(o.members["schema_version"])
	if err != nil {
		return f, err
	}
	if f.header.format = formats[schema]; f.header.format == "" {
		return f, violation("file authority store schema mismatch").at(0, "schema_version")
	}
	if goal, err := d.text(o.members["goal_id"]); err != nil || goal != d.goal {
		return f, orElse(err, violation("file authority store goal mismatch").at(0, "goal_id"))
	}
	if identity, err := d.text(o.members["store_identity"]); err != nil || identity != string(d.identity) {
		return f, orElse(err, violation("file authority store lineage mismatch").at(0, "store_identity"))
	}
	if f.header.revision, err = d.text(o.members["provider_revision"]); err != nil || !canonical.ValidID(f.header.revision) {
		return f, orElse(err, violation("provider revision must be a non-empty trimmed string").at(0, "provider_revision"))
	}
	if f.header.cursor, err = d.text(o.members["cursor"]); err != nil || !canonical.ValidID(f.header.cursor) {
		return f, orElse(err, violation("provider cursor must be a non-empty trimmed string").at(0, "cursor"))
	}
	return d.headAndRows(o, f)
}

func (d *document) headAndRows(o outline, f frame) (frame, error) {
	var err error
	if f.header.head, err = d.value(o.members["head"]); err != nil {
		return f, err
	}
	if canonical.Kind(f.header.head) != canonical.Object {
		return f, violation("file authority store head must be an object").at(0, "head")
	}
	rows := o.members["committed"]
	if !d.has(rows.start, []byte("[")) {
		return f, violation("file authority store history is invalid").at(0, "committed")
	}
	f.rows = span{rows.start + 1, rows.end - 1}
	return f, nil
}

// text reads a string, "" when the value is not one.
func (d *document) text(at span) (string, error) {
	value, err := d.value(at)
	if err != nil || canonical.Kind(value) != canonical.String {
		return "", err
	}
	return canonical.ParseString(value)
}

// orElse returns err, or the refusal when there is none.
func orElse(err error, refusal *refusal) error {
	if err != nil {
		return err
	}
	return refusal
}

package filestore

import (
	"bytes"
	"errors"
	"io"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// checkpointEvery is the distance of checkpoints in format v1.
const checkpointEvery = 64

// isCheckpoint reports whether format v1 holds the whole projection at a cursor.
func isCheckpoint(cursor authority.Cursor) bool { return cursor%checkpointEvery == 1 }

// elements walks the elements of `committed`, whatever their spelling.
type elements struct {
	*window
	strict bool // blanks are not skipped
	first  bool // no comma stands before the next element
	last   int  // length of the newest element, by which the next is expected
}

func (d *document) elements(from int64) *elements {
	return &elements{
		window: newWindow(d.file, span{from, d.rows.end}),
		strict: !d.respelled,
		first:  true,
	}
}

// skip returns the next byte, after blanks where they may be.
func (e *elements) skip() (byte, error) {
	if e.strict {
		return e.peek()
	}
	return e.blanks()
}

// toNext stands the window at the next element; io.EOF when there is none.
func (e *elements) toNext() error {
	c, err := e.skip()
	if err != nil {
		return err
	}
	if e.offset() == e.end {
		return io.EOF
	}
	if e.first {
		e.first = false
		return nil
	}
	if c != ',' {
		return e.broken("expected a comma or a closing bracket")
	}
	e.pos++
	if _, err = e.skip(); err == nil && e.offset() == e.end {
		err = e.broken("expected a value")
	}
	return err
}

// next returns the next element as it is spelled, valid until the window moves.
func (e *elements) next() ([]byte, span, error) {
	if err := e.toNext(); err != nil {
		return nil, span{}, err
	}
	e.expectOne()
	return e.current()
}

// expectOne brings in as much as the next element is likely to have.
func (e *elements) expectOne() { e.ensure(e.last + e.last/8) }

// current returns the element that the window stands at.
func (e *elements) current() ([]byte, span, error) {
	start := e.offset()
	element, err := e.value()
	e.last = len(element)
	return element, span{start, start + int64(len(element))}, err
}

// errGiveUp ends a pass over a document whose defect diagnose will name, if it has one.
var errGiveUp = errors.New("the document is not what this pass reads")

// cutter makes rows of the elements of a document, one by one: canonical text,
// and in format v1 the projections replayed.
type cutter struct {
	*elements
	format    authority.Format
	respelled bool
	next      authority.Cursor
	previous  string // revision that the newest row claims
	unproved  bool   // no row was read before the next
	proved    bool   // the document was proved and is the same: the form of its rows is not looked at
	tracker   canonical.Tracker
	rebuild   *rebuilder
	state     *canonical.State // format v1: the newest projection
	mark      []byte
	length    int   // format v0: of the newest projection
	covering  int64 // format v1: where the newest checkpoint stands
}

func newCutter(d *document, from start) *cutter {
	c := &cutter{format: d.header.format, respelled: d.respelled, next: from.cursor, unproved: from.cursor > 1}
	c.elements = d.elements(from.offset)
	if from.cursor == 1 {
		c.elements = d.elements(d.rows.start)
	}
	return c
}

// start is where a pass begins: at row 1, or at a row whose place is remembered.
type start struct {
	cursor authority.Cursor
	offset int64 // of the element; of no meaning for cursor 1
}

// cut makes the next row, its text held by arena; io.EOF when there is none.
func (c *cutter) cut(arena *[]byte) (*row, error) {
	r := &row{place: c.next, previous: c.previous, unproved: c.unproved}
	var err error
	if c.format == authority.FormatFileV0 && !c.respelled {
		err = c.cutPlain(r, arena)
	} else {
		err = c.cutAny(r, arena)
	}
	if err != nil {
		return nil, err
	}
	c.next, c.unproved = c.next+1, false
	if c.previous, err = canonical.ParseString(r.revision); err != nil {
		return nil, errGiveUp
	}
	return r, nil
}

// keep copies text into the arena. Older slices of the arena stay valid when it
// grows, since they keep the array they were cut from.
func keep(arena *[]byte, text []byte) []byte {
	start := len(*arena)
	*arena = append(*arena, text...)
	return (*arena)[start:len(*arena):len(*arena)]
}

// cutAny cuts an element of any format and spelling.
func (c *cutter) cutAny(r *row, arena *[]byte) error {
	if err := c.toNext(); err != nil {
		return err
	}
	c.expectOne()
	if c.respelled && c.format == authority.FormatFileV0 && c.rebuilt(r, arena) {
		return nil
	}
	raw, at, err := c.current()
	if err != nil {
		return err
	}
	r.span = at
	if err := c.whole(r, raw, arena); err != nil || c.format == authority.FormatFileV0 {
		return err
	}
	return c.replay(r, arena)
}

// rebuilt cuts a v0 element by what the one before was, if that can be done.
func (c *cutter) rebuilt(r *row, arena *[]byte) bool {
	if c.rebuild == nil {
		c.rebuild = newRebuilder()
	}
	e, length, ok := c.rebuild.entry(c.rest(), arena, &r.odd)
	if !ok {
		return false
	}
	r.entry, r.strange = e, e.state != nil
	r.span = span{c.offset(), c.offset() + int64(length)}
	c.take(length)
	c.last = length
	return true
}

// whole brings an element into canonical form and takes it apart.
func (c *cutter) whole(r *row, raw []byte, arena *[]byte) error {
	var err error
	if r.odd, err = canonical.Inspect(raw); err != nil {
		return err
	}
	if r.odd.Respelled && !c.respelled {
		return errGiveUp
	}
	built := len(*arena)
	if *arena, err = canonical.Append(*arena, raw); err != nil {
		return err
	}
	r.entry = parseEntry((*arena)[built:len(*arena):len(*arena)])
	if c.format == authority.FormatFileV0 {
		r.strange = r.strange || r.entry.state != nil
	} else {
		r.strange = r.strange || r.entry.projection != nil
	}
	return nil
}

// replay turns the state of a v1 entry into its projection.
func (c *cutter) replay(r *row, arena *[]byte) error {
	if isCheckpoint(r.place) {
		projection, ok := stateOf(r.entry.state, "checkpoint", "projection")
		if !ok {
			return r.at(violation("file authority store checkpoint is missing or invalid"), "state")
		}
		r.projection, c.covering = projection, r.span.start
		// A projection that is no object is refused when the row is checked, and
		// the first delta after it is refused here.
		c.state, _ = canonical.NewState(bytes.Clone(projection))
		return nil
	}
	text, ok := stateOf(r.entry.state, "delta", "delta")
	if !ok {
		return r.at(violation("file authority store delta is missing or invalid"), "state")
	}
	return c.step(r, text, arena)
}

// step replays a delta on the newest projection.
func (c *cutter) step(r *row, text []byte, arena *[]byte) error {
	delta, err := canonical.ParseDelta(text)
	if err == nil && c.state == nil {
		err = errGiveUp
	}
	if err == nil {
		err = c.state.Apply(delta)
	}
	if err != nil {
		return r.at(ofDelta(err), "state.delta")
	}
	built := len(*arena)
	*arena = c.state.AppendTo(*arena)
	r.projection = (*arena)[built:len(*arena):len(*arena)]
	return nil
}

// ofDelta is what a delta that cannot be read or replayed comes to.
func ofDelta(err error) *refusal {
	var delta *canonical.DeltaError
	if errors.As(err, &delta) {
		return violation(delta.Reason).because(err)
	}
	return ofJSON(err)
}

// stateOf takes the value out of {"kind":kind,name:value}, which must have
// exactly these keys.
func stateOf(state []byte, kind, name string) (value []byte, ok bool) {
	if canonical.Kind(state) != canonical.Object {
		return nil, false
	}
	members, rightKind := 0, false
	for key, member := range canonical.Members(state) {
		members++
		switch key {
		case "kind":
			rightKind = string(member) == `"`+kind+`"`
		case name:
			value = member
		}
	}
	return value, rightKind && value != nil && members == 2
}

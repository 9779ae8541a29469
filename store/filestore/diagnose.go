package filestore

import (
	"context"
	"errors"
	"io"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// diagnose reads a document that a pass gave up on, plainly and in LoopX's order
// of checks (stores.md 2.4 and 2.6), and returns the refusal that LoopX would
// give; nil when there is nothing to refuse.
func (d *document) diagnose(ctx context.Context) error {
	o, err := d.outline(ctx)
	if err != nil {
		return diagnosed(err)
	}
	if err := d.syntax(ctx, o); err != nil {
		return diagnosed(err)
	}
	if d.frame, err = d.frameOf(o); err != nil {
		return diagnosed(err)
	}
	if d.header.format == authority.FormatFileV1 {
		return diagnosed(d.diagnoseV1(ctx))
	}
	return diagnosed(d.diagnoseV0(ctx))
}

// diagnosed is an error of a plain reading as a refusal.
func diagnosed(err error) error {
	var r *refusal
	var syntax *canonical.SyntaxError
	switch {
	case err == nil, errors.As(err, &r), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &syntax):
		return ofJSON(err)
	}
	return unreadable(err)
}

// largestScalar bounds what is read of a document that is no object, and so no
// journal whatever its syntax.
const largestScalar = 64 << 20

// syntax proves that the whole document is JSON. What only the later checks
// refuse, numbers out of range and too deep a nesting, passes.
func (d *document) syntax(ctx context.Context, o outline) error {
	if o.notObject {
		if o.whole.end-o.whole.start > largestScalar {
			return nil
		}
		return d.syntaxOf(o.whole)
	}
	for key, at := range o.members {
		if key == "committed" && d.has(at.start, []byte("[")) {
			continue
		}
		if err := d.syntaxOf(at); err != nil {
			return err
		}
	}
	rows, listed := o.members["committed"]
	if !listed || !d.has(rows.start, []byte("[")) {
		return nil
	}
	d.frame = frame{respelled: true, rows: span{rows.start + 1, rows.end - 1}}
	return d.each(ctx, func(_ authority.Cursor, raw []byte, _ span) error { return syntaxOnly(raw) })
}

func (d *document) syntaxOf(at span) error {
	text := make([]byte, at.end-at.start)
	if _, err := d.file.ReadAt(text, at.start); err != nil {
		return err
	}
	return syntaxOnly(text)
}

func syntaxOnly(text []byte) error {
	_, err := canonical.Inspect(text)
	var syntax *canonical.SyntaxError
	if errors.As(err, &syntax) {
		return err
	}
	return nil
}

// each shows the elements of `committed` as they are spelled.
func (d *document) each(ctx context.Context, see func(authority.Cursor, []byte, span) error) error {
	e := d.elements(d.rows.start)
	for place := authority.Cursor(1); ; place++ {
		raw, at, err := e.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := see(place, raw, at); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// decodeV0 makes the checks of one entry by itself.
func decodeV0(place authority.Cursor, raw []byte) (*row, error) {
	r := &row{place: place}
	text, err := canonical.Append(nil, raw)
	if err != nil {
		return nil, r.at(ofJSON(err), "")
	}
	r.entry = parseEntry(text)
	r.strange = r.strange || r.entry.state != nil
	return r, r.check()
}

// diagnoseV0 decodes every entry before it looks at how they hang together.
func (d *document) diagnoseV0(ctx context.Context) error {
	rows := authority.Cursor(0)
	err := d.each(ctx, func(place authority.Cursor, raw []byte, _ span) error {
		rows = place
		_, err := decodeV0(place, raw)
		return err
	})
	if err == nil {
		err = countIs(d.header, rows)
	}
	if err != nil {
		return err
	}
	chain := newChain(d)
	err = d.each(ctx, func(place authority.Cursor, raw []byte, _ span) error {
		r, err := decodeV0(place, raw)
		if err != nil {
			return err
		}
		return chain.add(r)
	})
	if err != nil {
		return err
	}
	return headMatches(d.header, chain.previous, chain.projection)
}

// diagnoseV1 goes row by row: state, replay, decoding, cursor, operation, revision.
func (d *document) diagnoseV1(ctx context.Context) error {
	rows := authority.Cursor(0)
	err := d.each(ctx, func(place authority.Cursor, _ []byte, _ span) error { rows = place; return nil })
	if err == nil {
		err = countIs(d.header, rows)
	}
	if err != nil {
		return err
	}
	chain := newChain(d)
	replayer := cutter{format: authority.FormatFileV1}
	err = d.each(ctx, func(place authority.Cursor, raw []byte, at span) error {
		r := &row{place: place, span: at}
		text, err := canonical.Append(nil, raw)
		if err != nil {
			return r.at(ofJSON(err), "")
		}
		r.entry = parseEntry(text)
		r.strange = r.strange || r.entry.projection != nil
		if canonical.Kind(text) != canonical.Object {
			return r.check()
		}
		var arena []byte
		if err := replayer.replay(r, &arena); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
		return chain.add(r)
	})
	if err != nil {
		return err
	}
	return headMatches(d.header, chain.previous, chain.projection)
}

// chain is how rows hang together, checked one after the other.
type chain struct {
	seal       *sealer
	operations map[operationKey]bool
	previous   string
	projection []byte
}

func newChain(d *document) *chain {
	return &chain{seal: newSealer(d.goal, d.identity), operations: map[operationKey]bool{}}
}

func (c *chain) add(r *row) error {
	if err := r.inOrder(); err != nil {
		return err
	}
	key := keyOf(r.operationID)
	if c.operations[key] {
		return r.at(violation("file authority store operation identity is duplicated"), "operation_id")
	}
	c.operations[key] = true
	r.previous = c.previous
	if err := r.sealed(c.seal); err != nil {
		return err
	}
	c.previous, c.projection = r.claimed, r.projection
	return nil
}

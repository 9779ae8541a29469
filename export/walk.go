package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// walk is one proof of an archive, line by line.
type walk struct {
	verb  string
	lines *lineReader
	from  *authority.Bookmark
	visit func(authority.Row) error
	// opened is the header the file had when it was opened, nil while it is opened.
	opened *Header

	header     Header
	digest     authority.Digest // of the line before
	sealed     bool
	row        authority.Row // newest; of its slices only Projection stays valid
	spare      []byte        // the projection before it
	operations map[string]struct{}
	events     uint64
	receipts   uint64
	logical    *authority.LogicalHash
	again      record // the line as LoopX writes it
}

func newWalk(a *Archive, from *authority.Bookmark, visit func(authority.Row) error) *walk {
	if from != nil && from.Cursor == 0 {
		from = nil
	}
	w := &walk{
		verb: "audit", lines: a.lines(), from: from, visit: visit, opened: &a.header,
		operations: map[string]struct{}{},
	}
	w.logical = authority.NewLogicalHash()
	w.row.Projection = authority.Canonical("{}")
	return w
}

func (w *walk) run(ctx context.Context) error {
	if err := w.takeHeader(); err != nil {
		return err
	}
	if w.from != nil && w.from.Cursor > w.header.Cursor {
		return w.rewritten()
	}
	for !w.sealed {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.take(); err != nil {
			return err
		}
	}
	switch _, err := w.lines.next(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil && !isDefect(err):
		return w.refuse(err, place{})
	}
	return w.refuse(violation("", "something stands behind the seal"), place{})
}

func isDefect(err error) bool {
	var d *defect
	return errors.As(err, &d)
}

// place is what is known of the row at fault before it is taken.
type place struct {
	cursor    authority.Cursor
	operation string
}

// refuse places a defect; any other error is one of reading.
func (w *walk) refuse(err error, at place) error {
	var d *defect
	if !errors.As(err, &d) {
		return unreadable(w.verb, w.header.Goal, err)
	}
	return d.at(w.verb, w.header.Goal, w.lines.number, at.cursor, at.operation)
}

// takeHeader proves the first line.
func (w *walk) takeHeader() error {
	l, err := w.read()
	if err == nil {
		err = w.readHeader(l)
	}
	if err != nil {
		return w.refuse(err, place{})
	}
	w.digest = l.digest
	return nil
}

func (w *walk) read() (*line, error) {
	text, err := w.lines.next()
	if errors.Is(err, io.EOF) {
		return nil, violation("", "the archive is cut short: the seal is missing")
	}
	if err != nil {
		return nil, err
	}
	return parseLine(text)
}

func (w *walk) readHeader(l *line) error {
	if err := l.exactly("header"); err != nil {
		return err
	}
	h := Header{Goal: l.id("goal_id"), Kind: authority.Kind(l.text("source_provider")), Identity: authority.Identity(l.id("store_identity"))}
	h.Cursor, h.Revision = l.cursor(), authority.Revision(l.id("provider_revision"))
	h.Projection = l.sha256("projection_sha256")
	schema := l.text("schema_version")
	switch {
	case l.fault != nil:
		return l.fault
	case schema != archiveSchema:
		d := violation("schema_version", "the archive is not "+archiveSchema)
		d.Reason = authority.ReasonFormatUnsupported
		return d
	case h.Kind != authority.KindFile && h.Kind != authority.KindSQLite && h.Kind != authority.KindPostgreSQL:
		d := violation("source_provider", "the kind of store is not known here")
		d.Reason = authority.ReasonFormatUnsupported
		return d
	case !h.Identity.Valid(h.Kind):
		return violation("store_identity", "the identity is not one of such a store")
	}
	w.again.header(h)
	if w.opened != nil && *w.opened != h {
		d := violation("", "the archive is another than when it was opened")
		d.Reason = authority.ReasonRewritten
		return d
	}
	w.header = h
	return l.spelled(w.again.text)
}

// take proves one line behind the header.
func (w *walk) take() error {
	at := place{}
	if w.row.Cursor < w.header.Cursor {
		at.cursor = w.row.Cursor + 1 // which must stand here, whatever the line says
	}
	l, err := w.read()
	if err != nil {
		return w.refuse(err, at)
	}
	switch l.text("kind") {
	case "transaction":
		err = w.takeTransaction(l, &at)
	case "seal":
		err = w.takeSeal(l)
	case "header":
		err = violation("kind", "a second header")
	default:
		err = violation("kind", "the line is neither transaction nor seal")
	}
	if err == nil {
		w.digest = l.digest
		return nil
	}
	if stopped := (*stop)(nil); errors.As(err, &stopped) {
		return stopped.err
	}
	return w.refuse(err, at)
}

// stop is an error that ends a walk and is no defect of the line.
type stop struct{ err error }

// Error is that of what ended the walk.
func (s *stop) Error() string { return s.err.Error() }

func (w *walk) takeTransaction(l *line, at *place) error {
	row, err := w.readRow(l)
	at.operation = row.OperationID
	if err != nil {
		return err
	}
	delta, err := canonical.ParseDelta(l.value("delta"))
	if err != nil {
		return ofJSON("delta", err)
	}
	row.Projection, err = delta.Apply(w.spare[:0], w.row.Projection)
	if err != nil {
		return ofJSON("delta", err)
	}
	if authority.DigestOf(row.Projection) != row.StateDigest {
		return violation("projection_sha256", "the deltas lead to another state")
	}
	if !belongsTo(row.Projection, w.header.Goal) {
		return violation("delta", "the state is not one of this Goal")
	}
	if fault := revisionFault(w.header, w.row.Revision, row.Transaction); fault != "" {
		return violation("provider_revision", fault)
	}
	w.again.transaction(row, delta, w.digest)
	if err := l.spelled(w.again.text); err != nil {
		return err
	}
	w.spare = w.row.Projection
	return w.add(row)
}

// readRow reads the members of a transaction and what needs no replay.
func (w *walk) readRow(l *line) (row authority.Row, err error) {
	if err := l.exactly("transaction"); err != nil {
		return row, err
	}
	row.OperationID = l.id("operation_id")
	row.Cursor, row.Revision = l.cursor(), authority.Revision(l.id("provider_revision"))
	row.Events, row.Receipts = l.objects("events"), l.objects("receipts")
	row.StateDigest = l.sha256("projection_sha256")
	previous := l.sha256("previous_sha256")
	_, twice := w.operations[row.OperationID]
	switch {
	case l.fault != nil:
		return row, l.fault
	case previous != w.digest:
		return row, violation("previous_sha256", "the line does not follow the one before")
	case row.Cursor != w.row.Cursor+1:
		return row, violation("cursor", fmt.Sprintf("cursor %s after %s", row.Cursor, w.row.Cursor))
	case row.Cursor > w.header.Cursor:
		return row, violation("cursor", "more transactions than the header promises")
	case twice:
		return row, violation("operation_id", "the operation is there already")
	}
	return row, nil
}

func (w *walk) add(row authority.Row) error {
	w.operations[row.OperationID] = struct{}{}
	w.events += count(row.Events)
	w.receipts += count(row.Receipts)
	w.logical.Add(row)
	w.row = row
	switch {
	case w.from != nil && row.Cursor < w.from.Cursor:
		return nil
	case w.from != nil && row.Cursor == w.from.Cursor:
		return w.recognise(row)
	case w.visit == nil:
		return nil
	}
	if err := w.visit(row); err != nil {
		return &stop{err}
	}
	return nil
}

// recognise compares a remembered row, and all before it by the logical digest.
func (w *walk) recognise(row authority.Row) error {
	mark := w.from
	if row.Revision != mark.Revision || row.StateDigest != mark.StateDigest || !bytes.Equal(w.logical.State(), mark.Logical) {
		return &stop{w.rewritten()}
	}
	return nil
}

func (w *walk) rewritten() error {
	d := violation("", "the remembered row does not stand here")
	d.Reason = authority.ReasonRewritten
	return d.at(w.verb, w.header.Goal, w.lines.number, w.from.Cursor, "")
}

func (w *walk) takeSeal(l *line) error {
	if err := l.exactly("seal"); err != nil {
		return err
	}
	cursor, projection, previous := l.cursor(), l.sha256("projection_sha256"), l.sha256("previous_sha256")
	switch {
	case l.fault != nil:
		return l.fault
	case previous != w.digest:
		return violation("previous_sha256", "the line does not follow the one before")
	case cursor != w.header.Cursor || w.row.Cursor != cursor:
		return violation("cursor", fmt.Sprintf("%s transactions, header %s, seal %s", w.row.Cursor, w.header.Cursor, cursor))
	case w.row.Revision != w.header.Revision:
		return violation("provider_revision", "the header promises another revision than the last transaction has")
	case projection != w.header.Projection || w.row.StateDigest != projection:
		return violation("projection_sha256", "header, seal and last transaction name different states")
	}
	w.again.seal(w.header, w.digest)
	w.sealed = true
	return l.spelled(w.again.text)
}

func (w *walk) lineage() authority.Lineage {
	return authority.Lineage{
		Format: FormatArchive, Identity: w.header.Identity, Transactions: uint64(w.row.Cursor),
		Events: w.events, Receipts: w.receipts, Bytes: w.lines.bytes, Logical: w.logical.Digest(),
		End: authority.Bookmark{
			Cursor: w.row.Cursor, Revision: w.row.Revision, StateDigest: w.row.StateDigest, Logical: w.logical.State(),
		},
	}
}

package filestore

import (
	"bytes"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
)

// walk is one proof of a document: what the caller wants of its rows, and what
// was found so far.
type walk struct {
	// visit sees each proved row in order, not again when a pass is repeated.
	// The row's slices are valid until it returns.
	visit func(*row) error
	// audited adds what only an audit needs: state digests, the logical digest,
	// oddities.
	audited bool
	// resume is where to begin, nil for the beginning.
	resume *position

	visited authority.Cursor // newest row that visit saw
	shown   string           // and its revision
	proved
}

// proved is what one pass over the rows has established.
type proved struct {
	rows     authority.Cursor
	events   uint64
	receipts uint64
	index
	logical  *authority.LogicalHash
	last     row // its slices are gone; revision, digest and places stay
	covering int64
	findings findings
}

// stop is an error that ends a walk and is not about the document.
type stop struct{ err error }

// Error is the error itself.
func (s *stop) Error() string { return s.err.Error() }

// Unwrap returns it.
func (s *stop) Unwrap() error { return s.err }

// begin forgets what an earlier pass found.
func (w *walk) begin() error {
	w.proved = proved{index: index{operations: map[operationKey]uint32{}}}
	if !w.audited {
		return nil
	}
	if w.resume == nil {
		w.logical = authority.NewLogicalHash()
		return nil
	}
	var err error
	w.events, w.receipts = w.resume.Events, w.resume.Receipts
	w.logical, err = authority.ResumeLogicalHash(w.resume.logical)
	return err
}

// start is where a pass has to begin for this walk.
func (w *walk) start(format authority.Format) start {
	if w.resume == nil {
		return start{cursor: 1}
	}
	if format == authority.FormatFileV1 {
		return start{cursor: (w.resume.cursor-1)/checkpointEvery*checkpointEvery + 1, offset: w.resume.Checkpoint}
	}
	return start{cursor: w.resume.cursor, offset: w.resume.Row}
}

// take adds a row whose own checks passed.
func (w *walk) take(r *row) error {
	if w.resume != nil && r.place <= w.resume.cursor {
		return w.recognise(r)
	}
	if r.place >= 1<<32 {
		return r.at(violation("more rows than this reader can count"), "")
	}
	if err := r.inOrder(); err != nil {
		return err
	}
	if err := w.newOperation(r); err != nil {
		return err
	}
	if r.err != nil {
		return r.err
	}
	w.add(r)
	if r.place == w.visited && r.claimed != w.shown {
		return &stop{superseded()}
	}
	if w.visit == nil || r.place <= w.visited {
		return nil
	}
	w.visited, w.shown = r.place, r.claimed
	if err := w.visit(r); err != nil {
		return &stop{err}
	}
	return nil
}

func (w *walk) newOperation(r *row) error {
	if _, twice := w.operations[r.key]; twice {
		return r.at(violation("file authority store operation identity is duplicated"), "operation_id")
	}
	w.operations[r.key] = uint32(r.place)
	return nil
}

func (w *walk) add(r *row) {
	w.rows = r.place
	w.place(r)
	w.events += r.events
	w.receipts += r.receipts
	w.last = row{place: r.place, span: r.span, claimed: r.claimed, digest: r.digest, operationID: r.operationID}
	if w.audited {
		w.logical.Add(r.authorityRow())
		w.findings.of(r)
	}
}

// recognise compares a remembered row; the rows between its checkpoint and it
// were only replayed.
func (w *walk) recognise(r *row) error {
	if r.place < w.resume.cursor {
		return nil
	}
	if r.inOrder() != nil || r.claimed != string(w.resume.revision) || r.digest != w.resume.digest {
		return &stop{rewritten(w.resume.cursor)}
	}
	w.rows = r.place
	w.last = row{place: r.place, span: r.span, claimed: r.claimed, digest: r.digest, operationID: r.operationID}
	return nil
}

// superseded refuses a document in which a pass met rows that do not count: a
// second `committed` follows, which is the one that does. What was shown
// cannot be taken back, and a revision stands for all rows up to it.
func superseded() *refusal {
	return violation("committed stands twice, and rows of the first were read").at(0, "committed")
}

func rewritten(cursor authority.Cursor) *refusal {
	return failed(authority.ReasonRewritten, "the remembered row no longer stands where it stood").at(cursor, "")
}

// finish makes the checks that need all rows, given the projection of the last.
func (w *walk) finish(h header, projection []byte) error {
	if err := w.counted(h); err != nil {
		return err
	}
	if w.rows < w.visited {
		return &stop{superseded()}
	}
	if err := headMatches(h, w.last.claimed, projection); err != nil || !w.audited {
		return err
	}
	w.findings.ofHead(w.last, projection)
	return nil
}

// counted compares the number of rows with the header's cursor.
func (w *walk) counted(h header) error { return countIs(h, w.rows) }

func countIs(h header, rows authority.Cursor) error {
	if rows != 0 && !isCursor(h.cursor) {
		return violation("provider cursor is invalid").at(0, "cursor")
	}
	if rows == 0 || h.cursor != rows.String() {
		return violation("file authority store lineage is invalid").at(0, "cursor")
	}
	return nil
}

func headMatches(h header, revision string, projection []byte) error {
	if h.revision != revision {
		return violation("file authority store head lineage is invalid").at(0, "provider_revision")
	}
	if !bytes.Equal(h.head, projection) {
		return violation("file authority store head lineage is invalid").at(0, "head")
	}
	return nil
}

// transaction is the row in the words of the store contract.
func (r *row) transaction() authority.Transaction {
	return authority.Transaction{
		Cursor: r.place, Revision: authority.Revision(r.claimed), OperationID: r.operationID,
		Events: r.entry.events, Projection: r.projection, Receipts: r.entry.receipts,
	}
}

func (r *row) authorityRow() authority.Row {
	return authority.Row{Transaction: r.transaction(), StateDigest: r.digest}
}

// findings counts harmless oddities: one finding a kind, at the first row that
// has it, so that a document full of them takes no more room than one with one.
type findings struct {
	kinds []finding
}

type finding struct {
	authority.Finding
	rows uint64
}

func (f *findings) add(found authority.Finding) {
	for i := range f.kinds {
		if f.kinds[i].Code == found.Code {
			f.kinds[i].rows++
			return
		}
	}
	f.kinds = append(f.kinds, finding{Finding: found, rows: 1})
}

func (f *findings) of(r *row) {
	found := authority.Finding{Cursor: r.place, OperationID: r.operationID, Field: fmt.Sprintf("committed[%d]", r.place-1)}
	if r.odd.Respelled {
		found.Code = authority.FindingSpelling
		f.add(found)
	}
	if r.odd.DuplicateKey {
		found.Code = authority.FindingDuplicateKey
		f.add(found)
	}
	if r.odd.InexactInteger {
		found.Code = authority.FindingInexactInteger
		f.add(found)
	}
	if r.model != "" {
		found.Code, found.Field = authority.FindingReadModel, found.Field+".projection.todo_read_model."+r.model
		f.add(found)
	}
}

// ofHead looks at the read model of the newest row once more, record by record.
func (f *findings) ofHead(last row, projection []byte) {
	for _, kind := range f.kinds {
		if kind.Code == authority.FindingReadModel {
			return
		}
	}
	if last.model = readModelFault(projection); last.model != "" {
		f.of(&last)
	}
}

// list is the findings as an audit gives them.
func (f *findings) list() authority.Findings {
	var list authority.Findings
	for _, kind := range f.kinds {
		if kind.rows > 1 {
			kind.Detail = fmt.Sprintf("in %d rows, of which this is the first", kind.rows)
		}
		list = append(list, kind.Finding)
	}
	return list
}

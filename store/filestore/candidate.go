package filestore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

// CandidateOptions says where a candidate is built. Its identity file is its own: no
// other journal may stand in that folder under another identity.
type CandidateOptions struct {
	Path         string
	IdentityPath string
	GoalID       string
	Identity     authority.Identity
}

// Candidate is a journal under construction, in format v1. The rows appended between two
// flushes become one durable replace of the document, so that it is whole at any moment;
// what was not flushed is gone with the process. It is used by one goroutine at a time.
// After an error only Close is of use.
type Candidate struct {
	store *Store
	end   authority.Applied // the last durable row
	sum   authority.Digest  // of its state
	last  authority.Digest  // of the last row that was appended
	load  *load
}

// load is an append in progress: it takes one row at a time and gives it back used.
type load struct {
	rows chan authority.Transaction
	used chan struct{}
	stop chan struct{} // closed to give the append up
	done chan struct{}
	made []authority.Revision
	err  error
}

var errGivenUp = errors.New("the candidate was closed")

// OpenCandidate takes a candidate up again at its last durable row, or begins one. A
// place whose identity is another one is ReasonForeignStore and stays as it is. The
// document that is there is verified as a commit would verify it.
func OpenCandidate(ctx context.Context, o CandidateOptions) (*Candidate, error) {
	store, err := OpenDocument(o.Path, o.IdentityPath, Options{GoalID: o.GoalID})
	if err != nil {
		return nil, err
	}
	if !o.Identity.Valid(authority.KindFile) {
		return nil, store.refuse("open", violation("store identity does not match file:<32 lowercase hex>").at(0, "store-identity"))
	}
	if err := AdoptIdentity(o.IdentityPath, o.Identity); err != nil {
		return nil, err
	}
	c := &Candidate{store: store}
	head, err := store.Load(ctx)
	if errors.Is(err, authority.ErrMissing) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.end = authority.Applied{Cursor: head.Cursor, Revision: head.Revision}
	c.sum = authority.DigestOf(head.Projection)
	c.last = c.sum
	return c, nil
}

// AdoptIdentity writes an identity file where there is none. One that is there must say
// the same: all journals of a folder share it. The refusal is ReasonForeignStore.
func AdoptIdentity(identityPath string, identity authority.Identity) error {
	err := adopt(identityPath, identity)
	if errors.Is(err, fs.ErrExist) { // another process was first
		err = adopt(identityPath, identity)
	}
	return (&Store{}).refuse("identity", err)
}

func adopt(identityPath string, identity authority.Identity) error {
	found, err := readIdentity(identityPath)
	switch {
	case isMissing(err):
	case err != nil:
		return err
	case found != identity:
		return failed(authority.ReasonForeignStore, "the folder has another store identity").at(0, "store-identity")
	default:
		return nil
	}
	if err := atomicfile.MkdirAll(filepath.Dir(identityPath), 0o700); err != nil {
		return failed(authority.ReasonWriteUnavailable, "the store's folder could not be made").because(err)
	}
	if err := atomicfile.Create(identityPath, 0o600, []byte(identity)); err != nil {
		return failed(authority.ReasonWriteUnavailable, "the store's identity could not be written").because(err)
	}
	return nil
}

// Head returns the newest durable row and the digest of its state, zero values when
// there is none.
func (c *Candidate) Head(context.Context) (authority.Cursor, authority.Digest, error) {
	return c.end.Cursor, c.sum, nil
}

// Append takes the next row; its bytes are not kept. A row out of turn, an operation id
// that was there before and a document that would grow past what LoopX can read
// (ReasonCapacity) are refused.
func (c *Candidate) Append(ctx context.Context, row authority.Row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.load == nil {
		c.begin(context.WithoutCancel(ctx)) // what was taken can still be made durable when ctx ends
	}
	select {
	case c.load.rows <- row.Transaction:
	case <-c.load.done:
		return c.ended()
	}
	select {
	case <-c.load.used:
	case <-c.load.done:
		return c.ended()
	}
	c.last = authority.DigestOf(row.Projection)
	return nil
}

func (c *Candidate) begin(ctx context.Context) {
	l := &load{rows: make(chan authority.Transaction), used: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
	c.load = l
	expected := c.end
	go func() {
		defer close(l.done)
		l.made, l.err = c.store.Append(ctx, expected, l.each())
	}()
}

func (l *load) each() iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		for {
			select {
			case <-l.stop:
				yield(authority.Transaction{}, errGivenUp)
				return
			case row, more := <-l.rows:
				if !more || !yield(row, nil) {
					return
				}
			}
			select {
			case l.used <- struct{}{}:
			case <-l.stop:
			}
		}
	}
}

func (c *Candidate) ended() error {
	err := c.load.err
	c.load = nil
	return err
}

// Flush makes every appended row durable.
func (c *Candidate) Flush(context.Context) error {
	if c.load == nil {
		return nil
	}
	close(c.load.rows)
	<-c.load.done
	made := c.load.made
	if err := c.ended(); err != nil || len(made) == 0 {
		return err
	}
	c.end = authority.Applied{Cursor: c.end.Cursor + authority.Cursor(len(made)), Revision: made[len(made)-1]}
	c.sum = c.last
	return nil
}

// Seal flushes: a journal is one file always.
func (c *Candidate) Seal(ctx context.Context) error { return c.Flush(ctx) }

// Close gives up what was not flushed.
func (c *Candidate) Close() error {
	if c.load == nil {
		return nil
	}
	close(c.load.stop)
	<-c.load.done
	if err := c.ended(); !errors.Is(err, errGivenUp) {
		return err
	}
	return nil
}

// Measure is how long a journal would be: rows are printed as an append prints them, and
// written nowhere.
type Measure struct {
	appender *appender
	err      error
}

// NewMeasure measures a journal of a format that is size bytes long and whose newest row
// is at end with this projection; all of them are zero for one that is begun.
func NewMeasure(goal string, identity authority.Identity, format authority.Format, size int64, end authority.Applied, projection authority.Canonical) (*Measure, error) {
	store, err := OpenDocument("", "", Options{GoalID: goal, NewFormat: format})
	if err != nil {
		return nil, err
	}
	a := store.appender(&base{identity: identity, head: end, projection: projection, index: index{operations: map[operationKey]uint32{}}})
	a.out = &unitWriter{out: discard{}, units: size}
	return &Measure{appender: a}, nil
}

type discard struct{}

// Write keeps nothing.
func (discard) Write(text []byte) (int, error) { return len(text), nil }

// Add measures one more row. ReasonCapacity once the journal is longer than LoopX can
// read, then and always.
func (m *Measure) Add(t authority.Transaction) error {
	if m.err != nil {
		return m.err
	}
	for next, err := range rowsOf(func(yield func(authority.Transaction, error) bool) { yield(t, nil) }) {
		if err == nil {
			err = m.appender.row(next)
		}
		m.err = err
	}
	if m.err == nil && m.appender.out.units+m.rest() > MaxUnits {
		m.err = failed(authority.ReasonCapacity, "the journal would be longer than LoopX can read")
	}
	m.err = m.appender.store.refuse("commit", m.err)
	return m.err
}

// rest is the length of what follows the rows, the head for the greater part.
func (m *Measure) rest() int64 {
	const keys = 256
	return int64(len(m.appender.state)) + keys + int64(len(m.appender.seal.goal))
}

// FindingDepth names a value that is nested deeper than LoopX reads back from a journal.
const FindingDepth = "nested_too_deep"

// CheckRow names what a journal cannot hold of a row that another store holds.
func CheckRow(row authority.Row) authority.Findings {
	var found authority.Findings
	for _, part := range []struct {
		field string
		value []byte
	}{{"projection", row.Projection}, {"events", row.Events}, {"receipts", row.Receipts}} {
		if err := holdable(part.value); err != nil {
			found = append(found, authority.Finding{Code: FindingDepth, Cursor: row.Cursor, Field: part.field, Detail: "nested deeper than LoopX reads back from a journal"})
		}
	}
	return found
}

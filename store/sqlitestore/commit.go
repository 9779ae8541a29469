package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// capacity is the largest canonical request LoopX's SQLite store takes, in bytes,
// the expected revision included.
const capacity = 16 << 20

var readOnly = authority.Error{Class: authority.ClassFailed, Reason: authority.ReasonWriteUnavailable,
	Detail: "the store was opened for reading only"}

// revisionShape is what LoopX's SQLite store takes for a revision at all.
var revisionShape = regexp.MustCompile(`^sqlite:[0-9a-f]{32}:[1-9][0-9]{0,18}$`)

// Commit appends one transaction. The order of its refusals is LoopX's: request, size,
// history, revision, operation id. A repeated operation id is a conflict, whatever it
// carries. ClassAmbiguous means that COMMIT itself failed.
func (s *Store) Commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	var applied authority.Applied
	offered, err := normalize(request)
	if err == nil {
		err = s.write(ctx, "commit", func(in *session) (err error) {
			applied, err = in.append(offered)
			return err
		})
	}
	if err != nil {
		return authority.Applied{}, s.answer("commit", err, unwritten)
	}
	return applied, nil
}

// CheckCommit decides as Commit does, reading only. Under a fence it answers what the
// write would.
func (s *Store) CheckCommit(ctx context.Context, request authority.CommitRequest) error {
	offered, err := normalize(request)
	if err == nil {
		err = s.read(ctx, func(in *session) error { return s.check(in, offered) })
	}
	return s.answer("commit", err, unwritten)
}

func (s *Store) check(in *session, offered offer) error {
	if in == nil {
		if s.options.Mode != ReadWrite {
			return violation("SQLite authority store is missing").Field("path")
		}
		return compare(offered, authority.Applied{})
	}
	if s.options.Mode.writes() {
		vacant, err := in.vacant()
		if err != nil {
			return err
		}
		if vacant {
			return compare(offered, authority.Applied{})
		}
	}
	if _, err := in.decide(offered); err != nil {
		return err
	}
	id, err := in.fence()
	if err == nil && id != "" {
		err = refuse(authority.ClassFailed, authority.ReasonTransactionFailed, sentenceTransaction).
			Because(fmt.Errorf("%s%s", fenceMessage, id))
	}
	return err
}

// write runs work in a write transaction on the store's own writing session.
func (s *Store) write(ctx context.Context, label string, work func(*session) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fs.ErrClosed
	}
	if !s.options.Mode.writes() {
		return &refusal{Made: readOnly}
	}
	if err := s.ensure(ctx); err != nil {
		return err
	}
	in := s.writer
	err := in.writing(ctx, label, func() error { return work(in) })
	if _, reason := authority.DraftReason(err); reason == authority.ReasonOutcomeUnknown {
		return errors.Join(err, s.drop()) // the next verb looks at the file afresh
	}
	return err
}

// readWriter runs work on the writing session, making the database if need be.
func (s *Store) readWriter(ctx context.Context, work func(*session) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fs.ErrClosed
	}
	if err := s.ensure(ctx); err != nil {
		return err
	}
	in := s.writer
	return in.reading(ctx, func() error { return work(in) })
}

// offer is a commit request in canonical form.
type offer struct {
	expected   authority.Revision
	operation  string
	events     []byte
	projection []byte
	receipts   []byte
}

func invalid(name, detail string) *refusal {
	return refuse(authority.ClassFailed, authority.ReasonInvalidCommit, detail).Field(name)
}

// normalize brings a request into canonical form or refuses it, before any I/O.
func normalize(r authority.CommitRequest) (o offer, err error) {
	if err := writableID(r.OperationID); err != nil {
		return o, err
	}
	if r.Expected != "" && !revisionShape.MatchString(string(r.Expected)) {
		return o, invalid("expected_provider_revision", "expected revision is not one of a SQLite store").Operation(r.OperationID)
	}
	o = offer{expected: r.Expected, operation: r.OperationID}
	for _, part := range []struct {
		name string
		from []byte
		to   *[]byte
	}{
		{"events", r.Events, &o.events},
		{"next_projection", r.Projection, &o.projection},
		{"receipts", r.Receipts, &o.receipts},
	} {
		if *part.to, err = canonical.Append(nil, part.from); err != nil {
			return o, invalid(part.name, "is not JSON that LoopX can hold").Operation(r.OperationID).Because(err)
		}
	}
	switch {
	case !isList(o.events):
		return o, invalid("events", "must be a list of objects").Operation(r.OperationID)
	case canonical.Kind(o.projection) != canonical.Object:
		return o, invalid("next_projection", "must be an object").Operation(r.OperationID)
	case !isList(o.receipts):
		return o, invalid("receipts", "must be a list of objects").Operation(r.OperationID)
	}
	return o, fits(o.size(), r.OperationID)
}

// writableID refuses ids that LoopX refuses, and ids with a lone surrogate: LoopX
// binds such an id as U+FFFD while its digest uses the surrogate, says "applied", and
// cannot read its store from then on.
func writableID(id string) error {
	if !canonical.ValidID(id) {
		return invalid("operation_id", "must be a non-empty trimmed string").Operation(id)
	}
	if !utf8.ValidString(id) {
		return invalid("operation_id", "holds a lone surrogate, which SQLite cannot keep").Operation(id)
	}
	return nil
}

func fits(size int, operation string) error {
	if size > capacity {
		return refuse(authority.ClassFailed, authority.ReasonCapacity,
			fmt.Sprintf("the canonical request has %d bytes, more than %d", size, capacity)).Operation(operation)
	}
	return nil
}

// size is the length of the canonical request, with the revision that was expected.
func (o offer) size() int {
	n := request{cursor: 1, operation: o.operation, events: o.events, projection: o.projection, receipts: o.receipts}.size()
	if o.expected != "" {
		n += len(`""`) + len(o.expected) - len("null")
	}
	return n
}

// decide proves the head and compares the offer with it.
func (s *session) decide(o offer) (ending, error) {
	e, err := s.ending()
	if err != nil {
		return e, err
	}
	now := e.applied(s.identity)
	if err := compare(o, now); err != nil {
		return e, err
	}
	existing, err := s.find(o.operation)
	if err == nil && existing != 0 {
		err = conflict(authority.ReasonOperationExists, o, now).At(existing)
	}
	return e, err
}

func compare(o offer, now authority.Applied) error {
	if o.expected != now.Revision {
		return conflict(authority.ReasonRevisionMismatch, o, now)
	}
	return nil
}

func conflict(reason authority.Reason, o offer, now authority.Applied) *refusal {
	r := refuse(authority.ClassConflict, reason, "").Operation(o.operation)
	r.Made.Current = now
	return r
}

// append decides and writes, inside a write transaction.
func (s *session) append(o offer) (authority.Applied, error) {
	e, err := s.decide(o)
	if err != nil {
		return authority.Applied{}, err
	}
	d, err := newDeriver(e.projection, e.digest)
	if err != nil {
		return authority.Applied{}, err
	}
	row := newRow(s.identity, e.cursor+1, o.operation, o.events, o.projection, o.receipts)
	if err := d.derive(row); err != nil {
		return authority.Applied{}, err
	}
	if err := s.insert(row); err != nil {
		return authority.Applied{}, err
	}
	if err := s.moveHead(row); err != nil {
		return authority.Applied{}, err
	}
	s.rows = row.cursor // should COMMIT fail, writing forgets it
	return authority.Applied{Cursor: authority.Cursor(row.cursor), Revision: revision(s.identity, row.cursor)}, nil
}

// emptyState is what the first delta starts from.
var emptyState = []byte("{}")

// newCommit is a row to be written.
type newCommit struct {
	request
	stateDigest authority.Digest // computed when it is not known
	parent      string           // state digest of the row before, empty for the first
	delta       []byte
	commit      authority.Digest
}

func newRow(id authority.Identity, cursor uint64, operation string, events, projection, receipts []byte) *newCommit {
	return &newCommit{request: request{id, cursor, operation, events, projection, receipts}}
}

// deriver computes deltas and commit digests of rows in order.
type deriver struct {
	before []byte           // the projection the next row starts from
	parent string           // its digest, empty for the first row
	tree   *canonical.State // the same projection, as the stored deltas make it
	text   []byte           // a buffer for it
}

// newDeriver starts behind a state; digest is empty at the beginning of a history. The
// text must not change while the deriver is in use.
func newDeriver(state []byte, digest string) (*deriver, error) {
	if digest == "" {
		state = emptyState
	}
	tree, err := canonical.NewState(state)
	return &deriver{before: state, parent: digest, tree: tree}, err
}

// derive fills in what follows from the row before. The delta is replayed from the text
// that will be stored, as LoopX does: one that does not make the new state is refused.
func (d *deriver) derive(n *newCommit) error {
	delta, err := canonical.Diff(d.before, n.projection)
	if err != nil {
		return violation("SQLite authority delta cannot be built").At(n.cursor).Operation(n.operation).Because(err)
	}
	n.delta = delta.AppendBuilt(nil) // never a used buffer: the tree refers to it
	stored, err := canonical.ParseDelta(n.delta)
	if err == nil {
		err = d.tree.Apply(stored)
	}
	d.text = d.tree.AppendTo(d.text[:0])
	if err != nil || !bytes.Equal(d.text, n.projection) {
		return violation("SQLite authority delta does not reconstruct its commit").
			Field("commits.delta").At(n.cursor).Operation(n.operation).Because(err)
	}
	if n.stateDigest.IsZero() {
		n.stateDigest = authority.DigestOf(n.projection)
	}
	n.parent, n.commit = d.parent, n.digest()
	d.before, d.parent = n.projection, n.stateDigest.String()
	return nil
}

// insert writes the row and, on the grid, its checkpoint.
func (s *session) insert(n *newCommit) error {
	var parent any
	if n.parent != "" {
		parent = n.parent
	}
	state := n.stateDigest.String()
	err := s.exec("INSERT INTO commits ("+commitColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		int64(n.cursor), n.operation, n.commit.String(), state, parent,
		textOf(n.delta), textOf(n.events), textOf(n.receipts))
	if err != nil || covering(n.cursor) != n.cursor {
		return err
	}
	return s.exec("INSERT INTO checkpoints (cursor, projection, projection_digest) VALUES (?, ?, ?)",
		int64(n.cursor), textOf(n.projection), state)
}

// moveHead makes the row the head.
func (s *session) moveHead(n *newCommit) error {
	return s.exec(`INSERT INTO head (singleton, cursor, projection, state_digest) VALUES (1, ?, ?, ?)
		ON CONFLICT (singleton) DO UPDATE SET
		cursor = excluded.cursor, projection = excluded.projection, state_digest = excluded.state_digest`,
		int64(n.cursor), textOf(n.projection), n.stateDigest.String())
}

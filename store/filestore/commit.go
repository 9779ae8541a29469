package filestore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// Commit appends one transaction under LoopX's lock, as one durable replace.
func (s *Store) Commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	next, err := normalise(request)
	if err != nil {
		return authority.Applied{}, s.refuse("commit", err)
	}
	var applied authority.Applied
	rows := func(yield func(*row, error) bool) { yield(next, nil) }
	err = s.locked(ctx, func() error {
		base, err := s.decide(ctx, func(head authority.Applied) bool { return head.Revision == request.Expected }, next)
		if err != nil {
			return err
		}
		defer base.close()
		written, err := s.replace(ctx, base, rows)
		applied = written.head
		return err
	})
	if err != nil {
		return authority.Applied{}, s.refuse("commit", err)
	}
	return applied, nil
}

// CheckCommit decides as Commit does, the size of the result included, and
// writes nothing.
func (s *Store) CheckCommit(ctx context.Context, request authority.CommitRequest) error {
	next, err := normalise(request)
	if err != nil {
		return s.refuse("commit", err)
	}
	base, err := s.decide(ctx, func(head authority.Applied) bool { return head.Revision == request.Expected }, next)
	if err != nil {
		return s.refuse("commit", err)
	}
	defer base.close()
	return s.refuse("commit", s.writable(ctx, base, next))
}

// writable refuses what a commit would be refused for that met no conflict.
func (s *Store) writable(ctx context.Context, base *base, next *row) error {
	if s.options.Access == ReadOnly { // a conflict is an answer that a handle for reading can give too
		return readOnly()
	}
	return s.rehearse(ctx, base, next)
}

// Append appends many transactions under this store's own revisions, as one
// durable replace in the format the document has: all of them or none. The head
// must be at expected, in cursor and revision. Cursors of the transactions, where
// given, must run on from there; their revisions are those of another store and
// not looked at. It returns the new revisions in order. Without a transaction
// nothing is written.
func (s *Store) Append(ctx context.Context, expected authority.Applied, transactions iter.Seq2[authority.Transaction, error]) ([]authority.Revision, error) {
	var revisions []authority.Revision
	err := s.locked(ctx, func() error {
		base, err := s.decide(ctx, func(head authority.Applied) bool { return head == expected }, nil)
		if err != nil {
			return err
		}
		defer base.close()
		written, err := s.replace(ctx, base, rowsOf(transactions))
		revisions = written.revisions
		return err
	})
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, s.refuse("commit", err)
	}
	return revisions, nil
}

// rowsOf normalises transactions as if each were a commit.
func rowsOf(transactions iter.Seq2[authority.Transaction, error]) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		for t, err := range transactions {
			var next *row
			if err == nil {
				next, err = normalise(authority.CommitRequest{
					OperationID: t.OperationID, Events: t.Events, Projection: t.Projection, Receipts: t.Receipts,
				})
			}
			if err == nil {
				next.place = t.Cursor
			}
			if !yield(next, err) || err != nil {
				return
			}
		}
	}
}

// normalise brings a request into canonical form.
func normalise(request authority.CommitRequest) (*row, error) {
	r := &row{operationID: request.OperationID}
	if !canonical.ValidID(request.OperationID) {
		return nil, invalidCommit("operation_id", "operation id must be a non-empty trimmed string", nil)
	}
	r.key = keyOf(r.operationID)
	r.operation = canonical.AppendString(nil, r.operationID)
	parts := []struct {
		name string
		from []byte
		to   *[]byte
		kind canonical.ValueKind
	}{
		{"events", request.Events, &r.entry.events, canonical.Array},
		{"next_projection", request.Projection, &r.projection, canonical.Object},
		{"receipts", request.Receipts, &r.entry.receipts, canonical.Array},
	}
	for _, part := range parts {
		value, err := canonical.Append(nil, part.from)
		if err != nil {
			return nil, invalidCommit(part.name, "commit "+part.name+" is not a JSON value LoopX can hold", err)
		}
		if canonical.Kind(value) != part.kind {
			return nil, invalidCommit(part.name, "commit "+part.name+" has the wrong kind", nil)
		}
		if err := holdable(value); err != nil {
			return nil, invalidCommit(part.name, "commit "+part.name+" is nested deeper than LoopX can read back", err)
		}
		*part.to = value
	}
	for name, list := range map[string][]byte{"events": r.entry.events, "receipts": r.entry.receipts} {
		if _, err := r.list(name, list); err != nil {
			return nil, invalidCommit(name, "commit "+name+" must hold objects only", nil)
		}
	}
	return r, nil
}

// holdable proves that a value is not nested so deep that it could not be read
// back from inside a journal, where up to eight levels stand around it.
func holdable(value []byte) error {
	const levels = 8
	var depth *canonical.DepthError
	wrapped := append([]byte(strings.Repeat("[", levels)), value...)
	if err := canonical.Check(append(wrapped, strings.Repeat("]", levels)...)); errors.As(err, &depth) {
		return err
	}
	return nil
}

func invalidCommit(field, detail string, err error) error {
	reason := authority.ReasonInvalidCommit
	var depth *canonical.DepthError
	if errors.As(err, &depth) {
		reason = authority.ReasonDepth
	}
	return failed(reason, detail).at(0, field).because(err)
}

func readOnly() *refusal {
	return failed(authority.ReasonWriteUnavailable, "the store was opened for reading only")
}

// locked runs change under the document's lock.
func (s *Store) locked(ctx context.Context, change func() error) error {
	if s.options.Access == ReadOnly {
		return readOnly()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.options.Existence == MayCreate {
		if err := atomicfile.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
			return failed(authority.ReasonWriteUnavailable, "the store's folder could not be made").because(err)
		}
	}
	lock, err := lockfile.AcquireMarker(ctx, s.path, s.options.LockWait)
	if err != nil {
		return lockRefusal(err)
	}
	err = change()
	// A lock file that could not be removed names this process and is reclaimed
	// when it ended. It must not turn a commit that is in place into a failure.
	_ = lock.Release()
	return err
}

// base is what a commit stands on: a proved document, or none.
type base struct {
	document   *document // nil when there is none
	identity   authority.Identity
	head       authority.Applied
	projection authority.Canonical
	index
}

func (b *base) close() {
	if b.document != nil {
		b.document.close()
	}
}

// decide makes LoopX's checks of a commit, in its order. next is nil where many
// operations follow. The caller closes the base.
func (s *Store) decide(ctx context.Context, expected func(authority.Applied) bool, next *row) (*base, error) {
	identity, err := readIdentity(s.identityPath)
	switch {
	case isMissing(err) && s.options.Existence == ExistingOnly:
		return nil, identityMissing(authority.ReasonReadUnavailable)
	case err != nil && !isMissing(err):
		return nil, err
	}
	b := &base{identity: identity, index: index{operations: map[operationKey]uint32{}}}
	v, err := s.proved(ctx)
	switch {
	case isMissing(err) && s.options.Existence == ExistingOnly:
		return nil, failed(authority.ReasonAuthorityMissing, "existing-only store cannot bootstrap a missing authority")
	case err != nil && !isMissing(err):
		return nil, err
	case err == nil:
		b = v.base()
	}
	if err := b.conflict(expected, next); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// conflict compares the revision first and the operation id next, as LoopX's
// file store does: an exact replay is a conflict.
func (b *base) conflict(expected func(authority.Applied) bool, next *row) error {
	if !expected(b.head) {
		return b.conflictOf(authority.ReasonRevisionMismatch, "", "the head moved since the caller looked")
	}
	if next == nil {
		return nil
	}
	return b.newOperation(next)
}

func (b *base) newOperation(next *row) error {
	if _, exists := b.operations[next.key]; exists {
		return b.conflictOf(authority.ReasonOperationExists, next.operationID, "the operation id is committed already")
	}
	return nil
}

func (b *base) conflictOf(reason authority.Reason, operation, detail string) error {
	return &refusal{
		Class: authority.ClassConflict, Reason: reason, Detail: detail,
		OperationID: operation, Current: b.head,
	}
}

// replaceRefusal is what an error of the durable replace comes to: before its
// rename nothing has changed.
func replaceRefusal(err error) error {
	var r *refusal
	var link *os.LinkError
	var path *fs.PathError
	switch {
	case errors.Is(err, atomicfile.ErrUnsettled), errors.As(err, &link), errors.As(err, &path) && path.Op == "rename":
		return &refusal{
			Class: authority.ClassAmbiguous, Reason: authority.ReasonOutcomeUnknown,
			Detail: "the journal may have been replaced or not", Err: err,
		}
	case errors.As(err, &r), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errNothing):
		return err
	}
	return failed(authority.ReasonWriteUnavailable, "the journal could not be written").because(err)
}

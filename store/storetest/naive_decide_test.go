package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// judge is the decision of a commit: form, then revision, then operation id.
func (s *naive) judge(ctx context.Context, request authority.CommitRequest, rows []authority.Transaction) (authority.Transaction, error) {
	if err := s.alive(ctx, "commit"); err != nil {
		return authority.Transaction{}, err
	}
	next, err := s.normalise(request)
	if err != nil {
		return next, err
	}
	var current authority.Applied
	known := false
	for _, row := range rows {
		current = authority.Applied{Cursor: row.Cursor, Revision: row.Revision}
		known = known || row.OperationID == request.OperationID
	}
	stale := current.Revision != request.Expected && s.bug != "a stale revision is taken"
	if s.bug == "the operation id is looked up first" && known {
		stale = false
	}
	reason := authority.ReasonRevisionMismatch
	switch {
	case stale:
	case known:
		reason = authority.ReasonOperationExists
	default:
		next.Cursor = current.Cursor + 1
		next.Revision = authority.Revision(fmt.Sprintf("%s:%d", s.identity, next.Cursor))
		return next, nil
	}
	conflict := s.refuse("commit", authority.ClassConflict, reason)
	if s.bug != "a conflict does not say where the head is" {
		conflict.Current = current
	}
	return next, conflict
}

func (s *naive) normalise(request authority.CommitRequest) (authority.Transaction, error) {
	invalid := s.refuse("commit", authority.ClassFailed, authority.ReasonInvalidCommit)
	next := authority.Transaction{OperationID: request.OperationID}
	if !canonical.ValidID(request.OperationID) && s.bug != "any text is an operation id" {
		return next, invalid
	}
	for _, part := range []struct {
		text []byte
		into *authority.Canonical
		list bool
	}{{request.Events, &next.Events, true}, {request.Projection, &next.Projection, false}, {request.Receipts, &next.Receipts, true}} {
		text, err := canonical.Append(nil, part.text)
		var deep *canonical.DepthError
		if errors.As(err, &deep) && s.bug == "any depth is taken" {
			text, err = part.text, nil
		}
		if err != nil || !s.shaped(text, part.list) {
			return next, invalid
		}
		if s.bug == "the spelling of the caller is kept" {
			text = bytes.TrimSpace(part.text)
		}
		*part.into = text
	}
	return next, nil
}

// shaped reports whether a value is an object, or a list of objects.
func (s *naive) shaped(text []byte, list bool) bool {
	if !list {
		return text[0] == '{'
	}
	if text[0] != '[' {
		return false
	}
	for element := range canonical.Elements(text) {
		if element[0] != '{' && s.bug != "events may be anything" {
			return false
		}
	}
	return true
}

func (s *naive) Audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	if err := s.alive(ctx, "audit"); err != nil {
		return authority.Lineage{}, err
	}
	rows := s.history()
	lineage := authority.Lineage{Format: authority.FormatFileV0, Identity: s.identity}
	hash := authority.NewLogicalHash()
	start := authority.Cursor(0)
	if from != nil {
		if !s.stands(*from, rows) && s.bug != "a bookmark is trusted" {
			return lineage, s.refuse("audit", authority.ClassFailed, authority.ReasonRewritten)
		}
		start = min(from.Cursor, authority.Cursor(len(rows)))
		lineage.End = *from
		hash, _ = authority.ResumeLogicalHash(from.Logical)
	}
	for _, row := range rows[start:] {
		shown := authority.Row{Transaction: row, StateDigest: authority.DigestOf(row.Projection)}
		if s.bug == "an audit leaves out the newest row" && int(row.Cursor) == len(rows) && row.Cursor > 1 {
			break
		}
		hash.Add(shown)
		lineage.Transactions++
		lineage.Events += count(row.Events)
		lineage.Receipts += count(row.Receipts)
		lineage.End = authority.Bookmark{Cursor: row.Cursor, Revision: row.Revision, StateDigest: shown.StateDigest, Logical: hash.State()}
		if visit == nil {
			continue
		}
		if err := visit(shown); err != nil {
			return lineage, err
		}
	}
	lineage.Logical = hash.Digest()
	return lineage, nil
}

func (s *naive) stands(mark authority.Bookmark, rows []authority.Transaction) bool {
	if mark.Cursor == 0 {
		return true
	}
	if int(mark.Cursor) > len(rows) {
		return false
	}
	row := rows[mark.Cursor-1]
	digest := authority.DigestOf(row.Projection)
	return row.Revision == mark.Revision && (digest == mark.StateDigest || s.bug == "a bookmark's state digest is not looked at")
}

func count(list authority.Canonical) uint64 {
	n := uint64(0)
	for range canonical.Elements(list) {
		n++
	}
	return n
}

// naiveView is the store at one moment.
type naiveView struct {
	*naive
	lineage authority.Lineage
}

func (s *naive) View(ctx context.Context) (authority.View, error) {
	lineage, err := s.Audit(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	frozen := append([]authority.Transaction{}, s.history()...)
	if s.bug == "a view shows what came later" {
		frozen = nil
	}
	return &naiveView{&naive{memory: s.memory, bug: s.bug, frozen: frozen}, lineage}, nil
}

func (v *naiveView) Lineage() authority.Lineage { return v.lineage }

func (v *naiveView) Operations(context.Context) ([]string, error) {
	var ids []string
	for _, row := range v.history() {
		ids = append(ids, row.OperationID)
	}
	return ids, nil
}

package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// bug is a mistake planted in the naive store.
type bug string

// naive is a store in memory, right unless a bug is planted in it. It is here to
// show that the suite passes a right store and fails each wrong one.
type naive struct {
	*memory
	bug    bug
	frozen []authority.Transaction // of a view, or of a handle that caches
}

// memory is what the handles of one naive store share.
type memory struct {
	sync.Mutex
	identity authority.Identity
	rows     []authority.Transaction
	writes   int // durable effects so far
}

var identities int

func newNaive(planted bug) *naive {
	identities++
	return &naive{memory: &memory{identity: authority.Identity(fmt.Sprintf("file:%032x", identities))}, bug: planted}
}

func naiveHarness(planted bug) Harness {
	return Harness{
		Kind: authority.KindFile,
		New:  func(testing.TB) authority.Store { return newNaive(planted) },
		Reopen: func(_ testing.TB, store authority.Store) authority.Store {
			other := &naive{memory: store.(*naive).memory, bug: planted}
			if planted == "a second handle remembers what it saw first" {
				other.frozen = append([]authority.Transaction{}, other.rows...)
			}
			return other
		},
		Snapshot: func(_ testing.TB, store authority.Store) fixture.Tree {
			s := store.(*naive)
			return fixture.Tree(fmt.Sprint(s.writes, len(s.rows)))
		},
		Rewrite: func(_ testing.TB, store authority.Store) {
			rows := store.(*naive).rows
			rows[len(rows)-1].Projection = authority.Canonical(`{"forged":true}`)
		},
	}
}

func (s *naive) history() []authority.Transaction {
	if s.frozen != nil {
		return s.frozen
	}
	s.Lock()
	defer s.Unlock()
	return s.rows
}

func (s *naive) Kind() authority.Kind { return authority.KindFile }
func (s *naive) GoalID() string       { return "goal-naive" }
func (s *naive) Close() error         { return nil }

func (s *naive) refuse(verb string, class authority.Class, reason authority.Reason) *authority.Error {
	return &authority.Error{Verb: verb, Kind: s.Kind(), Goal: s.GoalID(), Class: class, Reason: reason}
}

func (s *naive) alive(ctx context.Context, verb string) error {
	if ctx.Err() == nil || s.bug == "a cancelled context is ignored" {
		return nil
	}
	err := s.refuse(verb, authority.ClassUnavailable, authority.ReasonReadUnavailable)
	err.Err = ctx.Err()
	return err
}

func (s *naive) Identity(ctx context.Context) (authority.Identity, error) {
	if s.bug == "every handle has an identity of its own" {
		return authority.Identity(fmt.Sprintf("file:%p", s)), nil
	}
	return s.identity, s.alive(ctx, "identity")
}

func (s *naive) Load(ctx context.Context) (authority.Head, error) {
	if err := s.alive(ctx, "load"); err != nil {
		return authority.Head{}, err
	}
	rows := s.history()
	if len(rows) == 0 {
		return authority.Head{}, s.refuse("load", authority.ClassMissing, "")
	}
	last := rows[len(rows)-1]
	if s.bug == "a read writes" {
		s.writes++
	}
	return authority.Head{Cursor: last.Cursor, Revision: last.Revision, Projection: last.Projection}, nil
}

func (s *naive) Receipt(ctx context.Context, id string) (authority.Receipt, error) {
	if err := s.alive(ctx, "receipt"); err != nil {
		return authority.Receipt{}, err
	}
	if !canonical.ValidID(id) && s.bug != "any text is an operation id" {
		return authority.Receipt{}, s.refuse("receipt", authority.ClassFailed, authority.ReasonInvalidOperationID)
	}
	for _, row := range s.history() {
		if row.OperationID == id || s.bug == "ids are compared by prefix" && strings.HasPrefix(row.OperationID, id) {
			receipts := row.Receipts
			if s.bug == "receipts are cut to the first" {
				receipts = slices.Concat(receipts[:max(1, bytes.IndexByte(receipts, '}')+1)], []byte("]"))
			}
			return authority.Receipt{Cursor: row.Cursor, Revision: row.Revision, Receipts: receipts}, nil
		}
	}
	if s.bug == "an absent receipt is unavailable" {
		return authority.Receipt{}, s.refuse("receipt", authority.ClassUnavailable, authority.ReasonReadUnavailable)
	}
	return authority.Receipt{}, s.refuse("receipt", authority.ClassMissing, "")
}

func (s *naive) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	rows := s.history()
	n := authority.Cursor(len(rows))
	switch {
	case s.alive(ctx, "scan") != nil:
		return authority.Page{}, s.alive(ctx, "scan")
	case limit < 1 && s.bug != "limit zero is an empty page":
		return authority.Page{}, s.refuse("scan", authority.ClassFailed, authority.ReasonInvalidScan)
	case after > n && s.bug == "beyond the head is an empty page":
		return authority.Page{Next: after}, nil
	case after > n:
		return authority.Page{}, s.refuse("scan", authority.ClassFailed, authority.ReasonScanRange)
	}
	end := min(uint64(after)+uint64(max(limit, 0)), uint64(n))
	page := authority.Page{Transactions: rows[after:end], Next: authority.Cursor(end), HasMore: end < uint64(n)}
	switch {
	case s.bug == "a full page always has more":
		page.HasMore = len(page.Transactions) == limit
	case s.bug == "the last row of a page of 64 is lost" && len(page.Transactions) == 64:
		page.Transactions = page.Transactions[:63]
	}
	return page, nil
}

func (s *naive) CheckCommit(ctx context.Context, request authority.CommitRequest) error {
	if s.bug == "a check writes" {
		s.writes++
	}
	if s.bug == "a check passes what a commit refuses" {
		return s.alive(ctx, "commit")
	}
	_, err := s.decide(ctx, request)
	return err
}

func (s *naive) Commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	next, err := s.decide(ctx, request)
	if s.bug == "a replay is applied again as it was" && errors.Is(err, authority.ErrConflict) {
		if known, missing := s.Receipt(ctx, request.OperationID); missing == nil {
			return authority.Applied{Cursor: known.Cursor, Revision: known.Revision}, nil
		}
	}
	if err != nil {
		return authority.Applied{}, err
	}
	if s.bug != "the head is compared before the lock is held" {
		if next, err = s.decideLocked(ctx, request); err != nil {
			return authority.Applied{}, err
		}
		defer s.Unlock()
	} else {
		for range 10_000 { // long enough for another to decide on the same head
			runtime.Gosched()
		}
		s.Lock()
		defer s.Unlock()
		next.Cursor = authority.Cursor(len(s.rows) + 1)
		next.Revision = authority.Revision(fmt.Sprintf("%s:%d", s.identity, next.Cursor))
	}
	s.rows = append(s.rows, next)
	s.writes++
	return authority.Applied{Cursor: next.Cursor, Revision: next.Revision}, nil
}

// decideLocked decides and keeps the lock when the answer is yes.
func (s *naive) decideLocked(ctx context.Context, request authority.CommitRequest) (authority.Transaction, error) {
	s.Lock()
	next, err := s.judge(ctx, request, s.rows)
	if err != nil {
		s.Unlock()
	}
	return next, err
}

func (s *naive) decide(ctx context.Context, request authority.CommitRequest) (authority.Transaction, error) {
	return s.judge(ctx, request, s.history())
}

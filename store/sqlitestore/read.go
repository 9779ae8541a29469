package sqlitestore

import (
	"context"
	"math"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Load returns the head. Absent file and empty history are ClassMissing; the rest of
// its refusals are in refusal.go, in LoopX's words.
func (s *Store) Load(ctx context.Context) (authority.Head, error) {
	var head authority.Head
	err := s.read(ctx, func(in *session) (err error) {
		head, err = in.load()
		return err
	})
	return head, s.answer("load", err, unreadable)
}

func (s *session) load() (head authority.Head, err error) {
	if s == nil {
		return head, missing()
	}
	e, err := s.ending()
	if err != nil {
		return head, err
	}
	if e.cursor == 0 {
		return head, missing()
	}
	now := e.applied(s.identity)
	return authority.Head{Cursor: now.Cursor, Revision: now.Revision, Projection: e.projection}, nil
}

func missing() *refusal { return refuse(authority.ClassMissing, authority.ReasonNone, "") }

// Receipt proves the rows from the covering checkpoint to the operation's and returns
// what it got. A malformed id is ReasonProtocolViolation here, as LoopX has it.
func (s *Store) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	var receipt authority.Receipt
	err := checkOperationID(operationID)
	if err == nil {
		err = s.read(ctx, func(in *session) (err error) {
			receipt, err = in.receipt(ctx, operationID)
			return err
		})
	}
	return receipt, s.answer("receipt", err, unreadable)
}

func checkOperationID(id string) error {
	if !canonical.ValidID(id) {
		return violation("operation_id must be a non-empty trimmed string").Field("operation_id")
	}
	return nil
}

func (s *session) receipt(ctx context.Context, operationID string) (receipt authority.Receipt, err error) {
	if s == nil {
		return receipt, missing()
	}
	if _, err := s.ending(); err != nil {
		return receipt, err
	}
	if !utf8.ValidString(operationID) {
		return receipt, missing() // SQLite cannot hold it, so it was never committed
	}
	cursor, err := s.find(operationID)
	if err != nil {
		return receipt, err
	}
	if cursor == 0 {
		return receipt, missing()
	}
	err = s.window(ctx, cursor, cursor, func(r record, _ []byte) error {
		receipt = authority.Receipt{Cursor: authority.Cursor(cursor), Revision: revision(s.identity, cursor), Receipts: r.receipts}
		return nil
	})
	return receipt, err
}

// Scan proves the rows of the page, one more, and those before them to the checkpoint.
func (s *Store) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	var page authority.Page
	err := checkLimit(limit)
	if err == nil {
		err = s.read(ctx, func(in *session) (err error) {
			page, err = in.scan(ctx, after, limit)
			return err
		})
	}
	return page, s.answer("scan", err, unreadable)
}

// maxSafeInteger bounds LoopX's limit.
const maxSafeInteger = 1<<53 - 1

func checkLimit(limit int) error {
	if limit < 1 || limit > maxSafeInteger {
		return refuse(authority.ClassFailed, authority.ReasonInvalidScan, "scan limit must be a positive safe integer").Field("limit")
	}
	return nil
}

func (s *session) scan(ctx context.Context, after authority.Cursor, limit int) (page authority.Page, err error) {
	var end ending
	if s != nil {
		if end, err = s.ending(); err != nil {
			return page, err
		}
	}
	return s.page(ctx, after, limit, end)
}

// page reads a page of a history whose end is known.
func (s *session) page(ctx context.Context, after authority.Cursor, limit int, end ending) (page authority.Page, err error) {
	first, last, err := pageBounds(after, limit, end.cursor)
	page.Next = after
	if err != nil || first > last {
		return page, err
	}
	wanted := min(last, uint64(after)+uint64(limit))
	page.HasMore = last > wanted
	err = s.window(ctx, first, last, func(r record, state []byte) error {
		if r.cursor == end.cursor && r.state != end.digest {
			return violation(headDigestMismatch).Field("head.state_digest").At(r.cursor)
		}
		if r.cursor <= wanted {
			page.Transactions = append(page.Transactions, s.transaction(r, append([]byte(nil), state...)))
			page.Next = authority.Cursor(r.cursor)
		}
		return nil
	})
	if err != nil {
		return authority.Page{}, err
	}
	return page, nil
}

// pageBounds returns the first row of a page and the last, the look-ahead row included.
func pageBounds(after authority.Cursor, limit int, end uint64) (first, last uint64, err error) {
	if uint64(after) > end {
		return 0, 0, refuse(authority.ClassFailed, authority.ReasonScanRange, scanAhead).At(uint64(after))
	}
	first, last = uint64(after)+1, end
	if left := end - uint64(after); uint64(limit) < left && uint64(limit) < math.MaxInt64 {
		last = uint64(after) + uint64(limit) + 1
	}
	return first, last, nil
}

func (s *session) transaction(r record, projection []byte) authority.Transaction {
	return authority.Transaction{
		Cursor:      authority.Cursor(r.cursor),
		Revision:    revision(s.identity, r.cursor),
		OperationID: r.operationID,
		Events:      r.events,
		Projection:  projection,
		Receipts:    r.receipts,
	}
}

// Identity returns the incarnation. As in LoopX, ReadWrite makes the database when
// there is none; the other modes answer ReasonIdentityUnavailable then.
func (s *Store) Identity(ctx context.Context) (authority.Identity, error) {
	var id authority.Identity
	get := func(in *session) error {
		if in == nil {
			return refuse(authority.ClassUnavailable, authority.ReasonIdentityUnavailable, "SQLite authority store is missing")
		}
		err := in.admit()
		id = in.identity
		return err
	}
	if s.options.Mode == ReadWrite {
		return id, s.answer("identity", s.readWriter(ctx, get), unreadable)
	}
	return id, s.answer("identity", s.read(ctx, get), unreadable)
}

package parity

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
)

// offerKnownIDs offers the first, the middle and the last operation id again
// with other content. Each store must call it a conflict. CheckCommit decides as
// a commit would and writes nothing; that nothing was written is proved by the
// digests of check source_untouched where the arm has one.
func (c *comparison) offerKnownIDs(ctx context.Context) {
	asked := 0
	for _, s := range c.journals() {
		if c.broken {
			break
		}
		if s.CheckCommit == nil {
			c.note(CheckIdentity, fmt.Sprintf("arm %s has no store to offer a commit to", s.Name))
			continue
		}
		asked++
		for _, after := range []authority.Cursor{0, s.end / 2, s.end - 1} {
			c.offerKnownID(ctx, s, after)
		}
	}
	if asked == 0 {
		c.skip(CheckIdentity, "no arm could be asked")
	}
}

func (c *comparison) offerKnownID(ctx context.Context, s *side, after authority.Cursor) {
	page, err := s.View.Scan(ctx, after, 1)
	if c.unread(CheckIdentity, s, err) || len(page.Transactions) == 0 {
		return
	}
	c.checks[CheckIdentity].Compared++
	id := page.Transactions[0].OperationID
	err = s.CheckCommit(ctx, authority.CommitRequest{Expected: s.tip.Revision, OperationID: id,
		Events: []byte("[]"), Receipts: []byte("[]"), Projection: []byte(`{"loopx_migrate_parity_probe":true}`)})
	if s.refusesKnown(err) {
		return
	}
	if err != nil && !errors.Is(err, authority.ErrConflict) {
		c.unasked(s, after+1, id, err)
		return
	}
	c.differs(CheckIdentity, Difference{Code: "known_id_not_refused", Arm: s.Name, Cursor: after + 1, OperationID: id,
		Values: map[string]string{s.Name: answerOf(err)}})
}

// unasked: a store that answers neither yes nor conflict, such as one opened for
// reading, has proved nothing.
func (c *comparison) unasked(s *side, cursor authority.Cursor, id string, err error) {
	check := c.checks[CheckIdentity]
	check.Outcome = Failed
	c.add(check, Difference{Code: "known_id_not_judged", Arm: s.Name, Cursor: cursor, OperationID: id, Values: map[string]string{s.Name: answerOf(err)}})
	if !errors.Is(err, authority.ErrFailed) {
		c.unreadable = append(c.unreadable, fmt.Errorf("arm %s: %w", s.Name, err))
	}
}

// refusesKnown: the conflict is of the operation id, or of the revision on a
// store that has gone on since the view was made.
func (s *side) refusesKnown(err error) bool {
	var refusal *authority.Error
	if !errors.As(err, &refusal) || refusal.Class != authority.ClassConflict {
		return false
	}
	return refusal.Reason == authority.ReasonOperationExists ||
		refusal.Reason == authority.ReasonRevisionMismatch && refusal.Current.Cursor > s.end
}

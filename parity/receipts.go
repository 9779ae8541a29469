package parity

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
)

// sameReceipts asks every arm for what an operation got and compares it with the
// row the walk met, and between the arms. It says whether all agree.
func (c *comparison) sameReceipts(ctx context.Context, m met, id string) bool {
	c.checks[CheckReceipts].Compared++
	here := met{cursor: m.cursor, sides: m.sides, rows: make([]*authority.Transaction, len(m.rows))}
	values := make([][]byte, len(m.rows))
	before := c.checks[CheckReceipts].Total
	for i, s := range m.sides {
		receipt, err := s.receipt(ctx, id)
		switch {
		case errors.Is(err, authority.ErrMissing):
			continue
		case c.unread(CheckReceipts, s, err):
			return false
		}
		here.rows[i] = &authority.Transaction{Cursor: receipt.Cursor, Revision: receipt.Revision, OperationID: id, Receipts: receipt.Receipts}
		values[i] = receipt.Receipts
		if row := m.rows[i]; row != nil && row.OperationID == id {
			c.ownReceipt(s, row, receipt)
		}
	}
	if lacking, odd := here.missing(); len(lacking) > 0 {
		c.differs(CheckReceipts, Difference{Code: "receipt_missing", Arm: odd, Cursor: m.cursor, OperationID: id, Values: here.presence()})
	}
	c.sameCursors(here, id)
	here.cursor = m.cursor
	c.sameValues(here, "receipts", CheckReceipts, "receipt_differs", values)
	return c.checks[CheckReceipts].Total == before
}

// receipt is what the arm answers for an operation. A view that answers for many at
// once was asked when it gave the page.
func (s *side) receipt(ctx context.Context, id string) (authority.Receipt, error) {
	if receipt, asked := s.receipts[id]; asked {
		return receipt, nil
	}
	return s.View.Receipt(ctx, id)
}

// askReceipts asks a view that can answer for many operations at once about those of
// a page. What it does not answer, or fails at, is asked again one by one.
func (s *side) askReceipts(ctx context.Context, page []authority.Transaction) {
	view, can := s.View.(interface {
		Receipts(context.Context, []string) (map[string]authority.Receipt, error)
	})
	s.receipts = nil
	if !can {
		return
	}
	ids := make([]string, len(page))
	for i := range page {
		ids[i] = page[i].OperationID
	}
	if receipts, err := view.Receipts(ctx, ids); err == nil {
		s.receipts = receipts
	}
}

// ownReceipt holds the receipt of an operation against the row of the same arm:
// a repeated id, or an index that points elsewhere, shows here.
func (c *comparison) ownReceipt(s *side, row *authority.Transaction, receipt authority.Receipt) {
	d := Difference{Code: "receipt_not_of_row", Arm: s.Name, Cursor: row.Cursor, OperationID: row.OperationID}
	switch {
	case receipt.Cursor != row.Cursor:
		d.Field, d.Values = "cursor", map[string]string{s.Name: receipt.Cursor.String()}
	case receipt.Revision != row.Revision:
		d.Field = "provider_revision"
	case string(receipt.Receipts) != string(row.Receipts):
		d.Field = joined("receipts", firstDifference(row.Receipts, receipt.Receipts).path)
	default:
		return
	}
	c.differs(CheckReceipts, d)
}

// sameCursors: an operation stands at the same cursor everywhere.
func (c *comparison) sameCursors(here met, id string) {
	values := make([][]byte, len(here.rows))
	answers := map[string]string{}
	for i, row := range here.rows {
		if row != nil {
			values[i] = []byte(row.Cursor.String())
			answers[here.sides[i].Name] = row.Cursor.String()
		}
	}
	if left, _ := apart(values); left >= 0 {
		c.differs(CheckReceipts, Difference{Code: "receipt_elsewhere", Arm: oddOf(here.sides, values), Cursor: here.cursor, OperationID: id,
			Field: "cursor", Values: answers})
	}
}

// absentIDs is how many ids that nobody can have used are asked for.
const absentIDs = 3

// askAbsent: an id that was never committed is missing on every arm.
func (c *comparison) askAbsent(ctx context.Context) {
	journals := c.journals()
	if c.broken || len(journals) < 2 {
		return
	}
	for range absentIDs {
		id := "loopx-migrate-absent-" + rand.Text()
		c.checks[CheckReceipts].Compared++
		for _, s := range journals {
			_, err := s.View.Receipt(ctx, id)
			switch {
			case errors.Is(err, authority.ErrMissing):
			case err == nil:
				c.differs(CheckReceipts, Difference{Code: "receipt_unexpected", Arm: s.Name, OperationID: id, Values: map[string]string{s.Name: "present"}})
			default:
				c.unread(CheckReceipts, s, err)
			}
		}
	}
}

package parity

import (
	"context"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// many is a view that answers for many operations at once.
type many struct{ *fake }

func (m many) Receipts(_ context.Context, ids []string) (map[string]authority.Receipt, error) {
	found := map[string]authority.Receipt{}
	for _, id := range ids[1:] { // the first is left to be asked by itself
		if receipt, known := m.receipts[id]; known {
			found[id] = receipt
		}
	}
	return found, nil
}

// What a view answers for many operations at once is held against its rows as well.
func TestManyReceiptsAtOnce(t *testing.T) {
	left, right := history(authority.KindFile, 30), history(authority.KindSQLite, 30)
	arms := []Arm{left.arm("a"), right.arm("b")}
	arms[1].View = many{right}
	report, err := Compare(context.Background(), arms, Options{})
	if err != nil || report.Verdict != Qualified {
		t.Fatalf("%v, %+v", err, report)
	}
	id := right.rows[11].OperationID
	receipt := right.receipts[id]
	receipt.Cursor = 13
	right.receipts[id] = receipt
	report, err = Compare(context.Background(), arms, Options{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, report, CheckReceipts, Difference{Code: "receipt_not_of_row", Arm: "b", Cursor: 12, Field: "cursor"})
	has(t, report, CheckReceipts, Difference{Code: "receipt_elsewhere", Cursor: 12})
}

package parity

import (
	"context"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// What is compared through legacy files has no read model. The one noted is that of the
// head itself, and of the arm that has it.
func TestReadModelBehindAProjection(t *testing.T) {
	todos := func(head authority.Canonical) authority.Canonical {
		return []byte(`{"todos":` + string(member(head, "todos")) + `}`)
	}
	notes := func(store *fake) []string {
		t.Helper()
		head := history(authority.KindSQLite, rows).rows[rows-1].Projection
		legacy := Arm{Name: "legacy", Compatible: todos, Head: func(context.Context) (authority.Canonical, error) { return head, nil }}
		arm := store.arm("sqlite")
		arm.Compatible = todos
		report, err := Compare(context.Background(), []Arm{legacy, arm}, Options{})
		if check := report.Check(CheckConsumers); err != nil || check.Outcome != Equal {
			t.Fatalf("%v, %+v", err, check)
		}
		return report.Check(CheckConsumers).Notes
	}
	store := history(authority.KindSQLite, rows)
	if got := notes(store); len(got) != 0 {
		t.Errorf("of heads whose read models fit: %v", got)
	}
	store.edit(rows, projection, `"records_sha256":"`, `"records_sha256":"0`)
	store.prove()
	if got := notes(store); len(got) != 1 || !strings.Contains(got[0], "read_model_mismatch: the read model of arm sqlite ") {
		t.Errorf("of one that does not: %v", got)
	}
}

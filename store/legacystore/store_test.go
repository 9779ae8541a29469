package legacystore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/store/legacystore"
)

const state = "---\nhandoff_mode: hard_lease\n---\n## Agent Todo\n\n- [ ] One\n  <!-- loopx:todo todo_id=todo_one status=open task_class=advancement_task -->\n"

// kept writes a document of kept files and opens it.
func kept(t *testing.T, files legacy.Files, retained legacystore.Retained) *legacystore.Store {
	t.Helper()
	text, err := legacy.Kept{Files: files, OperationID: "op-import", Plan: authority.DigestOf([]byte("plan"))}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "files.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return legacystore.Open(legacystore.Options{GoalID: "g", Kept: path, Retained: retained})
}

// rows is a retained history.
type rows []authority.Row

func (h rows) Audit(_ context.Context, _ *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	for _, row := range h {
		if err := visit(row); err != nil {
			return authority.Lineage{}, err
		}
	}
	return authority.Lineage{}, nil
}

func (h rows) Close() error { return nil }

func row(cursor authority.Cursor, operation string) authority.Row {
	projection := authority.Canonical(`{"goal_id":"g"}`)
	return authority.Row{StateDigest: authority.DigestOf(projection), Transaction: authority.Transaction{Cursor: cursor, Revision: authority.Revision("sqlite:x:" + cursor.String()),
		OperationID: operation, Events: authority.Canonical("[]"), Projection: projection, Receipts: authority.Canonical(`[{"of":"` + operation + `"}]`)}}
}

// The files are one transaction behind what was retained; each of its questions is
// answered over both, and the logical digest is that of all rows.
func TestHistory(t *testing.T) {
	ctx := t.Context()
	before := rows{row(1, "a"), row(2, "b")}
	s := kept(t, legacy.Files{Goal: "g", State: []byte(state)}, before)
	head, err := s.Load(ctx)
	if err != nil || head.Cursor != 3 {
		t.Fatalf("head %s, %v", head.Cursor, err)
	}
	page, err := s.Scan(ctx, 1, 1)
	if err != nil || len(page.Transactions) != 1 || page.Transactions[0].OperationID != "b" || !page.HasMore || page.Next != 2 {
		t.Errorf("page %+v, %v", page, err)
	}
	if receipt, err := s.Receipt(ctx, "a"); err != nil || string(receipt.Receipts) != `[{"of":"a"}]` || receipt.Cursor != 1 {
		t.Errorf("receipt %+v, %v", receipt, err)
	}
	if _, err := s.Receipt(ctx, "c"); !errors.Is(err, authority.ErrMissing) {
		t.Errorf("an operation that never was: %v", err)
	}
	want := authority.NewLogicalHash()
	for _, r := range before {
		want.Add(r)
	}
	mark := func(schema string) authority.Canonical {
		return authority.Canonical(`[{"goal_id":"g","import_plan_sha256":"` + fixture.SHA256([]byte("plan")) + `","operation_id":"op-import","schema_version":"` + schema +
			`","source_projection_sha256":"` + fixture.SHA256(head.Projection) + `"}]`)
	}
	want.Add(authority.Row{StateDigest: authority.DigestOf(head.Projection), Transaction: authority.Transaction{Cursor: 3, OperationID: "op-import",
		Events: mark("loopx_cold_source_import_event_v0"), Receipts: mark("loopx_cold_source_import_receipt_v0"), Projection: head.Projection}})
	lineage, err := s.Audit(ctx, nil, nil)
	if err != nil || lineage.Logical != want.Digest() || lineage.Transactions != 3 || lineage.Receipts != 3 || lineage.Events != 1 {
		t.Errorf("lineage %+v, %v", lineage, err)
	}
	end := lineage.End
	if tail, err := s.Audit(ctx, &end, func(authority.Row) error { return errors.New("no row is new") }); err != nil || tail.Transactions != 0 || tail.Logical != lineage.Logical {
		t.Errorf("from the end: %+v, %v", tail, err)
	}
	end.Revision = "legacy:other"
	if _, reason := authority.ReasonOf(func() error { _, err := s.Audit(ctx, &end, nil); return err }()); reason != authority.ReasonRewritten {
		t.Errorf("a bookmark that does not stand: %s", reason)
	}
}

func TestRefusals(t *testing.T) {
	ctx := t.Context()
	s := kept(t, legacy.Files{Goal: "g", State: []byte(state)}, nil)
	if _, err := s.Commit(ctx, authority.CommitRequest{OperationID: "x"}); !errors.Is(err, authority.ErrUnavailable) {
		t.Errorf("a commit: %v", err)
	}
	if _, reason := authority.ReasonOf(func() error { _, err := s.Scan(ctx, 2, 1); return err }()); reason != authority.ReasonScanRange {
		t.Errorf("beyond the end: %s", reason)
	}
	if _, reason := authority.ReasonOf(func() error { _, err := s.Scan(ctx, 0, 0); return err }()); reason != authority.ReasonInvalidScan {
		t.Errorf("no row asked for: %s", reason)
	}
	for name, files := range map[string]legacy.Files{"empty": {Goal: "g"}, "other goal": {Goal: "h", State: []byte(state)},
		"twice": {Goal: "g", State: []byte(state + state[len("---\nhandoff_mode: hard_lease\n---\n"):])}} {
		if _, err := kept(t, files, nil).Load(ctx); !errors.Is(err, authority.ErrFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := legacystore.Open(legacystore.Options{GoalID: "g", Kept: filepath.Join(t.TempDir(), "none.json")})
	if _, err := gone.Load(ctx); !errors.Is(err, authority.ErrMissing) {
		t.Errorf("nothing kept: %v", err)
	}
}

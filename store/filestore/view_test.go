package filestore_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// longEvents gives every third transaction events that reach past what a view
// reads of a row at first, and past what it reads next.
func longEvents(steps iter.Seq[fixture.Step]) iter.Seq[fixture.Step] {
	return func(yield func(fixture.Step) bool) {
		for step := range steps {
			switch step.Cursor % 3 {
			case 0:
				step.Events = fmt.Appendf(nil, `[{"kind":"long","text":"%s"}]`, strings.Repeat(`,\"receipts\":[] }`, 400))
			case 1:
				step.Events = fmt.Appendf(nil, `[{"kind":"longer","text":"%s"}]`, strings.Repeat("ü", 40_000))
			}
			if !yield(step) {
				return
			}
		}
	}
}

// A view cuts receipts and operation ids out of rows of any length, format and spelling.
func TestViewExcerpts(t *testing.T) {
	want := fixture.Steps(longEvents(fixture.History(11, 70, 3, 20)))
	for _, name := range []string{"v0", "v1", "respelled"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			makeJournalOf(t, dir, name, want)
			store := open(t, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal})
			view := must1(store.View(context.Background()))
			defer func() { must(t, view.Close()) }()
			operations := must1(view.Operations(context.Background()))
			for i, step := range want {
				receipt := must1(view.Receipt(context.Background(), step.OperationID))
				if !bytes.Equal(receipt.Receipts, step.Receipts) || receipt.Cursor != authority.Cursor(i+1) || operations[i] != step.OperationID {
					t.Fatalf("%d: %q %s %s", i+1, operations[i], receipt.Cursor, receipt.Receipts)
				}
				page := must1(view.Scan(context.Background(), authority.Cursor(i), 1))
				if row := page.Transactions[0]; row.Revision != receipt.Revision || !bytes.Equal(row.Projection, step.Projection) {
					t.Fatalf("%d: receipt of %s, row of %s", i+1, receipt.Revision, row.Revision)
				}
			}
		})
	}
}

// A view judges a commit as the store does, and refuses to once the file was written to.
func TestViewJudgesCommits(t *testing.T) {
	dir := t.TempDir()
	path, _ := fixture.FileV0(t, dir, fixture.HistoryGoal, fixture.History(3, 5, 3, 20))
	store := open(t, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal})
	view := must1(store.View(context.Background()))
	defer func() { must(t, view.Close()) }()
	judge := view.(interface {
		CheckCommit(context.Context, authority.CommitRequest) error
	})
	head := must1(view.Load(context.Background()))
	fresh := authority.CommitRequest{Expected: head.Revision, OperationID: "new", Events: []byte("[]"), Receipts: []byte("[]"), Projection: []byte("{}")}
	known, late, malformed := fresh, fresh, fresh
	known.OperationID, late.Expected, malformed.Events = "turn-000002", "file:1:000000000000000000000000", []byte("{}")
	for _, request := range []authority.CommitRequest{fresh, known, late, malformed} {
		want, got := store.CheckCommit(context.Background(), request), judge.CheckCommit(context.Background(), request)
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%s: the store says %v, the view %v", request.OperationID, want, got)
		}
	}
	if _, reason := authority.ReasonOf(judge.CheckCommit(context.Background(), known)); reason != authority.ReasonOperationExists {
		t.Errorf("a known id is judged %q", reason)
	}
	must(t, os.Truncate(path, 100))
	if class, reason := authority.ReasonOf(judge.CheckCommit(context.Background(), known)); class != authority.ClassFailed || reason != authority.ReasonReadUnavailable {
		t.Errorf("a journal that was written to: %s/%s", class, reason)
	}
}

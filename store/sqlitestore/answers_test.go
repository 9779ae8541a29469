package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// answered are the stores whose every answer LoopX gave is on record.
var answered = []string{"sqlite-v2-small", "sqlite-v2-traps", "migrated-sqlite-v1-to-v2-small"}

func TestAnswersOfLoopX(t *testing.T) {
	for _, name := range answered {
		want := fixture.Expected(t, name)
		for mode, title := range map[Mode]string{Untouched: "untouched", Live: "live", ExistingOnly: "existing only", ReadWrite: "read-write"} {
			t.Run(name+"/"+title, func(t *testing.T) {
				path := databaseOf(t, name, string(want.Goal))
				before := fixture.TreeHash(t, filepath.Dir(path))
				s := openStore(t, Options{Path: path, GoalID: string(want.Goal), Mode: mode})
				requireReader(t, s, want)
				view, err := s.View(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				defer requireClosed(t, view)
				requireReader(t, view, want)
				requireLineage(t, view, want)
				if mode == Untouched {
					fixture.Unchanged(t, filepath.Dir(path), before)
				}
			})
		}
	}
}

// requireReader asks everything that LoopX was asked.
func requireReader(t *testing.T, r authority.Reader, want fixture.Answers) {
	t.Helper()
	ctx := context.Background()
	id, err := r.Identity(ctx)
	if err != nil || string(id) != want.Identity.StoreIdentity {
		t.Errorf("identity %s, %v; LoopX says %s", id, err, want.Identity.StoreIdentity)
	}
	head, err := r.Load(ctx)
	if err != nil || head.Cursor.String() != want.Load.Cursor || string(head.Revision) != want.Load.ProviderRevision {
		t.Errorf("load %s %s, %v; LoopX says %s", head.Cursor, head.Revision, err, want.Load.Cursor)
	}
	requireCanonical(t, "head", want.Load.Head, head.Projection)
	for _, asked := range want.Receipts {
		receipt, err := r.Receipt(ctx, string(asked.OperationID))
		if asked.Result.Status == "missing" {
			if !errors.Is(err, authority.ErrMissing) {
				t.Errorf("receipt %q: %v, LoopX says missing", asked.OperationID, err)
			}
			continue
		}
		if err != nil || receipt.Cursor.String() != asked.Result.Cursor || string(receipt.Revision) != asked.Result.ProviderRevision {
			t.Errorf("receipt %q: %+v, %v", asked.OperationID, receipt, err)
		}
		requireCanonical(t, "receipt", asked.Result.Receipts, receipt.Receipts)
	}
	for _, scans := range want.Scans {
		for _, asked := range scans {
			requirePage(t, r, asked)
		}
	}
}

func requirePage(t *testing.T, r authority.Reader, asked fixture.ScanAnswer) {
	t.Helper()
	var after authority.Cursor
	if asked.After != "" {
		after, _ = authority.ParseCursor(asked.After)
	}
	page, err := r.Scan(context.Background(), after, asked.Limit)
	if err != nil || page.HasMore != asked.Page.HasMore || page.Next.String() != asked.Page.NextCursor || len(page.Transactions) != len(asked.Page.Transactions) {
		t.Errorf("scan after %s limit %d: %d rows, next %s, %v", after, asked.Limit, len(page.Transactions), page.Next, err)
		return
	}
	for i, got := range page.Transactions {
		want := asked.Page.Transactions[i]
		if got.Cursor.String() != want.Cursor || string(got.Revision) != want.ProviderRevision || got.OperationID != string(want.OperationID) {
			t.Errorf("row %d is %s %s %q", i, got.Cursor, got.Revision, got.OperationID)
		}
		requireCanonical(t, "events", want.Events, got.Events)
		requireCanonical(t, "projection", want.Projection, got.Projection)
		requireCanonical(t, "receipts", want.Receipts, got.Receipts)
	}
}

// requireCanonical compares a value as the fixture spells it with canonical text.
func requireCanonical(t *testing.T, name string, want, got []byte) {
	t.Helper()
	text, err := canonical.Append(nil, want)
	if err != nil || !bytes.Equal(text, got) {
		t.Errorf("%s is %.200s, LoopX has %.200s (%v)", name, got, text, err)
	}
}

func requireLineage(t *testing.T, view authority.View, want fixture.Answers) {
	t.Helper()
	lineage := view.Lineage()
	n := len(want.ProviderRevisions)
	if lineage.Transactions != uint64(n) || string(lineage.End.Revision) != want.ProviderRevisions[n-1] || len(lineage.Findings) != 0 && want.Goal == goalSmall {
		t.Errorf("lineage %+v", lineage)
	}
	ids, err := view.Operations(context.Background())
	if err != nil || len(ids) != n {
		t.Errorf("operations %q, %v", ids, err)
	}
	for i, commit := range fixture.Commits(t, "sqlite-v2-small") {
		if want.Goal == goalSmall && ids[i] != string(commit.OperationID) {
			t.Errorf("operation %d is %q, not %q", i+1, ids[i], commit.OperationID)
		}
	}
}

// Many receipts asked for at once are those that are asked for one by one. Only a store
// that holds awkward ids may leave some to be asked again.
func TestViewAnswersManyReceipts(t *testing.T) {
	for _, name := range []string{"sqlite-v2-small", "sqlite-v2-traps"} {
		goal := string(fixture.Expected(t, name).Goal)
		opened, err := openStore(t, Options{Path: databaseOf(t, name, goal), GoalID: goal}).View(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer requireClosed(t, opened)
		ids, err := opened.Operations(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got, err := opened.(*view).Receipts(context.Background(), append(ids[:len(ids):len(ids)], "never", "\xed\xa0\x80"))
		if err != nil || len(got) < len(ids)-1 || len(got) > len(ids) {
			t.Fatalf("%s: %d receipts of %d operations, %v", name, len(got), len(ids), err)
		}
		for id, receipt := range got {
			want, err := opened.Receipt(context.Background(), id)
			if err != nil || receipt.Cursor != want.Cursor || receipt.Revision != want.Revision || !bytes.Equal(receipt.Receipts, want.Receipts) {
				t.Errorf("%s: %q got %+v, not %+v, %v", name, id, receipt, want, err)
			}
		}
	}
}

// The logical digest is computed here over the offered commits, not by a store.
func TestLogicalDigestIsThatOfTheCommits(t *testing.T) {
	for _, name := range []string{"sqlite-v2-small", "sqlite-v2-traps"} {
		goal := string(fixture.Expected(t, name).Goal)
		hash := authority.NewLogicalHash()
		for i, commit := range fixture.Commits(t, name) {
			hash.Add(rowOf(t, i+1, commit))
		}
		s := openStore(t, Options{Path: databaseOf(t, name, goal), GoalID: goal})
		lineage, err := s.Audit(context.Background(), nil, nil)
		if err != nil || lineage.Logical != hash.Digest() {
			t.Errorf("%s: %s, want %s (%v)", name, lineage.Logical, hash.Digest(), err)
		}
	}
}

func rowOf(t testing.TB, cursor int, c fixture.Commit) authority.Row {
	t.Helper()
	text := func(src []byte) authority.Canonical {
		out, err := canonical.Append(nil, src)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	row := authority.Row{Transaction: authority.Transaction{
		Cursor: authority.Cursor(cursor), OperationID: string(c.OperationID),
		Events: text(c.Events), Projection: text(c.Projection), Receipts: text(c.Receipts),
	}}
	row.StateDigest = authority.DigestOf(row.Projection)
	return row
}

// What LoopX offered its store, offered to ours, makes the same answers and the same rows.
func TestCommitsOfLoopXMakeItsDatabase(t *testing.T) {
	for _, name := range []string{"sqlite-v2-small", "sqlite-v2-traps"} {
		t.Run(name, func(t *testing.T) {
			want := fixture.Expected(t, name)
			path := filepath.Join(t.TempDir(), "new", DatabaseName(string(want.Goal)))
			s := openStore(t, Options{Path: path, GoalID: string(want.Goal), Mode: ReadWrite,
				ExpectedIdentity: authority.Identity(want.Identity.StoreIdentity)})
			for i, commit := range fixture.Commits(t, name) {
				request := authority.CommitRequest{Expected: authority.Revision(commit.Expected), OperationID: string(commit.OperationID),
					Events: commit.Events, Projection: commit.Projection, Receipts: commit.Receipts}
				if err := s.CheckCommit(context.Background(), request); err != nil {
					t.Fatalf("check of commit %d: %v", i+1, err)
				}
				applied, err := s.Commit(context.Background(), request)
				if err != nil || string(applied.Revision) != want.CommitResults[i].ProviderRevision || applied.Cursor.String() != strconv.Itoa(i+1) {
					t.Fatalf("commit %d: %+v, %v", i+1, applied, err)
				}
			}
			requireReader(t, s, want)
			requireClosed(t, s)
			requireSameDatabase(t, databaseOf(t, name, string(want.Goal)), path)
		})
	}
}

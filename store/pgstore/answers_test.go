package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

func TestAnswersOfLoopX(t *testing.T) {
	b := fixtureBench(t)
	want := fixture.Expected(t, "postgresql-v0-small")
	for name, role := range map[string]string{"operator": b.operator, "runtime": b.runtime} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, Options{Server: Server{DSN: b.DSN(role)}, Tenant: fixtureTenant, GoalID: fixtureGoal})
			requireReader(t, s, want)
			view, err := s.View(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer view.Close()
			requireReader(t, view, want)
			if n := view.Lineage().Transactions; int(n) != len(want.Receipts)-absentReceipts(want) {
				t.Errorf("the view proved %d transactions", n)
			}
		})
	}
}

// A view leaves out what its audit proved; the store itself reads all of it.
func TestViewAnswersAsTheStore(t *testing.T) {
	b, ctx := fixtureBench(t), context.Background()
	s := openStore(t, Options{Server: Server{DSN: b.DSN(b.operator)}, Tenant: fixtureTenant, GoalID: fixtureGoal})
	opened, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	ids, err := opened.(*view).Operations(ctx)
	if err != nil || len(ids) < 3 {
		t.Fatal(ids, err)
	}
	for after := range authority.Cursor(len(ids) + 2) {
		for limit := 1; limit <= len(ids)+1; limit++ {
			got, gotErr := opened.Scan(ctx, after, limit)
			want, wantErr := s.Scan(ctx, after, limit)
			if gotErr == nil && !reflect.DeepEqual(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || (gotErr == nil) != (int(after) <= len(ids)) {
				t.Fatalf("after %s, %d rows: %v, %v; the store %v, %v", after, limit, got.Next, gotErr, want.Next, wantErr)
			}
		}
	}
	got, err := opened.(*view).Receipts(ctx, append(ids[:len(ids):len(ids)], "never", "\xed\xa0\x80", "a\x00b"))
	if err != nil || len(got) != len(ids) {
		t.Fatalf("%d receipts of %d operations, %v", len(got), len(ids), err)
	}
	for _, id := range append(ids[:len(ids):len(ids)], "never", " ", "\xed\xa0\x80", "a\x00b") {
		one, oneErr := opened.Receipt(ctx, id)
		want, wantErr := s.Receipt(ctx, id)
		if !reflect.DeepEqual(one, want) || fmt.Sprint(oneErr) != fmt.Sprint(wantErr) || wantErr == nil && !reflect.DeepEqual(got[id], want) {
			t.Errorf("%q: %+v, %v; the store %+v, %v", id, one, oneErr, want, wantErr)
		}
	}
}

func absentReceipts(want fixture.Answers) (n int) {
	for _, asked := range want.Receipts {
		if asked.Result.Status == "missing" {
			n++
		}
	}
	return n
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
		if asked.Result.Status == "missing" && errors.Is(err, authority.ErrMissing) {
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
		after = cursorOf(t, asked.After)
	}
	page, err := r.Scan(context.Background(), after, asked.Limit)
	if err != nil || page.HasMore != asked.Page.HasMore || len(page.Transactions) != len(asked.Page.Transactions) {
		t.Fatalf("scan after %d limit %d: %d rows, more %t, %v", after, asked.Limit, len(page.Transactions), page.HasMore, err)
	}
	for i, want := range asked.Page.Transactions {
		got := page.Transactions[i]
		if got.Cursor.String() != want.Cursor || string(got.Revision) != want.ProviderRevision || got.OperationID != string(want.OperationID) {
			t.Errorf("scan after %d: row %s %s %q", after, got.Cursor, got.Revision, got.OperationID)
		}
		requireCanonical(t, "events", want.Events, got.Events)
		requireCanonical(t, "projection", want.Projection, got.Projection)
		requireCanonical(t, "receipts", want.Receipts, got.Receipts)
	}
}

func cursorOf(t *testing.T, text string) authority.Cursor {
	t.Helper()
	cursor, err := authority.ParseCursor(text)
	if err != nil {
		t.Fatal(err)
	}
	return cursor
}

// requireCanonical compares with LoopX's value, whose canonical form the fixtures of
// package canonical prove.
func requireCanonical(t *testing.T, name string, want, got []byte) {
	t.Helper()
	text, err := canonical.Append(nil, want)
	if err != nil || !bytes.Equal(text, got) {
		t.Errorf("%s differs (%v):\n got %.200s\nwant %.200s", name, err, got, text)
	}
}

// TestRefusalsOfLoopX offers what LoopX was offered beside the good history.
func TestRefusalsOfLoopX(t *testing.T) {
	b := fixtureBench(t)
	want := fixture.Decode[map[string]any](t, "postgresql-v0-small", "answers.json")
	s := openStore(t, Options{Server: Server{DSN: b.DSN(b.operator)}, Tenant: fixtureTenant, GoalID: fixtureGoal, Mode: ReadWrite})
	rev := func(id string, n int) authority.Revision {
		return authority.Revision(fmt.Sprintf("postgresql:%s:%d", id, n))
	}
	ones := strings.Repeat("1", 32)
	exact := fixture.Commits(t, "postgresql-v0-small")[5]
	replay := authority.CommitRequest{Expected: authority.Revision(exact.Expected), OperationID: string(exact.OperationID), Events: exact.Events, Projection: exact.Projection, Receipts: exact.Receipts}
	current := replay
	current.Expected = rev(ones, 12)
	for name, offered := range map[string]authority.CommitRequest{
		"stale":                          {Expected: rev(ones, 3), OperationID: "op-new"},
		"null":                           {OperationID: "op-new"},
		"alien token":                    {Expected: "file:12:0123456789ab", OperationID: "op-new"},
		"other identity token":           {Expected: rev(strings.Repeat("9", 32), 12), OperationID: "op-new"},
		"same op":                        {Expected: rev(ones, 12), OperationID: "op-006"},
		"exact replay":                   replay,
		"exact replay, current revision": current,
	} {
		if offered.Events == nil {
			offered.Events, offered.Projection, offered.Receipts = []byte(`[]`), []byte(`{"a":1}`), []byte(`[]`)
		}
		before := contents(t, s)
		_, err := s.Commit(context.Background(), offered)
		requireSaid(t, name, want[name].(map[string]any), err)
		requireSaid(t, "check of "+name, want[name].(map[string]any), s.CheckCommit(context.Background(), offered))
		if contents(t, s) != before {
			t.Errorf("%s changed the store", name)
		}
	}
	_, err := s.Receipt(context.Background(), " ")
	requireSaid(t, "receipt bad id", want["receipt bad id"].(map[string]any), err)
	_, err = s.Scan(context.Background(), 99, 1)
	requireSaid(t, "scan past head", want["scan past head"].(map[string]any), err)
	empty := b.store(t, "goal-empty")
	_, err = empty.Load(context.Background())
	requireSaid(t, "load empty", want["load empty"].(map[string]any), err)
	other := openStore(t, Options{Server: Server{DSN: b.DSN(b.runtime)}, Tenant: "tenant-b", GoalID: fixtureGoal})
	_, err = other.Load(context.Background())
	requireSaid(t, "other tenant load", want["other tenant load"].(map[string]any), err)
	_, err = other.Receipt(context.Background(), "op-006")
	requireSaid(t, "other tenant receipt", want["other tenant receipt"].(map[string]any), err)
}

// requireSaid compares a refusal with LoopX's: status, reason or kind of conflict,
// sentence, and where the head is.
func requireSaid(t *testing.T, name string, want map[string]any, err error) {
	t.Helper()
	var e *authority.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: %v, LoopX says %v", name, err, want)
		return
	}
	got := map[string]any{"status": string(e.Class)}
	switch e.Class {
	case authority.ClassConflict:
		got["conflict_kind"], got["current_provider_revision"], got["current_cursor"] = string(e.Reason), string(e.Current.Revision), e.Current.Cursor.String()
	case authority.ClassFailed, authority.ClassUnavailable:
		got["reason_code"], got["reason"] = string(e.Reason), e.Detail
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, LoopX says %v", name, got, want)
	}
}

// TestBeforeInstall: a database without the schema is unavailable, never empty.
func TestBeforeInstall(t *testing.T) {
	db := pgtest.New(t)
	want := fixture.Decode[map[string]any](t, "postgresql-v0-small", "answers.json")
	s := openStore(t, Options{Server: Server{DSN: db.DSN(pgtest.Admin)}, Tenant: fixtureTenant, GoalID: fixtureGoal, Mode: ReadWrite})
	_, err := s.Identity(context.Background())
	requireSaid(t, "identity before install", want["identity before install"].(map[string]any), err)
	_, err = s.Load(context.Background())
	requireSaid(t, "load before install", want["load before install"].(map[string]any), err)
	_, err = s.Audit(context.Background(), nil, nil)
	requireReason(t, "audit", err, authority.ClassUnavailable, authority.ReasonReadUnavailable)
	_, err = s.Commit(context.Background(), request(authority.Applied{}, "op-1"))
	requireReason(t, "commit", err, authority.ClassFailed, authority.ReasonTransactionFailed)
}

// TestUnsealedIsNeverPassed: what LoopX left before install has no seals.
func TestUnsealedIsNeverPassed(t *testing.T) {
	db := pgtest.New(t)
	loadDump(t, db)
	s := openStore(t, Options{Server: Server{DSN: db.DSN(pgtest.Admin)}, Tenant: fixtureTenant, GoalID: fixtureGoal, Mode: ReadWrite})
	_, err := s.Audit(context.Background(), nil, nil)
	requireReason(t, "audit without this tool's objects", err, authority.ClassFailed, ReasonUnsealed)
	b := installedOn(t, db)
	s = b.store(t, fixtureGoal)
	_, err = s.Audit(context.Background(), nil, nil)
	if e := requireReason(t, "audit of rows from before", err, authority.ClassFailed, ReasonUnsealed); e.Cursor != 1 || e.OperationID != "bootstrap-1" {
		t.Errorf("it names %v", e)
	}
	head, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	on := commit(t, s, authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, "op-sealed")
	_, err = s.Audit(context.Background(), nil, nil)
	requireReason(t, "audit after a sealed row", err, authority.ClassFailed, ReasonUnsealed)
	if err := Adopt(context.Background(), Server{DSN: b.DSN(pgtest.Admin)}, fixtureTenant, fixtureGoal); err != nil {
		t.Fatal(err)
	}
	lineage := audited(t, s)
	if len(lineage.Findings) != 1 || lineage.Findings[0].Code != FindingAdopted || lineage.End.Cursor != on.Cursor {
		t.Errorf("after adoption: %+v", lineage)
	}
}

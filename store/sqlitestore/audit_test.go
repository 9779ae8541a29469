package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// What LoopX passes over in load or in a commit the audit finds, by cursor and column.
func TestAuditNamesTheRecord(t *testing.T) {
	for name, at := range map[string]struct {
		cursor authority.Cursor
		field  string
	}{
		"checkpoint-digest-edited": {1, "checkpoints.projection"}, "checkpoint-edited": {1, "checkpoints.projection"},
		"checkpoint-missing": {1, "checkpoints.cursor"}, "commit-digest-edited-last": {12, "commits.commit_digest"},
		"commit-digest-edited-middle": {6, "commits.commit_digest"}, "delta-edited-last": {12, "commits.state_digest"},
		"delta-edited-middle": {6, "commits.state_digest"}, "delta-extra-key": {6, "commits.delta"}, "delta-schema": {6, "commits.delta"},
		"delta-splice-range": {6, "commits.delta"}, "events-edited-middle": {6, "commits.commit_digest"},
		"operation-edited-middle": {6, "commits.commit_digest"}, "parent-digest-null-last": {12, "commits.parent_state_digest"},
		"parent-digest-null-middle": {6, "commits.parent_state_digest"}, "parent-digest-on-first": {1, "commits.parent_state_digest"},
		"receipts-edited-middle": {6, "commits.commit_digest"}, "state-digest-edited-middle": {6, "commits.state_digest"},
		"head-digest-upper": {0, "head.state_digest"}, "head-projection-blob": {0, "head.projection"}, "user-version-3": {0, "user_version"},
	} {
		s := openStore(t, Options{Path: databaseOf(t, filepath.Join("malformed", "sqlite-v2--"+name), goalSmall), GoalID: goalSmall})
		_, err := s.Audit(context.Background(), nil, nil)
		if e := requireRefusal(t, name, err, authority.ClassFailed, authority.ReasonProtocolViolation, at.field); e.Cursor != at.cursor {
			t.Errorf("%s: at cursor %s, want %s", name, e.Cursor, at.cursor)
		}
	}
}

func TestAuditFindings(t *testing.T) {
	for name, want := range map[string]authority.Finding{
		"checkpoint-extra":         {Code: authority.FindingStrayCheckpoint, Cursor: 5, Field: "checkpoints.cursor"},
		"delta-keys-sorted":        {Code: authority.FindingSpelling, Cursor: 6, OperationID: "op-006", Field: "commits.delta"},
		"events-respaced":          {Code: authority.FindingSpelling, Cursor: 6, OperationID: "op-006", Field: "commits.events"},
		"extra-table":              {Code: authority.FindingExtraTable, Field: "sqlite_master"},
		"head-projection-respaced": {Code: authority.FindingSpelling, Field: "head.projection"},
	} {
		s := openStore(t, Options{Path: databaseOf(t, filepath.Join("tolerated", "sqlite-v2--"+name), goalSmall), GoalID: goalSmall})
		lineage, err := s.Audit(context.Background(), nil, nil)
		if err != nil || len(lineage.Findings) != 1 {
			t.Errorf("%s: %+v, %v", name, lineage.Findings, err)
			continue
		}
		got := lineage.Findings[0]
		if want.Code == authority.FindingExtraTable {
			got.Detail = ""
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// Changes by hand that LoopX's own audit passes over.
func TestAuditSeesWhatLoopXDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		statements []string
		reason     authority.Reason // of a defect, else
		finding    string
		field      string
	}{
		"application id":  {[]string{"PRAGMA application_id = 7"}, "", FindingApplicationID, ""},
		"trigger":         {[]string{"CREATE TRIGGER t AFTER INSERT ON commits BEGIN SELECT 1; END"}, "", FindingExtraObject, "sqlite_master"},
		"index":           {[]string{"CREATE INDEX i ON commits(state_digest)"}, "", FindingExtraObject, "sqlite_master"},
		"schema text":     {[]string{"ALTER TABLE head ADD COLUMN note"}, "", FindingSchema, "sqlite_master"},
		"blob receipts":   {[]string{"UPDATE commits SET receipts = CAST(receipts AS BLOB) WHERE cursor = 4"}, authority.ReasonProtocolViolation, "", "commits.receipts"},
		"blob delta":      {[]string{"UPDATE commits SET delta = CAST(delta AS BLOB) WHERE cursor = 4"}, authority.ReasonProtocolViolation, "", "commits.delta"},
		"blob projection": {[]string{"UPDATE checkpoints SET projection = CAST(projection AS BLOB)"}, authority.ReasonProtocolViolation, "", "checkpoints.projection"},
		"foreign key":     {[]string{"PRAGMA foreign_keys = OFF", "UPDATE head SET cursor = 99"}, authority.ReasonProtocolViolation, "", "head.cursor"},
		"twice the same operation": {[]string{
			"CREATE TABLE c2 AS SELECT * FROM commits", "PRAGMA foreign_keys = OFF", "DROP TABLE commits", "ALTER TABLE c2 RENAME TO commits",
			"UPDATE commits SET operation_id = 'op-003' WHERE cursor = 5"}, authority.ReasonDefect, "", "commits.operation_id"},
	} {
		path := databaseOf(t, "sqlite-v2-small", goalSmall)
		execute(t, path, c.statements...)
		lineage, err := openStore(t, Options{Path: path, GoalID: goalSmall}).Audit(context.Background(), nil, nil)
		if c.reason != "" {
			requireRefusal(t, name, err, authority.ClassFailed, c.reason, c.field)
			continue
		}
		if err != nil || len(lineage.Findings) != 1 || lineage.Findings[0].Code != c.finding || lineage.Findings[0].Field != c.field {
			t.Errorf("%s: %+v, %v", name, lineage.Findings, err)
		}
	}
}

// An index that does not agree with its table: here one key of it is edited on
// disk, so that the operation's receipt is "missing", which LoopX believes. The file's own
// check finds it.
func TestAuditChecksTheFile(t *testing.T) {
	const pageSize = 4096
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	root := rootPage(t, path, "sqlite_autoindex_commits_1")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, pageSize)
	if _, err := file.ReadAt(page, (root-1)*pageSize); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(bytes.Replace(page, []byte("op-006"), []byte("op-00~"), 1), (root-1)*pageSize); err != nil {
		t.Fatal(err)
	}
	requireClosed(t, file)
	s := openStore(t, Options{Path: path, GoalID: goalSmall})
	_, err = s.Receipt(context.Background(), "op-006")
	requireRefusal(t, "receipt", err, authority.ClassMissing, authority.ReasonNone, "")
	_, err = s.Audit(context.Background(), nil, nil)
	requireRefusal(t, "audit", err, authority.ClassFailed, authority.ReasonDefect, "integrity_check")
}

func rootPage(t *testing.T, path, name string) (page int64) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer requireClosed(t, db)
	if err := db.QueryRow("SELECT rootpage FROM sqlite_master WHERE name = ?", name).Scan(&page); err != nil {
		t.Fatal(err)
	}
	return page
}

// From each bookmark on, the rest of the history is shown and the digests come out as
// from the beginning.
func TestAuditFromEveryBookmark(t *testing.T) {
	const n = 140
	path := committed(t, n)
	s := openStore(t, Options{Path: path, GoalID: fixture.HistoryGoal})
	whole, err := s.Audit(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	logical := authority.NewLogicalHash()
	for row := range steps(t, n, 4, 20) {
		logical.Add(row)
		if row.Cursor%9 != 0 && row.Cursor%64 > 2 {
			continue
		}
		mark := authority.Bookmark{Cursor: row.Cursor, Revision: revision(identitySmall, uint64(row.Cursor)),
			StateDigest: row.StateDigest, Logical: logical.State()}
		next := row.Cursor
		lineage, err := s.Audit(context.Background(), &mark, func(shown authority.Row) error {
			if next++; shown.Cursor != next {
				t.Errorf("row %s shown, want %s", shown.Cursor, next)
			}
			return nil
		})
		if err != nil || next != n || lineage.Logical != whole.Logical || lineage.End.Cursor != n || lineage.Transactions != n {
			t.Fatalf("from %s: %+v, %v", row.Cursor, lineage.End, err)
		}
		mark.StateDigest[0] ^= 1
		_, err = s.Audit(context.Background(), &mark, nil)
		requireRefusal(t, "other state", err, authority.ClassFailed, authority.ReasonRewritten, "")
	}
}

func TestAuditEndsWithTheVisitorsError(t *testing.T) {
	s := openStore(t, Options{Path: databaseOf(t, "sqlite-v2-small", goalSmall), GoalID: goalSmall})
	stop := errors.New("enough")
	seen := 0
	_, err := s.Audit(context.Background(), nil, func(authority.Row) error {
		if seen++; seen == 4 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || seen != 4 {
		t.Errorf("%v after %d rows", err, seen)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = s.Audit(ctx, nil, func(row authority.Row) error {
		cancel()
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err != nil && strings.Contains(err.Error(), filepath.Dir(s.options.Path)) {
		t.Errorf("%v names a path", err)
	}
}

// A bookmark of an audit carries the counts of the rows before it.
func TestBookmarkCarriesTheCounts(t *testing.T) {
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	s := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
	first, err := s.Audit(context.Background(), nil, nil)
	if err != nil || first.Events != 12 || first.Receipts != 12 {
		t.Fatalf("%+v, %v", first, err)
	}
	request := nextOfSmall("op-013")
	request.Events, request.Receipts = []byte(`[{},{}]`), []byte(`[{},{},{}]`)
	request.Projection = []byte(`{"todo_read_model":{"todo_count":2},"todos":[{}]}`)
	if _, err := s.Commit(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	tail, err := s.Audit(context.Background(), &first.End, nil)
	if err != nil || tail.Events != 14 || tail.Receipts != 15 || tail.Transactions != 13 {
		t.Errorf("%+v, %v", tail, err)
	}
	want := authority.Finding{Code: authority.FindingReadModel, Cursor: 13, OperationID: "op-013", Field: "head.projection.todo_read_model.todo_count"}
	if len(tail.Findings) != 1 || tail.Findings[0] != want {
		t.Errorf("findings %+v", tail.Findings)
	}
	first.End.Position = "elsewhere"
	_, err = s.Audit(context.Background(), &first.End, nil)
	requireRefusal(t, "position of another store", err, authority.ClassFailed, authority.ReasonRewritten, "")
}

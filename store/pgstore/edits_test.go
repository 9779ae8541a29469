package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// edit is what a superuser does to rows behind everybody's back. The column is the one
// the audit must name; loopx is the key of LoopX's answers, where it was asked.
type edit struct {
	loopx  string
	sql    string
	cursor authority.Cursor
	field  string
}

const rows = "loopx_control_plane.authority_"

// edits is every kind of change that rows can be given.
var edits = []edit{
	{"edited: receipt value", `UPDATE ` + rows + `receipts SET receipt = jsonb_set(receipt, '{goal_id}', '"x"') WHERE cursor = 6`, 6, "authority_receipts[0].receipt"},
	{"edited: event value", `UPDATE ` + rows + `events SET event = jsonb_set(event, '{goal_id}', '"x"') WHERE cursor = 6`, 6, "authority_events[0].event"},
	{"edited: middle projection", `UPDATE ` + rows + `commits SET projection = jsonb_set(projection, '{todos,0,text}', '"x"') WHERE cursor = 6`, 6, "authority_commits.projection"},
	{"edited: last projection", `UPDATE ` + rows + `commits SET projection = jsonb_set(projection, '{todos,0,text}', '"x"') WHERE cursor = 12`, 12, "authority_commits.projection"},
	{"edited: head json", `UPDATE ` + rows + `heads SET head = jsonb_set(head, '{todos,0,text}', '"x"')`, 12, "authority_heads.head"},
	{"edited: head array", `UPDATE ` + rows + `heads SET head = '[]'`, 12, "authority_heads.head"},
	{"edited: head cursor", `UPDATE ` + rows + `heads SET cursor = 13`, 13, "authority_commits.cursor"},
	{"edited: head revision", `UPDATE ` + rows + `heads SET provider_revision = 99`, 12, "authority_heads.provider_revision"},
	{"edited: commit 6 deleted", `DELETE FROM ` + rows + `commits WHERE cursor = 6`, 6, "authority_commits.cursor"},
	{"edited: commit 12 deleted", `DELETE FROM ` + rows + `commits WHERE cursor = 12`, 12, "authority_commits.cursor"},
	{"edited: commit 6 revision", `UPDATE ` + rows + `commits SET provider_revision = 99 WHERE cursor = 6`, 6, "authority_commits.provider_revision"},
	{"edited: receipt array", `UPDATE ` + rows + `receipts SET receipt = '[]' WHERE cursor = 6`, 6, "authority_receipts[0].receipt"},
	{"edited: operation id spaced", `UPDATE ` + rows + `commits SET operation_id = ' op-006' WHERE cursor = 6`, 6, "authority_commits.operation_id"},
	{"edited: head row gone (cascade)", `DELETE FROM ` + rows + `heads`, 1, "authority_heads.cursor"},
	{"edited: metadata schema", `UPDATE ` + rows + `store_metadata SET schema_version = 'x'`, 0, "authority_store_metadata"},
	{"edited: metadata gone", `DELETE FROM ` + rows + `store_metadata`, 0, "authority_store_metadata"},
	{"", `UPDATE ` + rows + `commits SET operation_id = 'op-666' WHERE cursor = 6`, 6, "authority_commits.operation_id"},
	{"", `UPDATE ` + rows + `commits SET committed_at = committed_at + interval '1 microsecond' WHERE cursor = 6`, 6, "authority_commits.committed_at"},
	{"", `UPDATE ` + rows + `heads SET updated_at = updated_at - interval '1 second'`, 12, "authority_heads.updated_at"},
	{"", `UPDATE ` + rows + `heads SET cursor = 11, provider_revision = 11`, 12, "authority_heads.cursor"},
	{"", `DELETE FROM ` + rows + `events WHERE cursor = 6`, 6, "authority_events[0]"},
	{"", `DELETE FROM ` + rows + `receipts WHERE cursor = 6`, 6, "authority_receipts[0]"},
	{"", `INSERT INTO ` + rows + `events VALUES ('tenant-a', 'goal-small', 6, 1, '{"added":true}')`, 6, "authority_events[1]"},
	{"", `INSERT INTO ` + rows + `receipts VALUES ('tenant-a', 'goal-small', 6, 1, '{}')`, 6, "authority_receipts[1]"},
	{"", `UPDATE ` + rows + `events SET event_index = 3 WHERE cursor = 6`, 6, "authority_events[3].event_index"},
	{"", `UPDATE ` + rows + `receipts SET receipt_index = 1 WHERE cursor = 6`, 6, "authority_receipts[1].receipt_index"},
	{"", `UPDATE ` + rows + `receipts AS r SET receipt = o.receipt FROM ` + rows + `receipts AS o
		WHERE r.cursor IN (6, 7) AND o.cursor = 13 - r.cursor`, 6, "authority_receipts[0].receipt"},
	{"", `UPDATE ` + rows + `commits AS c SET projection = o.projection FROM ` + rows + `commits AS o
		WHERE c.cursor IN (4, 5) AND o.cursor = 9 - c.cursor`, 4, "authority_commits.projection"},
	{"", `INSERT INTO ` + rows + `commits SELECT tenant_id, goal_id, 13, 13, 'op-013', projection FROM ` + rows + `commits WHERE cursor = 12`, 13, "loopx_migrate_seals"},
	{"", `DELETE FROM loopx_control_plane.loopx_migrate_seals WHERE cursor = 6`, 6, "loopx_migrate_seals"},
	{"", `UPDATE loopx_control_plane.loopx_migrate_seals SET seal = sha256('x') WHERE cursor = 6`, 6, "loopx_migrate_seals.seal"},
	{"", `DELETE FROM ` + rows + `commits WHERE cursor > 10; UPDATE ` + rows + `heads SET cursor = 10, provider_revision = 10,
		head = (SELECT projection FROM ` + rows + `commits WHERE cursor = 10)`, 11, "authority_heads.cursor"},
	{"", `ALTER TABLE ` + rows + `events DISABLE TRIGGER ALL; INSERT INTO ` + rows + `events VALUES ('tenant-a', 'goal-small', 99, 0, '{}');
		ALTER TABLE ` + rows + `events ENABLE TRIGGER ALL`, 99, "authority_events"},
	{"", `UPDATE ` + rows + `commits SET projection = jsonb_set(projection, '{todos,0,text}', '"x"') WHERE cursor = 6;
		UPDATE loopx_control_plane.loopx_migrate_seals AS s SET projection_sha256 = sha256(convert_to(c.projection::text, 'UTF8'))
		FROM ` + rows + `commits AS c WHERE c.cursor = 6 AND s.cursor = 6`, 6, "loopx_migrate_seals.seal"},
}

// TestEveryEditIsNamed also holds the other verbs against what LoopX answered then: they
// may look away where LoopX does, the audit may not.
func TestEveryEditIsNamed(t *testing.T) {
	b := fixtureBench(t)
	conn := b.Connect(t, pgtest.Admin)
	want := fixture.Decode[map[string]any](t, "postgresql-v0-small", "answers.json")
	s := b.store(t, fixtureGoal)
	anchor := audited(t, s).End
	for _, e := range edits {
		name := e.loopx
		if name == "" {
			name = e.sql
		}
		t.Run(name, func(t *testing.T) {
			undo := spoil(t, conn, e.sql)
			defer undo()
			if e.loopx != "" {
				requireLoopX(t, s, want[e.loopx].(map[string]any))
			}
			_, err := s.Audit(context.Background(), nil, nil)
			var found *authority.Error
			if !errors.As(err, &found) || found.Class != authority.ClassFailed || found.Cursor != e.cursor || found.Field != e.field {
				t.Errorf("the audit says %v, want cursor %d field %s", err, e.cursor, e.field)
			}
		})
	}
	if end := audited(t, s).End; end.Position != anchor.Position {
		t.Error("an edit was not undone")
	}
}

// spoil commits an edit, all triggers off, and returns how to put every table back.
func spoil(t *testing.T, conn *pgx.Conn, sql string) (undo func()) {
	t.Helper()
	tables := []string{"authority_store_metadata", "authority_heads", "authority_commits", "authority_events", "authority_receipts", "loopx_migrate_seals"}
	script := "BEGIN;"
	back := "BEGIN;"
	for i, table := range tables {
		name := "loopx_control_plane." + table
		script += "CREATE TEMPORARY TABLE kept_" + table + " AS TABLE " + name + ";"
		back = "DELETE FROM " + name + ";" + back
		back += "INSERT INTO " + name + " SELECT * FROM kept_" + table + "; DROP TABLE kept_" + table + ";"
		if i > 0 && i < 5 {
			script += "ALTER TABLE " + name + " DISABLE TRIGGER USER;"
		}
	}
	requireExec(t, conn.PgConn(), script+"COMMIT;"+sql)
	return func() {
		t.Helper()
		requireExec(t, conn.PgConn(), "SET session_replication_role = replica;"+back+"COMMIT; SET session_replication_role = origin;")
		for _, table := range tables[1:5] {
			for _, trigger := range []string{"loopx_migrate_gate", "loopx_migrate_gate_all"} {
				requireExec(t, conn.PgConn(), "ALTER TABLE loopx_control_plane."+table+" ENABLE ALWAYS TRIGGER "+trigger)
			}
		}
		requireExec(t, conn.PgConn(), "ALTER TABLE loopx_control_plane.authority_heads ENABLE ALWAYS TRIGGER loopx_migrate_seal")
	}
}

// requireLoopX compares load, receipt and scans with what LoopX answered after the edit.
func requireLoopX(t *testing.T, s *Store, want map[string]any) {
	t.Helper()
	ctx := context.Background()
	_, load := s.Load(ctx)
	_, receipt := s.Receipt(ctx, "op-006")
	_, scan := s.Scan(ctx, 0, 64)
	_, part := s.Scan(ctx, 4, 2)
	for verb, got := range map[string]string{"load": spoken(load, "loaded"), "receipt_6": spoken(receipt, "found"),
		"scan64": spoken(scan, "page"), "scan_4_2": spoken(part, "page")} {
		if got != want[verb].(string) {
			t.Errorf("%s: %s, LoopX says %s", verb, got, want[verb])
		}
	}
}

// spoken is an answer as answers.json spells it: class/reason: sentence.
func spoken(err error, fine string) string {
	var e *authority.Error
	if !errors.As(err, &e) {
		return fine
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(e.Class)+"/"+string(e.Reason)+": "+e.Detail, ": "), "/")
}

// TestAnchor: who rewrites rows and seals alike passes the audit and not the anchor.
func TestAnchor(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 3)
	anchor := audited(t, s).End
	on = commit(t, s, on, "op-4")
	after := audited(t, s).End
	if _, err := s.Audit(context.Background(), &anchor, nil); err != nil {
		t.Fatalf("audit from the anchor: %v", err)
	}
	conn := b.Connect(t, pgtest.Admin)
	ctx := context.Background()
	// Only the first receipt changes: the state at the anchor stays what it was.
	for _, sql := range []string{
		`UPDATE loopx_control_plane.authority_receipts SET receipt = '{"forged": true}' WHERE goal_id = $1 AND cursor = 1 AND receipt_index = 0`,
		`SELECT loopx_control_plane.loopx_migrate_adopt('tenant-a', $1)`,
		`UPDATE loopx_control_plane.loopx_migrate_seals SET made_by = 'commit' WHERE goal_id = $1`,
	} {
		if _, err := conn.Exec(ctx, sql, s.GoalID()); err != nil {
			t.Fatal(err)
		}
	}
	if forged := audited(t, s); forged.End.Cursor != on.Cursor || forged.Logical == (authority.Lineage{}).Logical {
		t.Fatalf("the forgery is not whole: %+v", forged)
	}
	for _, mark := range []authority.Bookmark{anchor, after} {
		_, err := s.Audit(ctx, &mark, nil)
		if e := requireReason(t, "audit from the anchor", err, authority.ClassFailed, authority.ReasonRewritten); e.Field != "loopx_migrate_seals.seal" {
			t.Errorf("it names %s", e.Field)
		}
	}
}

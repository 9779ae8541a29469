//go:build interop

package pgstore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// adapter is LoopX's own store in a process of Node.js, whose statements this test runs.
type adapter struct {
	t     *testing.T
	dsn   string
	in    io.Writer
	out   *bufio.Scanner
	conns map[int]*pgx.Conn
}

// loopxAdapter starts LoopX's adapter as a role, for a Goal of tenant-a. Where LoopX is
// installed says scripts/interop-install.sh.
func (b *bench) loopxAdapter(t *testing.T, role, goal string) *adapter {
	t.Helper()
	folder := os.Getenv("LOOPX_MIGRATE_INTEROP")
	if folder == "" {
		folder = filepath.Join("..", "..", ".interop")
	}
	found, err := filepath.Glob(filepath.Join(folder, "loopx", "lib", "python3*", "site-packages", "loopx", "control_plane", "coordination"))
	if err != nil || len(found) != 1 {
		t.Skipf("LoopX is not installed in %s; run scripts/interop-install.sh", folder)
	}
	place, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	// Node strips types outside of node_modules, which site-packages is not.
	node := exec.Command(filepath.Join(folder, "node", "node_modules", ".bin", "node"), "--no-warnings", filepath.Join("testdata", "adapter.mjs"), place, "tenant-a", goal)
	node.Stderr = os.Stderr
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	a := &adapter{t: t, dsn: b.DSN(role), in: in, out: bufio.NewScanner(out), conns: map[int]*pgx.Conn{}}
	a.out.Buffer(nil, 64<<20)
	t.Cleanup(func() {
		_ = in.Close() // it ends then, with status 0
		if err := node.Wait(); err != nil {
			t.Errorf("node: %v", err)
		}
	})
	return a
}

// call asks the adapter and serves its statements until it answers.
func (a *adapter) call(name string, args ...any) map[string]any {
	a.t.Helper()
	a.say(map[string]any{"call": name, "args": append([]any{}, args...)})
	for a.out.Scan() {
		var line struct {
			Query   *string
			Values  []any
			Conn    int
			Release int
			Answer  map[string]any
		}
		if err := json.Unmarshal(a.out.Bytes(), &line); err != nil {
			a.t.Fatal(err)
		}
		switch {
		case line.Query != nil:
			a.say(a.serve(line.Conn, *line.Query, line.Values))
		case line.Release != 0:
			if conn := a.conns[line.Release]; conn != nil {
				_ = conn.Close(context.Background()) // each of its connections serves once
			}
		default:
			return line.Answer
		}
	}
	a.t.Fatalf("the adapter ended: %v", a.out.Err())
	return nil
}

func (a *adapter) say(value any) {
	a.t.Helper()
	// Node's readline ends lines at U+2028 too, which encoding/json writes as an escape.
	line, err := json.Marshal(value)
	if err == nil {
		_, err = a.in.Write(append(line, '\n'))
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// serve runs a statement as node-postgres does: parameters as text, jsonb parsed, bigint
// as text.
func (a *adapter) serve(id int, query string, values []any) map[string]any {
	conn, err := a.conns[id], error(nil)
	if conn == nil {
		if conn, err = pgx.Connect(context.Background(), a.dsn); err == nil {
			a.conns[id] = conn
		}
	}
	if err != nil {
		return map[string]any{"error": err.Error(), "code": "08006"}
	}
	if len(values) == 0 {
		return simple(conn, query)
	}
	params := make([][]byte, len(values))
	for i, value := range values {
		params[i] = fmt.Append(nil, value)
	}
	return answerOf(conn.PgConn().ExecParams(context.Background(), query, params, nil, nil, nil).Read())
}

func simple(conn *pgx.Conn, query string) map[string]any {
	results, err := conn.PgConn().Exec(context.Background(), query).ReadAll()
	if err != nil || len(results) == 0 {
		return answerOf(&pgconn.Result{Err: err})
	}
	return answerOf(results[len(results)-1])
}

func answerOf(result *pgconn.Result) map[string]any {
	var said *pgconn.PgError
	if errors.As(result.Err, &said) {
		return map[string]any{"error": said.Message, "code": said.Code}
	}
	if result.Err != nil {
		return map[string]any{"error": result.Err.Error(), "code": ""}
	}
	rows := []any{}
	for _, values := range result.Rows {
		row := map[string]any{}
		for i, field := range result.FieldDescriptions {
			switch {
			case values[i] == nil:
				row[field.Name] = nil
			case field.DataTypeOID == pgtype.JSONBOID:
				row[field.Name] = json.RawMessage(values[i])
			default:
				row[field.Name] = string(values[i])
			}
		}
		rows = append(rows, row)
	}
	return map[string]any{"rows": rows, "rowCount": result.CommandTag.RowsAffected()}
}

// TestLoopXGoesOn: LoopX's own adapter reads what was loaded, goes on, is stopped by the
// fence, and what it wrote is sealed.
func TestLoopXGoesOn(t *testing.T) {
	b := installed(t)
	o := b.candidate(b.operator, freshGoal())
	fill(t, createCandidate(t, o), 70)
	s := b.store(t, o.GoalID)
	a := b.loopxAdapter(t, b.runtime, o.GoalID)
	early := a.call("commit", map[string]any{"expected_provider_revision": fmt.Sprintf("%s:70", testIdentity), "operation_id": "early",
		"events": []any{}, "next_projection": map[string]any{}, "receipts": []any{}})
	if early["reason_code"] != "provider_transaction_failed" {
		t.Errorf("LoopX into a candidate: %v", early)
	}
	if err := s.ReleaseCandidate(t.Context(), o.CandidateID, at(audited(t, s))); err != nil {
		t.Fatal(err)
	}
	requireSameAnswers(t, a, s)
	for i := range 3 {
		n := 70 + i
		answer := a.call("commit", map[string]any{"expected_provider_revision": fmt.Sprintf("%s:%d", testIdentity, n), "operation_id": fmt.Sprintf("loopx-%d", i),
			"events": []any{map[string]any{"kind": "k"}}, "next_projection": map[string]any{"n": n, "text": "☃ \\ é"}, "receipts": []any{map[string]any{"ok": true}, map[string]any{}}})
		if answer["status"] != "applied" || answer["cursor"] != fmt.Sprint(n+1) {
			t.Fatalf("LoopX's commit: %v", answer)
		}
	}
	lineage := audited(t, s)
	requireSameAnswers(t, a, s)
	commit(t, s, at(lineage), "ours-again")
	if err := s.EngageFence(t.Context(), "fence-1", at(audited(t, s))); err != nil {
		t.Fatal(err)
	}
	late := a.call("commit", map[string]any{"expected_provider_revision": fmt.Sprintf("%s:74", testIdentity), "operation_id": "late",
		"events": []any{}, "next_projection": map[string]any{}, "receipts": []any{}})
	if late["reason_code"] != "provider_transaction_failed" {
		t.Errorf("LoopX behind the fence: %v", late)
	}
	requireSameAnswers(t, a, s)
	b.Exec(t, fmt.Sprintf("UPDATE loopx_control_plane.loopx_migrate_fences SET state = 'open', fence_id = '' WHERE goal_id = '%s'", o.GoalID),
		fmt.Sprintf("UPDATE loopx_control_plane.authority_events SET event = '{}' WHERE goal_id = '%s' AND cursor = 72", o.GoalID))
	_, err := s.Audit(t.Context(), nil, nil)
	if e := requireReason(t, "audit", err, authority.ClassFailed, authority.ReasonDefect); e.Cursor != 72 || e.Field != "authority_events[0].event" {
		t.Errorf("an edited row that LoopX wrote: %v", e)
	}
}

// requireSameAnswers compares LoopX's adapter with our store, all of the history.
func requireSameAnswers(t *testing.T, a *adapter, s *Store) {
	t.Helper()
	head, err := s.Load(t.Context())
	loaded := a.call("load")
	if err != nil || loaded["provider_revision"] != string(head.Revision) || string(fixture.Canonical(loaded["head"])) != string(head.Projection) {
		t.Errorf("load: LoopX %.300v, ours %s, %v", loaded, head.Revision, err)
	}
	if id := a.call("identity"); id["store_identity"] != string(testIdentity) {
		t.Errorf("identity: %v", id)
	}
	page, err := s.Scan(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	scanned := a.call("scan", nil, 1000)
	rows, _ := scanned["transactions"].([]any)
	if len(rows) != len(page.Transactions) {
		t.Fatalf("scan: LoopX shows %d rows (%v), ours %d", len(rows), scanned["reason"], len(page.Transactions))
	}
	for i, ours := range page.Transactions {
		theirs := rows[i].(map[string]any)
		receipt := a.call("receipt", ours.OperationID)
		if theirs["provider_revision"] != string(ours.Revision) || theirs["operation_id"] != ours.OperationID ||
			string(fixture.Canonical(theirs["events"])) != string(ours.Events) || string(fixture.Canonical(theirs["projection"])) != string(ours.Projection) ||
			string(fixture.Canonical(theirs["receipts"])) != string(ours.Receipts) || string(fixture.Canonical(receipt["receipts"])) != string(ours.Receipts) {
			t.Errorf("row %s differs", ours.Cursor)
		}
	}
}

// TestLoopXInstalls: what LoopX's installer makes and what ours makes print the same, and
// each accepts the other's.
func TestLoopXInstalls(t *testing.T) {
	db := pgtest.New(t)
	b := withRoles(t, db)
	a := b.loopxAdapter(t, pgtest.Admin, "g")
	if answer := a.call("install", string(testIdentity)); answer != nil {
		t.Fatalf("LoopX's install: %v", answer)
	}
	ours := pgtest.New(t)
	ours.Exec(t, loopxSQL)
	if theirs, mine := schemaOf(t, db), schemaOf(t, ours); theirs != mine {
		t.Errorf("LoopX's:\n%s\nours:\n%s", theirs, mine)
	}
	b.install(t, testIdentity)
	if answer := a.call("install", string(testIdentity)); answer != nil {
		t.Errorf("LoopX's install over ours: %v", answer)
	}
	if found, err := Doctor(t.Context(), Server{DSN: b.DSN(pgtest.Admin)}, DoctorOptions{Runtime: b.runtime}); err != nil || !found.OK() {
		t.Errorf("afterwards: %v, %v", found, err)
	}
}

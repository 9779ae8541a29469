//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// archived is a whole history as LoopX exported it.
type archived struct {
	path, sha256 string
	transactions []transaction
}

// transaction is what a history holds whatever store it is in: no provider revision.
type transaction struct {
	Kind        string `json:"kind"`
	Cursor      string `json:"cursor"`
	OperationID string `json:"operation_id"`
	Events      any    `json:"events"`
	Receipts    any    `json:"receipts"`
	Delta       any    `json:"delta"`
}

// export has LoopX write its archive of the Goal, and reads it.
func (g goal) export() archived {
	g.t.Helper()
	a := archived{path: filepath.Join(g.t.TempDir(), "archive.jsonl")}
	exported := g.loopx("authority-archive", "export", "--archive", a.path).done(g.t)
	a.sha256 = exported.is("archive", "archive_sha256")
	text, err := os.ReadFile(a.path)
	must(g.t, err)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var row transaction
		must(g.t, json.Unmarshal(lines.Bytes(), &row))
		if row.Kind == "transaction" {
			a.transactions = append(a.transactions, row)
		}
	}
	must(g.t, lines.Err())
	return a
}

// operations are the operation ids in cursor order.
func (a archived) operations() []string {
	ids := make([]string, len(a.transactions))
	for i, row := range a.transactions {
		ids[i] = row.OperationID
	}
	return ids
}

// begins fails unless the later history begins with every row of this one, receipts
// and events field for field.
func (a archived) begins(t testing.TB, later archived) {
	t.Helper()
	if len(later.transactions) < len(a.transactions) {
		t.Fatalf("%d transactions, and %d before", len(later.transactions), len(a.transactions))
	}
	for i, row := range a.transactions {
		if !reflect.DeepEqual(row, later.transactions[i]) {
			t.Fatalf("row %d was %v and is %v", i+1, row, later.transactions[i])
		}
	}
}

// audit has LoopX compare an archive with the live store.
func (g goal) audit(a archived, flags ...string) answer {
	g.t.Helper()
	return g.loopx("authority-archive", "audit", append([]string{"--archive", a.path, "--archive-sha256", a.sha256}, flags...)...)
}

// matches fails unless LoopX's audit finds the archive in the store, in full or as
// the beginning of it.
func (g goal) matches(a archived, newerHead string) {
	g.t.Helper()
	if newerHead == "" {
		found := g.audit(a).done(g.t)
		if found.is("status") != "audited" {
			g.t.Errorf("LoopX's audit: %s", found.text)
		}
		return
	}
	if exact := g.audit(a); exact.exit != 1 || exact.is("audit", "reason_code") != "archive_target_has_newer_commits" {
		g.t.Errorf("LoopX's audit of a store that went on: %d %s", exact.exit, exact.text)
	}
	if prefix := g.audit(a, newerHead).done(g.t); prefix.is("audit", "scope") != "retained_prefix" {
		g.t.Errorf("LoopX's audit of the beginning: %s", prefix.text)
	}
}

const allowNewerHead = "--allow-newer-head"

// sameList fails unless two answers of todo list say the same, apart from where they
// were read.
func sameList(t testing.TB, before, after answer) {
	t.Helper()
	place := map[string]bool{"authority_read": true, "state_file": true, "project": true}
	for _, key := range slices.Sorted(maps.Keys(before.fields)) {
		if !place[key] && !reflect.DeepEqual(before.fields[key], after.fields[key]) {
			t.Errorf("todo list: %s was %v and is %v", key, before.fields[key], after.fields[key])
		}
	}
	for _, key := range []string{"cursor", "todo_read_model"} {
		if b, a := before.at("authority_read", key), after.at("authority_read", key); b == nil || !reflect.DeepEqual(b, a) {
			t.Errorf("todo list: %s was %v and is %v", key, b, a)
		}
	}
	if len(before.fields) != len(after.fields) {
		t.Errorf("todo list had %d fields and has %d", len(before.fields), len(after.fields))
	}
}

// readBy fails unless LoopX read the list from that store.
func readBy(t testing.TB, list answer, authority string) {
	t.Helper()
	if got := list.done(t).is("authority_read", "source_authority"); got != authority {
		t.Errorf("LoopX reads from %q, want %q", got, authority)
	}
}

// fixtureReceipts fails unless LoopX gives, for the operations of the fixture at these
// cursors, the receipts that it gave when the fixture was made.
func (g goal) fixtureReceipts(name string, cursors ...int) {
	g.t.Helper()
	all := fixture.ExpectedGoal(g.t, name).Receipts
	for _, cursor := range cursors {
		want := all[cursor-1]
		got := g.receipt(want.OperationID).done(g.t)
		if digest := fixture.SHA256(fixture.Canonical(got.at("receipts"))); digest != want.ReceiptsSHA256 || got.is("cursor") != want.Cursor {
			g.t.Errorf("receipt of %s: %s", want.OperationID, got.text)
		}
	}
}

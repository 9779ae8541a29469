//go:build scale

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// A Goal that grew to 2,000 Todos and at least 300 leases in 3,000 transactions is rehearsed
// on three arms. What it took is in the result, which LOOPX_MIGRATE_SCALE_OUT may name. Operations
// are few: for each of them the control reads and writes its whole journal, as LoopX does.
func TestRehearseAtScale(t *testing.T) {
	program := buildProgram(t, "scale")
	const transactions, todos, text = 3000, 2000, 60
	runtime := filepath.Join(fixture.Copy(t, "goal-file-v0"), "runtime")
	dir := filepath.Join(runtime, "authority", "file-v0")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filestore.IdentityPath(dir), []byte(fixture.Identity))
	journal, err := filestore.Open(filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal, NewFormat: authority.FormatFileV1})
	if err != nil {
		t.Fatal(err)
	}
	leases, born := 0, 0
	_, err = journal.Append(t.Context(), authority.Applied{}, func(yield func(authority.Transaction, error) bool) {
		for s := range fixture.Grown(1, transactions, todos, text) {
			if s.Cursor == transactions {
				var head struct{ Leases, Todos []json.RawMessage }
				if err := json.Unmarshal(s.Projection, &head); err != nil {
					t.Error(err)
				}
				leases, born = len(head.Leases), len(head.Todos)
			}
			if !yield(authority.Transaction{OperationID: s.OperationID, Events: s.Events, Projection: s.Projection, Receipts: s.Receipts}, nil) {
				return
			}
		}
	})
	if err != nil || leases < 300 || born != todos {
		t.Fatalf("%d leases, %d Todos, %v", leases, born, err)
	}
	out := filepath.Join(t.TempDir(), "rehearsal.json")
	if named := os.Getenv("LOOPX_MIGRATE_SCALE_OUT"); named != "" {
		out = named
	}
	before := fixture.TreeHash(t, runtime)
	began := time.Now()
	cmd := exec.Command(program, "--runtime-root", runtime, "--goal-id", fixture.HistoryGoal, "--progress", "plain", "rehearse", "--operations", "40", "--arms", "sqlite,postgresql", "--out", out)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	failed := cmd.Run()
	took := time.Since(began)
	fixture.Unchanged(t, runtime, before)
	encoded, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	report, err := evidence.DecodeRehearsal(encoded)
	if failed != nil || err != nil || report.Result != evidence.Passed {
		t.Fatalf("%v, %v", failed, err)
	}
	t.Logf("%d leases, %s", leases, took.Round(time.Second))
}

package cutover_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
)

// dies runs a command whose writer cannot be run, so that it dies behind its fence.
func (r *rig) dies(request cutover.Request) {
	r.Helper()
	good := r.flow.Probes
	r.flow.Probes = broken
	if _, err := r.try(request); err == nil {
		r.Fatalf("%s went through without a probe", request.Command)
	}
	r.flow.Probes = good
}

func freezeToSQLite() cutover.Request {
	return cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindSQLite}}
}

// backup keeps a file as it is and returns what puts it back.
func (r *rig) backup(path string) func() {
	r.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			r.Fatal(err)
		}
	}
}

// A freeze that died and is resumed over a journal that lost commits meanwhile refuses:
// the plan bound a place that the history no longer passes through.
func TestResumedFreezeKeepsThePlansPlace(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	restore := r.backup(r.flow.Place.Journal())
	r.commits(authority.KindFile, "later", 2)
	r.dies(freezeToSQLite())
	restore()
	r.refused(cutover.Request{Command: cutover.CommandResume}, cutover.KindUnproved, "history_rewritten")
}

// Abort lifts no fence over a source that lost what was bound.
func TestAbortProvesTheSource(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	restore := r.backup(r.flow.Place.Journal())
	r.commits(authority.KindFile, "later", 2)
	whole := r.backup(r.flow.Place.Journal())
	r.do(freezeToSQLite())
	restore()
	r.refused(cutover.Request{Command: cutover.CommandAbort}, cutover.KindUnproved, "store_not_as_bound")
	if v := fence.ReadSelector(r.flow.Place); v.State != fence.SelectorFrozen {
		t.Fatalf("the selector is %s", v.State)
	}
	whole()
	r.do(cutover.Request{Command: cutover.CommandResume})
	r.authority(authority.KindFile)
}

// A candidate that was edited after the comparison is not published.
func TestEditedCandidateIsNotPublished(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.do(freezeToSQLite())
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	staged := filepath.Join(r.flow.Folder.Staging(r.manifest().MigrationID), filepath.Base(r.flow.Place.Database()))
	db, err := sql.Open("sqlite", staged)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("update commits set receipts='[]' where cursor=5; pragma wal_checkpoint(truncate)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r.refused(cutover.Request{Command: cutover.CommandPromote}, cutover.KindUnproved, "store_not_as_bound")
	if v := fence.ReadSelector(r.flow.Place); v.State != fence.SelectorFrozen {
		t.Fatalf("the selector is %s", v.State)
	}
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindFile)
}

// The id of one command does not answer for another.
func TestOperationIDOfAnotherCommand(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.do(freezeToSQLite()) // op-1
	outcomes, err := filepath.Glob(filepath.Join(r.flow.Folder.Dir(), "outcomes", "*.json"))
	if err != nil || len(outcomes) != 1 {
		t.Fatalf("%v %v", outcomes, err)
	}
	if err := os.Remove(outcomes[0]); err != nil { // as if it had died before it was stored
		t.Fatal(err)
	}
	_, err = r.flow.Run(context.Background(), cutover.Request{Command: cutover.CommandImport, OperationID: "op-1", Execute: true,
		PlanDigest: "sha256:" + strings.Repeat("0", 64)})
	if refusal := cutover.AsRefusal(err); refusal.Kind != cutover.KindConflict || refusal.Reason != "operation_identity_mismatch" {
		t.Errorf("%v", err)
	}
	_, err = r.flow.Run(context.Background(), cutover.Request{Command: cutover.CommandImport, OperationID: "../x", Execute: true, PlanDigest: "sha256:0"})
	if refusal := cutover.AsRefusal(err); refusal.Kind != cutover.KindUsage || refusal.Reason != "operation_id_invalid" {
		t.Errorf("an id that climbs: %v", err)
	}
}

// A selector that was removed by hand is said, and abort leads out.
func TestSelectorRemovedByHand(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.do(freezeToSQLite())
	if err := os.Remove(r.flow.Place.Selector()); err != nil {
		t.Fatal(err)
	}
	status, err := r.flow.Status(context.Background())
	if err != nil || status.State != "fence_lost" {
		t.Fatalf("status %+v, %v", status.State, err)
	}
	r.refused(cutover.Request{Command: cutover.CommandImport}, cutover.KindUnproved, "fence_lost")
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindFile)
}

// An abort of a rollback that died does not take the authority from whoever has it now.
func TestUndoLeavesAnotherAuthorityAlone(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	r.dies(onlyRollback())
	selection, err := fence.SelectionText(fence.Selection{Provider: authority.KindFile, GoalID: goal, StoreIdentity: "file:0123456789abcdef0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.flow.Place.Selector(), selection, 0o600); err != nil {
		t.Fatal(err)
	}
	r.refused(cutover.Request{Command: cutover.CommandAbort}, cutover.KindUnproved, "selector_changed")
	if text, err := os.ReadFile(r.flow.Place.Selector()); err != nil || string(text) != string(selection) {
		t.Errorf("the selector was changed: %s %v", text, err)
	}
}

// A pre-copy to another store that is given up leaves the way back open.
func TestGivenUpPreCopyKeepsTheWayBack(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	r.forward()
	r.commits(authority.KindSQLite, "x", 2)
	r.do(toServer(r, cutover.CommandImport))
	r.do(cutover.Request{Command: cutover.CommandAbort})
	if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "2" {
		t.Errorf("exported %s", got)
	}
	r.authority(authority.KindFile)
}

// Open work that begins while a cutover copies is found behind the fence, and the fence
// is taken back.
func TestLeaseTakenDuringThePreCopy(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.flow.Watch = func(p cutover.Progress) {
		if p.Act != "copy" || r.leased {
			return
		}
		r.leased = true
		r.lease()
	}
	r.refused(cutover.Request{Command: cutover.CommandCutover, To: cutover.Target{Kind: authority.KindSQLite}, MaxStall: time.Minute},
		cutover.KindRefused, "lease_active")
	r.authority(authority.KindFile)
	if err := r.write(authority.KindFile); err != nil {
		t.Errorf("the source takes no commit: %v", err)
	}
}

// lease commits an active lease onto the journal.
func (r *rig) lease() {
	s := r.open(authority.KindFile, cutover.AccessWrite)
	head, err := s.Load(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	active := strings.Replace(string(head.Projection), `"status":"released"`, `"status":"active"`, 1)
	active = strings.Replace(active, `"expires_at":"2026`, `"expires_at":"2099`, -1)
	if active == string(head.Projection) {
		r.Fatal("the fixture has no released lease")
	}
	_, err = s.Commit(context.Background(), authority.CommitRequest{Expected: head.Revision, OperationID: "lease-late",
		Events: []byte("[]"), Projection: []byte(active), Receipts: []byte("[]")})
	if err != nil {
		r.Fatal(err)
	}
}

// A --to that differs from where the migration goes is refused, not passed over.
func TestAnotherTargetIsRefused(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	elsewhere := cutover.Target{Kind: authority.KindSQLite, Path: filepath.Join(t.TempDir(), "a.sqlite")}
	r.do(cutover.Request{Command: cutover.CommandImport, To: elsewhere})
	r.refused(freezeToSQLite(), cutover.KindRefused, "target_differs")
	other := cutover.Target{Kind: authority.KindSQLite, Path: filepath.Join(t.TempDir(), "b.sqlite")}
	r.refused(cutover.Request{Command: cutover.CommandImport, To: other}, cutover.KindRefused, "target_differs")
}

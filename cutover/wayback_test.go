package cutover_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// refused fails unless a command is refused with that kind and reason.
func (r *rig) refused(request cutover.Request, kind cutover.Kind, reason string) *cutover.Refusal {
	r.Helper()
	_, err := r.try(request)
	if err == nil {
		r.Fatalf("%s went through, want %s", request.Command, reason)
	}
	refusal := cutover.AsRefusal(err)
	if refusal.Kind != kind || refusal.Reason != reason {
		r.Fatalf("%s: kind %d reason %s (%v), want %d %s", request.Command, refusal.Kind, refusal.Reason, err, kind, reason)
	}
	return refusal
}

func (r *rig) manifest() *manifest.Manifest {
	r.Helper()
	snap, err := r.flow.Folder.Load()
	if err != nil {
		r.Fatal(err)
	}
	return snap.Manifest
}

// stranger commits one transaction onto a journal wherever it stands, as a program
// would that looks at no fence and no selector.
func (r *rig) stranger(path string) {
	r.Helper()
	ref := cutover.Ref{Kind: authority.KindFile, Goal: r.flow.Place.GoalID(), Path: path, IdentityFile: r.flow.Place.StoreIdentity(), Access: cutover.AccessWrite}
	s, err := r.flow.Stores.Open(context.Background(), ref)
	if err != nil {
		r.Fatal(err)
	}
	head, err := s.Load(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	_, err = s.Commit(context.Background(), authority.CommitRequest{Expected: head.Revision, OperationID: "rogue-1",
		Events: []byte(`[{"kind":"rogue"}]`), Projection: head.Projection, Receipts: []byte(`[{"rogue":true}]`)})
	if err = errors.Join(err, s.Close()); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) retired() string {
	return filepath.Join(r.flow.Folder.Retired(r.manifest().MigrationID), filepath.Base(r.flow.Place.Journal()))
}

func onlyRollback() cutover.Request { return cutover.Request{Command: cutover.CommandRollback} }

// A commit on the retired journal is named with cursor and operation id, holds the
// rollback, and is dealt with by accepting it: the written-to journal is kept in
// quarantine, and the one that goes back is rebuilt with the revisions it always had.
func TestRogueCommitOnTheRetiredJournal(t *testing.T) {
	r := newRig(t, "goal-file-v0")
	r.forward()
	r.commits(authority.KindSQLite, "after", 3)
	r.stranger(r.retired())
	status, err := r.flow.Status(context.Background())
	if err != nil || len(status.Tripped) != 1 || status.Tripped[0].Cursor != 232 || status.Tripped[0].OperationID != "rogue-1" {
		t.Fatalf("status names %+v, %v", status.Tripped, err)
	}
	refusal := r.refused(onlyRollback(), cutover.KindRefused, "retired_store_written")
	accepted := onlyRollback()
	accepted.Accept = []manifest.Accepted{{Hold: "retired_store_written", Record: refusal.Holds[0].Record, Owner: "ops", Reason: "a stray script"}}
	r.do(accepted)
	r.authority(authority.KindFile)
	r.receipts(authority.KindFile, "goal-file-v0")
	r.revisions("goal-file-v0")
	store := r.open(authority.KindFile, cutover.AccessUntouched)
	if _, err := store.Receipt(context.Background(), "rogue-1"); !errors.Is(err, authority.ErrMissing) {
		t.Errorf("the rogue commit came back: %v", err)
	}
	if head, err := store.Load(context.Background()); err != nil || head.Cursor != 234 {
		t.Errorf("head %s, %v", head.Cursor, err)
	}
	r.quarantine()
}

// quarantine fails unless two files are listed and a changed byte in either, and its
// absence, are named by the proof of the record.
func (r *rig) quarantine() {
	r.Helper()
	listed := r.manifest().Quarantine
	if len(listed) != 2 {
		r.Fatalf("quarantine lists %+v", listed)
	}
	problems := func() (named []string) {
		proof, err := r.flow.ProveRecord(context.Background())
		if err != nil {
			r.Fatal(err)
		}
		for _, side := range proof.Sides {
			if side.Problem != "" {
				named = append(named, side.Where)
			}
		}
		return named
	}
	if found := problems(); len(found) != 0 {
		r.Fatalf("an untouched record has problems: %v", found)
	}
	for i, q := range listed {
		path := filepath.Join(r.flow.Place.Root(), q.Where)
		text, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			r.Fatal(err)
		}
		if found := problems(); len(found) == 0 || found[len(found)-1] != q.Where {
			r.Errorf("quarantined file %d changed: named %v", i, found)
		}
		text[len(text)/2] ^= 1
		if err := errors.Join(os.WriteFile(path, text, 0o600), os.Rename(path, path+".away")); err != nil {
			r.Fatal(err)
		}
		if found := problems(); len(found) == 0 || found[len(found)-1] != q.Where {
			r.Errorf("quarantined file %d gone: named %v", i, found)
		}
		if err := os.Rename(path+".away", path); err != nil {
			r.Fatal(err)
		}
	}
}

// revisions fails unless rows 1 to 231 have the revisions that LoopX gave them.
func (r *rig) revisions(name string) {
	r.Helper()
	page, err := r.open(authority.KindFile, cutover.AccessUntouched).Scan(context.Background(), 0, 231)
	if err != nil {
		r.Fatal(err)
	}
	var expected struct {
		Receipts []struct {
			Revision string `json:"provider_revision"`
		} `json:"receipts"`
	}
	if err := json.Unmarshal(fixture.Read(r.T, name, "expected.json"), &expected); err != nil {
		r.Fatal(err)
	}
	for i, tx := range page.Transactions {
		if string(tx.Revision) != expected.Receipts[i].Revision {
			r.Fatalf("row %d has revision %s, LoopX gave it %s", i+1, tx.Revision, expected.Receipts[i].Revision)
		}
	}
}

func TestJournalBackAtLoopXsPlace(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	text, err := os.ReadFile(r.retired())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.flow.Place.Journal(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	refusal := r.refused(onlyRollback(), cutover.KindRefused, "retired_store_written")
	accepted := onlyRollback()
	for _, h := range refusal.Holds {
		accepted.Accept = append(accepted.Accept, manifest.Accepted{Hold: h.Code, Record: h.Record, Owner: "ops", Reason: "restored by mistake"})
	}
	r.do(accepted)
	r.authority(authority.KindFile)
	r.receipts(authority.KindFile, "goal-file-v1")
}

// A commit on the frozen journal is named, promote refuses, and abort gives the Goal
// back with that commit.
func TestRogueCommitOnTheFrozenJournal(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.do(cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindSQLite}})
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.stranger(r.flow.Place.Journal())
	status, err := r.flow.Status(context.Background())
	if err != nil || len(status.Tripped) != 1 || status.Tripped[0].OperationID != "rogue-1" || status.Tripped[0].Cursor != 232 {
		t.Fatalf("status names %+v, %v", status.Tripped, err)
	}
	r.refused(cutover.Request{Command: cutover.CommandPromote}, cutover.KindRefused, "source_written")
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindFile)
	if head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background()); err != nil || head.Cursor != 232 {
		t.Errorf("head %s, %v", head.Cursor, err)
	}
	r.forward()
}

// failing is a prober that cannot be run, so that a step dies behind its fence.
type failing struct{ err error }

func (p failing) Probe(context.Context) (manifest.Probe, error) { return manifest.Probe{}, p.err }

func broken(authority.Kind) fence.Prober { return failing{errors.New("no process")} }

// A rollback that died behind the fence can be taken back: the target is the
// authority again and takes commits, and a later rollback carries them.
func TestUndoOfARollback(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	r.commits(authority.KindSQLite, "before", 2)
	good := r.flow.Probes
	r.flow.Probes = broken
	if _, err := r.try(onlyRollback()); cutover.AsRefusal(err).Kind != cutover.KindUnproved {
		t.Fatalf("a rollback without a probe: %v", err)
	}
	r.flow.Probes = good
	r.refused(onlyRollback(), cutover.KindUnproved, "step_unfinished")
	if err := r.write(authority.KindSQLite); !errors.Is(err, authority.ErrFailed) {
		t.Fatalf("a commit on the fenced target: %v", err)
	}
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindSQLite)
	r.commits(authority.KindSQLite, "again", 2)
	if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "4" {
		t.Errorf("exported %s transactions, want 4", got)
	}
	r.authority(authority.KindFile)
}

// write tries one commit as a writer would.
func (r *rig) write(kind authority.Kind) error {
	s := r.open(kind, cutover.AccessWrite)
	head, err := s.Load(context.Background())
	if err != nil {
		return err
	}
	_, err = s.Commit(context.Background(), authority.CommitRequest{Expected: head.Revision, OperationID: "try",
		Events: []byte("[]"), Projection: head.Projection, Receipts: []byte("[]")})
	return errors.Join(err, s.Close())
}

func TestResumeFinishesARollback(t *testing.T) {
	r := newRig(t, "goal-file-v0")
	r.forward()
	r.commits(authority.KindSQLite, "x", 1)
	good := r.flow.Probes
	r.flow.Probes = broken
	if _, err := r.try(onlyRollback()); err == nil {
		t.Fatal("a rollback without a probe went through")
	}
	r.flow.Probes = good
	r.do(cutover.Request{Command: cutover.CommandResume})
	r.authority(authority.KindFile)
}

// A plan over a live source stays valid while the history passes through (N, r): a
// commit after the preview is bound too.
func TestPlanSurvivesACommitAndNotARewrite(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	freeze := cutover.Request{Command: cutover.CommandFreeze, OperationID: "op-freeze", To: cutover.Target{Kind: authority.KindSQLite}}
	preview, err := r.flow.Run(context.Background(), freeze)
	if err != nil {
		t.Fatal(err)
	}
	r.commits(authority.KindFile, "late", 1)
	freeze.Execute, freeze.PlanDigest, freeze.Through = true, preview.PlanDigest, 231
	other := freeze
	other.OperationID, other.Through = "op-other", 230
	if _, err := r.flow.Run(context.Background(), other); cutover.AsRefusal(err).Reason != "plan_changed" {
		t.Errorf("another place in the history: %v", err)
	}
	result, err := r.flow.Run(context.Background(), freeze)
	if err != nil || result.Facts["cursor"] != "232" {
		t.Fatalf("%v %v", result.Facts, err)
	}
	before := fixture.TreeHash(t, r.flow.Place.Root())
	for range 3 {
		again, err := r.flow.Run(context.Background(), freeze)
		if err != nil || again.Status != "replayed" || again.Facts["cursor"] != "232" {
			t.Fatalf("replay: %+v %v", again, err)
		}
	}
	conflict := freeze
	conflict.Through = 230
	if _, err := r.flow.Run(context.Background(), conflict); cutover.AsRefusal(err).Reason != "operation_identity_mismatch" {
		t.Errorf("same id, other content: %v", err)
	}
	if changed := before.Diff(fixture.TreeHash(t, r.flow.Place.Root())); len(changed) != 0 {
		t.Errorf("replays and conflicts changed %v", changed)
	}
}

func TestCutoverWithinABudget(t *testing.T) {
	r := newRig(t, "goal-file-v0")
	to := cutover.Request{Command: cutover.CommandCutover, To: cutover.Target{Kind: authority.KindSQLite}}
	to.MaxStall = time.Microsecond
	r.refused(to, cutover.KindRefused, "stall_too_long")
	r.authority(authority.KindFile)

	r.flow.Probes = func(authority.Kind) fence.Prober { return neverEnds{} }
	to.MaxStall = 5 * time.Second
	r.refused(to, cutover.KindRefused, "stall_exceeded")
	r.authority(authority.KindFile)
	if err := r.write(authority.KindFile); err != nil {
		t.Fatalf("after the undo the source takes no commit: %v", err)
	}

	r.flow.Probes = func(arm authority.Kind) fence.Prober { return seesFrozen{r.flow.Place, arm} }
	to.MaxStall = time.Minute
	r.do(to)
	r.authority(authority.KindSQLite)
	r.receipts(authority.KindSQLite, "goal-file-v0")
	if m := r.manifest(); m.Promotion == nil || m.Promotion.StallMillis <= 0 || !m.Promotion.FullReread {
		t.Errorf("promotion %+v", m.Promotion)
	}
}

// neverEnds is a writer that hangs: the stall grows until it is given up.
type neverEnds struct{}

func (neverEnds) Probe(ctx context.Context) (manifest.Probe, error) {
	<-ctx.Done()
	return manifest.Probe{}, ctx.Err()
}

// A target that ends before it was promoted was restored from a backup.
func TestRewoundTargetIsRefused(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.do(cutover.Request{Command: cutover.CommandImport, To: cutover.Target{Kind: authority.KindSQLite}})
	staged := filepath.Join(r.flow.Folder.Staging(r.manifest().MigrationID), filepath.Base(r.flow.Place.Database()))
	backup, err := os.ReadFile(staged)
	if err != nil {
		t.Fatal(err)
	}
	r.commits(authority.KindFile, "more", 2)
	r.forward()
	if err := os.WriteFile(r.flow.Place.Database(), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	r.refused(onlyRollback(), cutover.KindUnproved, "target_rewound")
}

func TestForeignRootIsDenied(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	if err := os.Chown(r.flow.Place.Root(), 65534, -1); err != nil {
		t.Fatal(err)
	}
	_, err := r.try(cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindSQLite}})
	if refusal := cutover.AsRefusal(err); refusal.Reason != "permission_denied" || !strings.Contains(refusal.Holds[0].Detail, "nobody") {
		t.Errorf("%v", err)
	}
	request := cutover.Request{Command: cutover.CommandFreeze, OperationID: "op-x", Execute: true, PlanDigest: "sha256:00", To: cutover.Target{Kind: authority.KindSQLite}}
	if _, err := r.flow.Run(context.Background(), request); cutover.AsRefusal(err).Reason != "permission_denied" {
		t.Errorf("executed: %v", err)
	}
}

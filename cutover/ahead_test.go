package cutover_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
)

// wholeReads lists which stores are read from their beginning while the selector is frozen.
type wholeReads struct {
	cutover.Stores
	place authority.Place
	seen  *[]string
}

func (s wholeReads) Open(ctx context.Context, ref cutover.Ref) (cutover.History, error) {
	store, err := s.Stores.Open(ctx, ref)
	if err != nil || ref.Quarantine != "" || ref.Access == cutover.AccessWrite || ref.Access == cutover.AccessCreate {
		return store, err
	}
	return wholeRead{store, s, ref}, nil
}

type wholeRead struct {
	cutover.History
	in  wholeReads
	ref cutover.Ref
}

func (h wholeRead) note(how string) {
	if fence.ReadSelector(h.in.place).State == fence.SelectorFrozen {
		*h.in.seen = append(*h.in.seen, how+" "+string(h.ref.Kind)+" "+filepath.Base(h.ref.Path))
	}
}

func (h wholeRead) View(ctx context.Context) (authority.View, error) {
	h.note("view")
	return h.History.View(ctx)
}

func (h wholeRead) Audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	if from == nil {
		h.note("audit")
	}
	return h.History.Audit(ctx, from, visit)
}

// The write stall of a rollback reads no history from its beginning, for every pair of
// stores whose source is a file.
func TestRollbackReadsOnlyTheTailBehindTheFence(t *testing.T) {
	for name, c := range map[string]struct {
		forward func(r *rig)
		target  authority.Kind
		source  authority.Kind
	}{
		"journal to sqlite":     {(*rig).forward, authority.KindSQLite, authority.KindFile},
		"journal to postgresql": {func(r *rig) { r.onServer(); r.forwardToServer() }, authority.KindPostgreSQL, authority.KindFile},
		"sqlite to postgresql":  {func(r *rig) { r.forward(); r.onServer(); r.forwardToServer() }, authority.KindPostgreSQL, authority.KindSQLite},
		"sqlite to journal":     {func(r *rig) { r.forward(); r.forwardToFile() }, authority.KindFile, authority.KindSQLite},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "goal-file-v1")
			c.forward(r)
			r.commits(c.target, "before", 3)
			var seen []string
			r.flow.Stores = wholeReads{r.flow.Stores, r.flow.Place, &seen}
			late := r.whileAhead(func() { r.commits(c.target, "late", 2) })
			if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "5" || !late() {
				t.Errorf("exported %s transactions, want 5", got)
			}
			if len(seen) != 0 {
				t.Errorf("read from the beginning behind the fence: %s", strings.Join(seen, ", "))
			}
			r.authority(c.source)
			r.receipts(c.source, "goal-file-v1")
			for _, id := range []string{"before-2", "late-0", "late-1"} {
				if _, err := r.open(c.source, cutover.AccessUntouched).Receipt(context.Background(), id); err != nil {
					t.Errorf("receipt of %s: %v", id, err)
				}
			}
			r.provesWell()
		})
	}
}

// whileAhead calls do once when a rollback that is live has written its export and is about
// to compare.
func (r *rig) whileAhead(do func()) (called func() bool) {
	done := false
	folder := filepath.Join(r.flow.Folder.Staging(r.manifest().MigrationID), "export")
	r.flow.Watch = func(p cutover.Progress) {
		exports, err := os.ReadDir(folder)
		if done || p.Act != "verify" || err != nil || len(exports) == 0 || fence.ReadSelector(r.flow.Place).State == fence.SelectorFrozen {
			return
		}
		done = true
		do()
	}
	return func() bool { return done }
}

// atExport calls do before a rollback opens its export, with how often it was opened before
// for the same use; an error is the answer of that opening.
type atExport struct {
	cutover.Stores
	opened map[exportUse]int
	do     func(use exportUse, before int) error
}

type exportUse struct {
	writing bool
	fenced  bool // the selector is frozen
}

func (s atExport) Open(ctx context.Context, ref cutover.Ref) (cutover.History, error) {
	if filepath.Base(filepath.Dir(ref.Path)) == "export" {
		place, err := authority.NewPlace(strings.Split(ref.Path, "/authority-transition/")[0], ref.Goal)
		if err != nil {
			return nil, err
		}
		use := exportUse{ref.Access == cutover.AccessWrite, fence.ReadSelector(place).State == fence.SelectorFrozen}
		before := s.opened[use]
		s.opened[use]++
		if err := s.do(use, before); err != nil {
			return nil, err
		}
	}
	return s.Stores.Open(ctx, ref)
}

// atExport lets something happen at an opening of the export; the function gives the stores back.
func (r *rig) atExport(use exportUse, nth int, do func(path string) error) (stop func()) {
	good, done := r.flow.Stores, false
	path := filepath.Join(r.flow.Folder.Staging(r.manifest().MigrationID), "export", filepath.Base(r.flow.Place.Journal()))
	r.flow.Stores = atExport{good, map[exportUse]int{}, func(now exportUse, before int) error {
		if done || now != use || before != nth {
			return nil
		}
		done = true
		return do(path)
	}}
	return func() {
		r.Helper()
		r.flow.Stores = good
		if !done {
			r.Fatalf("the export was not opened so: %+v, time %d", use, nth)
		}
	}
}

// What is committed between the proof of the live target and its export waits for the fence.
func TestCommitsAfterTheProofOfALiveTarget(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	r.commits(authority.KindSQLite, "before", 1)
	stop := r.atExport(exportUse{writing: true}, 0, func(string) error { r.commits(authority.KindSQLite, "meanwhile", 2); return nil })
	if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "3" {
		t.Errorf("exported %s transactions, want 3", got)
	}
	stop()
	r.authority(authority.KindFile)
	r.receipts(authority.KindFile, "goal-file-v1")
}

// An export that does not hold what the target holds stops the rollback, before its fence
// when it can be seen there; giving it up leaves the target as it was, with every commit.
func TestExportThatDiffersStopsTheRollback(t *testing.T) {
	for name, c := range map[string]struct {
		use    exportUse
		nth    int
		spoil  func(r *rig, path string, older []byte)
		reason string
	}{
		"before its proof":      {exportUse{}, 0, func(r *rig, path string, older []byte) { must(r.T, os.WriteFile(path, older, 0o600)) }, "read_back_differs"},
		"before the comparison": {exportUse{}, 1, func(r *rig, path string, older []byte) { must(r.T, os.WriteFile(path, older, 0o600)) }, "export_differs"},
		"behind the fence":      {exportUse{fenced: true}, 0, func(r *rig, path string, _ []byte) { r.stranger(path) }, "export_differs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "goal-file-v1")
			older, err := os.ReadFile(r.flow.Place.Journal())
			must(t, err)
			r.forward()
			r.commits(authority.KindSQLite, "after", 2)
			stop := r.atExport(c.use, c.nth, func(path string) error { c.spoil(r, path, older); return nil })
			r.refused(onlyRollback(), cutover.KindUnproved, c.reason)
			stop()
			if frozen := fence.ReadSelector(r.flow.Place).State == fence.SelectorFrozen; frozen != c.use.fenced {
				t.Errorf("the selector is frozen: %t", frozen)
			}
			if err := r.write(authority.KindSQLite); (err == nil) == c.use.fenced {
				t.Errorf("a commit on the target: %v", err)
			}
			r.do(cutover.Request{Command: cutover.CommandAbort})
			r.authority(authority.KindSQLite)
			r.commits(authority.KindSQLite, "free", 1)
			want := "4" // two, the try, the last one
			if c.use.fenced {
				want = "3" // the try was refused
			}
			if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != want {
				t.Errorf("exported %s transactions, want %s", got, want)
			}
			r.authority(authority.KindFile)
			if _, err := r.open(authority.KindFile, cutover.AccessUntouched).Receipt(context.Background(), "free-0"); err != nil {
				t.Errorf("receipt of the last commit: %v", err)
			}
		})
	}
}

// A dead run may have fenced the target inside and not said so: one that goes on with it and
// gets no locks leaves it to be finished.
func TestRollbackOfADeadRunThatGetsNoLocks(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	r.commits(authority.KindSQLite, "after", 2)
	stop := r.atExport(exportUse{writing: true}, 0, func(string) error { return errors.New("it dies here") })
	if _, err := r.try(onlyRollback()); err == nil {
		t.Fatal("the rollback went through")
	}
	stop()
	target := r.open(authority.KindSQLite, cutover.AccessWrite)
	head, err := target.Load(context.Background())
	must(t, err)
	must(t, target.(cutover.Fencer).EngageFence(context.Background(), "loopx-migrate:"+r.manifest().MigrationID+":rollback", authority.Applied{Cursor: head.Cursor, Revision: head.Revision}))
	must(t, target.Close())

	held, err := fence.Lock(context.Background(), r.flow.Place, fence.LockRequest{Wait: time.Second, Operation: "a writer of LoopX"})
	must(t, err)
	r.flow.LockWait = 1
	r.refused(cutover.Request{Command: cutover.CommandResume}, cutover.KindUnproved, "lock_timeout")
	must(t, held.Release())
	if m := r.manifest(); m.Intent == nil {
		t.Error("nothing is left to finish, and the target is fenced")
	}
	r.flow.LockWait = 2 * time.Second
	if got := r.do(cutover.Request{Command: cutover.CommandResume}).Facts["exported_transactions"]; got != "2" {
		t.Errorf("exported %s transactions, want 2", got)
	}
	r.authority(authority.KindFile)
}

// A rollback that cannot get LoopX's locks is given up, and leaves nothing to finish.
func TestRollbackThatGetsNoLocks(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	r.commits(authority.KindSQLite, "after", 2)
	held, err := fence.Lock(context.Background(), r.flow.Place, fence.LockRequest{Wait: time.Second, Operation: "a writer of LoopX"})
	must(t, err)
	r.flow.LockWait = 1
	refusal := r.refused(onlyRollback(), cutover.KindUnreachable, "lock_timeout")
	must(t, held.Release())
	if m := r.manifest(); m.Intent != nil || m.Rollback != nil {
		t.Errorf("after %v the record has intent %+v, rollback %+v", refusal, m.Intent, m.Rollback)
	}
	if state := fence.ReadSelector(r.flow.Place).State; state != fence.SelectorSelection {
		t.Errorf("the selector is %v", state)
	}
	r.commits(authority.KindSQLite, "free", 1)
	r.flow.LockWait = 2 * time.Second
	if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "3" {
		t.Errorf("exported %s transactions, want 3", got)
	}
	var why []string
	for _, q := range r.manifest().Quarantine {
		why = append(why, filepath.Base(q.Where))
	}
	if !slices.ContainsFunc(why, func(name string) bool { return strings.HasPrefix(name, "export-") }) {
		t.Errorf("the export that was given up is not listed: %v", why)
	}
}

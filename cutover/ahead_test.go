package cutover_test

import (
	"context"
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

// An export that is damaged while the target is live stops the rollback before its fence,
// and giving it up leaves the target as it was, with every commit it takes.
func TestExportThatDiffersAheadFencesNothing(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	other, err := os.ReadFile(r.flow.Place.Journal())
	must(t, err)
	r.forward()
	r.commits(authority.KindSQLite, "after", 2)
	damaged := r.whileAhead(func() {
		folder := filepath.Join(r.flow.Folder.Staging(r.manifest().MigrationID), "export")
		must(t, os.WriteFile(filepath.Join(folder, filepath.Base(r.flow.Place.Journal())), other, 0o600))
	})
	r.underFire = true
	if refusal := r.refused(onlyRollback(), cutover.KindUnproved, "read_back_differs"); !damaged() {
		t.Fatalf("nothing was damaged: %v", refusal)
	}
	r.flow.Watch = nil
	r.commits(authority.KindSQLite, "free", 1)
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindSQLite)
	if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "3" {
		t.Errorf("exported %s transactions, want 3", got)
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

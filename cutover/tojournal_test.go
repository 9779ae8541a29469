package cutover_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

func freezeToFile() cutover.Request {
	return cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindFile}}
}

// forwardToFile promotes the Goal from a database to a journal.
func (r *rig) forwardToFile() {
	r.Helper()
	r.do(freezeToFile())
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.do(cutover.Request{Command: cutover.CommandPromote})
	r.isJournal()
}

// isJournal fails unless an explicit selector names the journal, which is in format v1.
func (r *rig) isJournal() {
	r.Helper()
	r.authority(authority.KindFile)
	selected := fence.ReadSelector(r.flow.Place).Selection
	identity, err := os.ReadFile(r.flow.Place.StoreIdentity())
	if err != nil || selected == nil || selected.Provider != authority.KindFile || string(selected.StoreIdentity) != string(identity) {
		r.Fatalf("the selector says %+v and the folder %s, %v", selected, identity, err)
	}
	lineage, err := r.open(authority.KindFile, cutover.AccessUntouched).Audit(context.Background(), nil, nil)
	if err != nil || lineage.Format != authority.FormatFileV1 {
		r.Fatalf("the journal is %s, %v", lineage.Format, err)
	}
}

// provesWell fails unless the whole record proves.
func (r *rig) provesWell() {
	r.Helper()
	proof, err := r.flow.ProveRecord(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	for _, side := range proof.Sides {
		if side.Problem != "" {
			r.Fatalf("%s %s %s: %s", side.Side, side.Kind, side.Where, side.Problem)
		}
	}
}

// Forward to a journal and back, with commits on either side; the journal has the
// revisions that it would have had, had every commit been made in it.
func TestSQLiteToFileAndBack(t *testing.T) {
	for _, name := range []string{"goal-file-v0", "goal-file-v1"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, name)
			r.forward()
			for round := range 3 {
				r.commits(authority.KindSQLite, fmt.Sprintf("lite%d", round), 10)
				r.forwardToFile()
				r.receipts(authority.KindFile, name)
				r.provesWell()
				r.commits(authority.KindFile, fmt.Sprintf("file%d", round), 10)
				if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "10" {
					t.Fatalf("exported %s", got)
				}
				r.authority(authority.KindSQLite)
				r.receipts(authority.KindSQLite, name)
				r.provesWell()
			}
			r.forwardToFile()
			r.revisions(name)
			head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background())
			if err != nil || head.Cursor != 231+60 {
				t.Fatalf("head %s, %v", head.Cursor, err)
			}
			r.forward()
		})
	}
}

func TestPostgreSQLToFileAndBack(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	r.forwardToServer()
	for round := range 3 {
		r.commits(authority.KindPostgreSQL, fmt.Sprintf("pg%d", round), 5)
		r.forwardToFile()
		r.receipts(authority.KindFile, "goal-file-v1")
		r.commits(authority.KindFile, fmt.Sprintf("file%d", round), 5)
		if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "5" {
			t.Fatalf("exported %s", got)
		}
		r.authority(authority.KindPostgreSQL)
		r.receipts(authority.KindPostgreSQL, "goal-file-v1")
		r.provesWell()
	}
}

// One command, from a database in a folder that never had a journal: the journal brings
// the identity of the folder.
func TestCutoverToFileBringsAnIdentity(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	if err := os.Remove(r.flow.Place.StoreIdentity()); err != nil {
		t.Fatal(err)
	}
	result := r.do(cutover.Request{Command: cutover.CommandCutover, To: cutover.Target{Kind: authority.KindFile}, MaxStall: time.Minute})
	r.isJournal()
	if want := string(r.manifest().Target.Identity); result.Facts["store_identity"] != want {
		t.Errorf("%v, want %s", result.Facts, want)
	}
	r.commits(authority.KindFile, "file", 3)
	r.do(onlyRollback())
	r.authority(authority.KindSQLite)
	r.forwardToFile() // under the identity that stays
}

// What LoopX's own migration leaves at the journal's place, the beginning of the same
// history, is displaced while the target stands there, and comes back with an abort and
// with a rollback. Any other journal there is a hold.
func TestJournalThatStandsThere(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	before := r.text(r.flow.Place.Journal())
	r.forward()
	r.commits(authority.KindSQLite, "lite", 4)
	home := r.flow.Place.Journal()
	if err := os.WriteFile(home, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	r.do(freezeToFile())
	r.do(cutover.Request{Command: cutover.CommandAbort}) // nothing was built: what stands there is not ours
	r.stands(home, before)
	r.forwardToFile()
	r.commits(authority.KindFile, "file", 2)
	r.dies(onlyRollback())
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.isJournal()
	r.do(onlyRollback())
	r.authority(authority.KindSQLite)
	r.stands(home, before)
	r.provesWell()
	r.stranger(home)
	r.refused(freezeToFile(), cutover.KindRefused, "target_in_the_way")
}

func (r *rig) text(path string) string {
	r.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

func (r *rig) stands(path, text string) {
	r.Helper()
	if got := r.text(path); got != text {
		r.Fatalf("%s is not what stood there: %d bytes, want %d", filepath.Base(path), len(got), len(text))
	}
}

// A writer that kept the journal open and heeds no selector writes between the proof behind
// the fence and the move: the rollback sees it, publishes nothing, and abort gives the Goal back to
// the journal with that commit in it.
func TestWriteOnTheTargetJournalBehindTheFence(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	r.forwardToFile()
	good := r.flow.Probes
	r.flow.Probes = func(arm authority.Kind) fence.Prober {
		return meanwhile{good(arm), func() { r.stranger(r.flow.Place.Journal()) }}
	}
	_, err := r.try(onlyRollback())
	r.flow.Probes = good
	if got := cutover.AsRefusal(err); got.Kind != cutover.KindUnproved || got.Reason != "target_moved_while_frozen" {
		t.Fatalf("a write behind the fence: %v", err)
	}
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.isJournal()
	if head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background()); err != nil || head.Cursor != 232 {
		t.Errorf("head %s, %v", head.Cursor, err)
	}
	r.do(onlyRollback())
	r.authority(authority.KindSQLite)
	if _, err := r.open(authority.KindSQLite, cutover.AccessUntouched).Receipt(context.Background(), "rogue-1"); err != nil {
		t.Errorf("the commit is not there: %v", err)
	}
}

// meanwhile lets something else happen while a writer's try is made.
type meanwhile struct {
	fence.Prober
	do func()
}

func (m meanwhile) Probe(ctx context.Context) (manifest.Probe, error) {
	m.do()
	return m.Prober.Probe(ctx)
}

// meddling lets a stranger write on the journal as soon as the comparison has looked at it
// for the last time.
type meddling struct {
	cutover.Stores
	journal string
	write   func()
	done    *bool
}

func (m meddling) Open(ctx context.Context, ref cutover.Ref) (cutover.History, error) {
	store, err := m.Stores.Open(ctx, ref)
	if err != nil || ref.Path != m.journal {
		return store, err
	}
	return watched{store, m}, nil
}

type watched struct {
	cutover.History
	m meddling
}

func (w watched) View(ctx context.Context) (authority.View, error) {
	view, err := w.History.View(ctx)
	return lastLook{view, w.m}, err
}

type lastLook struct {
	authority.View
	m meddling
}

func (l lastLook) Close() error {
	err := l.View.Close()
	if !*l.m.done {
		*l.m.done = true
		l.m.write()
	}
	return err
}

// A journal that could not be read back is named before anything is fenced, on the way
// forward and on the way back, in format v1 too.
func TestJournalThatWouldBeTooLong(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	real := r.flow.Stores
	r.flow.Stores = nearlyFull{real}
	r.refused(freezeToFile(), cutover.KindRefused, "journal_too_large")
	r.commits(authority.KindSQLite, "few", 1)
	if _, err := r.flow.Run(context.Background(), onlyRollback()); err != nil {
		t.Errorf("one small commit does not fill the journal: %v", err)
	}
	r.commits(authority.KindSQLite, "more", 80)
	r.refused(onlyRollback(), cutover.KindRefused, "journal_too_large")
	r.authority(authority.KindSQLite)
	r.flow.Stores = real
	r.do(onlyRollback())
}

// nearlyFull measures every journal as if 64 KiB were left in it.
type nearlyFull struct{ cutover.Stores }

func (nearlyFull) JournalLimit() int64 { return 0 }

func (n nearlyFull) Measure(ref cutover.Ref, size int64, end authority.Applied, newest authority.Canonical) (cutover.Measure, error) {
	return n.Stores.Measure(ref, n.Stores.JournalLimit()-64<<10, end, newest)
}

// A journal elsewhere takes a copy of a live Goal; its folder keeps the identity it has.
func TestImportIntoAJournalElsewhere(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	dir := t.TempDir()
	to := cutover.Target{Kind: authority.KindFile, Path: filepath.Join(dir, filepath.Base(r.flow.Place.Journal()))}
	const identity = "file:0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(filepath.Join(dir, "store-identity"), []byte(identity), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		r.do(cutover.Request{Command: cutover.CommandImport, To: to})
		r.do(cutover.Request{Command: cutover.CommandCompare})
		if got := r.manifest().Target; got.Identity != identity || got.Cursor == 0 || !got.Elsewhere {
			t.Fatalf("the target is %+v", got)
		}
		r.commits(authority.KindSQLite, fmt.Sprintf("more%d", round), 1)
		r.do(cutover.Request{Command: cutover.CommandAbort})
		if err := os.Remove(to.Path); err != nil {
			t.Fatal(err)
		}
	}
	r.refused(cutover.Request{Command: cutover.CommandFreeze, To: to}, cutover.KindRefused, "target_not_promotable")
}

package cutover_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// Case 69: a place that could not carry the way back is refused before the fence, and
// a rollback that fails half-way leaves what a second attempt needs. The case's Goal
// is a legacy one; here the journal's.
func TestCase69WayBackProvenBeforeTheWayForth(t *testing.T) {
	t.Run("nowhere to put it", func(t *testing.T) {
		r := newRig(t, "goal-file-v1")
		taken := filepath.Dir(r.flow.Folder.Dir())
		if err := os.WriteFile(taken, []byte("in the way"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := fixture.TreeHash(t, r.flow.Place.Root())
		_, err := r.try(cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindSQLite}})
		if refusal := cutover.AsRefusal(err); refusal.Kind != cutover.KindUnreachable || refusal.Reason != "place_taken" {
			t.Errorf("%v", err)
		}
		if changed := before.Diff(fixture.TreeHash(t, r.flow.Place.Root())); len(changed) != 0 {
			t.Errorf("changed %v", changed)
		}
	})
	t.Run("the disk fills up on the way back", func(t *testing.T) {
		r := newRig(t, "goal-file-v1")
		r.onSmallDisk("16m")
		r.forward()
		r.commits(authority.KindSQLite, "later", 3)
		filler := filepath.Join(r.flow.Place.Root(), "filler")
		fill(t, filler)
		if _, err := r.try(onlyRollback()); cutover.AsRefusal(err).Kind != cutover.KindUnproved && cutover.AsRefusal(err).Kind != cutover.KindUnreachable {
			t.Fatalf("a rollback on a full disk: %v", err)
		}
		if v := fence.ReadSelector(r.flow.Place); v.State == fence.SelectorAbsent {
			t.Fatal("the source was published by a rollback that failed")
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if r.manifest().Intent != nil {
			r.do(cutover.Request{Command: cutover.CommandResume})
		} else {
			r.do(onlyRollback())
		}
		r.authority(authority.KindFile)
		r.receipts(authority.KindFile, "goal-file-v1")
		if head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background()); err != nil || head.Cursor != 234 {
			t.Errorf("head %s, %v", head.Cursor, err)
		}
	})
}

// onSmallDisk moves the Goal onto a file system of that size.
func (r *rig) onSmallDisk(size string) {
	r.Helper()
	if os.Getuid() != 0 {
		r.Skip("only root can mount a small file system")
	}
	mount := filepath.Join(r.TempDir(), "small")
	if err := os.Mkdir(mount, 0o700); err != nil {
		r.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size="+size); err != nil {
		r.Skipf("this machine mounts nothing: %v", err)
	}
	r.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			r.Error(err)
		}
	})
	if err := os.CopyFS(filepath.Join(mount, "runtime"), os.DirFS(r.flow.Place.Root())); err != nil {
		r.Fatal(err)
	}
	r.moveTo(filepath.Join(mount, "runtime"))
}

// fill writes until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 64<<10)
	for range 1 << 12 {
		if _, err := file.Write(block); err != nil {
			return
		}
	}
	t.Fatal("the small disk never filled up")
}

// Case 71: what the Goal did after the promotion goes back with it, odd values
// included. The case's Goal is a legacy one; here the journal's.
func TestCase71CommitsAfterPromotionThenRollback(t *testing.T) {
	r := newRig(t, "goal-file-v0")
	r.forward()
	note := `"a \"quoted\" note, 100% long ` + strings.Repeat("and longer ", 200) + `ending in \u2028"`
	s := r.open(authority.KindSQLite, cutover.AccessWrite)
	head, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	projection := strings.Replace(string(head.Projection), `"handoff_mode"`, `"case_note":`+note+`,"handoff_mode"`, 1)
	_, err = s.Commit(context.Background(), authority.CommitRequest{Expected: head.Revision, OperationID: "case-71 \u00e9%",
		Events: []byte("[]"), Projection: []byte(projection), Receipts: []byte(`[{"note":` + note + `}]`)})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := s.Receipt(context.Background(), "case-71 \u00e9%")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r.do(onlyRollback())
	journal := r.open(authority.KindFile, cutover.AccessUntouched)
	after, err := journal.Load(context.Background())
	if err != nil || string(after.Projection) != string(before.Projection) || after.Cursor != 232 {
		t.Errorf("the head came back otherwise: cursor %s, %v", after.Cursor, err)
	}
	got, err := journal.Receipt(context.Background(), "case-71 \u00e9%")
	if err != nil || string(got.Receipts) != string(receipt.Receipts) {
		t.Errorf("the receipt came back otherwise: %s, %v", got.Receipts, err)
	}
}

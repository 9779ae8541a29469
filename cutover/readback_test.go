package cutover_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
)

// whenBack calls do once when a rollback is about to read the source at its own place again,
// before its selector is published, or behind that.
func (r *rig) whenBack(state fence.SelectorState, do func()) (called func() bool) {
	done := false
	r.flow.Watch = func(p cutover.Progress) {
		_, err := os.Stat(r.flow.Place.Journal())
		if done || p.Act != "verify" || p.Arm != string(authority.KindFile) || err != nil || fence.ReadSelector(r.flow.Place).State != state {
			return
		}
		done = true
		do()
	}
	return func() bool { return done }
}

// What a rollback brought back is read at its place; another history there stays fenced.
func TestSourceThatCameBackIsReadBack(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, path string){
		"a shorter history": func(*rig, string) {},
		"another last row":  func(r *rig, path string) { r.stranger(path) },
		"no history at all": func(r *rig, path string) { must(r.T, os.WriteFile(path, []byte("{}"), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "goal-file-v1")
			before, err := os.ReadFile(r.flow.Place.Journal())
			must(t, err)
			r.forward()
			r.commits(authority.KindSQLite, "after", 1)
			other := filepath.Join(t.TempDir(), filepath.Base(r.flow.Place.Journal()))
			must(t, os.WriteFile(other, before, 0o600))
			spoil(r, other)
			called := r.whenBack(fence.SelectorFrozen, func() {
				text, err := os.ReadFile(other)
				must(t, err)
				must(t, os.WriteFile(r.flow.Place.Journal(), text, 0o600))
			})
			_, err = r.try(onlyRollback())
			if !called() || err == nil {
				t.Fatalf("the rollback went through, or never read the source back: %t, %v", called(), err)
			}
			if got := cutover.AsRefusal(err).Reason; name != "no history at all" && got != "read_back_differs" {
				t.Errorf("reason %s, %v", got, err)
			}
			if state := fence.ReadSelector(r.flow.Place).State; state != fence.SelectorFrozen {
				t.Errorf("the selector is %v", state)
			}
		})
	}
}

// LoopX may go on with the source as soon as it is published.
func TestLoopXGoesOnBeforeTheRollbackReadsBack(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.forward()
	r.commits(authority.KindSQLite, "after", 2)
	called := r.whenBack(originalState(r), func() {
		if err := r.write(authority.KindFile); err != nil {
			t.Errorf("the published source takes no commit: %v", err)
		}
	})
	r.do(onlyRollback())
	if !called() {
		t.Fatal("the published source was not read")
	}
	head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background())
	if err != nil || head.Cursor != 234 {
		t.Errorf("head %s, %v", head.Cursor, err)
	}
}

// originalState is that of the selector that a rollback of this Goal restores.
func originalState(r *rig) fence.SelectorState {
	fresh := newRig(r.T, "goal-file-v1")
	return fence.ReadSelector(fresh.flow.Place).State
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package cutover_test

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// writeFilesUntilClosed writes legacy files as LoopX's writers do, one change after the
// other until its input is closed: Todos under the kernel lock of the state file, which is
// the Python family, leases under the two marker locks, which is the TypeScript one. Under
// the lock it looks for the writer fence, and prints what became of each change.
func writeFilesUntilClosed(kind, root, state string) error {
	place, err := authority.NewPlace(root, filesGoal)
	if err != nil {
		return err
	}
	closed := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		close(closed)
	}()
	pace := time.NewTicker(10 * time.Millisecond)
	for n := 1; ; n++ {
		select {
		case <-closed:
			return nil
		case <-pace.C:
		}
		write := addTodo
		if kind == "leases" {
			write = renewLease
		}
		done, err := write(place, state, n)
		if err != nil {
			return err
		}
		fmt.Println(map[bool]string{true: "applied", false: "refused"}[done], n)
	}
}

func fenced(place authority.Place) bool {
	_, err := os.Lstat(place.WriterFence())
	return err == nil
}

func addTodo(place authority.Place, state string, n int) (done bool, err error) {
	lock, err := os.OpenFile(state+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return false, err
	}
	if fenced(place) {
		return false, nil
	}
	text, err := os.ReadFile(state)
	if err != nil {
		return false, err
	}
	todo := fmt.Sprintf("- [ ] Raced %d\n  <!-- loopx:todo todo_id=todo_raced_%d status=open task_class=advancement_task -->\n\n## Next Action", n, n)
	return true, replaced(state, []byte(strings.Replace(string(text), "\n## Next Action", todo, 1)), n)
}

func renewLease(place authority.Place, _ string, n int) (done bool, err error) {
	for _, target := range []string{place.LeaseWriterLock(), place.LeaseLock()} {
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return false, err
		}
		lock, err := lockfile.AcquireMarker(context.Background(), target, 30*time.Second)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	if fenced(place) {
		return false, nil
	}
	path := filepath.Join(place.LeaseDir(), "todo_fce99541009e.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	var lease map[string]any
	if err := json.Unmarshal(text, &lease); err != nil {
		return false, err
	}
	lease["version"] = n + 1
	if text, err = json.MarshalIndent(lease, "", "  "); err != nil {
		return false, err
	}
	return true, replaced(path, append(text, '\n'), n)
}

func replaced(path string, text []byte, n int) error {
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), n))
	return errors.Join(os.WriteFile(temporary, text, 0o600), os.Rename(temporary, path))
}

// writer starts a process that writes, and returns the file of its answers and its end.
func (r *filesRig) writer(kind string) (answers string, stop func()) {
	r.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LM_FILES_WRITER="+kind, "LM_FILES_ROOT="+r.flow.Place.Root(), "LM_FILES_STATE="+r.state())
	input, err := cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	out, err := os.Create(filepath.Join(r.TempDir(), kind))
	if err != nil {
		r.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	return out.Name(), func() {
		if err := errors.Join(io.Closer(input).Close(), cmd.Wait()); err != nil {
			r.Error(err)
		}
	}
}

// Writers of both lock families race the freeze: each change of theirs that was applied
// is in the import, and every other one was refused.
func TestFilesWritersRaceTheFreeze(t *testing.T) {
	r := newFilesRig(t)
	r.flow.LockWait = 30 * time.Second
	r.underFire = true
	todos, stopTodos := r.writer("todos")
	leases, stopLeases := r.writer("leases")
	r.waitFor(todos, "applied")
	r.waitFor(leases, "applied")
	for range 100 { // while files are being written a look at them can fail, and says so
		_, err := r.try(freezeFiles())
		if err == nil {
			break
		}
		if cutover.AsRefusal(err).Kind != cutover.KindUnreachable {
			t.Fatal(err)
		}
	}
	r.waitFor(todos, "refused")
	r.waitFor(leases, "refused")
	head := r.restOfTheWay()
	stopTodos()
	stopLeases()
	applied, refused := answers(t, todos)
	renewed, _ := answers(t, leases)
	if len(applied) == 0 || len(refused) == 0 || len(renewed) == 0 {
		t.Fatalf("%d Todos applied, %d refused, %d leases renewed", len(applied), len(refused), len(renewed))
	}
	if got := strings.Count(head, "todo_raced_"); got != len(applied) {
		t.Errorf("the head has %d raced Todos, the writer was told of %d", got, len(applied))
	}
	for _, n := range applied {
		if !strings.Contains(head, `"todo_raced_`+n+`"`) {
			t.Errorf("Todo %s was applied and is not in the head", n)
		}
	}
	var last int
	if _, err := fmt.Sscan(renewed[len(renewed)-1], &last); err != nil || !strings.Contains(head, fmt.Sprintf(`"version":%d,`, last+1)) {
		t.Errorf("the lease in the head is not version %d", last+1)
	}
}

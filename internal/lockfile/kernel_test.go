package lockfile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// The record of a released lock, from a Goal that LoopX wrote (fixture
// legacy/small, the state file's lock).
const loopxRecord = `{"acquired_at":"2026-11-30T15:47:19.629887Z","agent_id":"bob","lock_id":"7761cb2f54b0702d",` +
	`"operation":"todo_complete","pid":18153,"policy":"mutation","released_at":"2026-11-30T15:47:19.643590Z",` +
	`"schema_version":"file_lock_holder_v0"}` + "\n"

func TestKernelRecordHasLoopXsShape(t *testing.T) {
	target := filepath.Join(t.TempDir(), "STATE.md")
	must(t, os.WriteFile(target+".lock", []byte(loopxRecord), 0o600))
	inode, err := os.Stat(target + ".lock")
	must(t, err)
	lock, err := acquire(lockfile.Kernel, target, 0)
	must(t, err)
	if lock.Abandoned() != nil {
		t.Errorf("abandoned = %+v, but the record says released", lock.Abandoned())
	}
	const instant = `"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"`
	begin := `^\{"acquired_at":` + instant + `,"agent_id":"loopx-migrate","lock_id":"[0-9a-f]{16}","operation":"test_operation",` +
		fmt.Sprintf(`"pid":%d,"policy":"mutation",`, os.Getpid())
	const end = `"schema_version":"file_lock_holder_v0"\}\n$`
	expectMatch(t, target+".lock", begin+end)
	must(t, lock.Release())
	expectMatch(t, target+".lock", begin+`"released_at":`+instant+`,`+end)

	after, err := os.Stat(target + ".lock")
	must(t, err)
	if !os.SameFile(inode, after) {
		t.Error("the lock file was replaced")
	}
}

func expectMatch(t *testing.T, path, pattern string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	if !regexp.MustCompile(pattern).Match(content) {
		t.Errorf("content %q\nwant    %s", content, pattern)
	}
}

func TestKernelRecordReadsBackLoopXs(t *testing.T) {
	var h lockfile.Holder
	must(t, json.Unmarshal([]byte(loopxRecord), &h))
	text, err := json.Marshal(h)
	must(t, err)
	if string(text)+"\n" != loopxRecord {
		t.Errorf("%s", text)
	}
}

func TestKernelNewLockFileIsPrivate(t *testing.T) {
	target := filepath.Join(t.TempDir(), "new", "STATE.md")
	lock, err := acquire(lockfile.Kernel, target, 0)
	must(t, err)
	must(t, lock.Release())
	info, err := os.Stat(target + ".lock")
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestKernelContentHindersNobody(t *testing.T) {
	for _, content := range []string{"", "\x00", "[]", `{"schema_version":7}`, `{"schema_version":"file_lock_holder_v9"}`} {
		target := filepath.Join(t.TempDir(), "t")
		must(t, os.WriteFile(target+".lock", []byte(content), 0o600))
		lock, err := acquire(lockfile.Kernel, target, 0)
		must(t, err)
		if lock.Abandoned() != nil {
			t.Errorf("%q: abandoned = %+v", content, lock.Abandoned())
		}
		must(t, lock.Release())
	}
}

// A foreign process that takes the flock and writes no record, as a shell script does.
func TestKernelHolderWithoutRecord(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("no flock command on this machine")
	}
	target := filepath.Join(t.TempDir(), "STATE.md")
	must(t, os.WriteFile(target+".lock", []byte(loopxRecord), 0o600))
	command := exec.Command("flock", "-x", "-F", target+".lock", "sh", "-c", "echo held; exec cat")
	input, err := command.StdinPipe()
	must(t, err)
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	if _, err := output.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_, err = acquire(lockfile.Kernel, target, 0)
	var busy *lockfile.BusyError
	if !errors.As(err, &busy) || busy.PID == 18153 || busy.PID != 0 && busy.PID != command.Process.Pid {
		t.Errorf("error = %v, holder %d", err, command.Process.Pid)
	}
	must(t, input.Close())
	lock, err := acquire(lockfile.Kernel, target, time.Minute)
	must(t, err)
	must(t, lock.Release())
	must(t, command.Wait())
}

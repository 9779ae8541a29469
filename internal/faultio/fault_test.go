//go:build faultinject

package faultio_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// TestMain doubles as the process that a fault breaks.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FAULTIO_TEST_CHILD"); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println(err)
			if errors.Is(err, syscall.ENOSPC) {
				os.Exit(28)
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child performs seven effects: create, write, sync, rename, remove, syncdir, commit.
func child(dir string) error {
	path := filepath.Join(dir, "goals", fmt.Sprintf("t-%d-6f1c2b1e-0000-4000-8000-0123456789ab", os.Getpid()))
	file, err := faultio.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteString("0123456789"); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := faultio.Rename(path, filepath.Join(dir, "done")); err != nil {
		return err
	}
	if err := faultio.Remove(filepath.Join(dir, "old")); err != nil {
		return err
	}
	if err := faultio.SyncDir(dir); err != nil {
		return err
	}
	return faultio.Commit("sqlite harbour", func() error {
		return os.WriteFile(filepath.Join(dir, "committed"), nil, 0o600)
	})
}

type outcome struct {
	dir    string
	killed bool
	status int
	trace  string
}

func run(t *testing.T, env ...string) outcome {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "goals"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "old"), nil, 0o600))
	trace := filepath.Join(t.TempDir(), "trace")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), append(env,
		"FAULTIO_TEST_CHILD="+dir, "GORACE=atexit_sleep_ms=0", "LM_FAULT_TRACE="+trace, "LM_FAULT_ROOT="+dir)...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	// The exit status is read below; only a process that never ran has none.
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	status := command.ProcessState.Sys().(syscall.WaitStatus)
	text, err := os.ReadFile(trace)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return outcome{dir, status.Signaled() && status.Signal() == syscall.SIGKILL, status.ExitStatus(), string(text)}
}

func (o outcome) has(name string) bool {
	found, err := filepath.Glob(filepath.Join(o.dir, name))
	return err == nil && len(found) == 1
}

var wholeTrace = []string{
	"1 create goals/t-*-*",
	"2 write goals/t-*-*",
	"3 sync goals/t-*-*",
	"4 rename goals/t-*-* -> done",
	"5 remove old",
	"6 syncdir .",
	"7 commit sqlite harbour",
}

func TestTraceNamesEveryEffectTheSameInEachRun(t *testing.T) {
	for range 2 {
		got := run(t)
		if want := strings.Join(wholeTrace, "\n") + "\n"; got.trace != want || got.status != 0 {
			t.Errorf("status %d, trace:\n%s\nwant:\n%s", got.status, got.trace, want)
		}
	}
}

func TestKillStopsBeforeAndKillAfterStopsBehindTheEffect(t *testing.T) {
	witness := map[int]string{1: "goals/t-*", 4: "done", 7: "committed"}
	for n := range len(wholeTrace) {
		n++
		before, after := run(t, fmt.Sprintf("LM_FAULT=kill:%d", n)), run(t, fmt.Sprintf("LM_FAULT=kill-after:%d", n))
		if !before.killed || !after.killed {
			t.Fatalf("effect %d: killed %v and %v", n, before.killed, after.killed)
		}
		if want := strings.Join(wholeTrace[:n], "\n") + "\n"; before.trace != want || after.trace != want {
			t.Errorf("effect %d: traces\n%s\n%s", n, before.trace, after.trace)
		}
		if name := witness[n]; name != "" && (before.has(name) || !after.has(name)) {
			t.Errorf("effect %d: %s there before %v, after %v", n, name, before.has(name), after.has(name))
		}
	}
}

func TestTornWritesHalf(t *testing.T) {
	got := run(t, "LM_FAULT=torn:2")
	found, err := filepath.Glob(filepath.Join(got.dir, "goals", "t-*"))
	must(t, err)
	if !got.killed || len(found) != 1 {
		t.Fatalf("killed %v, files %v", got.killed, found)
	}
	content, err := os.ReadFile(found[0])
	must(t, err)
	if string(content) != "01234" {
		t.Errorf("content %q", content)
	}
	if rename := run(t, "LM_FAULT=torn:4"); !rename.killed || rename.has("done") {
		t.Errorf("torn rename: killed %v, done %v", rename.killed, rename.has("done"))
	}
}

func TestErrorIsReturnedAndTheEffectNotPerformed(t *testing.T) {
	for n := range len(wholeTrace) {
		got := run(t, fmt.Sprintf("LM_FAULT=error:%d:ENOSPC", n+1))
		if got.status != 28 {
			t.Errorf("effect %d: status %d", n+1, got.status)
		}
		if got.has("committed") {
			t.Errorf("effect %d: went on to commit", n+1)
		}
	}
}

func TestLostIsReturnedThoughTheEffectIsPerformed(t *testing.T) {
	if got := run(t, "LM_FAULT=lost:7:ENOSPC"); got.status != 28 || !got.has("committed") {
		t.Errorf("status %d, committed %v", got.status, got.has("committed"))
	}
}

func TestOperationFilterCountsOnlyWhatItNames(t *testing.T) {
	got := run(t, "LM_FAULT_OP=rename,commit", "LM_FAULT=kill:2")
	if want := "1 rename goals/t-*-* -> done\n2 commit sqlite harbour\n"; got.trace != want || !got.killed {
		t.Errorf("killed %v, trace:\n%s", got.killed, got.trace)
	}
}

func TestPauseWaitsForItsFile(t *testing.T) {
	// The file is there already: the child must announce itself and go on.
	gate := filepath.Join(t.TempDir(), "gate")
	must(t, os.WriteFile(gate, nil, 0o600))
	got := run(t, "LM_PAUSE=4:"+gate)
	if _, err := os.Stat(gate + ".reached"); err != nil || got.status != 0 {
		t.Errorf("status %d, %v", got.status, err)
	}
}

func TestMisspeltFaultIsNotIgnored(t *testing.T) {
	for _, text := range []string{"kill", "kill:0", "kill:x", "error:1", "error:1:EWHAT", "Kill:1", "torn:1:EIO"} {
		if got := run(t, "LM_FAULT="+text); got.status != 2 {
			t.Errorf("%s: status %d, want a panic", text, got.status)
		}
	}
}

func TestFileSystemTypeCanBeFeigned(t *testing.T) {
	t.Setenv("LM_TEST_FSTYPE", "0x6969")
	if kind, err := faultio.FSType(t.TempDir()); err != nil || kind != 0x6969 {
		t.Errorf("FSType = %#x, %v", kind, err)
	}
}

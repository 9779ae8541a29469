//go:build faultinject

package export_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/export"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

const (
	statusFailed    = 3 // an error that promises that nothing is there
	statusUnsettled = 4 // an error after the archive was visible
)

// TestMain doubles as the process that a fault breaks.
func TestMain(m *testing.M) {
	path := os.Getenv("EXPORT_TEST_CHILD")
	if path == "" {
		os.Exit(m.Run())
	}
	_, err := export.WriteArchive(context.Background(), path, tiny(child{}))
	switch {
	case errors.Is(err, atomicfile.ErrUnsettled):
		os.Exit(statusUnsettled)
	case err != nil:
		os.Exit(statusFailed)
	}
	os.Exit(0)
}

// child is a test that a process without one can hand on.
type child struct{ testing.TB }

func (child) Helper()                   {}
func (child) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (child) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func run(t *testing.T, path, fault string) (status syscall.WaitStatus, trace []string) {
	t.Helper()
	tracePath := filepath.Join(t.TempDir(), "trace")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "EXPORT_TEST_CHILD="+path, "GORACE=atexit_sleep_ms=0",
		"LM_FAULT_TRACE="+tracePath, "LM_FAULT_ROOT="+filepath.Dir(path), "LM_FAULT="+fault)
	// The exit status is the answer; only a process that never ran has none.
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tracePath)
	if err != nil {
		t.Fatal(err)
	}
	return command.ProcessState.Sys().(syscall.WaitStatus), strings.Split(strings.TrimSpace(string(text)), "\n")
}

// effects is the order in which an archive becomes durable.
var effects = []string{
	"1 create a.partial-*-*.tmp-*-*", "2 write a.partial-*-*.tmp-*-*", "3 sync a.partial-*-*.tmp-*-*",
	"4 rename a.partial-*-*.tmp-*-* -> a.partial-*-*", "5 syncdir .", "6 rename a.partial-*-* -> a", "7 syncdir .",
}

func TestOrderOfEffects(t *testing.T) {
	status, trace := run(t, filepath.Join(t.TempDir(), "a"), "")
	if got, want := strings.Join(trace, "\n"), strings.Join(effects, "\n"); status.ExitStatus() != 0 || got != want {
		t.Errorf("status %d, effects\n%s\nwant\n%s", status.ExitStatus(), got, want)
	}
}

// whole reports whether the archive stands under its name, and fails the test when
// something else does.
func whole(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil || string(text) != string(fixture.Read(t, "archive-tampered", "archive.jsonl")) {
		t.Fatalf("%d bytes of something else, %v", len(text), err)
	}
	return true
}

// again repeats the export, which either succeeds or finds the archive in place.
func again(t *testing.T, path string, there bool) {
	t.Helper()
	_, err := export.WriteArchive(t.Context(), path, tiny(t))
	if _, reason := authority.ReasonOf(err); there && reason != export.ReasonExists || !there && err != nil {
		t.Errorf("again: %v", err)
	}
	if !whole(t, path) {
		t.Error("again: no archive")
	}
}

func TestEveryEffectFailing(t *testing.T) {
	for n := range effects {
		for _, fault := range []string{"error:%d:ENOSPC", "error:%d:EIO", "lost:%d:EIO"} {
			t.Run(fmt.Sprintf(fault, n+1), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "a")
				status, _ := run(t, path, fmt.Sprintf(fault, n+1))
				there := whole(t, path)
				switch {
				case status.ExitStatus() == statusFailed && there && !strings.HasPrefix(fault, "lost"):
					t.Error("an error that promises that nothing is there came with an archive")
				case status.ExitStatus() == statusUnsettled && !there:
					t.Error("ErrUnsettled, but nothing is there")
				case status.ExitStatus() == 0:
					t.Error("no error")
				}
				// A file that was created although creating it failed is nobody's to remove.
				names, err := filepath.Glob(path + ".partial-*")
				if err != nil || len(names) != 0 && fmt.Sprintf(fault, n+1) != "lost:1:EIO" {
					t.Errorf("left behind: %v, %v", names, err)
				}
				again(t, path, there)
			})
		}
	}
}

func TestKilledAtEveryEffect(t *testing.T) {
	for n := range effects {
		for _, fault := range []string{"kill", "torn", "kill-after"} {
			t.Run(fmt.Sprintf("%s:%d", fault, n+1), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "a")
				if status, _ := run(t, path, fmt.Sprintf("%s:%d", fault, n+1)); status.Signal() != syscall.SIGKILL {
					t.Fatalf("status %v", status)
				}
				again(t, path, whole(t, path))
			})
		}
	}
}

//go:build faultinject

package atomicfile_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

const (
	statusFailed    = 3 // an error that promises that nothing changed
	statusUnsettled = 4 // an error after the change was visible
)

// TestMain doubles as the process that a fault breaks.
func TestMain(m *testing.M) {
	dir := os.Getenv("ATOMICFILE_TEST_CHILD")
	if dir == "" {
		os.Exit(m.Run())
	}
	err := operations[os.Getenv("ATOMICFILE_TEST_OPERATION")].run(filepath.Join(dir, "f"))
	switch {
	case errors.Is(err, atomicfile.ErrUnsettled):
		os.Exit(statusUnsettled)
	case err != nil:
		os.Exit(statusFailed)
	}
	os.Exit(0)
}

const oldContent, newContent = "the old content", "the new content, longer"

// An operation changes path in the listed effects.
type operation struct {
	old     string // content beforehand, none when empty
	effects string
	run     func(path string) error
}

var operations = map[string]operation{
	"replace": {oldContent, "create write sync rename syncdir", func(path string) error {
		return atomicfile.Replace(path, 0o600, []byte(newContent))
	}},
	"replace-from": {oldContent, "create write sync rename syncdir", func(path string) error {
		return atomicfile.ReplaceFrom(path, 0o600, func(w io.Writer) error {
			_, err := io.WriteString(w, newContent)
			return err
		})
	}},
	"create": {"", "create write sync link remove syncdir", func(path string) error {
		return atomicfile.Create(path, 0o600, []byte(newContent))
	}},
	"move": {oldContent, "rename syncdir syncdir", func(path string) error {
		return atomicfile.Move(path, filepath.Join(filepath.Dir(path), "sub", "f"))
	}},
	"mkdirall": {"", "mkdir syncdir mkdir syncdir", func(path string) error {
		return atomicfile.MkdirAll(filepath.Join(path, "b"), 0o700)
	}},
}

func prepare(t *testing.T, o operation) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	if o.old != "" {
		must(t, os.WriteFile(filepath.Join(dir, "f"), []byte(o.old), 0o600))
	}
	return dir
}

func run(t *testing.T, name, dir, fault string) (status syscall.WaitStatus, trace []string) {
	t.Helper()
	tracePath := filepath.Join(t.TempDir(), "trace")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "ATOMICFILE_TEST_CHILD="+dir, "ATOMICFILE_TEST_OPERATION="+name,
		"GORACE=atexit_sleep_ms=0", "LM_FAULT_TRACE="+tracePath, "LM_FAULT_ROOT="+dir, "LM_FAULT="+fault)
	// The exit status is the answer; only a process that never ran has none.
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tracePath)
	must(t, err)
	return command.ProcessState.Sys().(syscall.WaitStatus), strings.Split(strings.TrimSpace(string(text)), "\n")
}

func each(t *testing.T, check func(t *testing.T, name string, o operation, n int)) {
	for name, o := range operations {
		for n := range len(strings.Fields(o.effects)) {
			t.Run(fmt.Sprintf("%s/%d", name, n+1), func(t *testing.T) { check(t, name, o, n+1) })
		}
	}
}

func TestOrderOfEffects(t *testing.T) {
	for name, o := range operations {
		status, trace := run(t, name, prepare(t, o), "")
		var kinds []string
		for _, line := range trace {
			kinds = append(kinds, strings.Fields(line)[1])
		}
		if got := strings.Join(kinds, " "); got != o.effects || status.ExitStatus() != 0 {
			t.Errorf("%s: status %d, effects %s, want %s", name, status.ExitStatus(), got, o.effects)
		}
	}
}

func TestEveryEffectFailing(t *testing.T) {
	each(t, func(t *testing.T, name string, o operation, n int) {
		dir := prepare(t, o)
		status, _ := run(t, name, dir, fmt.Sprintf("error:%d:ENOSPC", n))
		changed := wholeState(t, name, o, dir)
		switch {
		case status.ExitStatus() == statusFailed && name != "mkdirall":
			if changed {
				t.Error("an error that promises no change came after one")
			}
		case status.ExitStatus() == statusUnsettled:
			if !changed {
				t.Error("ErrUnsettled, but nothing is there")
			}
		case status.ExitStatus() != statusFailed:
			t.Errorf("status %d", status.ExitStatus())
		}
		if temps, err := filepath.Glob(filepath.Join(dir, "*.tmp-*")); err != nil || len(temps) != 0 {
			t.Errorf("left behind: %v %v", temps, err)
		}
		again(t, name, o, dir, changed)
	})
}

func TestKilledAtEveryEffect(t *testing.T) {
	each(t, func(t *testing.T, name string, o operation, n int) {
		for _, fault := range []string{"kill", "torn", "kill-after"} {
			dir := prepare(t, o)
			status, _ := run(t, name, dir, fmt.Sprintf("%s:%d", fault, n))
			if status.Signal() != syscall.SIGKILL {
				t.Fatalf("%s: status %v", fault, status)
			}
			again(t, name, o, dir, wholeState(t, name, o, dir))
		}
	})
}

// wholeState fails the test when what stands there is part of anything, and
// reports whether the new state is visible.
func wholeState(t *testing.T, name string, o operation, dir string) bool {
	t.Helper()
	path, moved := filepath.Join(dir, "f"), filepath.Join(dir, "sub", "f")
	if name == "mkdirall" {
		_, err := os.Stat(path)
		return err == nil
	}
	if name == "move" {
		if _, err := os.Stat(moved); err == nil {
			expect(t, moved, oldContent)
			return true
		}
		expect(t, path, oldContent)
		return false
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && o.old == "" {
		return false
	}
	must(t, err)
	if got := string(content); got != newContent && (o.old == "" || got != oldContent) {
		t.Fatalf("neither old nor new: %q", got)
	}
	return string(content) == newContent
}

// again repeats the operation undisturbed.
func again(t *testing.T, name string, o operation, dir string, changed bool) {
	t.Helper()
	err := o.run(filepath.Join(dir, "f"))
	switch {
	case name == "create" && changed:
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("again: %v, want fs.ErrExist", err)
		}
	case name == "move" && changed:
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("again: %v, want fs.ErrNotExist", err)
		}
	case err != nil:
		t.Errorf("again: %v", err)
	}
	if !wholeState(t, name, o, dir) {
		t.Error("again: still the old state")
	}
}

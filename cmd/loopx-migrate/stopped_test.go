package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// Whatever asks a command on disposable copies to stop, a terminal that went away too: it
// ends with 130 and removes what it made.
func TestStoppedOnCopies(t *testing.T) {
	// A signal that the tests themselves were started to ignore, as by nohup, a program they
	// start would ignore too; one that they handle it gets with its default.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(handled)
	for name, c := range map[string]struct {
		asked syscall.Signal
		begun string // below the folder for temporary files, once the command is at work
		line  []string
	}{
		"demo by INT":     {syscall.SIGINT, "loopx-migrate-demo-*/runtime/authority-transition", []string{"demo"}},
		"demo by HUP":     {syscall.SIGHUP, "loopx-migrate-demo-*/runtime/authority-transition", []string{"demo"}},
		"canary by INT":   {syscall.SIGINT, "loopx-migrate-*/canary-*.jsonl", []string{"canary", "--store=file", "--todos=2"}},
		"rehearse by HUP": {syscall.SIGHUP, "loopx-migrate-rehearsal-*/sqlite", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if c.line == nil {
				root := filepath.Join(fixture.Copy(t, "goal-file-v1"), "runtime")
				c.line = []string{"--runtime-root=" + root, "--goal-id=harbour-crane", "rehearse"}
			}
			if exit, said := askedToStop(t, c.asked, c.begun, c.line); exit != 130 {
				t.Errorf("exit %d\n%s", exit, said)
			}
		})
	}
}

// A command that was started to outlive its terminal, as by nohup, is not stopped by its end.
func TestNotStoppedUnderNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	if exit, said := askedToStop(t, syscall.SIGHUP, "loopx-migrate-demo-*/runtime/authority-transition", []string{"demo"}); exit != 0 {
		t.Errorf("exit %d\n%s", exit, said)
	}
}

// askedToStop sends a signal to a command once a name appears below its folder for temporary
// files, and returns how it ended and what it complained of. Nothing may be left in the folder.
func askedToStop(t *testing.T, asked syscall.Signal, begun string, line []string) (exit int, said string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("loopx-migrate", line...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		found, err := filepath.Glob(filepath.Join(dir, begun))
		return err == nil && len(found) > 0
	})
	if err := cmd.Process.Signal(asked); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its end is read from the state
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return cmd.ProcessState.ExitCode(), complaint.String()
}

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
			dir := t.TempDir()
			if c.line == nil {
				root := filepath.Join(fixture.Copy(t, "goal-file-v1"), "runtime")
				c.line = []string{"--runtime-root=" + root, "--goal-id=harbour-crane", "rehearse"}
			}
			cmd := exec.Command("loopx-migrate", c.line...)
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			var said strings.Builder
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool {
				found, err := filepath.Glob(filepath.Join(dir, c.begun))
				return err == nil && len(found) > 0
			})
			if err := cmd.Process.Signal(c.asked); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // its end is read from the state
			if exit := cmd.ProcessState.ExitCode(); exit != 130 {
				t.Errorf("exit %d\n%s", exit, said.String())
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

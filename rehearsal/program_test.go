package rehearsal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/rehearsal"
)

// onFiles makes the source a Goal of legacy files.
func (s *stage) onFiles() {
	s.Helper()
	dir := fixture.Copy(s.T, "legacy/small")
	registry := filepath.Join(dir, "project", ".loopx", "registry.json")
	registration, err := fence.ReadRegistry(registry, "demo-small")
	if err != nil {
		s.Fatal(err)
	}
	if s.config.Place, err = authority.NewPlace(registration.RuntimeRoot, "demo-small"); err != nil {
		s.Fatal(err)
	}
	s.root, s.config.Registration = dir, registration
	s.config.LoopX = &rehearsal.Program{Registry: registry, Search: os.Getenv("PATH"), Patience: time.Minute}
}

// program writes a shell script that is to be LoopX. Its folder is $here.
func (s *stage) program(script string) {
	s.Helper()
	s.config.LoopX.Path = filepath.Join(s.TempDir(), "loopx")
	text := "#!/bin/sh\nhere=$(dirname \"$0\")\n" + script + "\n"
	if err := os.WriteFile(s.config.LoopX.Path, []byte(text), 0o700); err != nil {
		s.Fatal(err)
	}
}

const saysVersion = `[ "$1" = --version ] && { echo loopx 0.5.2; exit 0; }` + "\n"

// Each program that cannot drive the legacy arm is refused before anything was driven.
func TestProgramsThatCannotDrive(t *testing.T) {
	for name, c := range map[string]struct {
		spoil    func(*stage)
		sentence string
	}{
		"there is none":          {func(s *stage) { s.config.LoopX.Path = filepath.Join(s.TempDir(), "loopx") }, "cannot be started"},
		"it may not be executed": {func(s *stage) { s.program("true"); s.locked() }, "cannot be started"},
		"it is not LoopX":        {func(s *stage) { s.program("echo GNU bash, version 5.2") }, "it is not LoopX"},
		"its version fails":      {func(s *stage) { s.program("echo loopx 0.5.2; exit 1") }, "it is not LoopX"},
		"it prints for ever":     {func(s *stage) { s.program("yes loopx"); s.config.LoopX.Patience = time.Second }, "did not answer"},
		"it hangs":               {func(s *stage) { s.program("sleep 1000"); s.config.LoopX.Patience = 300 * time.Millisecond }, "did not answer"},
		"garbage":                {func(s *stage) { s.program(saysVersion + "echo Traceback") }, "no answer that can be read"},
		"nothing":                {func(s *stage) { s.program(saysVersion) }, "no answer that can be read"},
		"ok is no boolean":       {func(s *stage) { s.program(saysVersion + `echo '{"ok":"yes"}'`) }, "no answer that can be read"},
		"ok, and it failed":      {func(s *stage) { s.program(saysVersion + `echo '{"ok":true}'; exit 1`) }, "no answer that can be read"},
		"LoopX 2.1.1": {func(s *stage) {
			s.program(saysVersion + `echo '{"ok":false,"error_code":"canonical_authority_required"}'; exit 1`)
		}, "(canonical_authority_required)"},
		"it says it wrote":    {func(s *stage) { s.program(saysVersion + `echo '{"ok":true,"todo_id":"todo_0123456789ab"}'`) }, "the legacy files have none"},
		"it names an old one": {func(s *stage) { s.program(saysVersion + `echo '{"ok":true,"todo_id":"todo_846ffcda7abf"}'`) }, "the legacy files have none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, authority.KindSQLite)
			s.onFiles()
			c.spoil(s)
			report, err := s.run(t.Context())
			refusal := cutover.AsRefusal(err)
			if report != nil || refusal.Reason != "loopx_not_usable" || refusal.Kind != cutover.KindRefused || !strings.Contains(refusal.Sentence, c.sentence) {
				t.Errorf("%+v, %v", report, err)
			}
		})
	}
}

func (s *stage) locked() {
	s.Helper()
	if err := os.Chmod(s.config.LoopX.Path, 0o600); err != nil {
		s.Fatal(err)
	}
}

// A program is for an arm of legacy files, and for operations that LoopX has.
func TestProgramsWithoutEffect(t *testing.T) {
	s := newStage(t, authority.KindSQLite)
	s.config.LoopX = &rehearsal.Program{Path: "/bin/true", Registry: "/dev/null"}
	if _, err := s.run(t.Context()); cutover.AsRefusal(err).Reason != "flag_without_effect" || cutover.AsRefusal(err).Kind != cutover.KindUsage {
		t.Errorf("a source that is a journal: %v", err)
	}
	s = newStage(t, authority.KindSQLite)
	s.onFiles()
	s.program("exit 1")
	s.config.Workload = func(context.Context, authority.Reader) (rehearsal.Workload, error) {
		return rehearsal.ReadWorkload(strings.NewReader(`{"schema_version":"loopx_migrate_workload_v1","name":"w","begins_at":"2026-11-03T09:00:00Z"}` + "\n" +
			`{"operation_id":"a","op":"todo_put","record":{}}`))
	}
	if _, err := s.run(t.Context()); cutover.AsRefusal(err).Reason != "workload_not_drivable" {
		t.Errorf("a workload of whole records: %v", err)
	}
}

// What hangs is ended with everything that it started, and nothing of this process's
// environment reaches it but the path for programs.
func TestProgramIsAlone(t *testing.T) {
	s := newStage(t, authority.KindSQLite)
	s.onFiles()
	s.program(`env > "$here/env"; sleep 1000 & echo $! > "$here/child"; wait`)
	s.config.LoopX.Patience = time.Second
	t.Setenv("LOOPX_REGISTRY", s.config.LoopX.Registry)
	t.Setenv("XDG_CONFIG_HOME", s.root)
	if _, err := s.run(t.Context()); cutover.AsRefusal(err).Reason != "loopx_not_usable" {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.config.LoopX.Path), "child"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if state, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
		t.Errorf("what it started lives on: %s, %v", state, syscall.Kill(child, syscall.SIGKILL))
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	env, err := os.ReadFile(filepath.Join(filepath.Dir(s.config.LoopX.Path), "env"))
	if err != nil || strings.Contains(string(env), s.root) || !strings.Contains(string(env), "HOME="+s.config.Parent) {
		t.Errorf("%v, it was given %s", err, env)
	}
}

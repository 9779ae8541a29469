package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// mounted runs words behind a shell script of mounts, in a mount namespace of its own, so
// that nothing is mounted afterwards.
func mounted(script string, words ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-ec", script + "\nexec \"$@\"", "sh"}, words...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// mounting skips a test where that kind of mount is not possible, and says why.
func mounting(t *testing.T, script string) {
	t.Helper()
	if out, err := mounted(script, "true").CombinedOutput(); err != nil {
		t.Skipf("nothing was mounted: the system refuses it to this user (%v: %s)", err, strings.TrimSpace(string(out)))
	}
}

// A bind mount gives production another path without a link in it, and an overlay another
// device as well. Both are made, and rehearse is pointed at what they show.
func TestRehearseOnMountsOfProduction(t *testing.T) {
	program := rehearser(t)
	dir, flags := rehearsedGoal(t, "small")
	runtime, other := filepath.Join(dir, "runtime"), t.TempDir()
	state := filepath.Join(dir, "project", ".codex", "goals", "demo-small")
	made := func(name string) string {
		path := filepath.Join(other, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	place, lower, work := made("place"), made("lower"), filepath.Join(dir, "overlay-work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	bind := func(from string) string { return "mount --bind '" + from + "' '" + place + "'" }
	over := func(from string) string {
		return "mount -t overlay overlay -o 'lowerdir=" + lower + ",upperdir=" + from + ",workdir=" + work + "' '" + place + "'"
	}
	before := fixture.TreeHash(t, runtime)
	for name, c := range map[string]struct {
		script string
		more   []string
		way    string
	}{
		"a bind mount of the runtime root":     {bind(runtime), []string{"--work-dir", place}, "ancestor_inode"},
		"a folder below a bind mount of it":    {bind(runtime), []string{"--work-dir", filepath.Join(place, "goals")}, "ancestor_inode"},
		"a bind mount of a folder in it":       {bind(filepath.Join(runtime, "goals")), []string{"--work-dir", place}, "ancestor_inode"},
		"a bind mount of the folder above":     {bind(dir), []string{"--work-dir", filepath.Join(place, "runtime")}, "ancestor_inode"},
		"a bind mount of the state file's":     {bind(state), []string{"--work-dir", place}, "ancestor_inode"},
		"a bind mount of a configured path":    {bind(lower), []string{"--work-dir", place, "--production", lower}, "ancestor_inode"},
		"the result through a bind mount":      {bind(runtime), []string{"--out", filepath.Join(place, "result.json")}, "ancestor_inode"},
		"an overlay that writes through to it": {over(runtime), []string{"--work-dir", place}, "overlay"},
		"an overlay over the folder above":     {over(dir + "/project"), []string{"--work-dir", filepath.Join(place, ".codex", "goals", "demo-small")}, "overlay"},
		"the result through such an overlay":   {over(runtime), []string{"--out", filepath.Join(place, "result.json")}, "overlay"},
	} {
		t.Run(name, func(t *testing.T) {
			mounting(t, c.script)
			words := append(append([]string{program}, flags...), append([]string{"rehearse"}, c.more...)...)
			out, err := mounted(c.script, words...).Output()
			var said struct {
				Reason string `json:"reason_code"`
			}
			if failed := json.Unmarshal(out, &said); failed != nil || said.Reason != "rehearsal_on_production" || !strings.Contains(string(out), "("+c.way+")") {
				t.Errorf("%v, %v: %s", err, failed, out)
			}
		})
	}
	fixture.Unchanged(t, runtime, before)
}

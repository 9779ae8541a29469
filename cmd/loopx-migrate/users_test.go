package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// person is an operating-system user without a name, as whom the program is really run.
type person struct {
	uid    uint32
	groups []uint32
}

func (p person) principal() string { return "os:#" + strconv.FormatUint(uint64(p.uid), 10) }

// Users of the tests. Two share a group; the third belongs to nothing.
const team = 54320

var (
	ada     = person{54321, []uint32{team}}
	bob     = person{54322, []uint32{team}}
	mallory = person{54323, nil}
)

// house is a Goal that belongs to ada, and a copy of the program that anybody may run.
type house struct {
	*testing.T
	dir, program string
}

// newHouse gives the Goal away with these modes for folders and files.
func newHouse(t *testing.T, folders, files fs.FileMode) house {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run as other users")
	}
	h := house{t, fixture.Copy(t, "goal-file-v1"), filepath.Join(t.TempDir(), "loopx-migrate")}
	from, err := exec.LookPath("loopx-migrate")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, above := range []string{filepath.Dir(h.dir), filepath.Dir(filepath.Dir(h.program))} {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(h.dir, func(path string, entry fs.DirEntry, err error) error {
		mode := files
		if entry.IsDir() {
			mode = folders
		}
		return errors.Join(err, os.Chown(path, int(ada.uid), team), os.Chmod(path, mode))
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// as runs the program as a user and demands the exit status. root runs as itself.
func (h house) as(p person, exit int, args ...string) object {
	h.Helper()
	return h.says(h.command(p, args...), exit)
}

// command is the program as a user runs it.
func (h house) command(p person, args ...string) *exec.Cmd {
	cmd := exec.Command(h.program, append([]string{"--output=json", "--runtime-root=" + filepath.Join(h.dir, "runtime"), "--goal-id=harbour-crane"}, args...)...)
	cmd.Dir = "/"
	// A user may call himself what he likes in his environment.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/tmp", "USER=#54321", "LOGNAME=#54321", "HOME=/"}
	if p.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.uid, Groups: p.groups}}
	}
	return cmd
}

// says runs a command and demands the exit status.
func (h house) says(cmd *exec.Cmd, exit int) object {
	h.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var status *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &status) {
		h.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(stdout.Bytes(), &o); err != nil || cmd.ProcessState.ExitCode() != exit {
		h.Fatalf("%v: exit %d, want %d, %v\n%s%s", cmd.Args, cmd.ProcessState.ExitCode(), exit, err, &stdout, &stderr)
	}
	return o
}

// does previews a command as a user, runs the line that was printed, and returns it.
func (h house) does(p person, args ...string) []string {
	h.Helper()
	line := h.as(p, 0, args...).Next.Argv[4:] // after the program and the flags of as
	if got := h.as(p, 0, line...); got.Status != statusDone {
		h.Errorf("%v: %s", line, got.Status)
	}
	return line
}

func (h house) tree() fixture.Tree { return fixture.TreeHash(h.T, h.dir) }

func (h house) unchanged(before fixture.Tree) {
	h.Helper()
	if diff := before.Diff(h.tree()); len(diff) > 0 {
		h.Errorf("changed: %v", diff)
	}
}

// A second user of one machine: denied without a grant, whatever had succeeded; at work
// with one; and what he makes locks nobody out.
func TestSecondUserWithAndWithoutGrant(t *testing.T) {
	h := newHouse(t, 0o770|fs.ModeSetgid, 0o660)
	if got := h.as(bob, 3, "freeze", "--to", "sqlite:"); got.ReasonCode != "permission_denied" {
		t.Errorf("a preview says %s", got.ReasonCode)
	}
	adas := h.as(ada, 0, "freeze", "--to", "sqlite:", "--operation-id", "op-shared").Next.Argv[4:]
	h.as(bob, 3, adas...) // fresh under his name: the refusal is stored
	before := h.tree()
	for range 3 {
		if got := h.as(bob, 3, adas...); got.ReasonCode != "permission_denied" {
			t.Errorf("%s", got.ReasonCode)
		}
	}
	h.as(mallory, 7, adas...) // cannot read the Goal at all
	h.unchanged(before)

	h.does(ada, "grant", bob.principal())
	if got := h.as(bob, 3, adas...); got.ReasonCode != "permission_denied" || !got.Facts.Replayed {
		t.Errorf("the refusal that was stored under his id: %s, replayed %v", got.ReasonCode, got.Facts.Replayed)
	}
	h.does(bob, "freeze", "--to", "sqlite:")
	h.does(bob, "import")
	h.does(bob, "compare")
	promoted := h.does(bob, "promote")
	first := h.as(bob, 0, promoted...)

	revoked := h.does(ada, "revoke", bob.principal())
	before = h.tree()
	for range 3 {
		if got := h.as(bob, 3, promoted...); got.ReasonCode != "permission_denied" || len(got.Facts.Result) != 0 || got.Facts.Replayed {
			t.Errorf("after the withdrawal: %+v", got)
		}
	}
	h.unchanged(before)
	h.as(ada, 0, revoked...)
	h.unchanged(before)
	h.does(ada, "grant", bob.principal())
	again := h.as(bob, 0, promoted...)
	if !again.Facts.Replayed || len(again.Facts.Result) == 0 || !equalJSON(again.Facts.Result, first.Facts.Result) {
		t.Errorf("after the grant's return: %+v", again.Facts)
	}

	h.as(ada, 0, "verify", "sqlite:")
	h.does(ada, "rollback") // writes into the database that bob made, and moves what he moved
	h.as(ada, 0, "verify", "file:")
	h.as(ada, 0, "manifest", "verify")
	if got := h.as(ada, 0, "status"); got.Status != "rolled_back" {
		t.Errorf("status %s", got.Status)
	}
}

func equalJSON(a, b map[string]any) bool {
	one, _ := json.Marshal(a)
	two, _ := json.Marshal(b)
	return bytes.Equal(one, two)
}

// Grants that a user cannot read may hold his own: they are not said to lack it.
func TestUnreadableGrantsAreSaid(t *testing.T) {
	h := newHouse(t, 0o770|fs.ModeSetgid, 0o660)
	if got := h.as(bob, 3, "freeze", "--to", "sqlite:"); !strings.Contains(got.Facts.Holds[0].Detail, "holds no grant") {
		t.Errorf("without grants: %+v", got.Facts.Holds)
	}
	h.does(ada, "grant", bob.principal())
	paths, err := filepath.Glob(filepath.Join(h.dir, "runtime", "authority-transition", "loopx-migrate", "*", "grants.json"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	if err := os.Chmod(paths[0], 0o600); err != nil {
		t.Fatal(err)
	}
	got := h.as(bob, 3, "freeze", "--to", "sqlite:")
	said := got.Facts.Holds[0].Detail
	if got.ReasonCode != "permission_denied" || strings.Contains(said, "holds no grant") || !strings.Contains(said, "cannot read the grants") {
		t.Errorf("%s: %s", got.ReasonCode, said)
	}
}

// Root is nobody special: it needs a grant. What it makes belongs to the folder's owner,
// who could not open it otherwise.
func TestRootNeedsAGrantAndLeavesFilesToTheirOwner(t *testing.T) {
	h := newHouse(t, 0o700, 0o600)
	root := person{}
	if got := h.as(root, 3, "freeze", "--to", "sqlite:"); got.ReasonCode != "permission_denied" {
		t.Errorf("a preview says %s", got.ReasonCode)
	}
	h.does(ada, "grant", "os:root")
	h.does(root, "freeze", "--to", "sqlite:")
	h.does(root, "import")
	h.does(root, "compare")
	h.does(root, "promote")
	err := filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != ada.uid || info.Mode()&0o022 != 0 {
			t.Errorf("%s belongs to %d, %v", strings.TrimPrefix(path, h.dir), owner, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.does(ada, "rollback")
	h.as(ada, 0, "manifest", "verify")
	if got := h.as(mallory, 7, "status"); got.ReasonCode == "" {
		t.Error("a stranger reads a private Goal")
	}
}

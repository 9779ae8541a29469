package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// opened returns what waits until a process opens the file.
func opened(t *testing.T, path string) (wait func()) {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.InotifyAddWatch(watch, path, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() {
		_, err := unix.Read(watch, make([]byte, 4096))
		if err != nil || unix.Close(watch) != nil {
			t.Fatal(err)
		}
	}
}

// A command that held a grant when it began and waits for the lock, while the command that
// holds the lock withdraws that grant: it is denied, and not one byte of the Goal changes.
func TestGrantWithdrawnWhileACommandWaits(t *testing.T) {
	h := newHouse(t, 0o770|fs.ModeSetgid, 0o660)
	faults, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	root := person{}
	h.does(ada, "grant", bob.principal())
	h.does(ada, "grant", "os:root")
	bobs := h.as(bob, 0, "freeze", "--to", "sqlite:").Next.Argv[4:]
	withdraw := h.command(root, h.as(root, 0, "revoke", bob.principal()).Next.Argv[4:]...)

	// The withdrawal stands still before its sixth effect: it has the lock, and the grants are
	// about to be replaced.
	gate := filepath.Join(t.TempDir(), "gate")
	withdraw.Path, withdraw.Env = faults, append(withdraw.Env, "LM_PAUSE=6:"+gate)
	withdrawn := make(chan object, 1)
	go func() { defer close(withdrawn); withdrawn <- h.says(withdraw, 0) }()
	waitFor(t, func() bool { _, err := os.Stat(gate + ".reached"); return err == nil })
	before := h.tree()
	locks, err := filepath.Glob(filepath.Join(h.dir, "runtime", "authority-transition", "loopx-migrate", "*", "operator.lock*"))
	if err != nil || len(locks) != 1 {
		t.Fatal(locks, err)
	}
	waits := opened(t, locks[0])
	denied := make(chan object, 1)
	go func() { defer close(denied); denied <- h.as(bob, 3, bobs...) }()
	waits() // he was asked for his grant, had it, and now asks for the lock
	writeFile(t, gate, nil)
	if got := <-withdrawn; got.Status != statusDone {
		t.Errorf("the withdrawal: %s", got.Status)
	}
	if got := <-denied; got.ReasonCode != "permission_denied" || len(got.Facts.Result) != 0 {
		t.Errorf("the command that waited: %+v", got)
	}
	for _, line := range before.Diff(h.tree()) {
		if !strings.Contains(line, "loopx-migrate/") || strings.Contains(line, "manifest.json") {
			t.Errorf("changed: %s", line)
		}
	}
	if got := h.as(ada, 0, "status"); got.Status != "none" {
		t.Errorf("status is %s", got.Status)
	}
	before = h.tree()
	h.as(bob, 3, bobs...)
	h.unchanged(before)
}

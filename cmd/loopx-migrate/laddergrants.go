package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// stranger is a user id that no system gives to anybody by itself.
const stranger = 54321

// probeGrants gives a grant and withdraws it, and demands that both stand in the list.
func probeGrants(l *climber) standing {
	g := l.goal()
	before := g.loopxTree()
	g.step("grant", "os:#"+strconv.Itoa(stranger))
	given := g.run("grants")
	must(strings.Contains(given.fact("holders"), strconv.Itoa(stranger)), "the holder is not listed")
	g.step("revoke", "os:#"+strconv.Itoa(stranger))
	left := g.run("grants")
	changes, _ := left.Facts["changes"].([]any)
	must(left.fact("holders") == "[]" && len(changes) == 2, "after the withdrawal: %s, %d changes", left.fact("holders"), len(changes))
	must(g.loopxTree() == before, "LoopX's files were changed")
	return pass("given, withdrawn, and both changes are listed")
}

// probeOwner tries to withdraw what follows from the file system.
func probeOwner(l *climber) standing {
	g := l.goal()
	before := g.loopxTree()
	g.answers(3, "owner_grant", "revoke", g.run("grants").fact("owner"))
	g.answers(0, "preview", "freeze", "--to", "sqlite:")
	must(g.loopxTree() == before, "LoopX's files were changed")
	return pass("exit 3, owner_grant")
}

// probeGrantRequired gives the Goal to another user, so that this one needs a grant of his.
// Only root can be somebody else.
func probeGrantRequired(l *climber) standing {
	if os.Geteuid() != 0 {
		return standing{rungUnverified, "only root can run the program as a second user: go test -run Users, as root"}
	}
	g := l.goal()
	program := filepath.Join(g.dir, "loopx-migrate")
	must(copyFile(l.e.self, program, 0o755) == nil, "the program cannot be copied")
	must(giveAway(g.dir) == nil, "the goal cannot be given to another user")
	other := &climber{ctx: l.ctx, e: &env{self: program}, as: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}}
	theirs := goalCopy{other, g.dir}

	before := g.tree()
	g.answers(3, "permission_denied", "freeze", "--to", "sqlite:")
	must(g.tree() == before, "a denied preview changed the goal")
	theirs.step("grant", "os:root")
	line := g.answers(0, "preview", "freeze", "--to", "sqlite:").printed()
	must(l.line(line).Exit == 0, "it was not done with a grant")
	theirs.step("revoke", "os:root")
	before = g.tree()
	denied := l.line(line)
	must(denied.Exit == 3 && denied.ReasonCode == "permission_denied", "what had succeeded answered %d %s after the withdrawal", denied.Exit, denied.ReasonCode)
	must(denied.fact("result") == "" && g.tree() == before, "the denial says what is stored, or changed something")
	theirs.step("abort")
	_, err := l.printed.Write(other.printed.Bytes())
	must(err == nil, "answers cannot be kept")
	return pass("denied, done with a grant, denied for the same line after its withdrawal")
}

// giveAway makes the other user the owner of a folder and all below it.
func giveAway(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, stranger, stranger))
	})
}

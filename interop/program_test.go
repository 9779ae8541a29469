//go:build interop

package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is this program as it is used, and broken is it with the seam that can stop
// it at any durable effect. Both are what go build makes of the command.
var (
	built  = sync.OnceValues(func() (string, error) { return build("loopx-migrate") })
	broken = sync.OnceValues(func() (string, error) { return build("loopx-migrate-broken", "-tags", "faultinject") })
)

func build(name string, flags ...string) (string, error) {
	path := filepath.Join(installed.home, name)
	argv := append(append([]string{"build"}, flags...), "-o", path, "../cmd/loopx-migrate")
	if out, err := exec.Command("go", argv...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %v: %w: %s", argv, err, out)
	}
	return path, nil
}

func program(t testing.TB, get func() (string, error)) string {
	t.Helper()
	path, err := get()
	must(t, err)
	return path
}

// lockWait outlasts the 30 s that LoopX may wait under a lock of its own.
const lockWait = "--lock-timeout=40s"

// lineOf is a command line of this program for the Goal, with LoopX as its prober.
func (g goal) lineOf(program string, words ...string) []string {
	global := []string{program, "--runtime-root", g.runtime(), "--registry", g.registry(), "--goal-id", goalID,
		"--loopx", installed.loopx, "--output", "json", lockWait}
	return append(global, words...)
}

// migrate runs a command that needs no --execute.
func (g goal) migrate(words ...string) answer {
	g.t.Helper()
	return command(g.t, nil, g.lineOf(program(g.t, built), words...)...)
}

// preview runs a command without --execute and returns the line it prints to be run.
func (g goal) preview(get func() (string, error), words ...string) []string {
	g.t.Helper()
	a := command(g.t, nil, g.lineOf(program(g.t, get), words...)...).done(g.t)
	list, _ := a.at("next", "argv").([]any)
	if len(list) == 0 {
		g.t.Fatalf("%q printed no line to run next: %s", a.argv, a.text)
	}
	argv := make([]string, len(list))
	for i, word := range list {
		argv[i], _ = word.(string)
	}
	return argv
}

// do previews a command and runs the line it prints.
func (g goal) do(words ...string) answer {
	g.t.Helper()
	return command(g.t, nil, g.preview(built, words...)...).done(g.t)
}

// forward goes all the way, step by step.
func (g goal) forward() {
	g.t.Helper()
	g.do("freeze", "--to", "sqlite:")
	for _, step := range []string{"import", "compare", "promote"} {
		g.do(step)
	}
}

// authority is the row of the table of authorities that applies.
func (g goal) authority() (row string, a answer) {
	g.t.Helper()
	a = g.migrate("inspect")
	return a.is("facts", "authority", "row"), a
}

// sound demands that this program finds nothing wrong with what LoopX wrote: the
// store in full, and the record of the migration against both sides.
func (g goal) sound(store string) {
	g.t.Helper()
	g.migrate("verify", store).done(g.t)
	g.migrate("manifest", "verify").done(g.t)
	g.migrate("status").done(g.t)
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// faultyPath is where faulty has put the program, empty before it was needed.
var faultyPath string

// faulty builds the program with its fault seam, once.
var faulty = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "loopx-migrate-faulty-")
	if err != nil {
		return "", err
	}
	faultyPath = filepath.Join(dir, "loopx-migrate")
	out, err := exec.Command("go", "build", "-tags", "faultinject", "-o", faultyPath, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return faultyPath, err
})

// removeFaulty takes that program away.
func removeFaulty() {
	if faultyPath != "" {
		_ = os.RemoveAll(filepath.Dir(faultyPath)) // a leftover in the temporary folder is no failure
	}
}

// fault runs the program with an environment for its fault seam.
func fault(t *testing.T, environment []string, args ...string) answered {
	t.Helper()
	path, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), environment...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // its end is read from the state
	return answered{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// effects counts the durable effects of a command that is executed undisturbed.
func effects(t *testing.T, args ...string) int {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	if got := fault(t, []string{"LM_FAULT_TRACE=" + trace}, args...); got.exit != 0 {
		t.Fatalf("%v: exit %d %s", args, got.exit, got.stderr)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func TestCase58TargetOnANetworkFilesystem(t *testing.T) {
	for _, kind := range []string{"0x6969", "0xff534d42", "0x01021997", "0x65735546"} {
		dir := fixture.Case(t, "58-target-on-a-network-filesystem")
		before := fixture.TreeHash(t, dir)
		got := fault(t, []string{"LM_TEST_FSTYPE=" + kind}, with(flags(dir, "net-goal"), "import", "--from", "file:", "--to", "sqlite:"+filepath.Join(dir, "t.db"))...)
		if got.exit != 3 || !strings.Contains(got.stderr, "file_system_unsuitable") {
			t.Errorf("%s: exit %d %s", kind, got.exit, got.stderr)
		}
		fixture.Unchanged(t, dir, before)
	}
}

// ready is a Goal that is ready for a command, to be copied for each try at it.
type ready struct {
	dir  string
	g    []string // the flags that name it
	line []string // the previewed line that does the command
}

// planned makes a Goal that is ready for a command.
func planned(t *testing.T, name, goal, command string) ready {
	t.Helper()
	dir := fixture.Case(t, name)
	engage(t, dir, goal, 4)
	g := []string{"--runtime-root=" + filepath.Join(dir, "runtime"), "--goal-id=" + goal}
	for _, step := range []string{"freeze", "import", "compare", "promote"} {
		args := with(g, step)
		if step == "freeze" {
			args = append(args, "--to", "sqlite:")
		}
		if step == command {
			return ready{dir, g, ask(t, 0, args...).Next.Argv[2:]}
		}
		execute(t, 0, args...)
	}
	t.Fatalf("no step %s", command)
	return ready{}
}

// copy returns a copy of the Goal, as it is now, in a folder of its own.
func (r ready) copy(t *testing.T) ready {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	moved := ready{dir: dir}
	for _, word := range r.g {
		moved.g = append(moved.g, strings.ReplaceAll(word, r.dir, dir))
	}
	for _, word := range r.line {
		moved.line = append(moved.line, strings.ReplaceAll(word, r.dir, dir))
	}
	return moved
}

// stride leaves out effects in a short run.
func stride() int {
	if testing.Short() {
		return 5
	}
	return 1
}

// TestCase67PromoteGivesUpCleanly breaks a promotion at each of its effects, in turn
// by a kill and by an error, and finishes it or takes it back.
func TestCase67PromoteGivesUpCleanly(t *testing.T) {
	goal := planned(t, "67-promote-gives-up-cleanly", "cut-goal", "promote")
	total := effects(t, goal.copy(t).line...)
	for n := 1; n <= total; n += stride() {
		spec := fmt.Sprintf("kill:%d", n)
		if n%2 == 0 {
			spec = fmt.Sprintf("error:%d:EIO", n)
		}
		gaveUp(t, goal.copy(t), spec, n%4 < 2)
	}
}

// gaveUp breaks one promotion, looks what status says, and then finishes it or takes
// it back.
func gaveUp(t *testing.T, goal ready, spec string, finish bool) {
	t.Helper()
	broken := fault(t, []string{"LM_FAULT=" + spec}, goal.line...)
	status := run(t, with(goal.g, "status")...)
	switch {
	case strings.HasPrefix(spec, "error") && broken.exit == 0 && !strings.Contains(status.stdout, "promoted"):
		t.Errorf("%s: exit 0 and status is\n%s", spec, status.stdout)
	case status.exit != 0 && status.exit != 6:
		t.Errorf("%s: status exits with %d\n%s%s", spec, status.exit, status.stdout, status.stderr)
	}
	published := strings.Contains(status.stdout, "authority     sqlite")
	if finish || published {
		ask(t, 0, goal.line...)
		if got := ask(t, 0, with(goal.g, "status")...); got.Status != "promoted" {
			t.Errorf("%s: finished and status is %s", spec, got.Status)
		}
		return
	}
	execute(t, 0, with(goal.g, "abort")...)
	if got := run(t, with(goal.g, "inspect")...); got.exit != 0 || !strings.Contains(got.stdout, "authority     file") {
		t.Errorf("%s: taken back and inspect exits with %d\n%s%s", spec, got.exit, got.stdout, got.stderr)
	}
}

// TestCase73DiskFullAndFailedSync lets each effect of a freeze fail in turn: no exit
// status 0 without a frozen Goal, and the same line again goes on.
func TestCase73DiskFullAndFailedSync(t *testing.T) {
	goal := planned(t, "73-disk-full-and-failed-sync", "full-goal", "freeze")
	total := effects(t, goal.copy(t).line...)
	for n := 1; n <= total; n += stride() {
		errno := []string{"ENOSPC", "EIO"}[n%2]
		this := goal.copy(t)
		got := fault(t, []string{fmt.Sprintf("LM_FAULT=error:%d:%s", n, errno)}, this.line...)
		status := run(t, with(this.g, "status")...)
		if frozen := strings.Contains(status.stdout, "phase        frozen"); got.exit == 0 && !frozen {
			t.Errorf("%s at effect %d: exit 0 and the goal is not frozen\n%s", errno, n, status.stdout)
		}
		if again := ask(t, 0, this.line...); again.Status != "done" && again.Status != "replayed" {
			t.Errorf("%s at effect %d: the same line again is %s", errno, n, again.Status)
		}
		noTemporaryFiles(t, this.dir)
	}
}

func noTemporaryFiles(t *testing.T, dir string) {
	t.Helper()
	for line := range strings.Lines(string(fixture.TreeHash(t, dir))) {
		if strings.Contains(line, ".tmp-") {
			t.Errorf("left behind: %s", line)
		}
	}
}

// TestInterrupted: Ctrl-C stops a copy at a safe point, says so with 130, and the same
// command goes on.
func TestInterrupted(t *testing.T) {
	goal := planned(t, "67-promote-gives-up-cleanly", "cut-goal", "import")
	gate := filepath.Join(goal.dir, "gate")
	path, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, goal.line...)
	cmd.Env = append(os.Environ(), "LM_PAUSE=12:"+gate)
	said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	stderr := func() string {
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		_, err := os.Stat(gate + ".reached")
		return err == nil
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return strings.Contains(stderr(), "next safe point") })
	writeFile(t, gate, nil)
	_ = cmd.Wait() // its end is read from the state
	if exit := cmd.ProcessState.ExitCode(); exit != 130 || !strings.Contains(stderr(), "interrupted") {
		t.Errorf("exit %d\n%s", exit, stderr())
	}
	ask(t, 0, goal.line...)
	if got := ask(t, 0, with(goal.g, "status")...); got.Status != "imported" {
		t.Errorf("status is %s", got.Status)
	}
}

// waitFor waits until another process has come so far.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatal("the other process did not come that far")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

package lockfile_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// TestMain doubles as another process that takes a lock: it waits for a line,
// takes the lock, says how that went, holds it until its input ends, releases.
func TestMain(m *testing.M) {
	if target := os.Getenv("LOCKFILE_TEST_TARGET"); target != "" {
		contend(target, lockfile.Family(os.Getenv("LOCKFILE_TEST_FAMILY")))
		return
	}
	os.Exit(m.Run())
}

func contend(target string, family lockfile.Family) {
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		fmt.Println("no start:", err)
		return
	}
	lock, err := acquire(family, target, 0)
	var busy *lockfile.BusyError
	switch {
	case errors.As(err, &busy):
		fmt.Println("busy", busy.PID)
		return
	case err != nil:
		fmt.Println("error", err)
		return
	}
	fmt.Println("held")
	if _, err := io.Copy(io.Discard, input); err != nil {
		fmt.Println("error", err)
	}
	if err := lock.Release(); err != nil {
		fmt.Println("error", err)
	}
}

func acquire(family lockfile.Family, target string, wait time.Duration) (*lockfile.Lock, error) {
	if family == lockfile.Kernel {
		return lockfile.AcquireKernel(context.Background(), target, wait, "test_operation")
	}
	return lockfile.AcquireMarker(context.Background(), target, wait)
}

// process is a contender in another process.
type process struct {
	t       *testing.T
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
}

func start(t *testing.T, family lockfile.Family, target string, env ...string) *process {
	t.Helper()
	command := exec.Command(os.Args[0])
	// The race detector would let every process sleep a second at its end.
	env = append(env, "GORACE=atexit_sleep_ms=0", "LOCKFILE_TEST_TARGET="+target, "LOCKFILE_TEST_FAMILY="+string(family))
	command.Env = append(os.Environ(), env...)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	must(t, err)
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	p := &process{t, command, input, bufio.NewReader(output)}
	// A test that failed half-way leaves nobody behind.
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	return p
}

func (p *process) pid() int { return p.command.Process.Pid }

// try lets the process ask once and returns its answer: held, busy PID, error ...,
// or nothing when it was killed.
func (p *process) try() string {
	p.t.Helper()
	_, err := io.WriteString(p.input, "\n")
	must(p.t, err)
	return p.answer()
}

func (p *process) answer() string {
	line, err := p.output.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// kill ends the process without a chance to release, and reaps it, so that its
// process id is dead.
func (p *process) kill() {
	p.t.Helper()
	must(p.t, p.command.Process.Kill())
	if err := p.command.Wait(); err == nil {
		p.t.Fatal("killed, but ended well")
	}
}

// finish lets the process release and end, and returns what it complained of.
func (p *process) finish() string {
	p.t.Helper()
	must(p.t, p.input.Close())
	rest, err := io.ReadAll(p.output)
	must(p.t, err)
	must(p.t, p.command.Wait())
	return strings.TrimSpace(string(rest))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

const (
	goalID = "harbour-crane"
	// patience ends a command that hangs. LoopX itself waits 30 s for a lock, and
	// machines that run tests are slow.
	patience = 3 * time.Minute
	// runMark is in the environment of every process of a test run, daemons included.
	runMark = "LOOPX_MIGRATE_INTEROP_RUN"
)

// installed is what the tests share: the release, and a private home for it.
var installed struct{ loopx, home, mark string }

// TestMain prepares the home and ends what LoopX leaves running in the background.
func TestMain(m *testing.M) {
	status := 1
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
	} else {
		status = m.Run()
	}
	endProcesses()
	if installed.home != "" {
		if err := os.RemoveAll(installed.home); err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
		}
	}
	os.Exit(status)
}

func prepare() error {
	folder := os.Getenv("LOOPX_MIGRATE_INTEROP")
	if folder == "" {
		folder = filepath.Join("..", ".interop")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	installed.loopx = filepath.Join(folder, "loopx", "bin", "loopx")
	if _, err := os.Stat(installed.loopx); err != nil {
		return fmt.Errorf("no LoopX is installed; run make interop: %w", err)
	}
	if installed.home, err = os.MkdirTemp("", "loopx-migrate-interop-"); err != nil {
		return err
	}
	installed.mark = strconv.Itoa(os.Getpid()) + "-" + filepath.Base(installed.home)
	if err := os.Mkdir(filepath.Join(installed.home, "tmp"), 0o700); err != nil {
		return err
	}
	bin := filepath.Join(folder, "node", "node_modules", ".bin") + ":" + filepath.Dir(installed.loopx)
	for name, value := range map[string]string{
		runMark: installed.mark, "HOME": installed.home, "PATH": bin + ":" + os.Getenv("PATH"),
		"LOOPX_USAGE_PING": "0", "LOOPX_EFFECT_RUNTIME_IDLE_MS": "20000",
		// go build runs in the tests and keeps its caches where they were.
		"GOCACHE": goEnv("GOCACHE"), "GOMODCACHE": goEnv("GOMODCACHE"), "GOFLAGS": os.Getenv("GOFLAGS"),
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func goEnv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return os.Getenv(name)
	}
	return strings.TrimSpace(string(out))
}

// endProcesses kills what still runs of this test run: the mark in a process's
// environment says that it is ours.
func endProcesses() {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || installed.mark == "" {
		return
	}
	for _, path := range environments {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(runMark+"="+installed.mark+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// answer is the JSON object a command printed, and how it ended.
type answer struct {
	argv   []string
	exit   int
	fields map[string]any
	text   string // stdout and stderr
	killed bool
}

// command runs a program to its end. Output goes to a file: a background process that
// inherited a pipe would keep the test waiting for its end.
func command(t testing.TB, env []string, argv ...string) answer {
	t.Helper()
	return start(t, env, argv...).wait(t)
}

// process is a command that runs.
type process struct {
	cmd    *exec.Cmd
	stdout string
	cancel context.CancelFunc
}

func start(t testing.TB, env []string, argv ...string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{stdout: filepath.Join(dir, "stdout")}
	out, err := os.Create(p.stdout)
	must(t, err)
	defer out.Close()
	complaints, err := os.Create(p.stdout + ".err")
	must(t, err)
	defer complaints.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p.cancel = cancel
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, complaints
	p.cmd.Dir = dir
	p.cmd.Env = append(append(os.Environ(), "TMPDIR="+filepath.Join(installed.home, "tmp")), env...)
	must(t, p.cmd.Start())
	return p
}

func (p *process) wait(t testing.TB) answer {
	t.Helper()
	defer p.cancel()
	err := p.cmd.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatalf("%q: %v", p.cmd.Args, err)
	}
	out, err := os.ReadFile(p.stdout)
	must(t, err)
	complaints, err := os.ReadFile(p.stdout + ".err")
	must(t, err)
	a := answer{argv: p.cmd.Args, exit: p.cmd.ProcessState.ExitCode(), text: string(out) + string(complaints)}
	a.killed = a.exit < 0
	if a.killed {
		return a
	}
	if err := json.Unmarshal(out, &a.fields); err != nil {
		t.Fatalf("%q ended with %d and printed no JSON object: %s", a.argv, a.exit, a.text)
	}
	return a
}

// at is the value at a path of keys, nil when there is none.
func (a answer) at(path ...string) any {
	var value any = a.fields
	for _, key := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[key]
	}
	return value
}

// is is the string at a path, or the empty string.
func (a answer) is(path ...string) string {
	text, _ := a.at(path...).(string)
	return text
}

// reason is what LoopX calls error_code or reason_code, depending on the verb.
func (a answer) reason() string {
	if code := a.is("reason_code"); code != "" {
		return code
	}
	return a.is("error_code")
}

// done fails the test unless the command ended well.
func (a answer) done(t testing.TB) answer {
	t.Helper()
	if a.exit != 0 {
		t.Fatalf("%q ended with %d: %s", a.argv, a.exit, a.text)
	}
	return a
}

// refused fails the test unless the command ended with 1 and named the reason.
func (a answer) refused(t testing.TB, reason string) {
	t.Helper()
	if a.exit != 1 || a.reason() != reason {
		t.Errorf("%q ended with %d %q, want 1 %q: %s", a.argv, a.exit, a.reason(), reason, a.text)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// goal is a copy of one of LoopX's Goals, and both programs at work on it.
type goal struct {
	t    testing.TB
	root string // project and runtime stand in it
	hash string // SHA-256 of the Goal's id
}

func newGoal(t testing.TB, name string) goal {
	return goal{t, fixture.Copy(t, name), fixture.SHA256([]byte(goalID))}
}

func (g goal) runtime() string  { return filepath.Join(g.root, "runtime") }
func (g goal) registry() string { return filepath.Join(g.root, "project", ".loopx", "registry.json") }
func (g goal) journal() string {
	return filepath.Join(g.runtime(), "authority", "file-v0", "authority-store-"+g.hash[:16]+".json")
}
func (g goal) database() string {
	return filepath.Join(g.runtime(), "authority", "sqlite-v0", "authority-"+g.hash+".sqlite")
}
func (g goal) selector() string {
	return filepath.Join(g.runtime(), "authority", "provider-"+g.hash+".json")
}
func (g goal) maintenance() string {
	return filepath.Join(g.runtime(), "authority-transition", "file-v0", "shadow-management-"+g.hash[:16], "maintenance.ts-effect.lock")
}

// loopxLine is a command line of LoopX for the Goal.
func (g goal) loopxLine(words ...string) []string {
	return append([]string{installed.loopx, "--registry", g.registry(), "--runtime-root", g.runtime(), "--format", "json"}, words...)
}

// loopx runs a verb that takes --goal-id: two words, then its flags.
func (g goal) loopx(group, verb string, flags ...string) answer {
	g.t.Helper()
	words := append([]string{group, verb, "--goal-id", goalID}, flags...)
	return command(g.t, nil, g.loopxLine(words...)...)
}

func (g goal) list() answer { g.t.Helper(); return g.loopx("todo", "list") }

func (g goal) receipt(operation string) answer {
	g.t.Helper()
	return g.loopx("todo", "receipt", "--operation-id", operation)
}

// addLine adds a Todo whose text follows from the operation, so that it can be repeated.
func (g goal) addLine(operation string) []string {
	return g.loopxLine("todo", "add", "--goal-id", goalID, "--role", "agent", "--text", "[P2] Work for "+operation,
		"--task-class", "advancement_task", "--operation-id", operation)
}

func (g goal) add(operation string) answer {
	g.t.Helper()
	return command(g.t, nil, g.addLine(operation)...)
}

// acquire takes the lease of a Todo under a key of the same name.
func (g goal) acquire(todo string) answer {
	g.t.Helper()
	return g.loopx("task-lease", "acquire", "--todo-id", todo, "--owner", "agent-north", "--idempotency-key", "key-of-"+todo,
		"--ttl-seconds", "600", "--write-scope", "interop/"+todo+"/**")
}

func (g goal) lease(verb, todo, version string) answer {
	g.t.Helper()
	return g.loopx("task-lease", verb, "--todo-id", todo, "--owner", "agent-north", "--idempotency-key", "key-of-"+todo, "--expected-version", version)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata/script")

// TestMain lets the test binary be the program: in scripts, and as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(tidied{m}, map[string]func(){
		"loopx-migrate": main,
		"normal":        func() { os.Exit(normal()) },
	})
}

// tidied removes what the tests share when all have run.
type tidied struct{ m *testing.M }

// Run runs the tests.
func (t tidied) Run() int {
	status := pgtest.Main(t.m)
	removeFaulty()
	return status
}

// TestScripts runs testdata/script. $ME is the principal that runs them, $MYUID its user
// id. Their commands beside testscript's own:
//
//	goal FIXTURE     a fresh copy of a Goal; $GOAL is its folder, $FILE the identity of its file store
//	exits N CMD...   run a program and demand its exit status
//	paste N          run the line that the last command printed to be run next
//	again N FILE     run the line that was printed into a file
//	head FILE        let the Goal's journal hold one transaction, with that head
//	spoil NAME       change a byte of a document of this tool
//	shown            turn the last output into what does not differ from run to run
//	tree save|same   remember $GOAL, or demand that not one byte of it changed
//	readonly         mount $GOAL read-only, or skip when that is not permitted
func TestScripts(t *testing.T) {
	trees := map[string]fixture.Tree{}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TMPDIR", env.WorkDir)
			me, err := cutover.Principal()
			env.Setenv("ME", me)
			env.Setenv("MYUID", strconv.Itoa(os.Geteuid()))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"goal":     func(ts *testscript.TestScript, _ bool, args []string) { scriptGoal(t, ts, args[0]) },
			"exits":    scriptExits,
			"paste":    func(ts *testscript.TestScript, _ bool, args []string) { scriptPaste(ts, "stdout", args[0]) },
			"again":    func(ts *testscript.TestScript, _ bool, args []string) { scriptPaste(ts, args[1], args[0]) },
			"spoil":    scriptSpoil,
			"head":     scriptHead,
			"shown":    scriptShown,
			"readonly": func(ts *testscript.TestScript, _ bool, _ []string) { scriptReadonly(ts) },
			"tree": func(ts *testscript.TestScript, _ bool, args []string) {
				goal := ts.Getenv("GOAL")
				now := fixture.TreeHash(t, goal)
				if args[0] == "save" {
					trees[goal] = now
				} else if diff := trees[goal].Diff(now); len(diff) > 0 {
					ts.Fatalf("the folder changed:\n%s", strings.Join(diff, "\n"))
				}
			},
		},
	})
}

func scriptGoal(t *testing.T, ts *testscript.TestScript, name string) {
	dir := fixture.Copy(t, name)
	ts.Setenv("GOAL", dir)
	ts.Setenv("LOOPX_MIGRATE_RUNTIME_ROOT", filepath.Join(dir, "runtime"))
	ts.Setenv("LOOPX_MIGRATE_GOAL_ID", "harbour-crane")
	identity, err := os.ReadFile(filepath.Join(dir, "runtime", "authority", "file-v0", "store-identity"))
	ts.Check(err)
	ts.Setenv("FILE", strings.TrimSpace(string(identity)))
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	demandStatus(ts, want, ts.Exec(args[1], args[2:]...))
	if said := ts.ReadFile("stderr"); strings.Contains(said, "\n  not changed  ") && !slices.ContainsFunc(waysNowhere, func(reason string) bool { return strings.Contains(said, " "+reason+" (exit") }) {
		nextRuns(ts, said)
	}
}

// nextRuns demands of a refusal that the line it prints to run next makes sense.
func nextRuns(ts *testscript.TestScript, said string) {
	_, next, found := strings.Cut(said, "\n  next  ")
	if !found {
		ts.Fatalf("there is no line to run next")
	}
	shell := exec.Command("sh", "-c", strings.TrimSpace(next))
	shell.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LOOPX_MIGRATE_RUNTIME_ROOT", "LOOPX_MIGRATE_GOAL_ID"} {
		shell.Env = append(shell.Env, name+"="+ts.Getenv(name))
	}
	out, err := shell.CombinedOutput()
	if code := shell.ProcessState.ExitCode(); code == 2 || code < 0 || strings.HasSuffix(strings.TrimSpace(next), "--help") && code != 0 {
		ts.Fatalf("%s ends with %d, %v\n%s", strings.TrimSpace(next), code, err, out)
	}
}

func demandStatus(ts *testscript.TestScript, want int, err error) {
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// scriptPaste gives the printed line to a shell, as an operator would.
func scriptPaste(ts *testscript.TestScript, printed, exit string) {
	_, next, found := strings.Cut(ts.ReadFile(printed), "\nnext:\n")
	if !found {
		ts.Fatalf("%s holds no line to run next", printed)
	}
	want, err := strconv.Atoi(exit)
	ts.Check(err)
	demandStatus(ts, want, ts.Exec("sh", "-c", strings.TrimSpace(next)))
}

func scriptHead(ts *testscript.TestScript, _ bool, args []string) {
	dir := filepath.Join(ts.Getenv("GOAL"), "runtime", "authority", "file-v0")
	journals, err := filepath.Glob(filepath.Join(dir, "authority-store-*.json"))
	ts.Check(err)
	ts.Check(os.Remove(journals[0]))
	var head any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &head))
	s, err := filestore.Open(filestore.Options{Dir: dir, GoalID: "harbour-crane"})
	ts.Check(err)
	_, err = s.Commit(context.Background(), authority.CommitRequest{OperationID: "seed", Events: []byte("[]"), Projection: fixture.Canonical(head), Receipts: []byte("[]")})
	ts.Check(errors.Join(err, s.Close()))
}

func scriptSpoil(ts *testscript.TestScript, _ bool, args []string) {
	paths, err := filepath.Glob(filepath.Join(ts.Getenv("GOAL"), "runtime", "authority-transition", "loopx-migrate", "*", args[0]))
	ts.Check(err)
	if len(paths) != 1 {
		ts.Fatalf("%d documents %s", len(paths), args[0])
	}
	text, err := os.ReadFile(paths[0])
	ts.Check(err)
	text[len(text)/2] ^= 1
	ts.Check(os.WriteFile(paths[0], text, 0o600))
}

func scriptShown(ts *testscript.TestScript, _ bool, _ []string) {
	path := ts.MkAbs(".shown")
	text := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	if goal := ts.Getenv("GOAL"); goal != "" {
		text = strings.ReplaceAll(text, goal, "$GOAL")
	}
	ts.Check(os.WriteFile(path, []byte(text), 0o600))
	ts.Check(ts.Exec("normal", path))
}

func scriptReadonly(ts *testscript.TestScript) {
	goal := ts.Getenv("GOAL")
	if out, err := exec.Command("mount", "--bind", goal, goal).CombinedOutput(); err != nil {
		ts.Logf("SKIPPED: a read-only mount is not permitted here: %s", out)
		ts.Fatalf("skip needs a mount; run as root in a mount namespace")
	}
	ts.Defer(func() { _ = exec.Command("umount", goal).Run() })
	out, err := exec.Command("mount", "-o", "remount,ro,bind", goal).CombinedOutput()
	if err != nil {
		ts.Fatalf("remount: %s", out)
	}
}

// logicalDigest of goal-file-v0 and goal-file-v1, which hold the same history: the
// one digest that goldens keep.
const logicalDigest = "cd2075b0a250924959e81297aa4efe078e0599505b12121a9bc359e6ea1e9a29"

// changing is what differs from run to run, and what stands for it in goldens.
var changing = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?s)\nLOCAL NODE\n.*?\n\n`), "\n"},
	{regexp.MustCompile(`(?s)\n    "local_node": \{.*?\},`), ""},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:(plan)"},
	{regexp.MustCompile(`op-[0-9a-f]{16}`), "op-(minted)"},
	{regexp.MustCompile(`mig-[0-9a-f]{16}`), "mig-(id)"},
	{regexp.MustCompile(`sqlite:[0-9a-f]{32}`), "sqlite:(identity)"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`), "(time)"},
	{regexp.MustCompile(`os:[a-z_][a-z0-9_-]*`), "os:(user)"},
	{regexp.MustCompile(`(outage[_ ]ms"?:? *"?)\d+`), "${1}(n)"},
	{regexp.MustCompile(`outage(:? +)\d+ ms`), "outage$1(n) ms"},
	{regexp.MustCompile(`\(\d+ ms\)|for \d+ ms|"milliseconds": \d+|"seconds": [0-9.]+|took [0-9.]+ s`), "(took)"},
	{regexp.MustCompile(`"stall_ms": \d+`), `"stall_ms": (n)`},
}

var digests = regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{12})\b`)

// normal prints a file without what differs from run to run.
func normal() int {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return 1
	}
	for _, c := range changing {
		text = c.from.ReplaceAll(text, []byte(c.to))
	}
	text = digests.ReplaceAllFunc(text, func(digest []byte) []byte {
		if bytes.HasPrefix([]byte(logicalDigest), digest) {
			return digest
		}
		return []byte("(digest)")
	})
	_, err = os.Stdout.Write(text)
	if err != nil {
		return 1
	}
	return 0
}

// answered is what one run of the program answered.
type answered struct {
	stdout, stderr string
	exit           int
}

// run runs the program as a process of its own.
func run(t *testing.T, args ...string) answered {
	t.Helper()
	return runWith(t, nil, args...)
}

func runWith(t *testing.T, environment []string, args ...string) answered {
	t.Helper()
	cmd := exec.Command("loopx-migrate", args...)
	cmd.Env = append(os.Environ(), environment...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return answered{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

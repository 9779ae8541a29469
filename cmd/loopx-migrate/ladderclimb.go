package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
	"github.com/loopx-project/loopx-migrate/testdata/fixtures"
)

// climber runs this program's own command line on disposable Goals.
type climber struct {
	ctx   context.Context
	e     *env
	loopx string
	// as is who runs the program, nil for the user of this process.
	as *syscall.SysProcAttr
	// folders are removed at the end.
	folders []string
	// printed are all answers, without the lines to run next: they must hold nothing private.
	printed bytes.Buffer
}

func newClimber(ctx context.Context, e *env, loopx string) *climber {
	return &climber{ctx: ctx, e: e, loopx: loopx}
}

// stand tries one claim. A probe that cannot be carried out has failed.
func (l *climber) stand(r rung) (s standing) {
	if missing := l.missing(r); missing != "" {
		return standing{rungPending, missing}
	}
	if r.probe == nil {
		return standing{rungUnverified, cmp.Or(r.untried, "no probe at the command line tries it")}
	}
	defer func() {
		if failure := recover(); failure != nil {
			broken, ours := failure.(unclimbed)
			if !ours {
				panic(failure)
			}
			s = standing{rungFail, string(broken)}
		}
	}()
	return r.probe(l)
}

// missing says what a claim is about and is not built, or "".
func (l *climber) missing(r rung) string {
	if r.command == "" {
		return ""
	}
	command := l.e.app().Command(r.command)
	if command == nil {
		return "there is no command " + r.command
	}
	if r.flag != "" && !slices.ContainsFunc(command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), r.flag) }) {
		return r.command + " has no flag --" + r.flag
	}
	return ""
}

// unclimbed ends a probe: the claim fails for that reason.
type unclimbed string

// must ends the probe with a reason unless ok.
func must(ok bool, format string, args ...any) {
	if !ok {
		panic(unclimbed(fmt.Sprintf(format, args...)))
	}
}

func pass(format string, args ...any) standing {
	return standing{rungPass, fmt.Sprintf(format, args...)}
}

// goalCopy is a disposable Goal of one probe.
type goalCopy struct {
	l   *climber
	dir string
}

// goal unpacks the Goal that demo tells its story with.
func (l *climber) goal() goalCopy {
	dir, err := unpackDemo()
	l.folders = append(l.folders, dir)
	must(err == nil, "the disposable goal could not be made")
	return goalCopy{l, dir}
}

func (g goalCopy) root() string { return filepath.Join(g.dir, "runtime") }

// path is a file of the Goal.
func (g goalCopy) path(parts ...string) string {
	return filepath.Join(append([]string{g.root()}, parts...)...)
}

// ran is what one command answered.
type ran struct {
	Status     string         `json:"status"`
	ReasonCode string         `json:"reason_code"`
	Sentence   string         `json:"sentence"`
	Exit       int            `json:"exit"`
	Facts      map[string]any `json:"facts"`
	Next       *struct {
		Argv []string `json:"argv"`
	} `json:"next"`
}

// printed is the line to run next, without the program's name.
func (r ran) printed() []string {
	must(r.Next != nil && len(r.Next.Argv) > 1, "there is no line to run next")
	if n := len(goRun); len(r.Next.Argv) > n && slices.Equal(r.Next.Argv[:n], goRun) {
		return r.Next.Argv[n:]
	}
	return r.Next.Argv[1:]
}

// fact is a fact below others: fact("report", "verdict").
func (r ran) fact(names ...string) string {
	var at any = r.Facts
	for _, name := range names {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[name]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// stores are the stores that inspect shows.
func (r ran) stores() []map[string]any {
	list, _ := r.Facts["stores"].([]any)
	var stores []map[string]any
	for _, s := range list {
		store, _ := s.(map[string]any)
		stores = append(stores, store)
	}
	return stores
}

// store is the only store that inspect shows.
func (r ran) store() map[string]any {
	stores := r.stores()
	must(len(stores) == 1, "the goal has %d stores", len(stores))
	return stores[0]
}

// run runs one command on the Goal.
func (g goalCopy) run(args ...string) ran {
	return g.l.run(append([]string{"--runtime-root=" + g.root(), "--goal-id=" + demoGoal}, args...)...)
}

func (l *climber) run(args ...string) ran {
	return l.line(append([]string{"--output=json", "--progress=none"}, args...))
}

// line runs the words of a command line, as they were printed.
func (l *climber) line(args []string) ran {
	cmd := exec.CommandContext(l.ctx, l.e.self, args...)
	cmd.Env, cmd.SysProcAttr = childEnvironment(), l.as
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	var exit *exec.ExitError
	must(err == nil || errors.As(err, &exit), "the program could not be run")
	var r ran
	must(json.Unmarshal(out.Bytes(), &r) == nil, "%s did not print one JSON object", args[len(args)-1])
	must(r.Exit == cmd.ProcessState.ExitCode(), "the exit status is %d and the answer says %d", cmd.ProcessState.ExitCode(), r.Exit)
	facts, err := json.Marshal([]any{r.Sentence, r.Facts})
	must(err == nil, "facts cannot be printed")
	l.printed.Write(append(facts, '\n'))
	return r
}

// step previews a command and executes the line that the preview printed.
func (g goalCopy) step(args ...string) ran {
	preview := g.run(args...)
	must(preview.Status == "preview", "%s was not previewed: %s", args[0], preview.ReasonCode)
	done := g.l.line(preview.printed())
	must(done.Exit == 0 && done.Status == "done", "%s was not done: %s", args[0], done.ReasonCode)
	return done
}

// through takes the Goal through some steps.
func (g goalCopy) through(steps ...string) goalCopy {
	for _, s := range steps {
		g.step(strings.Fields(s)...)
	}
	return g
}

// answers runs a command and demands its exit status and reason.
func (g goalCopy) answers(exit int, reason string, args ...string) ran {
	r := g.run(args...)
	must(r.Exit == exit && (reason == "" || r.ReasonCode == reason), "%s answered %d %s, not %d %s", strings.Join(args[:1], " "), r.Exit, r.ReasonCode, exit, reason)
	return r
}

// tree is a digest over names and bytes of everything below the runtime root, loopxTree
// one without this program's own folder, where refusals are on record.
func (g goalCopy) tree() string { return g.treeWithout("") }
func (g goalCopy) loopxTree() string {
	return g.treeWithout(g.path("authority-transition", "loopx-migrate"))
}

func (g goalCopy) treeWithout(folder string) string {
	sum := sha256.New()
	err := filepath.WalkDir(g.root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == folder {
			return fs.SkipDir
		}
		name, err := filepath.Rel(g.root(), path)
		fmt.Fprintf(sum, "%q %v\n", name, entry.Type())
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%x\n", sha256.Sum256(text))
		return err
	})
	must(err == nil, "the disposable goal cannot be read")
	return hex.EncodeToString(sum.Sum(nil))
}

// overwrite changes a file of the disposable Goal.
func (g goalCopy) overwrite(path string, change func([]byte) []byte) {
	text, err := os.ReadFile(path)
	must(err == nil || errors.Is(err, fs.ErrNotExist), "a file of the disposable goal cannot be read")
	must(faultio.MkdirAll(filepath.Dir(path), 0o700) == nil, "a folder cannot be made")
	file, err := faultio.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	must(err == nil, "a file of the disposable goal cannot be written")
	_, err = file.Write(change(text))
	must(errors.Join(err, file.Close()) == nil, "a file of the disposable goal cannot be written")
}

func (g goalCopy) remove(path string) {
	must(faultio.RemoveAll(path) == nil, "a file of the disposable goal cannot be removed")
}

// private is what no answer of a probe may hold: paths of the disposable Goals and the
// texts of the Goal they are copies of.
func (l *climber) private() (evidence.Private, error) {
	p := evidence.Private{Paths: l.folders}
	goal, err := fixtures.GoalFileV0()
	if err != nil {
		return p, err
	}
	text, err := fs.ReadFile(goal, "runtime/authority/file-v0/authority-store-"+authority.GoalHash16(demoGoal)+".json")
	if err != nil {
		return p, err
	}
	var document struct {
		Head json.RawMessage `json:"head"`
	}
	err = json.Unmarshal(text, &document)
	p.Texts = evidence.TextsOf(authority.Canonical(document.Head))
	return p, err
}

// clean removes what the probes made.
func (l *climber) clean() error {
	var errs []error
	for _, dir := range l.folders {
		errs = append(errs, faultio.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// The places of LoopX in a disposable Goal.
func (g goalCopy) journal() string {
	return g.path("authority", "file-v0", "authority-store-"+authority.GoalHash16(demoGoal)+".json")
}

func (g goalCopy) selector() string {
	return g.path("authority", "provider-"+authority.GoalHash(demoGoal)+".json")
}

func (g goalCopy) database() string {
	return g.path("authority", "sqlite-v0", "authority-"+authority.GoalHash(demoGoal)+".sqlite")
}

func (g goalCopy) fence() string {
	return g.path("authority-transition", "file-v0", "legacy-writer-fence-"+authority.GoalHash16(demoGoal)+".json")
}

func (g goalCopy) manifest() string {
	return g.path("authority-transition", "loopx-migrate", authority.GoalHash16(demoGoal), "manifest.json")
}

//go:build faultinject

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// site is one Goal in a folder, and the commands that are run on it.
type site struct {
	t            *testing.T
	world        world
	acknowledged []string
	program      string
}

func newSite(t *testing.T, root string, acknowledged []string) *site {
	program, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, world: world{t: t, root: root}, acknowledged: acknowledged, program: program}
}

// reply is what a command printed and how it ended.
type reply struct {
	Exit       int    `json:"exit"`
	ReasonCode string `json:"reason_code"`
	Sentence   string `json:"sentence"`
	Facts      struct {
		State     string `json:"state"`
		Authority struct {
			Kind    string `json:"kind"`
			Blocked bool   `json:"blocked"`
		} `json:"authority"`
		Migration struct {
			Phase string `json:"phase"`
		} `json:"migration"`
	} `json:"facts"`
	Next *struct {
		Argv []string `json:"argv"`
	} `json:"next"`
	killed bool
}

func (s *site) run(env []string, args ...string) reply {
	s.t.Helper()
	global := []string{"--runtime-root", s.world.root, "--goal-id", fixture.HistoryGoal, "--output", "json", "--lock-timeout", "1s"}
	if d := s.world.database; d != nil {
		global = append(global, "--tenant", "harbour", "--postgres", serverURL(d))
	}
	if s.world.files {
		global = append(global, "--state-file", s.world.state())
	}
	return s.exec(env, append(append([]string{s.program}, global...), args...))
}

// exec runs a command. A process that was killed in the middle of writing a marker
// lock leaves one that names no owner; LoopX's rule is that it is stale after ten
// seconds, so the lock is made as old and the command is run again.
func (s *site) exec(env, argv []string) reply {
	s.t.Helper()
	r := s.execOnce(env, argv)
	if r.ReasonCode == "lock_timeout" && s.ageTornLocks() {
		r = s.execOnce(env, argv)
	}
	return r
}

// ageTornLocks makes every marker lock without an owner eleven seconds old.
func (s *site) ageTornLocks() (any bool) {
	s.t.Helper()
	old := time.Now().Add(-11 * time.Second)
	err := filepath.WalkDir(s.world.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(entry.Name(), ".ts-effect.lock") {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || json.Valid(text) {
			return err
		}
		any = true
		return os.Chtimes(path, old, old)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return any
}

func (s *site) execOnce(env, argv []string) reply {
	s.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		s.t.Fatal(err)
	}
	var r reply
	if cmd.ProcessState.ExitCode() < 0 {
		r.killed = true
		return r
	}
	if err := json.Unmarshal(out, &r); err != nil {
		s.t.Fatalf("%v printed %q: %v", argv, out, err)
	}
	if r.Exit != cmd.ProcessState.ExitCode() {
		s.t.Fatalf("%v says exit %d and ended with %d", argv, r.Exit, cmd.ProcessState.ExitCode())
	}
	return r
}

// line previews a command and returns the line that executes it.
func (s *site) line(args ...string) []string {
	s.t.Helper()
	r := s.run(nil, args...)
	if r.Exit != 0 || r.Next == nil {
		s.t.Fatalf("preview of %v: exit %d %s: %s", args, r.Exit, r.ReasonCode, r.Sentence)
	}
	return r.Next.Argv
}

func (s *site) do(args ...string) {
	s.t.Helper()
	if r := s.exec(nil, s.line(args...)); r.Exit != 0 {
		s.t.Fatalf("%v: exit %d %s: %s", args, r.Exit, r.ReasonCode, r.Sentence)
	}
}

// truth runs status and fails unless it says what is seen from outside.
func (s *site) truth() reply {
	s.t.Helper()
	accepting := s.world.check(s.acknowledged)
	r := s.run(nil, "status")
	said := r.Facts.Authority.Kind
	if r.Facts.Authority.Blocked {
		said = ""
	}
	fenced := accepting == "" && (said == "sqlite" || said == "postgresql")
	// Between the frozen selector and the writer fence an old LoopX still writes the files.
	unfenced := accepting == "legacy" && said == ""
	if said != accepting && !fenced && !unfenced {
		s.t.Fatalf("status says %q is the authority, a writer would write to %q", said, accepting)
	}
	return r
}

// serverURL names a database as an operator does, over the socket.
func serverURL(d *pgtest.Database) string {
	return d.Cluster.Cluster.URL(d.Name, pgtest.Admin)
}

// crossing is one command in one situation, and where the Goal has to end.
type crossing struct {
	name   string
	server bool       // a database server is one side
	files  bool       // the legacy files are the source
	setup  [][]string // commands that lead there
	run    []string
	ends   string // who accepts writes after it, and after every recovery of it
	undo   string // who accepts writes after abort, where abort can be asked for
	// sampled crossings are broken where the state of a store, a selector or the record
	// changes; between these effects nothing differs that other pages do not show.
	sampled bool
	grow    string // the store that takes commits before the command
}

var crossings = []crossing{
	{name: "import-live", run: []string{"import", "--to", "sqlite:"}, ends: "file", undo: "file"},
	{name: "freeze", run: []string{"freeze", "--to", "sqlite:"}, undo: "file"},
	{name: "import", setup: [][]string{{"freeze", "--to", "sqlite:"}}, run: []string{"import"}, undo: "file"},
	{name: "compare", setup: [][]string{{"freeze", "--to", "sqlite:"}, {"import"}}, run: []string{"compare"}, undo: "file"},
	{name: "promote", setup: [][]string{{"freeze", "--to", "sqlite:"}, {"import"}, {"compare"}}, run: []string{"promote"}, ends: "sqlite", undo: "file"},
	{name: "abort", setup: [][]string{{"freeze", "--to", "sqlite:"}, {"import"}, {"compare"}}, run: []string{"abort"}, ends: "file"},
	{name: "cutover", run: []string{"cutover", "--to", "sqlite:", "--max-stall", "1m"}, ends: "sqlite", undo: "file"},
	{name: "rollback", setup: [][]string{{"cutover", "--to", "sqlite:", "--max-stall", "1m"}}, run: []string{"rollback"}, ends: "file", undo: "sqlite", grow: "sqlite"},
	{name: "grant", run: []string{"grant", "os:#54322"}, ends: "file"},
	{name: "revoke", setup: [][]string{{"grant", "os:#54322"}}, run: []string{"revoke", "os:#54322"}, ends: "file"},
	{name: "files-freeze", files: true, run: filesFreeze, undo: "legacy"},
	{name: "files-import", files: true, setup: [][]string{filesFreeze}, run: []string{"import"}, undo: "legacy"},
	{name: "files-promote", files: true, setup: [][]string{filesFreeze, {"import"}, {"compare"}}, run: []string{"promote"}, ends: "sqlite", undo: "legacy"},
	{name: "files-abort", files: true, setup: [][]string{filesFreeze, {"import"}, {"compare"}}, run: []string{"abort"}, ends: "legacy"},
	{name: "files-cutover", files: true, run: filesCutover, ends: "sqlite", undo: "legacy"},
	{name: "files-rollback", files: true, setup: [][]string{filesCutover}, run: filesRollback, ends: "legacy", undo: "sqlite"},
	{name: "files-cutover-journal", files: true, sampled: true, run: filesToJournal, ends: "file", undo: "legacy"},
	{name: "files-rollback-journal", files: true, sampled: true, setup: [][]string{filesToJournal}, run: filesRollback, ends: "legacy", undo: "file"},
	{name: "files-cutover-server", files: true, server: true, sampled: true, run: filesToServer, ends: "postgresql", undo: "legacy"},
	{name: "files-rollback-server", files: true, server: true, sampled: true, setup: [][]string{filesToServer}, run: filesRollback, ends: "legacy", undo: "postgresql"},
	{name: "import-server", server: true, setup: [][]string{toServer("freeze")}, run: []string{"import"}, undo: "file"},
	{name: "promote-server", server: true, setup: [][]string{toServer("freeze"), {"import"}, {"compare"}}, run: unrehearsedPromote, ends: "postgresql", undo: "file"},
	{name: "abort-server", server: true, setup: [][]string{toServer("freeze"), {"import"}, {"compare"}}, run: []string{"abort"}, ends: "file"},
	{name: "rollback-server", server: true, setup: [][]string{toServer("cutover", "--max-stall", "1m")}, run: []string{"rollback"}, ends: "file", undo: "postgresql", grow: "postgresql"},
}

// filesCommands lead a Goal from the legacy files into the database and back.
var (
	filesFreeze    = []string{"freeze", "--to", "sqlite:", "--writers-stopped"}
	filesCutover   = []string{"cutover", "--to", "sqlite:", "--writers-stopped", "--max-stall", "1m"}
	filesToJournal = []string{"cutover", "--to", "file:", "--writers-stopped", "--max-stall", "1m"}
	filesToServer  = toServer("cutover", "--writers-stopped", "--max-stall", "1m")
	filesRollback  = []string{"rollback", "--accept", "receipts_not_replayable:" + fixture.HistoryGoal,
		"--accept", "legacy_read_only_in_loopx_2_1:" + fixture.HistoryGoal, "--owner", "ops", "--reason", "known"}
)

// unrehearsedPromote promotes into a server what nobody rehearsed.
var unrehearsedPromote = []string{"promote", "--accept", "rehearsal_missing:postgresql", "--owner", "ops", "--reason", "it is a test"}

// toServer moves to the server, whatever LoopX's plain command line can open and although
// nobody rehearsed it.
func toServer(command string, more ...string) []string {
	if command == "cutover" {
		more = append([]string{"--accept", "rehearsal_missing:postgresql"}, more...)
	}
	return append([]string{command, "--to", "postgres", "--accept", "needs_service_runtime:harbour", "--owner", "ops", "--reason", "it is there"}, more...)
}

// situation makes the folder a crossing starts from, once; runs work on copies.
func situation(t *testing.T, c crossing) *site {
	home := filepath.Join(t.TempDir(), "runtime")
	if c.files {
		return c.prepare(filesSituation(t, home))
	}
	fixture.FileV0(t, filepath.Join(home, "authority", "file-v0"), fixture.HistoryGoal, fixture.History(7, 70, 3, 40))
	fence := strings.ReplaceAll(string(fixture.Read(t, "goal-file-v0", "runtime", "authority-transition", "file-v0",
		"legacy-writer-fence-090edaf83a75669a.json")), "harbour-crane", fixture.HistoryGoal)
	path := filepath.Join(home, "authority-transition", "file-v0", "legacy-writer-fence-"+goalHash16+".json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(fence), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, home, nil)
	s.acknowledged = operations(t, s.world.journal())
	return c.prepare(s)
}

// prepare leads a Goal to where the crossing starts from.
func (c crossing) prepare(s *site) *site {
	s.t.Helper()
	if c.server {
		s.world.database = pgtest.New(s.t)
		_, err := pgstore.Install(s.t.Context(), pgstore.Server{DSN: s.world.database.DSN(pgtest.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for _, command := range c.setup {
		s.do(s.targeted(command)...)
	}
	if c.files && c.run[0] == "rollback" {
		s.growOnStore(c.undo)
	}
	if c.grow != "" {
		s.growBy(c.grow, 3)
	}
	return s
}

// targeted puts the server's URL where a command says postgres.
func (s *site) targeted(command []string) []string {
	filled := slices.Clone(command)
	for i, word := range filled {
		if word == "postgres" {
			filled[i] = serverURL(s.world.database)
		}
	}
	return filled
}

// copy is the site as it stands, in a folder and a database of its own, and what
// drops that database.
func (s *site) copy() (*site, func()) {
	to := newSite(s.t, filepath.Join(s.t.TempDir(), "runtime"), s.acknowledged)
	to.world.files, to.world.prose = s.world.files, s.world.prose
	if err := os.CopyFS(to.world.root, os.DirFS(s.world.root)); err != nil {
		s.t.Fatal(err)
	}
	if s.world.database == nil {
		return to, func() {}
	}
	var drop func()
	to.world.database, drop = s.world.database.Copy(s.t)
	return to, drop
}

// undisturbed counts the durable effects of an undisturbed run, and names them.
func undisturbed(t *testing.T, c crossing, from *site) []string {
	s, drop := from.copy()
	defer drop()
	trace := filepath.Join(t.TempDir(), "trace")
	line := s.line(s.targeted(c.run)...)
	if r := s.exec([]string{"LM_FAULT_TRACE=" + trace, "LM_FAULT_ROOT=" + s.world.root}, line); r.Exit != 0 {
		t.Fatalf("undisturbed %v: exit %d %s: %s", c.run, r.Exit, r.ReasonCode, r.Sentence)
	}
	if got := s.world.check(s.acknowledged); got != c.ends {
		t.Fatalf("undisturbed %v ends with %q accepting writes, want %q", c.run, got, c.ends)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// Every durable effect of every command is broken in every way: the process is
// killed before it, killed in the middle of a write, or the effect fails. Each time
// what is seen from outside holds, status says it, and the Goal can be led out.
// In a short run the order of all effects is still compared with the published one; broken
// are those that change a store, the selector or the record, and one of shortStride others.
func TestEveryEffectBroken(t *testing.T) {
	for _, c := range append(crossings, between...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from := situation(t, c)
			names := undisturbed(t, c, from)
			published := matrix{command: c.name}
			if c.sampled {
				published.all = len(names)
			}
			for i, name := range names {
				faults := c.faultsOf(i+1, name)
				if len(faults) == 0 {
					continue
				}
				published.effects = append(published.effects, name)
				if testing.Short() && !turns(name) && i%shortStride != 0 {
					published.left = append(published.left, remains{untried: true})
					continue
				}
				for _, fault := range faults {
					s, drop := from.copy()
					left := s.breakAndRecover(c, fault, i)
					drop()
					if t.Failed() {
						t.Fatalf("fault %s at effect %q", fault, name)
					}
					if strings.HasPrefix(fault, "kill:") {
						published.left = append(published.left, left)
					}
				}
			}
			published.compare(t)
		})
	}
}

const shortStride = 11

// faultsOf is how an effect is broken. What fails or is torn on other pages in the same
// way is only killed at on these: files beside a server, and locks beside legacy files.
func (c crossing) faultsOf(n int, name string) []string {
	lock, commit := c.files && strings.Contains(name, ".lock"), strings.Contains(name, " commit ")
	if c.sampled && !turns(name) {
		return nil
	}
	faults := []string{fmt.Sprintf("kill:%d", n)}
	if commit || !c.server && !lock && !c.sampled {
		faults = append(faults, fmt.Sprintf("error:%d:%s", n, []string{"EIO", "ENOSPC"}[n%2]))
	}
	if commit {
		faults = append(faults, fmt.Sprintf("lost:%d:EIO", n))
	}
	if strings.Contains(name, " write ") && !lock {
		faults = append(faults, fmt.Sprintf("torn:%d", n))
	}
	return faults
}

// breakAndRecover breaks one effect and leads the Goal out in one of three ways: the
// same command again, resume, or giving up. It returns what the break left behind.
func (s *site) breakAndRecover(c crossing, fault string, n int) remains {
	s.t.Helper()
	line := s.line(s.targeted(c.run)...)
	broken := s.exec([]string{"LM_FAULT=" + fault}, line)
	if strings.HasPrefix(fault, "kill") && !broken.killed {
		s.t.Errorf("%s: the process was not killed (exit %d)", fault, broken.Exit)
	}
	status := s.truth()
	left := remains{accepts: s.world.accepts(), state: status.Facts.State, phase: status.Facts.Migration.Phase}
	unfinished := status.Facts.State == "unfinished"
	want := c.ends
	switch way := n % 3; {
	case way == 1 && unfinished:
		s.resume(c)
	case way == 2 && c.undo != "" && !c.finished(broken, status):
		want = s.giveUp(c)
	default:
		s.again(c, line)
	}
	if s.t.Failed() {
		return left
	}
	if s.truth(); s.world.accepts() != want {
		s.t.Errorf("%s: after recovery %q accepts writes, want %q", fault, s.world.accepts(), want)
	}
	return left
}

// finished reports whether the command had done its work when it was broken.
func (c crossing) finished(broken, status reply) bool {
	done := map[string]string{"promote": "promoted", "cutover": "promoted", "rollback": "rolled_back"}
	return broken.Exit == 0 && !broken.killed || status.Facts.Migration.Phase == done[c.run[0]]
}

// resume finishes the step. A cutover that could not have a lock before anything was
// fenced has taken its intent back, and one that failed behind the fence the fence too:
// then there is nothing to resume, and it runs anew.
func (s *site) resume(c crossing) {
	s.t.Helper()
	r := s.exec(nil, s.line("resume"))
	if r.ReasonCode == "plan_changed" { // a first try went on with the copy and could not have a lock
		r = s.exec(nil, s.line("resume"))
	}
	if r.ReasonCode == "cutover_undone" && c.files != strings.Contains(r.Sentence, "the candidate is set aside") {
		s.t.Errorf("resume says of a candidate that is not so: %s", r.Sentence)
	}
	if r.ReasonCode == "nothing_to_resume" || r.ReasonCode == "cutover_undone" {
		s.do(s.targeted(c.run)...)
		return
	}
	if r.Exit != 0 {
		s.t.Errorf("resume: exit %d %s: %s", r.Exit, r.ReasonCode, r.Sentence)
	}
}

// again runs the same line: it finishes, or says that it had finished. A cutover that
// failed before anything was fenced has left its candidate, so that the plan is
// another one now; it is previewed and run anew.
func (s *site) again(c crossing, line []string) {
	s.t.Helper()
	for range 2 { // the second time is a replay
		r := s.exec(nil, line)
		if r.ReasonCode == "plan_changed" || r.ReasonCode == "cutover_undone" {
			line = s.line(s.targeted(c.run)...)
			r = s.exec(nil, line)
		}
		if r.Exit != 0 {
			s.t.Errorf("the same command again: exit %d %s: %s", r.Exit, r.ReasonCode, r.Sentence)
			return
		}
	}
}

// giveUp aborts and returns who has to accept writes then. A command that died before
// it had begun anything leaves nothing to give up; one whose result was published
// already says so, and is finished instead.
func (s *site) giveUp(c crossing) string {
	s.t.Helper()
	r := s.run(nil, "abort")
	switch r.ReasonCode {
	case "wrong_phase":
		return c.undo
	case "already_published", "already_restored":
		s.do("resume")
		return c.ends
	}
	if r.Exit != 0 {
		s.t.Errorf("preview of abort: exit %d %s: %s", r.Exit, r.ReasonCode, r.Sentence)
		return ""
	}
	if r = s.exec(nil, r.Next.Argv); r.Exit != 0 {
		s.t.Errorf("abort: exit %d %s: %s", r.Exit, r.ReasonCode, r.Sentence)
	}
	return c.undo
}

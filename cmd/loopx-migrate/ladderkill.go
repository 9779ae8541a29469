package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// copy is the same Goal in a folder of its own, so that each kill has one that nobody touched.
func (g goalCopy) copy() goalCopy {
	dir, err := os.MkdirTemp("", "loopx-migrate-ladder-")
	must(err == nil, "a folder cannot be made")
	g.l.folders = append(g.l.folders, dir)
	err = filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(g.dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if entry.IsDir() {
			return faultio.MkdirAll(to, 0o700)
		}
		return copyFile(path, to, 0o600)
	})
	must(err == nil, "the disposable goal cannot be copied")
	return goalCopy{g.l, dir}
}

func copyFile(from, to string, mode fs.FileMode) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	file, err := faultio.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// watched runs the words of a printed line and calls at as soon as the process says, in its
// log, that it opens a store for the nth time; at holds a process that is not waited for.
// It returns how the process ended and how many stores it had opened.
func (l *climber) watched(n int, line []string, at func(*os.Process)) (state *os.ProcessState, opened int) {
	cmd := exec.CommandContext(l.ctx, l.e.self, append([]string{"--log-level=debug"}, line...)...)
	cmd.Env = childEnvironment()
	log, err := cmd.StderrPipe()
	must(err == nil && cmd.Start() == nil, "the program could not be run")
	defer func() {
		if cmd.ProcessState == nil { // a probe that ends here leaves no process behind
			_ = errors.Join(cmd.Process.Kill(), cmd.Wait())
		}
	}()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), " store=") {
			continue
		}
		if opened++; opened == n {
			at(cmd.Process)
		}
	}
	ended := cmd.Wait()
	var exit *exec.ExitError
	must(lines.Err() == nil && (ended == nil || errors.As(ended, &exit)), "what the program said was not heard to its end")
	return cmd.ProcessState, opened
}

// sends is the signal as what watched calls. A process that has ended since gets none.
func sends(signal os.Signal) func(*os.Process) {
	return func(p *os.Process) {
		err := p.Signal(signal)
		must(err == nil || errors.Is(err, os.ErrProcessDone), "the program could not be sent a signal")
	}
}

// killedAt kills a line without warning and reports whether that hit it before its end.
func (l *climber) killedAt(n int, line []string) (hit, reached bool) {
	state, opened := l.watched(n, line, sends(os.Kill))
	status, ok := state.Sys().(syscall.WaitStatus)
	must(ok, "this platform does not tell how a process ended")
	return status.Signaled(), opened >= n
}

// accepts is the one store that a writer of LoopX would write to now, or "": its rule,
// written down a second time from docs/formats.md, for stores that are what they say.
func (g goalCopy) accepts() string {
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	text, err := os.ReadFile(g.selector())
	switch {
	case !there(g.fence()):
		return ""
	case errors.Is(err, fs.ErrNotExist) && there(g.journal()) && !there(g.database()):
		return "file"
	}
	var selected struct {
		Schema   string `json:"schema_version"`
		Provider string `json:"provider"`
	}
	if json.Unmarshal(text, &selected) != nil || selected.Schema != "loopx_local_authority_provider_v0" {
		return ""
	}
	place := map[string]string{"file": g.journal(), "sqlite": g.database()}[selected.Provider]
	if place == "" || !there(place) {
		return ""
	}
	return selected.Provider
}

// killing is a command that is killed, and where the Goal is in the end.
type killing struct {
	before  []string // steps before it
	commits int      // commits between them and it
	command string
	every   int      // it is killed at every such store that it opens
	after   []string // steps to the end
	ends    string
}

// probeKilled kills the command in the middle of its work, at one store after the other that
// it opens. After each kill at most one store may take a write, status must say
// which, and resume and the same command must lead to the end with every row there was.
func probeKilled(k killing) func(*climber) standing {
	return func(l *climber) standing {
		prepared := l.goal().through(k.before...)
		for range k.commits {
			prepared.answers(0, "done", "probe-writer")
		}
		held := prepared.digest()
		kills, begun := 0, 0
		for n := k.every; ; n += k.every {
			g := prepared.copy()
			line := g.answers(0, "", strings.Fields(k.command)...).printed()
			hit, reached := l.killedAt(n, line)
			if !reached {
				break
			}
			if hit {
				kills++
			}
			if g.survives(n, line) {
				begun++
			}
			g.through(k.after...)
			must(g.accepts() == k.ends, "killed at store %d: in the end %q takes writes", n, g.accepts())
			must(g.digest() == held, "killed at store %d: in the end the history is another", n)
			g.remove(g.dir)
		}
		if kills == 0 {
			return standing{rungUnverified, "the command was at its end before it could be killed"}
		}
		return pass("killed at %d places, at %d in a step on record; led to its end each time", kills, begun)
	}
}

// survives demands one authority after a kill, and a way to the end of the command. It
// reports whether the kill left a step unfinished.
func (g goalCopy) survives(n int, line []string) (unfinished bool) {
	status := g.run("status")
	must(status.Exit == 0 || status.Exit == 6, "killed at store %d: status answered %d %s", n, status.Exit, status.ReasonCode)
	said := status.fact("authority", "kind")
	if status.fact("authority", "blocked") == "true" {
		said = ""
		g.answers(3, "", "probe-writer")
	}
	must(said == g.accepts(), "killed at store %d: %q takes writes and status says %q", n, g.accepts(), said)
	if unfinished = status.fact("state") == "unfinished"; unfinished {
		g.step("resume")
	}
	again := g.l.line(line)
	must(again.Exit == 0, "killed at store %d: the same line then answered %d %s", n, again.Exit, again.ReasonCode)
	return unfinished
}

// probeLocked stops a freeze while it holds the Goal's lock: another command waits as long as
// it was told, names the holder and does nothing; the one that was stopped then ends well.
func probeLocked(l *climber) standing {
	g := l.goal()
	line := g.answers(0, "preview", "freeze", "--to", "sqlite:").printed()
	var waited ran
	state, opened := l.watched(2, line, func(p *os.Process) {
		sends(syscall.SIGSTOP)(p)
		defer sends(syscall.SIGCONT)(p)
		waited = g.run("freeze", "--to", "sqlite:", "--lock-timeout", "300ms", "--operation-id", "op-second", "--through", "231",
			"--plan-digest", "sha256:"+strings.Repeat("0", 64), "--execute")
		must(waited.fact("where", "holder_pid") == strconv.Itoa(p.Pid), "it names process %q as the holder", waited.fact("where", "holder_pid"))
	})
	must(opened > 1, "freeze opened %d stores", opened)
	must(waited.Exit == 7 && waited.ReasonCode == "lock_timeout", "the second one answered %d %s", waited.Exit, waited.ReasonCode)
	must(state.ExitCode() == 0, "the one that held the lock ended with %d", state.ExitCode())
	return pass("exit 7, with the holder's process id; the holder ended well")
}

// probeInterrupted sends Ctrl-C to an import.
func probeInterrupted(l *climber) standing {
	prepared := l.goal().through("freeze --to sqlite:")
	for n := 1; ; n++ {
		g := prepared.copy()
		line := g.answers(0, "preview", "import").printed()
		state, opened := l.watched(n, line, sends(os.Interrupt))
		if opened < n {
			return standing{rungUnverified, "the command was at its end before it could be interrupted"}
		}
		if state.ExitCode() == 0 {
			continue // it was past its last safe point
		}
		must(state.ExitCode() == int(cutover.KindInterrupted), "it ended with %d", state.ExitCode())
		must(l.line(line).Exit == 0, "the same line did not go on")
		must(g.digest() == prepared.digest(), "the history is another")
		return pass("exit 130 at store %d, and the same line went on", n)
	}
}

// digest is the logical digest of the longest history that the Goal has.
func (g goalCopy) digest() (digest string) {
	longest := -1
	for _, store := range g.run("inspect").stores() {
		rows, ok := store["transactions"].(float64)
		if ok && int(rows) > longest {
			longest, digest = int(rows), fmt.Sprint(store["logical_digest"])
		}
	}
	must(longest > 0, "inspect shows no history")
	return digest
}

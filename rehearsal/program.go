package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

// Program is LoopX's own command line, as the driver of the legacy arm.
type Program struct {
	Path string
	// Registry is the source's: the Goal's entry in it is what the copy is registered by.
	Registry string
	// Search is the PATH of its processes, on which LoopX looks for Node.js. Nothing else
	// of this process's environment reaches them.
	Search string
	// Patience is how long one command may take, a minute where it is zero: leases of the
	// workload then run out no sooner by LoopX's clock than by the workload's.
	Patience time.Duration
}

const (
	patience   = time.Minute
	answerSize = 4 << 20
	homeRel    = "loopx-home"
	// idle is after how many milliseconds what LoopX leaves running in the background ends.
	idle = "3000"
)

// loopx is the program set up to work on a copy and to know of nothing else.
type loopx struct {
	Program
	at       copied
	registry string
	home     string
}

// reply is what LoopX answers, as far as the work needs it.
type reply struct {
	OK         *bool  `json:"ok"`
	TodoID     string `json:"todo_id"`
	ErrorCode  string `json:"error_code"`
	ReasonCode string `json:"reason_code"`
	DoneBefore *int   `json:"active_done_before"`
}

// code is why LoopX refused, empty where it gave no code.
func (s reply) code() string {
	if s.ErrorCode != "" {
		return s.ErrorCode
	}
	return s.ReasonCode
}

// notUsable refuses a program that cannot drive the legacy arm.
func notUsable(why string, err error) error {
	return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "loopx_not_usable", Err: err,
		Sentence: "the program that --loopx names cannot drive the legacy arm: " + why}
}

// install sets the program up for a copy: a registry, a home and a folder for temporary
// files that lie in it.
func (p Program) install(at copied, source []byte, agents []string) (*loopx, error) {
	l := &loopx{Program: p, at: at, home: filepath.Join(at.dir, homeRel), registry: filepath.Join(at.dir, "project", ".loopx", "registry.json")}
	if l.Patience == 0 {
		l.Patience = patience
	}
	text, err := registryOf(source, at, agents)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{filepath.Join(l.home, "tmp"), filepath.Dir(l.registry)} {
		if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return l, atomicfile.Replace(l.registry, 0o600, text)
}

// run runs the program to its end and returns what it printed.
func (l *loopx) run(ctx context.Context, words ...string) (out []byte, exit int, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.Path, words...)
	cmd.Dir = l.at.dir
	cmd.Env = []string{"PATH=" + l.Search, "HOME=" + l.home, "TMPDIR=" + filepath.Join(l.home, "tmp"), "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1",
		"LOOPX_USAGE_PING=0", "LOOPX_EFFECT_RUNTIME_IDLE_MS=" + idle}
	answer := &bounded{left: answerSize}
	cmd.Stdout = answer
	// In a group of its own, so that what it started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // something in the background may keep the output open
	err = cmd.Run()
	if ended := new(exec.ExitError); errors.As(err, &ended) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, 0, notUsable("it did not answer within "+l.Patience.String(), ctx.Err())
	case ctx.Err() != nil:
		return nil, 0, ctx.Err()
	case err != nil:
		return nil, 0, notUsable("it cannot be started", err)
	}
	return answer.text.Bytes(), cmd.ProcessState.ExitCode(), nil
}

// ask runs a command of LoopX on the copy. A refusal is an answer.
func (l *loopx) ask(ctx context.Context, words ...string) (reply, error) {
	line := append([]string{"--registry", l.registry, "--runtime-root", l.at.place.Root(), "--format", "json"}, words...)
	out, exit, err := l.run(ctx, line...)
	if err != nil {
		return reply{}, err
	}
	var s reply
	if err := json.Unmarshal(out, &s); err != nil || s.OK == nil || *s.OK != (exit == 0) {
		return s, notUsable("to "+strings.Join(words[:2], " ")+" it gave no answer that can be read", err)
	}
	return s, nil
}

var versionLine = regexp.MustCompile(`^loopx (\d[0-9A-Za-z.+-]{0,40})\s*$`)

// version asks the program what it is.
func (l *loopx) version(ctx context.Context) (string, error) {
	out, exit, err := l.run(ctx, "--version")
	if err != nil {
		return "", err
	}
	found := versionLine.FindSubmatch(out)
	if exit != 0 || found == nil {
		return "", notUsable("it is not LoopX: --version names none", nil)
	}
	return string(found[1]), nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	text bytes.Buffer
	left int
}

// Write never fails: a program that says too much is not stopped by it, it is not read.
func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.text.Write(p[:n])
	return len(p), nil
}

// tryLoopX refuses a program that would not write the legacy files, on a copy that no arm
// uses, before anything was driven.
func (r *run) tryLoopX(ctx context.Context) error {
	if r.LoopX == nil {
		return nil
	}
	if r.kind != authority.KindLegacy {
		return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "flag_without_effect",
			Sentence: "--loopx has no effect here: it drives an arm of legacy files, and this goal's authority is " + string(r.kind) + "; nothing was changed"}
	}
	if o := r.load.undrivable(); o != "" {
		return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "workload_not_drivable",
			Sentence: "LoopX has no command for operation " + o + " of the workload, which puts a whole record; nothing was changed"}
	}
	at, err := copyGoal(ctx, r.base.place, r.base.registration, filepath.Join(r.dir, "loopx-trial"))
	if err != nil {
		return err
	}
	l, err := r.installLoopX(at)
	if err != nil {
		return err
	}
	if r.loopxVersion, err = l.version(ctx); err != nil {
		return err
	}
	r.report.Environment.LoopX = r.loopxVersion
	h := loopxHand{loopx: l, clock: r.Clock}
	before, err := h.read()
	if err != nil {
		return err
	}
	s, err := l.ask(ctx, h.line(Operation{Verb: Add, Text: "[P4] Rehearsal: does this program write?", Role: "agent"}, before)...)
	if err != nil {
		return err
	}
	after, err := h.read()
	if err != nil {
		return err
	}
	if !*s.OK {
		return notUsable("LoopX "+r.loopxVersion+" refused to add a Todo to legacy files ("+s.code()+")", nil)
	}
	if after.head.todos.text[s.TodoID] == nil || before.head.todos.text[s.TodoID] != nil {
		return notUsable("LoopX "+r.loopxVersion+" said that it added a Todo, and the legacy files have none", nil)
	}
	return nil
}

func (r *run) installLoopX(at copied) (*loopx, error) {
	if err := r.Guard.Copy(at.dir); err != nil {
		return nil, err
	}
	return r.LoopX.install(at, r.loopxRegistry, r.load.agents())
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
	"github.com/loopx-project/loopx-migrate/testdata/fixtures"
)

func (e *env) demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "the whole story on a disposable copy of a real Goal",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep", Usage: "keep the folder and say where it is"},
			&cli.StringFlag{Name: "to", Value: "sqlite", Usage: "sqlite, or postgres: on a private server that is gone afterwards"},
		},
		Action: e.action(e.demo),
	}
}

// demoGoal is the Goal of testdata/fixtures/goal-file-v0.
const demoGoal = "harbour-crane"

// demo tells the story step by step as it happens; each step previews and executes
// what its command would.
func (e *env) demo(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	for _, flag := range e.given {
		for _, name := range []string{"--runtime-root", "--goal-id", "--registry", "--state-file", "--loopx"} {
			if strings.HasPrefix(flag, name+"=") {
				return nil, usage("flag_without_effect", "demo works on a copy of its own; %s has no effect there", name)
			}
		}
	}
	dir, err := unpackDemo()
	if err != nil {
		return nil, err
	}
	own := globals{runtimeRoot: filepath.Join(dir, "runtime"), goalID: demoGoal, actor: "demo", progress: "none",
		output: g.output, color: g.color, lockTimeout: g.lockTimeout}
	if own.who, err = e.principal(); err != nil { // who made the copy, and so owns it
		return nil, err
	}
	flow, _, err := e.flow(own)
	if err != nil {
		return nil, err
	}
	s := &story{e: e, flow: flow, began: e.now(), quiet: g.output == outputJSON}
	stop, err := s.chooseTarget(ctx, c.String("to"))
	if err != nil {
		return nil, errors.Join(err, faultio.RemoveAll(dir))
	}
	err = errors.Join(s.tellAll(ctx), stop())
	a := &answer{Status: statusDone}
	a.fact("steps", s.steps)
	a.fact("seconds", e.now().Sub(s.began).Round(10*time.Millisecond).Seconds())
	stopped := errors.Is(ctx.Err(), context.Canceled)
	if c.Bool("keep") || err != nil && !stopped {
		// The folder is named on the terminal only: facts carry no path.
		return a, errors.Join(err, s.say("The folder stays: "+dir+"\n  "+shellLine(append(append([]string(nil), e.program...),
			"--runtime-root", own.runtimeRoot, "--goal-id", demoGoal, "status"))+"\n"))
	}
	return a, errors.Join(err, s.say("The folder was removed; run the demo with --keep to look around in it.\n"), faultio.RemoveAll(dir))
}

// unpackDemo copies the embedded Goal to a folder of its own.
func unpackDemo() (string, error) {
	dir, err := os.MkdirTemp("", "loopx-migrate-demo-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	goal, err := fixtures.GoalFileV0()
	if err != nil {
		return dir, err
	}
	return dir, fs.WalkDir(goal, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if entry.IsDir() {
			return faultio.MkdirAll(to, 0o700)
		}
		text, err := fs.ReadFile(goal, path)
		if err != nil {
			return err
		}
		file, err := faultio.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(bytes.ReplaceAll(text, []byte("@GOAL@"), []byte(dir)))
		return errors.Join(err, file.Close())
	})
}

// story is the demo in progress.
type story struct {
	e     *env
	flow  *cutover.Flow
	began time.Time
	quiet bool
	steps []map[string]any
	// to is the target of the story, as --to names it, and what people call it.
	to     cutover.Target
	toName string
}

func (s *story) say(text string) error {
	if s.quiet {
		return nil
	}
	_, err := io.WriteString(s.e.stdout, text)
	if isBrokenPipe(err) {
		return nil // the story goes on to its end, so that nothing is left behind
	}
	return err
}

// tell says one step in plain words and keeps its facts.
func (s *story) tell(step, command, words string, took time.Duration, facts map[string]any) error {
	facts["step"], facts["milliseconds"] = step, took.Milliseconds()
	s.steps = append(s.steps, facts)
	const width = 76
	text := fmt.Sprintf("%d. %s  (%d ms)\n", len(s.steps), strings.ToUpper(step), took.Milliseconds())
	if command != "" {
		text += "     $ loopx-migrate " + command + "\n"
	}
	for paragraph := range strings.SplitSeq(words, "\n") {
		for line := range strings.SplitSeq(wrap(paragraph, width), "\n") {
			text += "   " + line + "\n"
		}
	}
	return s.say(text + "\n")
}

// run previews and executes one step of the flow, as an operator would.
func (s *story) run(ctx context.Context, r cutover.Request) (preview, done cutover.Result, took time.Duration, err error) {
	if r.OperationID, err = s.e.mintOperation(); err != nil {
		return preview, done, 0, err
	}
	began := s.e.now()
	if preview, err = s.flow.Run(ctx, r); err != nil {
		return preview, done, 0, err
	}
	r.Execute, r.PlanDigest = true, preview.PlanDigest
	if i := slices.Index(preview.Next, "--through"); i >= 0 {
		if r.Through, err = authority.ParseCursor(preview.Next[i+1]); err != nil {
			return preview, done, 0, err
		}
	}
	done, err = s.flow.Run(ctx, r)
	return preview, done, s.e.now().Sub(began), err
}

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/store"
)

// env is what a command gets from outside: streams, clock, random numbers, stores,
// who runs it. Nothing else in this package touches the process.
type env struct {
	program []string // how it was invoked, to begin the lines it prints
	self    string   // the executable, for the probe's process
	stdout  io.Writer
	stderr  io.Writer
	now     func() time.Time
	random  io.Reader
	stores  cutover.Stores

	principal func() (string, error)
	// given are the global flags as they were typed, to be repeated in printed lines.
	given []string
	// words are the command, its flags and arguments as they were read, globals its global flags.
	words   []string
	globals globals
	// answer is what the command that ran has to say.
	answer *answer
}

func newEnv(arg0 string, stdout, stderr io.Writer) *env {
	return &env{program: invoked(arg0), self: executable(arg0), stdout: stdout, stderr: stderr,
		now: time.Now, random: rand.Reader, stores: store.Remembering(), principal: cutover.Principal}
}

// goRun is how a program that `go run` made is called again: it is gone when it ends.
var goRun = []string{"go", "run", "./cmd/loopx-migrate"}

// invoked is the beginning of a line that can be pasted.
func invoked(arg0 string) []string {
	if strings.Contains(filepath.ToSlash(arg0), "/go-build") && strings.Contains(arg0, "/exe/") {
		return goRun
	}
	return []string{arg0}
}

func executable(arg0 string) string {
	if path, err := exec.LookPath(arg0); err == nil {
		if abs, err := filepath.Abs(path); err == nil {
			return abs
		}
	}
	path, err := os.Executable()
	if err != nil {
		return arg0
	}
	return path
}

// terminal reports whether a stream goes to one.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// mintOperation returns a fresh operation id: op- and 16 hexadecimal digits.
func (e *env) mintOperation() (string, error) {
	var b [8]byte
	_, err := io.ReadFull(e.random, b[:])
	return "op-" + hex.EncodeToString(b[:]), err
}

// run parses the arguments, runs the command and prints its answer. It returns the
// exit status.
func (e *env) run(ctx context.Context, args []string) int {
	app := e.app()
	mode := outputMode(args)
	arranged, given, err := arrange(app, args)
	e.given = given
	if err == nil {
		e.words = arranged[len(given):]
		err = app.RunContext(ctx, append([]string{"loopx-migrate"}, arranged...))
	}
	final := e.answer
	if err != nil {
		final = e.refused(final, args, err)
	}
	if final == nil {
		return 0 // help was printed
	}
	return e.deliver(final, mode)
}

// deliver prints an answer and returns the exit status: the answer's own, or 1 if
// it could not be printed. A reader that went away is no trouble.
func (e *env) deliver(a *answer, mode string) int {
	err := e.print(a, mode)
	if err == nil || isBrokenPipe(err) {
		return a.exit()
	}
	complaint := "loopx-migrate: the answer could not be written: " + err.Error() + "\n"
	if a.Status == statusDone {
		complaint += "the command itself is done and its outcome is stored; the same command line prints it again\n"
	}
	_, failed := io.WriteString(e.stderr, complaint)
	if errors.Join(err, failed) != nil && a.exit() == 0 {
		return int(cutover.KindOther)
	}
	return a.exit()
}

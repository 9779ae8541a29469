//go:build faultinject

package faultio

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Enabled reports whether this build obeys LM_FAULT. A build for use never does.
const Enabled = true

// counter numbers the effects of this process. Effects of several goroutines are
// numbered in the order in which they ask.
var counter struct {
	sync.Mutex
	plan *plan
	n    int
}

// begin numbers an effect, traces it, holds it at a pause, and returns what is to
// become of it.
func begin(kind op, label string) fault {
	counter.Lock()
	defer counter.Unlock()
	if counter.plan == nil {
		counter.plan = mustPlan(os.Getenv)
	}
	p := counter.plan
	if !p.counts(kind) {
		return fault{}
	}
	counter.n++
	if p.trace != "" {
		appendTrace(p.trace, fmt.Sprintf("%d %s %s\n", counter.n, kind, p.label(label)))
	}
	if counter.n == p.pauseAt {
		waitFor(p.pauseFile)
	}
	if counter.n != p.fault.at {
		return fault{}
	}
	return p.fault
}

func perform(kind op, label string, effect func() error) error {
	f := begin(kind, label)
	switch f.act {
	case actKill, actTorn:
		die()
	case actError:
		return &fs.PathError{Op: string(kind), Path: label, Err: f.errno}
	}
	err := effect()
	switch {
	case f.act == actKillAfter:
		die()
	case f.act == actLost && err == nil:
		return &fs.PathError{Op: string(kind), Path: label, Err: f.errno}
	}
	return err
}

func performWrite(label string, data []byte, write func([]byte) (int, error)) (int, error) {
	f := begin(opWrite, label)
	switch f.act {
	case actKill:
		die()
	case actTorn:
		// Whether the half arrives is of no consequence: the process dies next.
		_, _ = write(data[:len(data)/2])
		die()
	case actError:
		return 0, &fs.PathError{Op: string(opWrite), Path: label, Err: f.errno}
	}
	n, err := write(data)
	switch {
	case f.act == actKillAfter:
		die()
	case f.act == actLost && err == nil:
		return 0, &fs.PathError{Op: string(opWrite), Path: label, Err: f.errno}
	}
	return n, err
}

// die ends the process as a power switch would: nothing deferred runs.
func die() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

func appendTrace(path, line string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, err = file.WriteString(line)
	if err = closeAfter(file, err); err != nil {
		panic(err)
	}
}

func waitFor(path string) {
	if err := os.WriteFile(path+".reached", nil, 0o600); err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func fakeFSType() (uint64, bool) {
	text := os.Getenv("LM_TEST_FSTYPE")
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		panic("faultio: LM_TEST_FSTYPE: " + err.Error())
	}
	return n, true
}

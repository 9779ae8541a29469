//go:build faultinject

package faultio

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

type act string

const (
	actKill      act = "kill"
	actKillAfter act = "kill-after"
	actTorn      act = "torn"
	actError     act = "error"
	actLost      act = "lost"
)

// fault is what happens to one effect; the zero fault lets it pass.
type fault struct {
	act   act
	at    int
	errno syscall.Errno
}

// plan is the environment of doc.go, read once.
type plan struct {
	fault     fault
	only      map[op]bool
	trace     string
	root      string
	pauseAt   int
	pauseFile string
}

func (p *plan) counts(kind op) bool { return len(p.only) == 0 || p.only[kind] }

var errnos = map[string]syscall.Errno{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EACCES": syscall.EACCES}

// mustPlan panics on a plan it cannot read: a misspelt fault would let a test pass
// that never broke anything.
func mustPlan(env func(string) string) *plan {
	p, err := parsePlan(env)
	if err != nil {
		panic("faultio: " + err.Error())
	}
	return p
}

func parsePlan(env func(string) string) (*plan, error) {
	p := &plan{trace: env("LM_FAULT_TRACE"), root: env("LM_FAULT_ROOT")}
	if kinds := env("LM_FAULT_OP"); kinds != "" {
		p.only = map[op]bool{}
		for kind := range strings.SplitSeq(kinds, ",") {
			p.only[op(kind)] = true
		}
	}
	if text := env("LM_PAUSE"); text != "" {
		at, file, _ := strings.Cut(text, ":")
		n, err := strconv.Atoi(at)
		if err != nil || n < 1 || file == "" {
			return nil, fmt.Errorf("LM_PAUSE=%s is not N:FILE", text)
		}
		p.pauseAt, p.pauseFile = n, file
	}
	var err error
	p.fault, err = parseFault(env("LM_FAULT"))
	return p, err
}

func parseFault(text string) (fault, error) {
	if text == "" {
		return fault{}, nil
	}
	bad := fmt.Errorf("LM_FAULT=%s is not one of kill:N kill-after:N torn:N error:N:ERRNO lost:N:ERRNO", text)
	part := strings.Split(text, ":")
	if len(part) < 2 {
		return fault{}, bad
	}
	f := fault{act: act(part[0])}
	n, err := strconv.Atoi(part[1])
	if err != nil || n < 1 {
		return fault{}, bad
	}
	f.at = n
	switch f.act {
	case actKill, actKillAfter, actTorn:
		if len(part) == 2 {
			return f, nil
		}
	case actError, actLost:
		if len(part) == 3 && errnos[part[2]] != 0 {
			f.errno = errnos[part[2]]
			return f, nil
		}
	}
	return fault{}, bad
}

var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,}`)

// label makes a path the same in every run.
func (p *plan) label(path string) string {
	if p.root != "" {
		path = strings.ReplaceAll(path, strings.TrimSuffix(p.root, "/")+"/", "")
		path = strings.ReplaceAll(path, strings.TrimSuffix(p.root, "/"), ".")
	}
	path = random.ReplaceAllString(path, "*")
	pid := regexp.MustCompile(`\b` + strconv.Itoa(os.Getpid()) + `\b`)
	return pid.ReplaceAllString(path, "*")
}

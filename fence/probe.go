package fence

import (
	"context"
	"encoding/json"
	"os/exec"
	"time"

	"github.com/loopx-project/loopx-migrate/manifest"
)

// Prober tries to write to a Goal as a writer would and reports what it was told.
// A probe that could not be run is an error, which proves nothing.
type Prober interface {
	Probe(ctx context.Context) (manifest.Probe, error)
}

// CommandProbe runs another process that tries the write. LoopX's own command line
// is evidence of kind "loopx"; this tool's model of a writer is "model".
type CommandProbe struct {
	By      string   // loopx or model
	Arm     string   // what is probed: the source's or the target's kind
	Command []string // program and arguments
	Clock   func() time.Time
	// Environment is the process's environment as NAME=VALUE; nil is that of this process.
	Environment []string
}

// probeTime is how long a writer may take to be refused. LoopX waits up to 30 s for a
// lock of its own.
const probeTime = time.Minute

// ProbeError says that a probe could not be run, which proves nothing either way.
type ProbeError struct {
	By     string
	Detail string
	Err    error
}

// Error names who was to write.
func (e *ProbeError) Error() string { return "negative probe by " + e.By + ": " + e.Detail }

// Unwrap returns the cause.
func (e *ProbeError) Unwrap() error { return e.Err }

// Probe runs the command. Both kinds of writer print one JSON object; the write was
// refused if the process failed and named a reason, and any other end is an error.
func (p CommandProbe) Probe(ctx context.Context) (manifest.Probe, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Env = p.Environment
	cmd.WaitDelay = time.Second
	out, runErr := cmd.Output()
	if ctx.Err() != nil {
		return manifest.Probe{}, &ProbeError{By: p.By, Detail: "it did not answer in time", Err: ctx.Err()}
	}
	probe := manifest.Probe{By: p.By, Arm: p.Arm, At: p.Clock().UTC()}
	var answer struct {
		ReasonCode string `json:"reason_code"`
		ErrorCode  string `json:"error_code"`
		Error      string `json:"error"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return probe, &ProbeError{By: p.By, Detail: "it gave no answer that can be read", Err: runErr}
	}
	probe.Answer = answer.ReasonCode
	if probe.Answer == "" {
		probe.Answer = answer.ErrorCode
	}
	if runErr == nil {
		return probe, nil // it wrote: Refused stays false
	}
	if probe.Answer == "" {
		return probe, &ProbeError{By: p.By, Detail: "it failed without a reason code: " + answer.Error, Err: runErr}
	}
	probe.Refused = true
	return probe, nil
}

package fence

import (
	"context"
	"encoding/json"
	"fmt"
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
}

// Probe runs the command. Both kinds of writer print one JSON object; the write was
// refused if the process failed and named a reason, and any other end is an error.
func (p CommandProbe) Probe(ctx context.Context) (manifest.Probe, error) {
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	out, runErr := cmd.Output()
	probe := manifest.Probe{By: p.By, Arm: p.Arm, At: p.Clock().UTC()}
	var answer struct {
		ReasonCode string `json:"reason_code"`
		ErrorCode  string `json:"error_code"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return probe, fmt.Errorf("negative probe by %s: no answer to read: %w", p.By, runErr)
	}
	probe.Answer = answer.ReasonCode
	if probe.Answer == "" {
		probe.Answer = answer.ErrorCode
	}
	if runErr == nil {
		return probe, nil // it wrote: Refused stays false
	}
	if probe.Answer == "" {
		return probe, fmt.Errorf("negative probe by %s: it failed without a reason: %w", p.By, runErr)
	}
	probe.Refused = true
	return probe, nil
}

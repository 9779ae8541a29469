package main

import (
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
)

// rehearsalFlags belong to commands that promote.
func rehearsalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "rehearsal", Usage: "the result `FILE` of a rehearsal of this promotion"},
		&cli.BoolFlag{Name: "require-rehearsal", Usage: "refuse without one, whatever the target; into PostgreSQL one is asked for anyway"},
		&cli.DurationFlag{Name: "rehearsal-max-age", Usage: "how old the rehearsal may be, a `TIME` (default: 24h)"},
	}
}

// programOf is the build that a rehearsal must have been made by.
func programOf(e evidence.Environment) string { return e.Program + " " + e.Revision }

// demandOf reads the flags, and the result that was named.
func demandOf(c *cli.Context) (cutover.RehearsalDemand, error) {
	d := cutover.RehearsalDemand{File: c.String("rehearsal"), Required: c.Bool("require-rehearsal"), MaxAge: c.Duration("rehearsal-max-age")}
	switch {
	case d.MaxAge < 0:
		return d, usage("flag_value", "--rehearsal-max-age must not be negative")
	case d.MaxAge != 0 && d.File == "":
		return d, usage("flag_without_effect", "--rehearsal-max-age goes with --rehearsal only; nothing was done")
	case d.File == "":
		return d, nil
	}
	text, err := os.ReadFile(d.File)
	if err != nil {
		return d, notReachable("rehearsal_unreachable", "the result of the rehearsal cannot be read", err)
	}
	r, err := evidence.DecodeRehearsal(text)
	if err != nil {
		return d, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "rehearsal_invalid", Err: err,
			Sentence: filepath.Base(d.File) + " is no result of a rehearsal, or was edited; nothing was changed"}
	}
	d.Given = &cutover.Rehearsed{Digest: authority.DigestOf(text), Passed: r.Result == evidence.Passed, FinishedAt: r.FinishedAt, Program: programOf(r.Environment),
		GoalID: r.GoalID, Kind: r.Plan.SourceKind, Identity: r.Plan.SourceIdentity, Cursor: r.Plan.Cursor, Revision: r.Plan.Revision, Targets: r.Plan.Targets}
	return d, nil
}

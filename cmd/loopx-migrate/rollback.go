package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"
)

func (e *env) rollbackCommand() *cli.Command {
	return &cli.Command{
		Name:  "rollback",
		Usage: "go back to the source after a promotion, with everything the target was given since",
		Description: "The target is fenced inside itself, its later transactions are exported into the\n" +
			"source's journal, both sides are compared in full, and only then the source is the\n" +
			"authority again. While nothing is published, abort undoes it.",
		Flags:  append(acceptFlags(), executeFlags()...),
		Action: e.action(e.plainStep),
	}
}

func (e *env) cutoverCommand() *cli.Command {
	return &cli.Command{
		Name:  "cutover",
		Usage: "freeze, copy the tail, compare and promote in one command, within a stall budget",
		Description: "Everything that can be done while the source is live is done first. A stall that\n" +
			"cannot fit is refused before anything is fenced; one that grows too long is undone.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "the target's `URL`, sqlite:"},
			writersStoppedFlag(),
			&cli.DurationFlag{Name: "max-stall", Value: time.Second, Usage: "the longest write stall that may be caused"},
		}, append(append(rehearsalFlags(), acceptFlags()...), executeFlags()...)...),
		Action: e.action(e.cutover),
	}
}

func (e *env) cutover(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	r.WritersStopped = c.Bool("writers-stopped")
	if r.MaxStall = c.Duration("max-stall"); r.MaxStall <= 0 {
		return nil, usage("flag_value", "--max-stall must be more than nothing")
	}
	if r.Rehearsal, err = demandOf(c); err != nil {
		return nil, err
	}
	return e.stepTo(ctx, c, g, r)
}

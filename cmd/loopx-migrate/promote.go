package main

import (
	"context"

	"github.com/urfave/cli/v2"
)

func (e *env) promoteCommand() *cli.Command {
	return &cli.Command{
		Name:   "promote",
		Usage:  "make the verified candidate the authority",
		Flags:  append(append(rehearsalFlags(), executeFlags()...), ownedFlags()...),
		Action: e.action(e.promote),
	}
}

func (e *env) promote(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	if r.Rehearsal, err = demandOf(c); err != nil {
		return nil, err
	}
	return e.step(ctx, g, r)
}

func (e *env) abortCommand() *cli.Command {
	return &cli.Command{
		Name:   "abort",
		Usage:  "give up before promotion: the source stays the authority, the candidate is set aside",
		Flags:  executeFlags(),
		Action: e.action(e.plainStep),
	}
}

func (e *env) resumeCommand() *cli.Command {
	return &cli.Command{
		Name:   "resume",
		Usage:  "finish the step that died",
		Flags:  executeFlags(),
		Action: e.action(e.plainStep),
	}
}

// plainStep is a step without options of its own.
func (e *env) plainStep(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	return e.step(ctx, g, r)
}

package main

import (
	"context"

	"github.com/urfave/cli/v2"
)

func (e *env) freezeCommand() *cli.Command {
	return &cli.Command{
		Name:  "freeze",
		Usage: "fence the source, so that nobody writes until the migration is promoted or aborted",
		Description: "While frozen, LoopX refuses reads as well as writes of this Goal. Previewed first;\n" +
			"the preview ends with the line that does it.",
		Flags: append(append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "the target's `URL`: sqlite: is LoopX's own place"},
			writersStoppedFlag(),
		}, executeFlags()...), acceptFlags()...),
		Action: e.action(e.freeze),
	}
}

// writersStoppedFlag is the operator's word where no fence reaches.
func writersStoppedFlag() cli.Flag {
	return &cli.BoolFlag{Name: "writers-stopped", Usage: "of a Goal in the legacy files: attest that every writer was stopped, LoopX 0.5.1, editors and scripts too"}
}

func (e *env) freeze(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	r.WritersStopped = c.Bool("writers-stopped")
	return e.stepTo(ctx, c, g, r)
}

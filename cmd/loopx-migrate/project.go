package main

import (
	"context"

	"github.com/urfave/cli/v2"
)

func (e *env) projectCommand() *cli.Command {
	return &cli.Command{
		Name:  "project",
		Usage: "render the Todo sections of a promoted Goal's state file once, as LoopX's projection does",
		Description: "Prose keeps every byte. What is shown is never read for a decision. The preview says\n" +
			"whether the display is missing, stale or edited, and which Todos would vanish from it.\n" +
			"The file that is replaced is kept beside what the migration kept.",
		Flags:  executeFlags(),
		Action: e.action(e.project),
	}
}

func (e *env) project(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	flow, meter, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	result, err := flow.Project(ctx, r)
	meter.done()
	a := resultAnswer(r, result)
	switch a.Status {
	case statusDone:
		a.Sentence = "The state file shows the head, and was read back."
	case "nothing_to_do", "replayed":
		a.Sentence = "The state file shows the head already. Nothing was changed."
	}
	return a, err
}

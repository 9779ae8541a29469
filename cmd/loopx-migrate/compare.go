package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/cutover"
)

func (e *env) compareCommand() *cli.Command {
	return &cli.Command{
		Name:  "compare",
		Usage: "do source and candidate say the same thing? With --execute the verdict is recorded",
		Description: "With --left and --right two stores are compared that no migration stands behind;\n" +
			"nothing is recorded then.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "left", Usage: "a store's `URL`"},
			&cli.StringFlag{Name: "right", Usage: "a store's `URL`"},
			&cli.BoolFlag{Name: "witness", Usage: "with --left and --right: by naive readers of their own, which first find differences planted on copies"},
			&cli.IntFlag{Name: "page", Usage: "also read both in pages of this `SIZE`, instead of 1, 2, 7 and 64"},
			&cli.Uint64Flag{Name: "minimum-operations", Usage: "qualify only if both hold at least `N` operations"},
			&cli.StringSliceFlag{Name: "require-event-kind", Usage: "qualify only if an event of this `KIND` is among them (may stand more than once)"},
		}, executeFlags()...),
		Action: e.action(e.compare),
	}
}

func (e *env) compare(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	r.Parity = cutover.ParityOptions{MinimumOperations: c.Uint64("minimum-operations"), RequireEventKinds: c.StringSlice("require-event-kind")}
	if c.IsSet("page") {
		if c.Int("page") < 1 {
			return nil, usage("flag_value", "--page must be at least 1")
		}
		r.Parity.PageSizes = []int{c.Int("page")}
	}
	left, right := c.String("left"), c.String("right")
	switch {
	case c.Bool("witness") && (left == "" || r.Parity.MinimumOperations > 0 || len(r.Parity.RequireEventKinds) > 0 || c.IsSet("page")):
		return nil, usage("flag_without_effect", "--witness goes with --left and --right, and not with --page or a coverage gate; nothing was done")
	case left == "" && right == "":
		return e.step(ctx, g, r)
	case left == "" || right == "":
		return nil, usage("arm_required", "--left and --right go together")
	case r.Execute || c.IsSet("operation-id"):
		return nil, usage("flag_without_effect", "comparing two stores by URL records nothing: --execute and --operation-id have no place")
	}
	return e.compareStores(ctx, c, g, r.Parity)
}

// compareStores compares two stores by URL, with the stores' own readers or the witness.
func (e *env) compareStores(ctx context.Context, c *cli.Context, g globals, options cutover.ParityOptions) (*answer, error) {
	left, err := e.named(g, c.String("left"))
	if err != nil {
		return nil, err
	}
	right, err := e.named(g, c.String("right"))
	if err != nil {
		return nil, err
	}
	if c.Bool("witness") {
		return e.compareByWitness(ctx, left, right)
	}
	return e.compareAlone(ctx, g, options, left, right)
}

func (e *env) compareAlone(ctx context.Context, g globals, options cutover.ParityOptions, left, right cutover.Ref) (*answer, error) {
	meter := e.meter(g)
	flow := &cutover.Flow{Stores: e.stores, Clock: e.now, Watch: meter.watch}
	report, err := flow.CompareAlone(ctx, options, left, right)
	meter.done()
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, Sentence: "Both stores say the same thing. Nothing was changed or recorded."}
	a.fact("report", report)
	a.show(reportBlocks(report)...)
	if refusal := cutover.Unqualified(report); refusal != nil {
		refusal.Next = nil // there is no migration to abort
		return a, refusal
	}
	return a, nil
}

package main

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/store"
)

func (e *env) importCommand() *cli.Command {
	return &cli.Command{
		Name:  "import",
		Usage: "copy the history into a candidate and prove it; goes on where it was interrupted",
		Description: "Before freeze it copies a source that is still live (--to is needed the first time).\n" +
			"With --from it copies one store into another that no migration stands behind.",
		Flags: append(append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "the target's `URL`: sqlite: is LoopX's own place, sqlite:FILE another"},
			&cli.StringFlag{Name: "from", Usage: "a source `URL`: copy without a migration; nothing is fenced or recorded"},
		}, executeFlags()...), acceptFlags()...),
		Action: e.action(e.importCommandRun),
	}
}

func (e *env) importCommandRun(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	if from := c.String("from"); from != "" {
		return e.importAlone(ctx, g, r, from, c.String("to"))
	}
	return e.stepTo(ctx, c, g, r)
}

// importAlone copies one store into another, without a migration.
func (e *env) importAlone(ctx context.Context, g globals, r cutover.Request, from, to string) (*answer, error) {
	if to == "" {
		return nil, usage("target_required", "--from needs --to: where does the copy go?")
	}
	source, err := e.named(g, from)
	if err != nil {
		return nil, err
	}
	target, err := e.named(g, to)
	if err != nil {
		return nil, err
	}
	if at, err := store.Parse(to); err == nil && at.Own() {
		return nil, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "target_not_standalone",
			Sentence: "a copy without a migration does not go to LoopX's own place; give a path, or import without --from"}
	}
	r.To = cutover.Target{Kind: target.Kind, Path: target.Path}
	if err := e.permitted(ctx, g, r); err != nil {
		return nil, err
	}
	meter := e.meter(g)
	flow := &cutover.Flow{Stores: e.stores, Clock: e.now, Watch: meter.watch}
	result, err := flow.CopyAlone(ctx, r, source, target)
	meter.done()
	a := resultAnswer(r, result)
	if a.Status == statusPreview && a.next != nil { // as they were typed: no path that nobody gave
		a.next = slices.Concat(a.next[:1], []string{"--from", from}, a.next[1:])
	} else if err == nil {
		a.next = []string{cutover.CommandCompare, "--left", from, "--right", to}
	}
	if a.Status == statusDone {
		a.Sentence = "The copy is done and proved: every row was read back and the logical digests are equal."
	}
	return a, err
}

// named is the store a URL names, for the Goal of the flags. A runtime root is only
// needed where LoopX's own place is meant.
func (e *env) named(g globals, url string) (cutover.Ref, error) {
	at, err := store.Parse(url)
	if err != nil {
		return cutover.Ref{}, err
	}
	if g.goalID == "" {
		return cutover.Ref{}, usage("goal_id_required", "a store is verified for one goal, and its name follows from it: give --goal-id")
	}
	var place *authority.Place
	if at.Own() {
		h, err := g.home()
		if err != nil {
			return cutover.Ref{}, err
		}
		place = &h.place
	}
	ref, err := at.Ref(g.goalID, place)
	ref.Tenant = g.tenant
	return ref, err
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
	"github.com/loopx-project/loopx-migrate/store"
)

// executeFlags belong to every command that can change something.
func executeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "execute", Usage: "do what the preview with that digest said"},
		&cli.StringFlag{Name: "operation-id", Usage: "the `ID` of this command; a preview mints one"},
		&cli.StringFlag{Name: "plan-digest", Usage: "with --execute: the `DIGEST` that the preview printed"},
	}
}

// acceptFlags belong to commands that holds may stand against.
func acceptFlags() []cli.Flag {
	return append([]cli.Flag{&cli.StringFlag{Name: "through", Usage: "with --execute over a live source: the `CURSOR` that the preview bound"}}, ownedFlags()...)
}

// ownedFlags accept a hold by name.
func ownedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "accept", Usage: "accept one hold by name, `CODE:RECORD` (may stand more than once)"},
		&cli.StringFlag{Name: "owner", Usage: "with --accept: `NAME` of who answers for it"},
		&cli.StringFlag{Name: "reason", Usage: "with --accept: `WHY`"},
	}
}

// request reads the flags that all steps share.
func (e *env) request(c *cli.Context) (cutover.Request, error) {
	r := cutover.Request{Command: c.Command.Name, OperationID: c.String("operation-id"), Execute: c.Bool("execute"), PlanDigest: c.String("plan-digest")}
	if err := pairedFlags(c, r); err != nil {
		return r, err
	}
	if through := c.String("through"); through != "" {
		cursor, err := authority.ParseCursor(through)
		if err != nil {
			return r, usage("flag_value", "--through is %q and must be a cursor, a number from 1", through)
		}
		r.Through = cursor
	}
	if err := shareable(c.String("actor"), c.String("owner"), c.String("reason")); err != nil {
		return r, err
	}
	for _, text := range c.StringSlice("accept") {
		code, record, found := strings.Cut(text, ":")
		if !found || code == "" {
			return r, usage("flag_value", "--accept is %q and must be CODE:RECORD", text)
		}
		r.Accept = append(r.Accept, manifest.Accepted{Hold: code, Record: record, Owner: c.String("owner"), Reason: c.String("reason")})
	}
	var err error
	if r.OperationID == "" && !r.Execute {
		r.OperationID, err = e.mintOperation()
	}
	return r, err
}

// shareable refuses what --actor, --owner and --reason would put on record if no evidence
// may hold it: every report of that migration would be refused ever after.
func shareable(actor, owner, reason string) error {
	text, err := json.Marshal([]string{actor, owner, reason})
	if err != nil {
		return err
	}
	var private *evidence.PrivateError
	if err := (evidence.Private{}).Scan("acceptance.json", text); !errors.As(err, &private) {
		return err
	}
	return usage("label_private", "--actor, --owner and --reason go on record and into evidence, and one of them holds %s; nothing was done", private.What)
}

// pairedFlags refuses a flag that would have no effect beside the others.
func pairedFlags(c *cli.Context, r cutover.Request) error {
	for _, name := range []string{"plan-digest", "through"} {
		if c.String(name) != "" && !r.Execute {
			return usage("flag_without_effect", "--%s goes with --execute only; nothing was done", name)
		}
	}
	accepting := len(c.StringSlice("accept")) > 0
	if owned := c.String("owner") != "" && c.String("reason") != ""; accepting && !owned {
		return usage("acceptance_unowned", "--accept needs --owner and --reason: both go on record")
	}
	if (c.String("owner") != "" || c.String("reason") != "") && !accepting {
		return usage("flag_without_effect", "--owner and --reason go with --accept only; nothing was done")
	}
	if id := r.OperationID; id != "" && (!canonical.ValidID(id) || len(id) > 200 || strings.ContainsAny(id, "\n\r\x00")) {
		return usage("operation_id_invalid", "--operation-id must be one trimmed line of at most 200 bytes")
	}
	return nil
}

// target reads --to. LoopX's own place is an empty path however it was spelled.
func target(url string, g globals, h home) (cutover.Target, error) {
	if url == "" {
		return cutover.Target{}, nil
	}
	at, err := store.Parse(url)
	if err != nil {
		return cutover.Target{}, err
	}
	if at.Server != "" {
		return cutover.Target{Kind: at.Kind, Path: at.Server, Tenant: g.tenant}, nil
	}
	ref, err := at.Ref(g.goalID, &h.place)
	if err != nil {
		return cutover.Target{}, err
	}
	if at.Own() || ref.Path == h.place.Database() || ref.Path == h.place.Journal() {
		return cutover.Target{Kind: at.Kind}, nil
	}
	return cutover.Target{Kind: at.Kind, Path: ref.Path}, nil
}

// stepTo is a step that may name its target.
func (e *env) stepTo(ctx context.Context, c *cli.Context, g globals, r cutover.Request) (*answer, error) {
	h, err := g.home()
	if err != nil {
		return nil, err
	}
	if r.To, err = target(c.String("to"), g, h); err != nil {
		return nil, err
	}
	return e.step(ctx, g, r)
}

// step previews or executes one command of the flow.
func (e *env) step(ctx context.Context, g globals, r cutover.Request) (*answer, error) {
	flow, meter, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	if r.To.Kind == authority.KindPostgreSQL {
		flow.Server = r.To.Path
	}
	run := flow.Run
	if r.Command == cutover.CommandResume {
		run = flow.Resume
	}
	result, err := run(ctx, r)
	meter.done()
	return resultAnswer(r, result), err
}

// resultAnswer words what the flow answered.
func resultAnswer(r cutover.Request, result cutover.Result) *answer {
	a := &answer{Command: r.Command, Status: result.Status, next: result.Next}
	a.fact("operation_id", r.OperationID)
	a.fact("migration_id", result.MigrationID)
	a.fact("phase", string(result.Phase))
	if report, ok := result.Report.(parity.Report); ok {
		a.fact("report", report)
		a.show(reportBlocks(report)...)
	}
	if result.Plan != nil {
		a.fact("plan", result.Plan)
		a.fact("plan_digest", result.PlanDigest)
		a.show(planBlocks(*result.Plan, result.PlanDigest)...)
		a.Sentence = "This was a preview. Nothing was changed."
		return a
	}
	if result.Command == "" {
		return a // refused before there was anything to say
	}
	a.fact("result", result.Facts)
	a.Sentence = fmt.Sprintf("%s is done and proved; its outcome is stored under %s.", r.Command, r.OperationID)
	if result.Status == "replayed" {
		a.Sentence = fmt.Sprintf("%s had been done already: this is its stored outcome, and nothing else was done.", r.Command)
		a.fact("replayed", true)
	}
	a.show(doneBlock(result))
	if len(result.Observed) > 0 {
		a.fact("observed_now", result.Observed)
		a.show(factsBlock(pairs("OBSERVED now"), result.Observed))
	}
	return a
}

func doneBlock(result cutover.Result) block {
	b := pairs(strings.ToUpper(result.Status)+" "+result.Command, "migration", result.MigrationID, "operation", result.OperationID, "phase", string(result.Phase))
	return factsBlock(b, result.Facts)
}

// factsBlock adds facts to a table, in the order of their names.
func factsBlock(b block, facts map[string]string) block {
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		b.rows = append(b.rows, row{cells: []string{strings.ReplaceAll(name, "_", " "), facts[name]}})
	}
	return b
}

// planBlocks shows a plan: what it binds, what stands against it, what it would do.
func planBlocks(p cutover.Plan, digest string) []block {
	blocks := []block{pairs("PREVIEW "+p.Command, "goal", p.GoalID, "migration", p.MigrationID, "operation", p.OperationID,
		"phase", string(p.Phase), "source", sideText(p.Source), "target", sideText(p.Target), "principal", p.Principal, "plan", digest)}
	if len(p.Holds) > 0 {
		blocks = append(blocks, holdsBlock(p.Holds))
	}
	would := block{title: "it would"}
	for i, effect := range p.Effects {
		would.rows = append(would.rows, row{cells: []string{fmt.Sprintf("%d.", i+1), effect}})
	}
	return append(blocks, would)
}

func sideText(s cutover.PlanSide) string {
	if s.Kind == "" {
		return ""
	}
	text := string(s.Kind)
	if s.Identity != "" {
		text = string(s.Identity)
	}
	if s.Cursor != 0 {
		text += " at cursor " + s.Cursor.String()
	}
	if s.Elsewhere {
		text += ", at the path given by --to"
	}
	return text
}

// holdsBlock lists holds, those that stand first.
func holdsBlock(holds []cutover.Hold) block {
	b := block{title: "holds", head: []string{"hold", "record", "stands", "what it says"}}
	for _, h := range holds {
		stands := "yes"
		switch {
		case h.Accepted:
			stands = "accepted"
		case h.Acceptable:
			stands = "yes; --accept " + h.Code + ":" + h.Record
		}
		b.rows = append(b.rows, row{cells: []string{h.Code, h.Record, stands, h.Detail}, failing: !h.Accepted})
	}
	return b
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/manifest"
)

func (e *env) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "phase, authority, fence, what is proved, and the next command",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Usage: "print again whenever it changes, until Ctrl-C"},
			&cli.DurationFlag{Name: "every", Value: 2 * time.Second, Usage: "with --watch: look again after this `TIME`"},
		},
		Action: e.action(e.status),
	}
}

func (e *env) status(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	if !c.Bool("watch") {
		if c.IsSet("every") {
			return nil, usage("flag_without_effect", "--every goes with --watch only; nothing was done")
		}
		return e.statusOnce(ctx, g)
	}
	if g.output == outputJSON {
		return nil, usage("watch_needs_table", "--watch prints more than one answer and JSON is one object; run status again instead")
	}
	if c.Duration("every") <= 0 {
		return nil, usage("flag_value", "--every must be more than nothing")
	}
	return e.watchStatus(ctx, g, c.Duration("every"))
}

// watchStatus prints a status whenever it says something new.
func (e *env) watchStatus(ctx context.Context, g globals, every time.Duration) (*answer, error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := ""
	for {
		a, err := e.statusOnce(ctx, g)
		if a == nil {
			return nil, err
		}
		a.goal, a.color = g.goalID, g.color
		if now := fmt.Sprint(a.Facts); now != last {
			last = now
			if err := e.print(a, outputTable); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// statusOnce looks afresh. It exits with 6 when a step is unfinished, the fence is
// gone, or no store is the authority without a migration of ours being the reason, and
// with 3 when a retired store was written to or nothing of such a Goal was found.
func (e *env) statusOnce(ctx context.Context, g globals) (*answer, error) {
	flow, meter, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	s, err := flow.Status(ctx)
	meter.done()
	if err != nil {
		return nil, err
	}
	a := &answer{Status: s.State, next: s.Next}
	a.fact("state", s.State)
	a.fact("authority", authorityFacts(s.Verdict))
	a.show(authorityBlock(flow.Place.Root(), s.Verdict, s.Observation))
	switch {
	case s.Lost != nil:
		a.show(pairs("MIGRATION", "state", "record missing: the fence of "+s.Verdict.Migration+" stands without it"))
	case s.Manifest != nil:
		a.fact("migration", migrationFacts(s.Manifest))
		a.show(migrationBlock(s), provedBlock(s.Manifest))
	default:
		a.show(pairs("MIGRATION", "state", "none: this goal was never migrated by this tool"))
	}
	if len(s.Tripped) > 0 {
		a.fact("tripped", tripFacts(s.Tripped))
		a.show(trippedBlock(s.Tripped))
	}
	return a, unsound(s)
}

func unsound(s cutover.Status) error {
	switch {
	case s.Lost != nil:
		return s.Lost
	case s.State == "unfinished":
		i := s.Manifest.Intent
		return &cutover.Refusal{Kind: cutover.KindUnproved, Reason: "step_unfinished", Next: s.Next,
			Sentence: fmt.Sprintf("%s was begun by operation %s and did not finish", i.Command, i.OperationID)}
	case s.Nothing:
		return goalNotFound()
	case s.State == "fence_lost":
		return fenceLost()
	case s.State == "blocked":
		return &cutover.Refusal{Kind: cutover.KindUnproved, Reason: s.Verdict.Reason, Next: s.Next,
			Sentence: "no store is the authority now: " + s.Verdict.Detail}
	case len(s.Tripped) > 0:
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "retired_store_written", Next: []string{"inspect"},
			Sentence: fmt.Sprintf("a store that was retired was written to: %s", s.Tripped[0].Detail)}
	}
	return nil
}

// goalNotFound is how status and inspect end when there is nothing to speak of.
func goalNotFound() *cutover.Refusal {
	return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "goal_not_found",
		Sentence: "nothing of a goal with this id is below the runtime root; the state file of one in the legacy files is named by --registry or --state-file"}
}

// fenceLost is how status and inspect end when nothing keeps writers out any more.
func fenceLost() *cutover.Refusal {
	return &cutover.Refusal{Kind: cutover.KindUnproved, Reason: "fence_lost", Next: []string{cutover.CommandAbort},
		Sentence: "the frozen selector of the migration that goes on is gone, and nobody keeps writers out"}
}

func migrationFacts(m *manifest.Manifest) map[string]any {
	facts := map[string]any{"migration_id": m.MigrationID, "phase": m.Phase, "source": m.Source, "target": m.Target, "steps": len(m.Steps)}
	if m.Intent != nil {
		facts["intent"] = m.Intent
	}
	if m.Fence != nil {
		facts["fence"] = m.Fence
	}
	if m.Promotion != nil {
		facts["promotion"] = m.Promotion
	}
	if len(m.Incidents) > 0 {
		facts["incidents"] = m.Incidents
	}
	return facts
}

func migrationBlock(s cutover.Status) block {
	m := s.Manifest
	b := pairs("MIGRATION "+m.MigrationID, "state", s.State, "phase", string(m.Phase),
		"source", bindingText(m.Source), "target", bindingText(m.Target))
	if m.Intent != nil {
		b.rows = append(b.rows, row{cells: []string{"unfinished", m.Intent.Command + ", operation " + m.Intent.OperationID}, failing: true})
	}
	if m.Fence != nil {
		b.rows = append(b.rows, row{cells: []string{"fence", m.Fence.ID}})
		for _, p := range m.Fence.Probes {
			verdict := "refused a writer"
			if !p.Refused {
				verdict = "LET A WRITER THROUGH"
			}
			b.rows = append(b.rows, row{cells: []string{"fence proof", verdict + " on " + p.Arm + " (" + p.By + ": " + p.Answer + ")"}, failing: !p.Refused})
		}
	}
	if p := m.Promotion; p != nil {
		b.rows = append(b.rows, row{cells: []string{"outage", fmt.Sprintf("%d ms", p.StallMillis)}})
	}
	for _, i := range m.Incidents {
		b.rows = append(b.rows, row{cells: []string{"INCIDENT", i.Code + ": " + i.Detail}, failing: true})
	}
	return b
}

func bindingText(b manifest.Binding) string {
	text := string(b.Identity)
	if text == "" {
		text = string(b.Kind)
	}
	if b.Cursor != 0 {
		text += " through cursor " + b.Cursor.String()
	}
	return text
}

// provedBlock lists the steps that are done.
func provedBlock(m *manifest.Manifest) block {
	b := block{title: "done and proved", head: []string{"step", "operation", "phase", "proved"}}
	for _, s := range m.Steps {
		var proved []string
		if cursor := cmp.Or(s.Facts["cursor"], s.Facts["copied_through"]); cursor != "" {
			proved = append(proved, "cursor "+cursor)
		}
		if digest := s.Facts["logical_digest"]; digest != "" {
			proved = append(proved, "logical digest "+short(digest))
		}
		b.rows = append(b.rows, row{cells: []string{s.Command, s.OperationID, string(s.Phase), strings.Join(proved, ", ")}})
	}
	return b
}

func tripFacts(trips []cutover.Trip) []map[string]any {
	facts := make([]map[string]any, len(trips))
	for i, t := range trips {
		facts[i] = map[string]any{"where": t.Where, "cursor": t.Cursor.String(), "operation_id": t.OperationID, "detail": t.Detail}
	}
	return facts
}

func trippedBlock(trips []cutover.Trip) block {
	b := block{title: "TRIPWIRES", head: []string{"where", "cursor", "operation", "what"}}
	for _, t := range trips {
		b.rows = append(b.rows, row{cells: []string{t.Where, t.Cursor.String(), t.OperationID, t.Detail}, failing: true})
	}
	return b
}

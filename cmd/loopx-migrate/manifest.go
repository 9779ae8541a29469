package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/manifest"
)

func (e *env) manifestCommand() *cli.Command {
	sub := func(name, usage string, run func(context.Context, *cli.Context, globals) (*answer, error)) *cli.Command {
		return &cli.Command{Name: name, Usage: usage, Action: e.action(run)}
	}
	return &cli.Command{
		Name: "manifest", Usage: "the record of a migration", ArgsUsage: "show|verify|export",
		Subcommands: []*cli.Command{
			sub("show", "print it for people", e.manifestShow),
			sub("verify", "prove it against both stores", e.manifestVerify),
			sub("export", "print it whole, as canonical JSON without any path of this host", e.manifestExport),
		},
	}
}

// record loads the manifest of the Goal; one is needed.
func (e *env) record(g globals) (*manifest.Manifest, error) {
	flow, _, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	snap, err := flow.Folder.Load()
	if err != nil {
		return nil, err
	}
	if snap.Manifest == nil {
		return nil, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "manifest_missing", Next: []string{"status"},
			Sentence: "this goal was never migrated by this tool: there is no record"}
	}
	return snap.Manifest, nil
}

func (e *env) manifestShow(_ context.Context, _ *cli.Context, g globals) (*answer, error) {
	m, err := e.record(g)
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone}
	a.fact("manifest", m)
	a.show(migrationBlock(cutover.Status{Manifest: m, State: string(m.Phase)}), sidesBlock(m), stepsBlock(m))
	if len(m.Accepted) > 0 {
		accepted := block{title: "accepted holds", head: []string{"hold", "record", "owner", "reason"}}
		for _, h := range m.Accepted {
			accepted.rows = append(accepted.rows, row{cells: []string{h.Hold, h.Record, h.Owner, h.Reason}})
		}
		a.show(accepted)
	}
	return a, nil
}

func sidesBlock(m *manifest.Manifest) block {
	b := block{title: "bound", head: []string{"side", "cursor", "transactions", "receipts", "logical digest", "identity"}}
	for _, side := range []struct {
		name  string
		bound manifest.Binding
	}{{"source", m.Source}, {"target", m.Target}} {
		digest := ""
		if !side.bound.LogicalDigest.IsZero() {
			digest = side.bound.LogicalDigest.String()[:12]
		}
		b.rows = append(b.rows, row{cells: []string{side.name, side.bound.Cursor.String(), fmt.Sprint(side.bound.Transactions),
			fmt.Sprint(side.bound.Receipts), digest, string(side.bound.Identity)}})
	}
	return b
}

func stepsBlock(m *manifest.Manifest) block {
	b := block{title: "steps", head: []string{"#", "step", "operation", "principal", "phase", "finished", "digest"}}
	for _, s := range m.Steps {
		principal := s.Principal
		if s.FinishedBy != "" {
			principal += ", finished by " + s.FinishedBy
		}
		b.rows = append(b.rows, row{cells: []string{fmt.Sprint(s.Seq), s.Command, s.OperationID, principal, string(s.Phase),
			s.FinishedAt.Format(timeShown), s.Digest.String()[:12]}})
	}
	return b
}

// manifestVerify exits with 3 when a side no longer holds what was bound.
func (e *env) manifestVerify(ctx context.Context, _ *cli.Context, g globals) (*answer, error) {
	flow, meter, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	proof, err := flow.ProveRecord(ctx)
	meter.done()
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, Sentence: "The record holds: its steps are chained and both stores are what it bound. Nothing was changed."}
	b := block{title: "MANIFEST " + proof.Manifest.MigrationID, head: []string{"side", "retained prefix", "later rows", "holds", "where"}}
	var sides []map[string]any
	problem := ""
	for _, s := range proof.Sides {
		facts := map[string]any{"side": s.Side, "kind": s.Kind, "where": s.Where, "retained_prefix": s.RetainedPrefix.String(), "later_rows": s.Later}
		holds := "yes"
		if s.Problem != "" {
			facts["problem"] = s.Problem
			problem = s.Side + ": " + s.Problem
			holds = "NO: " + s.Problem
		}
		sides = append(sides, facts)
		b.rows = append(b.rows, row{failing: s.Problem != "", cells: []string{s.Side, "1.." + s.RetainedPrefix.String(), fmt.Sprint(s.Later), holds, s.Where}})
	}
	a.fact("migration_id", proof.Manifest.MigrationID)
	a.fact("steps_proved", proof.Steps)
	a.fact("sides", sides)
	a.show(b)
	if problem != "" {
		return a, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "manifest_not_proved", Sentence: problem, Next: []string{"inspect"}}
	}
	return a, nil
}

// manifestExport prints canonical JSON as the only thing on stdout, also without
// --output json, so that it can be kept as a file.
func (e *env) manifestExport(_ context.Context, _ *cli.Context, g globals) (*answer, error) {
	m, err := e.record(g)
	if err != nil {
		return nil, err
	}
	text, err := manifest.Encode(m)
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, raw: append(text, '\n')}
	a.fact("manifest", json.RawMessage(text))
	return a, nil
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
)

func (e *env) inspectCommand() *cli.Command {
	return &cli.Command{
		Name:   "inspect",
		Usage:  "who is the authority and why; verify every store; name what would hold a migration",
		Action: e.action(e.inspect),
	}
}

// inspect changes nothing. It exits with 0 if nothing stands against a migration, 3
// with the first hold or defect, and 6 when no store is the authority or
// the fence of a migration is gone.
func (e *env) inspect(ctx context.Context, _ *cli.Context, g globals) (*answer, error) {
	flow, meter, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	nodes := make(chan *node, 1) // it takes a while to say its version
	go func() { nodes <- localNode(ctx) }()
	seen, err := flow.Inspect(ctx)
	meter.done()
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, Sentence: "Nothing stands against a migration. Nothing was changed."}
	a.fact("authority", authorityFacts(seen.Verdict))
	a.fact("writer_fence", map[string]any{"state": seen.Observation.WriterFence.State, "fence_id": seen.Observation.WriterFence.ID,
		"schema": seen.Observation.WriterFence.Schema})
	a.fact("selector", map[string]any{"state": seen.Observation.Selector.State})
	stores := make([]map[string]any, len(seen.Stores))
	for i, s := range seen.Stores {
		stores[i] = storeFacts(s)
	}
	a.fact("stores", stores)
	a.fact("holds", append([]cutover.Hold{}, seen.Holds...))
	a.show(authorityBlock(flow.Place.Root(), seen.Verdict, seen.Observation))
	for _, s := range seen.Stores {
		a.show(storeBlock(s))
	}
	if seen.Legacy != nil {
		a.fact("legacy", legacyFacts(seen.Legacy))
		a.show(legacyBlocks(seen.Legacy)...)
	}
	if len(seen.Holds) > 0 {
		a.show(holdsBlock(seen.Holds))
	}
	if node := <-nodes; node != nil {
		a.fact("local_node", node)
		a.show(node.block())
	}
	return a, standsAgainst(a, seen)
}

// standsAgainst is the refusal that an inspection ends with, nil when nothing stands
// against a migration: a lost record, a blocked authority or a lost fence before a defect, a
// defect before a hold.
func standsAgainst(a *answer, seen cutover.Inspection) error {
	if seen.Lost != nil {
		return seen.Lost
	}
	if seen.Verdict.Blocked {
		return &cutover.Refusal{Kind: cutover.KindUnproved, Reason: seen.Verdict.Reason, Next: []string{"status"},
			Sentence: "no store is the authority now: " + seen.Verdict.Detail}
	}
	if seen.FenceLost {
		return fenceLost()
	}
	for _, s := range seen.Stores {
		if s.Defect != nil {
			return s.Defect
		}
	}
	if len(seen.Holds) > 0 {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: seen.Holds[0].Code, Holds: seen.Holds,
			Sentence: fmt.Sprintf("%d hold(s) stand against a migration of this goal", len(seen.Holds))}
	}
	if seen.Nothing {
		return goalNotFound()
	}
	if len(seen.Verdict.Findings) > 0 {
		a.Sentence = fmt.Sprintf("Nothing that was read is damaged or held. A freeze is refused until what is beside the legacy files is moved away: %s. Nothing was changed.",
			strings.Join(seen.Verdict.Findings, ", "))
		return nil
	}
	if seen.Verdict.Kind == authority.KindLegacy && seen.Legacy == nil {
		a.Sentence = "The files before any store are the authority; nothing says where they are (--registry or --state-file). Nothing was changed."
		return nil
	}
	if seen.Verdict.Kind == authority.KindLegacy || seen.Verdict.Kind == authority.KindFile {
		a.next = cutover.NextFreeze(seen.Verdict.Kind)
	}
	return nil
}

func authorityFacts(v fence.Verdict) map[string]any {
	facts := map[string]any{"row": v.Row, "kind": v.Kind, "blocked": v.Blocked}
	for name, value := range map[string]string{"store_identity": string(v.Identity), "reason_code": v.Reason, "detail": v.Detail, "migration_id": v.Migration} {
		if value != "" {
			facts[name] = value
		}
	}
	if len(v.Findings) > 0 {
		facts["findings"] = v.Findings
	}
	return facts
}

func authorityBlock(root string, v fence.Verdict, o fence.Observation) block {
	who := string(v.Kind)
	if v.Blocked {
		who = "nobody: " + v.Detail + " (" + v.Reason + ")"
	}
	b := pairs("AUTHORITY", "authority", who, "because", v.Row, "identity", string(v.Identity), "runtime root", root,
		"writer fence", string(o.WriterFence.State)+" "+o.WriterFence.ID, "selector", string(o.Selector.State))
	for _, finding := range v.Findings {
		b.rows = append(b.rows, row{cells: []string{"finding", finding}})
	}
	return b
}

func storeFacts(s cutover.StoreInspection) map[string]any {
	facts := map[string]any{"kind": s.Kind, "where": s.Where, "authority": s.Authority, "verified": s.Defect == nil}
	if s.Defect != nil {
		facts["defect"] = whereOf(s.Defect)
		facts["reason_code"] = asRefusal(s.Defect).Reason
		return facts
	}
	lineageFacts(facts, s.Lineage)
	todos, leases := headCounts(s.Head.Projection)
	facts["todos"], facts["leases"] = todos, leases
	return facts
}

// lineageFacts adds what an audit has proved.
func lineageFacts(facts map[string]any, l authority.Lineage) {
	facts["format"], facts["store_identity"] = l.Format, l.Identity
	facts["cursor"], facts["provider_revision"] = l.End.Cursor.String(), l.End.Revision
	facts["transactions"], facts["events"], facts["receipts"] = l.Transactions, l.Events, l.Receipts
	facts["bytes"], facts["logical_digest"] = l.Bytes, l.Logical
	if len(l.Findings) > 0 {
		facts["findings"] = l.Findings
	}
}

func storeBlock(s cutover.StoreInspection) block {
	title := "STORE " + string(s.Kind)
	if s.Authority {
		title += " (the authority)"
	}
	if s.Defect != nil {
		return pairs(title, "where", s.Where, "verified", "NO: "+defectText(s.Defect))
	}
	todos, leases := headCounts(s.Head.Projection)
	b := lineageBlock(title, s.Where, s.Lineage)
	b.rows = append(b.rows, row{cells: []string{"head", fmt.Sprintf("%d todos, %d leases", todos, leases)}})
	return b
}

func lineageBlock(title, where string, l authority.Lineage) block {
	b := pairs(title, "where", where, "format", string(l.Format), "identity", string(l.Identity), "cursor", l.End.Cursor.String(),
		"revision", string(l.End.Revision), "rows", fmt.Sprintf("%d transactions, %d events, %d receipts", l.Transactions, l.Events, l.Receipts),
		"logical digest", l.Logical.String(), "size", fmt.Sprintf("%d bytes", l.Bytes), "verified", "yes, every row")
	for _, f := range l.Findings {
		b.rows = append(b.rows, row{cells: []string{"finding", findingText(f)}})
	}
	return b
}

func findingText(f authority.Finding) string {
	text := f.Code
	if f.Cursor != 0 {
		text += " at cursor " + f.Cursor.String()
	}
	if f.Field != "" {
		text += ", field " + f.Field
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}

// defectText says cursor and field first, for that is what one looks for.
func defectText(err error) string {
	where := whereOf(err)
	text := asRefusal(err).Reason
	for _, key := range []string{"cursor", "operation_id", "field", "detail"} {
		if value, there := where[key]; there {
			text += fmt.Sprintf(", %s %v", key, value)
		}
	}
	return text
}

// headCounts counts the Todos and leases of a head.
func headCounts(projection authority.Canonical) (todos, leases int) {
	if canonical.Kind(projection) != canonical.Object {
		return 0, 0
	}
	for name, value := range canonical.Members(projection) {
		if canonical.Kind(value) != canonical.Array {
			continue
		}
		count := 0
		for range canonical.Elements(value) {
			count++
		}
		switch name {
		case "todos":
			todos = count
		case "leases":
			leases = count
		}
	}
	return todos, leases
}

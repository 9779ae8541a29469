package main

import (
	"context"
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/parity"
)

// tellAll is the story, in the order of events.
func (s *story) tellAll(ctx context.Context) error {
	if err := s.say("A disposable copy of a real LoopX Goal moves from its file journal to " + s.toName + ",\nworks on there, and goes back with everything it got.\n\n"); err != nil {
		return err
	}
	for _, chapter := range []func(context.Context) error{s.inspect, s.freeze, s.copyHistory, s.compare, s.promote, s.work, s.verify, s.status, s.rollback, s.end} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) inspect(ctx context.Context) error {
	began := s.e.now()
	seen, err := s.flow.Inspect(ctx)
	if err != nil {
		return err
	}
	if err := standsAgainst(&answer{}, seen); err != nil {
		return err
	}
	if len(seen.Stores) != 1 {
		return fmt.Errorf("the demo's goal has %d stores and should have one", len(seen.Stores))
	}
	store := seen.Stores[0]
	todos, leases := headCounts(store.Head.Projection)
	l := store.Lineage
	return s.tell("inspect", "inspect", fmt.Sprintf("The authority is the file journal (%s). All of its %d transactions were read and every link "+
		"of the chain holds: %d events, %d receipts, %d todos and %d settled leases at the end, %.1f MB. Nothing stands against a migration.",
		seen.Verdict.Row, l.Transactions, l.Events, l.Receipts, todos, leases, float64(l.Bytes)/1e6), s.e.now().Sub(began),
		map[string]any{"transactions": l.Transactions, "events": l.Events, "receipts": l.Receipts, "todos": todos, "leases": leases, "logical_digest": l.Logical})
}

func (s *story) freeze(ctx context.Context) error {
	preview, done, took, err := s.run(ctx, cutover.Request{Command: cutover.CommandFreeze, To: s.to, Accept: s.accepted()})
	if err != nil {
		return err
	}
	return s.tell("freeze", "freeze --to "+string(s.to.Kind)+":", fmt.Sprintf("A preview said what would be done and gave its digest (%s...); the same line with that digest and "+
		"--execute did it. LoopX's locks were taken, the selector was frozen, and the journal was read again behind it: bound at cursor %s. "+
		"Then another process tried to write as LoopX would, and was refused (%s). From here on nobody writes.",
		preview.PlanDigest[:19], done.Facts["cursor"], done.Facts["probe"]), took,
		map[string]any{"cursor": done.Facts["cursor"], "probe": done.Facts["probe"], "plan_digest": preview.PlanDigest})
}

func (s *story) copyHistory(ctx context.Context) error {
	_, done, took, err := s.run(ctx, cutover.Request{Command: cutover.CommandImport})
	if err != nil {
		return err
	}
	return s.tell("import", "import", fmt.Sprintf("All %s transactions were copied into a %s candidate that nobody takes for the authority yet. It was then audited from "+
		"the first row to the last, and its logical digest equals the journal's (%s...).",
		done.Facts["copied_through"], s.toName, short(done.Facts["logical_digest"])), took,
		map[string]any{"copied_through": done.Facts["copied_through"], "logical_digest": done.Facts["logical_digest"]})
}

func (s *story) compare(ctx context.Context) error {
	preview, _, took, err := s.run(ctx, cutover.Request{Command: cutover.CommandCompare})
	if err != nil {
		return err
	}
	report, ok := preview.Report.(parity.Report)
	if !ok {
		return fmt.Errorf("the comparison has no report")
	}
	receipts, scans := report.Check(parity.CheckReceipts).Compared, report.Check(parity.CheckScans).Compared
	equal := 0
	for _, c := range report.Checks {
		if c.Outcome == parity.Equal {
			equal++
		}
	}
	return s.tell("compare", "compare", fmt.Sprintf("Both stores were asked the same questions: %d receipts checked, %d pages scanned, heads, order, what consumers see. "+
		"%d of %d checks are equal, none differs: %s.", receipts, scans, equal, len(report.Checks), report.Verdict), took,
		map[string]any{"receipts_checked": receipts, "pages_scanned": scans, "verdict": report.Verdict})
}

func (s *story) promote(ctx context.Context) error {
	_, done, took, err := s.run(ctx, cutover.Request{Command: cutover.CommandPromote, Accept: s.unrehearsed()})
	if err != nil {
		return err
	}
	return s.tell("promote", "promote", fmt.Sprintf("The candidate went to LoopX's place and the journal out of it, both were read back, and the selector was published: "+
		"%s is the authority. Both whole histories were read once more afterwards.\n"+
		"outage: %s ms, from the frozen to the published selector (here one step right after the other)",
		done.Facts["store_identity"], done.Facts["outage_ms"]), took,
		map[string]any{"store_identity": done.Facts["store_identity"], "outage_ms": done.Facts["outage_ms"]})
}

// work commits on the new authority, as LoopX will.
func (s *story) work(ctx context.Context) error {
	const commits = 3
	began := s.e.now()
	ref := s.targetRef()
	var last authority.Applied
	for i := range commits {
		var err error
		if last, err = s.e.commitMark(ctx, ref, fmt.Sprintf("demo-work-%d", i+1), "loopx_migrate_demo_event_v1"); err != nil {
			return err
		}
	}
	return s.tell("work goes on", "", fmt.Sprintf("%d new transactions were committed on the %s store; it now ends at cursor %s.",
		commits, s.toName, last.Cursor), s.e.now().Sub(began), map[string]any{"commits": commits, "cursor": last.Cursor.String()})
}

func (s *story) verify(ctx context.Context) error {
	began := s.e.now()
	proof, err := s.flow.ProveRecord(ctx)
	if err != nil {
		return err
	}
	var prefix authority.Cursor
	var later uint64
	for _, side := range proof.Sides {
		if side.Problem != "" {
			return fmt.Errorf("the %s does not hold what was bound: %s", side.Side, side.Problem)
		}
		prefix, later = side.RetainedPrefix, later+side.Later
	}
	return s.tell("verify", "manifest verify", fmt.Sprintf("The record of the migration was proved against both stores: rows 1 to %s are what the journal held, "+
		"%d came later and their own chain holds. The record has %d chained steps.", prefix, later, proof.Steps), s.e.now().Sub(began),
		map[string]any{"retained_prefix": prefix.String(), "later_rows": later, "steps_proved": proof.Steps})
}

func (s *story) status(ctx context.Context) error {
	began := s.e.now()
	status, err := s.flow.Status(ctx)
	if err != nil {
		return err
	}
	if err := unsound(status); err != nil {
		return err
	}
	return s.tell("status", "status", fmt.Sprintf("Phase %s. Authority: %s (%s). The retired journal is kept, and nobody has written to it.",
		status.State, status.Verdict.Kind, status.Verdict.Row), s.e.now().Sub(began),
		map[string]any{"state": status.State, "authority": status.Verdict.Kind, "tripwires": len(status.Tripped)})
}

// rollback goes the way back, as one who changed his mind would.
func (s *story) rollback(ctx context.Context) error {
	_, done, took, err := s.run(ctx, cutover.Request{Command: cutover.CommandRollback})
	if err != nil {
		return err
	}
	return s.tell("rollback", "rollback", "The way back is no restored snapshot: the database was fenced inside itself, the transactions that only it had were appended to the "+
		"journal's own lineage ("+done.Facts["exported_transactions"]+" of them), both sides were compared in full, and only then the journal was the authority again. The database is kept, in quarantine.", took,
		map[string]any{"facts": done.Facts})
}

func (s *story) end(ctx context.Context) error {
	began := s.e.now()
	seen, err := s.flow.Inspect(ctx)
	if err != nil {
		return err
	}
	if err := standsAgainst(&answer{}, seen); err != nil {
		return err
	}
	if len(seen.Stores) != 1 {
		return fmt.Errorf("after the way back the goal has %d stores and should have one", len(seen.Stores))
	}
	l := seen.Stores[0].Lineage
	return s.tell("inspect", "inspect", fmt.Sprintf("The authority is the file journal again (%s), with %d transactions and %d receipts: not one was lost, not one invented.\nThe whole story took %.1f s.",
		seen.Verdict.Row, l.Transactions, l.Receipts, s.e.now().Sub(s.began).Round(100*time.Millisecond).Seconds()), s.e.now().Sub(began),
		map[string]any{"transactions": l.Transactions, "receipts": l.Receipts, "logical_digest": l.Logical, "authority": seen.Verdict.Kind})
}

func short(digest string) string { return digest[:min(12, len(digest))] }

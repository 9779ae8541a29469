package cutover

import (
	"context"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// holdRetiredWritten names a commit on a store that a promotion had retired.
const holdRetiredWritten = "retired_store_written"

func (f *Flow) planRollback(ctx context.Context, now seen, r Request) (Plan, error) {
	p := f.newPlan(now, r)
	m := now.snap.Manifest
	if now.verdict.Identity != m.Target.Identity {
		return p, refuse(KindUnproved, "target_not_authority", "the target of this migration is not the authority: %s", now.verdict.Row)
	}
	found, err := f.proveLive(ctx, f.side(&manifest.Manifest{}, m.Target), PlanSide{Kind: m.Source.Kind, Tenant: m.Source.Tenant, Cursor: m.Source.Cursor}, r.Through)
	if err != nil && AsRefusal(err).Reason == "source_empty" {
		return p, rewound(0, m.Target.Cursor)
	}
	if err != nil {
		return p, err
	}
	p.Manifest = authority.Digest{}
	p.Target.Cursor, p.Target.Revision = found.at.Cursor, found.at.Revision
	if found.lineage.End.Cursor < m.Target.Cursor {
		return p, rewound(found.lineage.End.Cursor, m.Target.Cursor)
	}
	if p.Holds, err = f.rollbackHolds(ctx, m, found); err != nil {
		return p, err
	}
	p.Effects = f.rollbackEffects(m)
	return p, accept(p.Holds, r.Accept)
}

func rewound(now, promoted authority.Cursor) *Refusal {
	return refuse(KindUnproved, "target_rewound", "the target ends at cursor %s and was promoted at %s: it was restored or rewound", now, promoted)
}

// rollbackEffects says what a rollback does, side by side.
func (f *Flow) rollbackEffects(m *manifest.Manifest) []string {
	stop := "fence the target inside the database and freeze the selector"
	if m.Target.Kind == authority.KindFile {
		stop = "freeze the selector: a journal has no fence inside"
	}
	if m.Source.Kind == authority.KindLegacy {
		return []string{
			stop,
			"write the target's whole history into an archive in the migration's folder, and read it back",
			"make the legacy files of its head there, over the files as they are, and compare both sides",
			"set the target aside in quarantine (it is kept); write lease files and state file, prose untouched",
			"restore the selector: " + originalState(m.Selector) + "; lift the writer fence, last of all",
		}
	}
	back := "put the source back at " + f.where(f.source(m).home(AccessUntouched))
	if m.Source.Kind == authority.KindPostgreSQL {
		return []string{
			stop,
			"append what came after cursor " + m.Source.Cursor.String() + " to the fenced source, which then takes the importer only",
			"compare both sides, all of them",
			"set the target aside in quarantine (it is kept), open the source to everybody",
			"restore the selector: " + originalState(m.Selector),
		}
	}
	return []string{
		"append what came after cursor " + m.Source.Cursor.String() + " to a copy of the retired " + string(m.Source.Kind) + " store and compare both, all of them, while the target is live",
		stop + ": the write stall begins",
		"append and compare what came since",
		"set the target aside in quarantine (it is kept), " + back,
		"restore the selector: " + originalState(m.Selector) + "; the write stall ends",
		"read the whole history of the source again",
	}
}

// rollbackHolds: open work, a retired store that was written to, and what the journal
// cannot hold.
func (f *Flow) rollbackHolds(ctx context.Context, m *manifest.Manifest, found liveSource) ([]Hold, error) {
	holds := openWork(found.head, f.now())
	holds = openLeases(holds)
	trips, err := f.tripped(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, t := range trips {
		holds = append(holds, Hold{Code: holdRetiredWritten, Record: t.Where, Cursor: t.Cursor, Acceptable: true,
			Detail: t.Detail + " (operation " + t.OperationID + "); accepted, it goes to quarantine and the journal is rebuilt from the target"})
	}
	if m.Source.Kind == authority.KindLegacy {
		return f.filesRollbackHolds(m, found, holds)
	}
	if m.Source.Kind == authority.KindFile {
		long, err := f.journalTooLong(ctx, f.target(m).home(AccessUntouched), m.Source, found.longest)
		if err != nil {
			return nil, err
		}
		holds = append(holds, long...)
	}
	around, err := f.around()
	holds = append(holds, around...)
	sortHolds(holds)
	return holds, err
}

// openLeases drops what is no open work: whether a lease has its Todo matters on the
// way in only.
func openLeases(holds []Hold) []Hold {
	var open []Hold
	for _, h := range holds {
		if h.Code != "lease_without_todo" {
			open = append(open, h)
		}
	}
	return open
}

// undoRollback takes a rollback back while nothing is published: the target is the
// authority again, with every commit it had; the export is set aside.
func (f *Flow) undoRollback(ctx context.Context, w *work) error {
	if v := fence.ReadSelector(f.Place); !ours(v, w.m) && !selects(v, w.m) {
		return selectorMoved(v)
	}
	if err := f.targetBack(ctx, w); err != nil {
		return err
	}
	if err := fence.Select(f.Place, selection(w.m)); err != nil {
		return err
	}
	now, err := f.observe(ctx)
	if err != nil {
		return err
	}
	if v := now.Authority(); v.Blocked || v.Identity != w.m.Target.Identity {
		return refuse(KindUnproved, "authority_not_restored", "after the undo the authority reads as %q", v.Row)
	}
	w.m.Rollback = nil
	w.m.Phase = manifest.PhasePromoted
	w.facts["authority"] = string(w.m.Target.Kind)
	return nil
}

// targetBack undoes every move of a rollback and lifts the fence inside the target.
func (f *Flow) targetBack(ctx context.Context, w *work) error {
	target := f.target(w.m)
	if err := target.bringBack(ctx); err != nil {
		return err
	}
	if from := w.m.Rollback; from != nil && from.RolledBackFrom.Cursor != 0 {
		if err := f.holdsThrough(ctx, target.home(AccessUntouched), from.RolledBackFrom); err != nil {
			return err
		}
	}
	if err := f.source(w.m).dropExport(ctx, w); err != nil {
		return err
	}
	return target.lift(ctx, rollbackFence(w.m))
}

package cutover

import (
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/parity"
)

// ahead is what a rollback did while its target was live: the export holds what the target
// held then, and the two were compared, all of them. Behind the fence only what came since
// is left. Only the run that did it knows of it; one that finishes for a dead run compares
// all of it behind the fence.
type ahead struct {
	target, export proof
	report         parity.Report
}

// exportAhead makes the export of a live target and compares both through the cursor that
// the target ends at, so that the write stall does not grow with the history. It is left out
// for legacy files, which are made of the last head, and for a source in a server, which
// takes rows only while it is a candidate.
func (f *Flow) exportAhead(ctx context.Context, w *work) error {
	if w.m.Source.Kind == authority.KindLegacy || w.m.Source.Kind == authority.KindPostgreSQL {
		return nil
	}
	if err := f.retiredUntouched(ctx, w); err != nil {
		return err
	}
	live := f.target(w.m).home(AccessLive)
	live.Moving = true
	target, err := f.proveRef(ctx, live, nil, w.m.Intent.Through)
	if err != nil {
		return err
	}
	export, err := f.source(w.m).export(ctx)
	if err != nil {
		return err
	}
	end := target.lineage.End
	if err := f.writeExport(ctx, w, export, targetRange{home: live, end: end.Cursor}); err != nil {
		return err
	}
	export.Access = AccessUntouched
	lineage, err := f.carries(ctx, w, export, end.Cursor, target.lineage.Logical)
	if err != nil {
		return err
	}
	options := w.request.Parity
	options.Through = end.Cursor
	report, err := f.compareArms(ctx, options, export, live)
	if err != nil {
		return err
	}
	w.report = report
	if report.Verdict != parity.Qualified {
		return refuse(KindUnproved, "export_differs", "the export and the target differ; nothing was fenced and the target is the authority")
	}
	w.ahead = &ahead{target: target, export: proof{lineage: lineage}, report: report}
	return nil
}

// lockForFence takes LoopX's locks for the fence of a rollback. One that was begun in this
// run is given up where they cannot be had: nothing was fenced. What a dead run left may be
// fenced inside already, and stays to be finished.
func (f *Flow) lockForFence(ctx context.Context, w *work) error {
	err := f.lockWriters(ctx, w)
	if err == nil || !w.begun {
		return err
	}
	return errors.Join(err, f.source(w.m).dropExport(context.WithoutCancel(ctx), w), f.dropIntent(w))
}

// proveExport is the verdict on an export that has taken the target's last row: the
// comparison that was made ahead, joined by equal digests of what came since, or one of
// everything.
func (f *Flow) proveExport(ctx context.Context, w *work, export Ref) (parity.Report, error) {
	if w.ahead == nil {
		return f.compareArms(ctx, w.request.Parity, export, f.target(w.m).home(AccessUntouched))
	}
	whole, err := f.proveRef(ctx, export, &w.ahead.export, authority.Bookmark{})
	if err != nil {
		return parity.Report{}, err
	}
	from := w.m.Rollback.RolledBackFrom
	if whole.lineage.End.Cursor != from.Cursor || whole.lineage.Logical != from.LogicalDigest {
		return parity.Report{}, refuse(KindUnproved, "export_differs", "the export does not hold what the target was given since cursor %s; the target stays fenced and complete",
			w.ahead.target.lineage.End.Cursor)
	}
	w.ahead.export = whole
	return w.ahead.report, nil
}

// sourceIsBack reads the source at its final place, behind the frozen selector. One that
// was proved as an export in this run is read from where that proof ended: that it is the
// same store, and nothing came.
func (f *Flow) sourceIsBack(ctx context.Context, w *work) error {
	if w.ahead == nil {
		return f.sourceCarries(ctx, w)
	}
	f.tell(Progress{Act: "verify", Arm: string(w.m.Source.Kind)})
	found, err := f.proveRef(ctx, f.source(w.m).home(AccessUntouched), &w.ahead.export, authority.Bookmark{})
	if err != nil {
		return err
	}
	from := w.m.Rollback.RolledBackFrom
	if found.lineage.Identity != w.m.Source.Identity || found.lineage.End.Cursor != from.Cursor || found.lineage.Logical != from.LogicalDigest {
		return readBackDiffers()
	}
	return nil
}

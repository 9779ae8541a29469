package cutover

import (
	"context"
	"slices"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

func rollbackFence(m *manifest.Manifest) string {
	return "loopx-migrate:" + m.MigrationID + ":rollback"
}

// rollback goes back to the source with everything the target was given since. A copy of
// the source gets the tail, under its own revisions, and both sides are compared, all of
// them, while the target is live where that can be. Then the target is fenced inside itself
// and the selector frozen; the copy gets what came since; the target goes to quarantine, the
// source to its place, the selector to what it was. Nothing is published before everything
// is proved, and the source is read again, all of it, when it is.
func (f *Flow) rollback(ctx context.Context, w *work) error {
	if w.m.Phase == manifest.PhasePromoted && selects(fence.ReadSelector(f.Place), w.m) {
		if err := f.exportAhead(ctx, w); err != nil {
			return err
		}
	}
	if err := f.lockForFence(ctx, w); err != nil {
		return err
	}
	if w.m.Phase == manifest.PhasePromoted {
		if err := f.fenceTarget(ctx, w); err != nil {
			return err
		}
	}
	if w.refused != nil {
		return nil
	}
	if w.m.Phase == manifest.PhaseTargetFenced {
		if err := f.exportTail(ctx, w); err != nil {
			return err
		}
	}
	if ours(fence.ReadSelector(f.Place), w.m) {
		if err := f.putBack(ctx, w); err != nil {
			return err
		}
		if err := fence.Restore(f.Place, w.m.Selector); err != nil {
			return err
		}
	}
	if err := f.source(w.m).liftLast(ctx); err != nil {
		return err
	}
	w.m.Rollback.RestoredAt = f.now()
	return f.restored(ctx, w)
}

// fenceTarget stops the target: a fence inside the store in the transaction that
// proves its revision, then the frozen selector. Its whole history is bound.
func (f *Flow) fenceTarget(ctx context.Context, w *work) error {
	id := rollbackFence(w.m)
	target := f.target(w.m)
	now := fence.ReadSelector(f.Place)
	if !selects(now, w.m) && !ours(now, w.m) {
		return selectorMoved(now)
	}
	if err := target.engage(ctx, id); err != nil {
		return err
	}
	if w.m.Rollback == nil {
		w.m.Rollback = &manifest.Rollback{OperationID: w.request.OperationID, FenceID: id, FrozenAt: f.now()}
		if err := f.save(w); err != nil {
			return err
		}
	}
	frozen := fence.Frozen{MigrationID: w.m.MigrationID, FenceID: id, Original: now.Original()}
	if err := fence.Freeze(f.Place, frozen); err != nil {
		return err
	}
	if err := w.unlock(); err != nil {
		return err
	}
	var earlier *proof
	if w.ahead != nil {
		earlier = &w.ahead.target
	}
	behind, err := f.proveRef(ctx, target.home(AccessUntouched), earlier, w.m.Intent.Through)
	if err != nil {
		return err
	}
	if open := openLeases(openWork(behind.head, f.now())); len(f.unaccepted(w.m, open)) > 0 {
		return f.workWentOn(ctx, w, f.unaccepted(w.m, open))
	}
	w.m.Rollback.RolledBackFrom = bound(w.m.Target, behind)
	w.m.Phase = manifest.PhaseTargetFenced
	if err := f.save(w); err != nil {
		return err
	}
	if err := f.probeInside(ctx, w, target.home(AccessWrite)); err != nil {
		return err
	}
	if err := f.probe(ctx, w, w.m.Target.Kind); err != nil {
		return err
	}
	return f.save(w)
}

// rebuilds reports whether this rollback accepted that the retired source was written to.
func (f *Flow) rebuilds(m *manifest.Manifest) bool { return f.acceptedFor(m, "") }

// acceptedFor reports whether this rollback accepted a write on a retired store, by name
// when a record is given.
func (f *Flow) acceptedFor(m *manifest.Manifest, record string) bool {
	var operation string
	switch {
	case m.Rollback != nil:
		operation = m.Rollback.OperationID
	case m.Intent != nil && m.Intent.Command == CommandRollback:
		operation = m.Intent.OperationID
	}
	return operation != "" && slices.ContainsFunc(m.Accepted, func(a manifest.Accepted) bool {
		return a.OperationID == operation && a.Hold == holdRetiredWritten && (record == "" || a.Record == record)
	})
}

func (f *Flow) unaccepted(m *manifest.Manifest, holds []Hold) []Hold {
	var left []Hold
	for _, h := range holds {
		if !acceptedAlready(m, h) {
			left = append(left, h)
		}
	}
	return left
}

// workWentOn takes the fence of a rollback back behind which open work was found.
func (f *Flow) workWentOn(ctx context.Context, w *work, holds []Hold) error {
	if err := f.undoRollback(ctx, w); err != nil {
		return err
	}
	w.refused = refuse(KindRefused, holds[0].Code, "%d hold(s) came up while the plan was made; the fence was taken back and the target is the authority", len(holds))
	w.refused.Holds = holds
	return nil
}

// retiredUntouched refuses to export onto a source that somebody wrote to after it was
// retired, unless that was accepted: then it is not used.
func (f *Flow) retiredUntouched(ctx context.Context, w *work) error {
	if w.m.Source.Kind == authority.KindPostgreSQL || f.rebuilds(w.m) {
		return nil
	}
	ref, err := f.source(w.m).now(AccessUntouched)
	if err != nil {
		return err
	}
	if trip, err := f.tripAt(ctx, w.m, ref); err != nil {
		return err
	} else if len(trip) > 0 {
		refusal := refuse(KindUnproved, holdRetiredWritten, "%s (operation %q); take the rollback back, then accept it by name", trip[0].Detail, trip[0].OperationID)
		refusal.Next = []string{CommandAbort}
		return refusal
	}
	return nil
}

// putBack takes the target out of LoopX's place and brings the source back, behind the
// frozen selector.
func (f *Flow) putBack(ctx context.Context, w *work) error {
	if w.files {
		return f.putFilesBack(ctx, w)
	}
	if err := f.target(w.m).setAside(ctx, w); err != nil {
		return err
	}
	if err := f.targetAsideStands(ctx, w); err != nil {
		return err
	}
	if err := f.source(w.m).reinstate(ctx, w); err != nil {
		return err
	}
	return f.sourceIsBack(ctx, w)
}

// sourceCarries reads the source at its final place and refuses unless it holds
// exactly what the target held. LoopX may have gone on with it.
func (f *Flow) sourceCarries(ctx context.Context, w *work) error {
	from := w.m.Rollback.RolledBackFrom
	_, err := f.carries(ctx, w, f.source(w.m).home(AccessUntouched), from.Cursor, from.LogicalDigest)
	return err
}

// carries proves all of a store that is, or is to be, the source again: it has the source's
// identity, what the source held under its own revisions, and rows through a cursor with a
// logical digest.
func (f *Flow) carries(ctx context.Context, w *work, ref Ref, cursor authority.Cursor, logical authority.Digest) (lineage authority.Lineage, err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return lineage, err
	}
	defer closing(store, &err)
	f.tell(Progress{Act: "verify", Arm: string(ref.Kind)})
	view, err := store.View(ctx)
	if err != nil {
		return lineage, err
	}
	defer closing(view, &err)
	lineage = view.Lineage()
	if lineage.End.Cursor < cursor || lineage.Identity != w.m.Source.Identity {
		return lineage, readBackDiffers()
	}
	through := lineage.Logical
	if lineage.End.Cursor > cursor {
		if through, err = f.logicalThrough(ctx, ref, cursor); err != nil {
			return lineage, err
		}
	}
	bound, err := revisionAt(ctx, view, w.m.Source.Cursor)
	if err != nil {
		return lineage, err
	}
	if through != logical || bound != w.m.Source.Revision {
		return lineage, readBackDiffers()
	}
	return lineage, nil
}

func readBackDiffers() *Refusal {
	return refuse(KindUnproved, "read_back_differs", "the source that comes back does not hold what the target held")
}

// revisionAt is the revision of the row at a cursor, empty for the beginning.
func revisionAt(ctx context.Context, view authority.View, cursor authority.Cursor) (authority.Revision, error) {
	if cursor == 0 {
		return "", nil
	}
	page, err := view.Scan(ctx, cursor-1, 1)
	if err != nil {
		return "", err
	}
	return page.Transactions[0].Revision, nil
}

// restored proves that the source is the authority again and closes the migration.
// LoopX may have gone on with it already, when a dead run had published it.
func (f *Flow) restored(ctx context.Context, w *work) error {
	now, err := f.observe(ctx)
	if err != nil {
		return err
	}
	if v := now.Authority(); v.Blocked || v.Kind != w.m.Source.Kind {
		return refuse(KindUnproved, "authority_not_restored", "after the rollback the authority reads as %q", v.Row)
	}
	if !w.files { // legacy files were read before they were given back, and may be written since
		if err := f.sourceCarries(ctx, w); err != nil {
			return err
		}
	}
	if err := f.source(w.m).clean(ctx, w); err != nil {
		return err
	}
	w.m.Tripwires = nil
	w.m.Rollback.StallMillis = w.m.Rollback.RestoredAt.Sub(w.m.Rollback.FrozenAt).Milliseconds()
	w.m.Rollback.StallMillis = max(0, w.m.Rollback.StallMillis)
	w.m.Phase = manifest.PhaseRolledBack
	w.facts["authority"] = string(w.m.Source.Kind)
	w.facts["cursor"] = w.m.Rollback.RolledBackFrom.Cursor.String()
	w.facts["exported_transactions"] = strconv.FormatUint(w.m.Rollback.Exported, 10)
	w.facts["outage_ms"] = strconv.FormatInt(w.m.Rollback.StallMillis, 10)
	if a := w.m.Rollback.Archive; a != nil {
		w.facts["archive"], w.facts["archive_sha256"] = a.Where, a.SHA256.String()
	}
	return nil
}

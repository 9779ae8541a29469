package cutover

import (
	"context"
	"errors"
	"iter"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

// Appender is a store that takes many transactions as one durable replace.
type Appender interface {
	Append(ctx context.Context, expected authority.Applied, rows iter.Seq2[authority.Transaction, error]) ([]authority.Revision, error)
}

func rollbackFence(m *manifest.Manifest) string {
	return "loopx-migrate:" + m.MigrationID + ":rollback"
}

// rollback goes back to the source with everything the target was given since. The
// target is fenced inside itself and the selector frozen; a copy of the source gets
// the tail, under its own revisions; both sides are compared, all of them; the target
// goes to quarantine, the source to its place, the selector to what it was. Nothing
// is published before everything is proved.
func (f *Flow) rollback(ctx context.Context, w *work) error {
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
	behind, err := f.proveRef(ctx, target.home(AccessUntouched), nil, w.m.Intent.Through)
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

// exportTail makes the store that carries everything, and proves it against the
// target, row by row and receipt by receipt.
func (f *Flow) exportTail(ctx context.Context, w *work) error {
	if err := f.retiredUntouched(ctx, w); err != nil {
		return err
	}
	export, err := f.source(w.m).export(ctx)
	if err != nil {
		return err
	}
	if err := f.writeExport(ctx, w, export); err != nil {
		return err
	}
	export.Access = AccessUntouched
	report, err := f.compareArms(ctx, w.request.Parity, export, f.target(w.m).home(AccessUntouched))
	if err != nil {
		return err
	}
	w.report = report
	digest, err := manifest.DigestOf(report)
	if err != nil {
		return err
	}
	if report.Verdict != parity.Qualified {
		return refuse(KindUnproved, "export_differs", "the export and the target differ; the target stays fenced and complete")
	}
	w.m.Rollback.Report = digest
	w.m.Rollback.Exported = uint64(w.m.Rollback.RolledBackFrom.Cursor - w.m.Source.Cursor)
	w.evidence["report"] = digest.String()
	w.m.Phase = manifest.PhaseExported
	return f.save(w)
}

// writeExport brings the export to the target's end. One that a dead run left is gone
// on with.
func (f *Flow) writeExport(ctx context.Context, w *work, export Ref) (err error) {
	switch w.m.Source.Kind {
	case authority.KindLegacy:
		return f.writeFiles(ctx, w)
	case authority.KindSQLite, authority.KindPostgreSQL:
		return f.loadExport(ctx, w, export)
	}
	journal, err := f.Stores.Open(ctx, export)
	if err != nil {
		return err
	}
	defer closing(journal, &err)
	head, err := journal.Load(ctx)
	if err != nil && !(f.rebuilds(w.m) && errors.Is(err, authority.ErrMissing)) {
		return err
	}
	end := w.m.Rollback.RolledBackFrom.Cursor
	if head.Cursor == end {
		return nil
	}
	appender, able := journal.(Appender)
	if !able {
		return refuse(KindRefused, "source_cannot_append", "the %s store takes no bulk append", export.Kind)
	}
	revisions, err := appender.Append(ctx, authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, f.targetRows(ctx, w, head.Cursor))
	if err != nil {
		return err
	}
	return exportedTo(head.Cursor+authority.Cursor(len(revisions)), end)
}

// loadExport appends the tail to the copy of a database, in its own revisions.
func (f *Flow) loadExport(ctx context.Context, w *work, export Ref) (err error) {
	candidate, err := f.Stores.Candidate(ctx, export)
	if err != nil {
		return err
	}
	defer closing(candidate, &err)
	at, _, err := candidate.Head(ctx)
	if err != nil {
		return err
	}
	for tx, err := range f.targetRows(ctx, w, at) {
		if err != nil {
			return err
		}
		if err := candidate.Append(ctx, authority.Row{Transaction: tx, StateDigest: authority.DigestOf(tx.Projection)}); err != nil {
			return err
		}
		at = tx.Cursor
	}
	if err := candidate.Seal(ctx); err != nil {
		return err
	}
	return exportedTo(at, w.m.Rollback.RolledBackFrom.Cursor)
}

func exportedTo(got, end authority.Cursor) error {
	if got == end {
		return nil
	}
	return refuse(KindUnproved, "export_short", "the export ends at cursor %s, the target at %s", got, end)
}

// rebuilds reports whether this rollback accepted that the retired source was written to.
func (f *Flow) rebuilds(m *manifest.Manifest) bool { return f.acceptedFor(m, "") }

// acceptedFor reports whether this rollback accepted a write on a retired store, by name
// when a record is given.
func (f *Flow) acceptedFor(m *manifest.Manifest, record string) bool {
	for _, a := range m.Accepted {
		ofThis := m.Rollback != nil && a.OperationID == m.Rollback.OperationID
		if ofThis && a.Hold == holdRetiredWritten && (record == "" || a.Record == record) {
			return true
		}
	}
	return false
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

// targetRows are the target's transactions after a cursor, proved as they pass. Rows up to
// the promotion were proved then, and again before the fence went up: behind it only the
// tail is read, unless the export needs more.
func (f *Flow) targetRows(ctx context.Context, w *work, after authority.Cursor) iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		store, err := f.Stores.Open(ctx, f.target(w.m).home(AccessUntouched))
		if err != nil {
			yield(authority.Transaction{}, err)
			return
		}
		var from *authority.Bookmark
		if promoted := w.m.Target.End; promoted.Cursor <= after {
			from = &promoted
		}
		_, err = f.auditAgain(ctx, store, from, func(row authority.Row) error {
			if row.Cursor > after && !yield(row.Transaction, nil) {
				return errEnough
			}
			return nil
		})
		if err = errors.Join(err, store.Close()); err != nil && !errors.Is(err, errEnough) {
			yield(authority.Transaction{}, err)
		}
	}
}

var errEnough = errors.New("enough rows")

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
	return f.sourceCarries(ctx, w)
}

// sourceCarries reads the source at its final place and refuses unless it holds
// exactly what the target held. LoopX may have gone on with it.
func (f *Flow) sourceCarries(ctx context.Context, w *work) (err error) {
	ref := f.source(w.m).home(AccessUntouched)
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	f.tell(Progress{Act: "verify", Arm: string(ref.Kind)})
	view, err := store.View(ctx)
	if err != nil {
		return err
	}
	defer closing(view, &err)
	from, lineage := w.m.Rollback.RolledBackFrom, view.Lineage()
	differs := refuse(KindUnproved, "read_back_differs", "the source at its place does not hold what the target held")
	if lineage.End.Cursor < from.Cursor || lineage.Identity != w.m.Source.Identity {
		return differs
	}
	through := lineage.Logical
	if lineage.End.Cursor > from.Cursor {
		if through, err = f.logicalThrough(ctx, ref, from.Cursor); err != nil {
			return err
		}
	}
	bound, err := revisionAt(ctx, view, w.m.Source.Cursor)
	if err != nil {
		return err
	}
	if through != from.LogicalDigest || bound != w.m.Source.Revision {
		return differs
	}
	return nil
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
	w.m.Rollback.RestoredAt = f.now()
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

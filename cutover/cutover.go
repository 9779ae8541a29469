package cutover

import (
	"context"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// steps is the flow, in the order of events.
func (f *Flow) steps() map[string]step {
	return map[string]step{
		CommandFreeze:  {plan: f.planFreeze, prepare: f.readSource, writers: writersWaited, perform: f.freeze},
		CommandImport:  {plan: f.planImport, perform: f.importHistory},
		CommandCompare: {plan: f.planCompare, perform: f.compare},
		CommandPromote: {plan: f.planPromote, prepare: f.proveBoth, writers: writersWaited, perform: f.promote},
		CommandAbort:   {plan: f.planAbort, writers: writersWaited, perform: f.abort},

		CommandCutover:  {plan: f.planCutover, perform: f.cutover},
		CommandRollback: {plan: f.planRollback, perform: f.rollback},
	}
}

// freeze fences the source: from the frozen selector on, nobody writes. What the
// source holds is read again behind the fence and bound, and a writer's try is
// seen to fail.
func (f *Flow) freeze(ctx context.Context, w *work) error {
	now, err := f.observe(ctx)
	if err != nil {
		return err
	}
	id := "loopx-migrate:" + w.m.MigrationID
	if w.m.Fence == nil {
		w.m.Selector = now.Selector.Original()
		w.m.Fence = &manifest.Fence{ID: id, FrozenAt: f.now()}
		if w.m.Source.Kind == authority.KindLegacy {
			w.m.Fence.Import = &manifest.Import{OperationID: w.m.Intent.OperationID, PlanDigest: w.m.Intent.PlanDigest}
		}
		if err := f.save(w); err != nil { // the stall counts from here, also over a crash
			return err
		}
	}
	source := f.source(w.m)
	if err := source.engage(ctx, id); err != nil {
		return err
	}
	frozen := fence.Frozen{MigrationID: w.m.MigrationID, FenceID: id, Original: w.m.Selector}
	if err := fence.Freeze(f.Place, frozen); err != nil {
		return err
	}
	if err := source.engageBehind(ctx, w); err != nil {
		return err
	}
	behind, err := f.proveRef(ctx, source.home(AccessUntouched), w.source, w.m.Intent.Through)
	if err != nil {
		return err
	}
	if holds := f.newHolds(w, behind); len(holds) > 0 {
		return f.thaw(ctx, w, holds)
	}
	w.m.Source = bound(w.m.Source, behind)
	w.m.Phase = manifest.PhaseFrozen
	if err := f.save(w); err != nil {
		return err
	}
	if err := w.unlock(); err != nil {
		return err
	}
	if err := f.probeInside(ctx, w, source.home(AccessWrite)); err != nil {
		return err
	}
	if err := f.probe(ctx, w, w.m.Source.Kind); err != nil {
		return err
	}
	w.facts["fence_id"] = w.m.Fence.ID
	w.facts["cursor"] = w.m.Source.Cursor.String()
	w.facts["logical_digest"] = w.m.Source.LogicalDigest.String()
	return nil
}

// thaw takes a freeze back behind which new holds were found: open work that began
// after the plan was made.
func (f *Flow) thaw(ctx context.Context, w *work, holds []Hold) error {
	if err := f.source(w.m).lift(ctx, w.m.Fence.ID); err != nil {
		return err
	}
	if err := fence.Restore(f.Place, w.m.Selector); err != nil {
		return err
	}
	if err := f.source(w.m).liftLast(ctx); err != nil {
		return err
	}
	w.m.Fence, w.m.Selector = nil, manifest.Selector{}
	w.refused = refuse(KindRefused, holds[0].Code, "%d hold(s) came up while the plan was made; the fence was taken back and the source is the authority", len(holds))
	w.refused.Holds = holds
	return nil
}

// importHistory copies the source's history into the candidate and proves the
// candidate by a full audit of its own. Over a live source the phase stays planned.
func (f *Flow) importHistory(ctx context.Context, w *work) error {
	return f.copyAndProve(ctx, w, nil)
}

// copyAndProve brings the candidate to the source's end and proves it, from an
// earlier proof of it if there is one.
func (f *Flow) copyAndProve(ctx context.Context, w *work, earlier *proof) (err error) {
	source, err := f.Stores.Open(ctx, f.source(w.m).home(AccessUntouched))
	if err != nil {
		return err
	}
	defer closing(source, &err)
	ref, err := f.target(w.m).candidate(AccessUntouched)
	if err != nil {
		return err
	}
	copied, err := f.copyInto(ctx, source, ref, w.m.Copied)
	if err != nil {
		return err
	}
	candidate, err := f.proveRef(ctx, ref, earlier, authority.Bookmark{})
	if err != nil {
		return err
	}
	if err := bootstrap.Done(copied, candidate.lineage); err != nil {
		return err
	}
	w.m.Target = bound(w.m.Target, candidate)
	w.m.Copied = &manifest.Copied{Bookmark: copied.End, TargetDigest: copied.Logical}
	w.facts["copied_through"] = copied.End.Cursor.String()
	w.facts["logical_digest"] = copied.Logical.String()
	w.evidence["candidate"] = copied.Logical.String()
	if w.m.Phase == manifest.PhasePlanned {
		return nil
	}
	if err := sameEnd(w.m.Source, copied); err != nil {
		return err
	}
	w.m.Phase = manifest.PhaseImported
	return nil
}

// bound is a side as it was proved; which store it is does not change.
func bound(side manifest.Binding, p proof) manifest.Binding {
	b := bind(side.Kind, p)
	b.Elsewhere, b.Tenant = side.Elsewhere, side.Tenant
	return b
}

// compare records what the comparison found. It was made while the plan was, and is
// made again if the step died since.
func (f *Flow) compare(ctx context.Context, w *work) error {
	verdict, err := f.comparison(ctx, w)
	if err != nil {
		return err
	}
	w.m.Verdicts = append(w.m.Verdicts, verdict)
	w.evidence["report"] = verdict.Report.String()
	w.facts["cursor"] = verdict.Cursor.String()
	if w.refused = unqualified(w.report); w.refused != nil {
		return nil
	}
	if w.m.Phase == manifest.PhaseImported {
		w.m.Phase = manifest.PhaseVerified
	}
	return nil
}

// promote makes the candidate the authority. Under the frozen selector the candidate
// goes to its final place and the journal out of LoopX's place; both are read back;
// then the selector is published, and that is the moment. The whole of both
// histories is read again right after.
func (f *Flow) promote(ctx context.Context, w *work) error {
	if err := refuseAfterIncident(w.m); err != nil {
		return err
	}
	now, err := f.observe(ctx)
	if err != nil {
		return err
	}
	if ours(now.Selector, w.m) {
		if err := f.switchOver(ctx, w); err != nil {
			return err
		}
	}
	if err := f.published(ctx, w); err != nil {
		return err
	}
	if err := w.unlock(); err != nil {
		return err
	}
	return f.reread(ctx, w)
}

// reread is the full reading after a publication, unless it has been settled already.
func (f *Flow) reread(ctx context.Context, w *work) error {
	if w.m.Promotion.FullReread {
		return nil
	}
	return f.rereadAll(ctx, w)
}

// switchOver does what has to be done between the frozen selector and the published one.
func (f *Flow) switchOver(ctx context.Context, w *work) error {
	if err := f.sourceStands(ctx, w); err != nil {
		return err
	}
	if err := f.target(w.m).install(ctx); err != nil {
		return err
	}
	if err := f.source(w.m).retire(ctx); err != nil {
		return err
	}
	if err := f.bothReadBack(ctx, w); err != nil {
		return err
	}
	return fence.Select(f.Place, selection(w.m))
}

// selection is the target as LoopX's selector names it.
func selection(m *manifest.Manifest) fence.Selection {
	return fence.Selection{Provider: m.Target.Kind, GoalID: m.GoalID, StoreIdentity: m.Target.Identity, TenantID: m.Target.Tenant}
}

// abort gives the migration up: every move is taken back, the candidate goes to
// quarantine, and the selector is what it was, absence included.
func (f *Flow) abort(ctx context.Context, w *work) error {
	if w.m.Promotion != nil && !refrozen(w.m) {
		return f.undoRollback(ctx, w)
	}
	if err := f.nothingCommitted(ctx, w); err != nil {
		return err
	}
	now, err := f.observe(ctx)
	if err != nil {
		return err
	}
	if w.m.Fence == nil { // nothing was fenced: whoever is the authority stays it
		w.m.Phase = manifest.PhaseAborted
		return f.target(w.m).setAside(ctx, w)
	}
	gone := now.Selector.State == fence.SelectorAbsent // somebody removed the frozen one
	if !ours(now.Selector, w.m) && !original(now.Selector, w.m) && !gone {
		return selectorMoved(now.Selector)
	}
	source := f.source(w.m)
	if err := source.unretire(ctx); err != nil {
		return err
	}
	if err := f.sourceStillThere(ctx, w); err != nil {
		return err
	}
	if err := f.target(w.m).setAside(ctx, w); err != nil {
		return err
	}
	if err := source.lift(ctx, w.m.Fence.ID); err != nil {
		return err
	}
	if err := fence.Restore(f.Place, w.m.Selector); err != nil {
		return err
	}
	if err := source.liftLast(ctx); err != nil {
		return err
	}
	back, err := f.observe(ctx)
	if err != nil {
		return err
	}
	if v := back.Authority(); v.Blocked || v.Kind != w.m.Source.Kind {
		return refuse(KindUnproved, "authority_not_restored", "after the abort the authority reads as %q", v.Row)
	}
	w.m.Phase, w.m.Promotion, w.m.Tripwires = manifest.PhaseAborted, nil, nil
	w.facts["authority"] = string(w.m.Source.Kind)
	return nil
}

// moveOnce moves a file to a place that is empty, or sees that it was moved already.
func moveOnce(from, to string) error {
	there, err := exists(to)
	if err != nil {
		return err
	}
	here, err := exists(from)
	switch {
	case err != nil:
		return err
	case there && here:
		refusal := refuse(KindUnproved, "both_places_taken", "%s stands at its place and where it is to go; nothing is ever overwritten: look which one is right and move the other away", filepath.Base(from))
		refusal.Next = []string{"status"}
		return refusal
	case !here:
		return nil // it was moved, or it never was there; what must be there is read back
	}
	if err := atomicfile.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return atomicfile.Move(from, to)
}

// sameEnd refuses a source that is not where freeze bound it.
func sameEnd(bound manifest.Binding, found authority.Lineage) error {
	if bound.Cursor == found.End.Cursor && bound.Revision == found.End.Revision && bound.LogicalDigest == found.Logical {
		return nil
	}
	return refuse(KindUnproved, "source_moved_while_frozen",
		"the source was bound at cursor %s and now ends at %s: somebody wrote behind the fence", bound.Cursor, found.End.Cursor)
}

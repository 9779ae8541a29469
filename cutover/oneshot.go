package cutover

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// planCutover plans freeze, tail, compare and promote as one command.
func (f *Flow) planCutover(ctx context.Context, now seen, r Request) (Plan, error) {
	if err := f.sameTarget(now, r); err != nil {
		return Plan{}, err
	}
	p, err := f.planLive(ctx, now, r)
	if p.Target.Elsewhere {
		return p, refuse(KindRefused, "target_not_promotable", "a selector carries no path: only LoopX's own place can be promoted; use --to sqlite:")
	}
	p.Limits = r.Rehearsal.limits(map[string]string{"max_stall_ms": strconv.FormatInt(r.MaxStall.Milliseconds(), 10)})
	p.Effects = []string{
		"copy the history into a candidate while the source stays live, and compare all of it",
		"hold LoopX's locks and publish a frozen selector: the write stall begins",
		"copy and compare what came since; give up and undo if the stall grows past the limit",
		"move candidate and journal, publish the selector: the write stall ends",
		"read both whole histories again",
	}
	previous := previousPromotion(now.snap)
	if m := now.snap.Manifest; m != nil && m.Phase == manifest.PhasePlanned {
		previous = m.Previous // a copy was begun while the source is live
	}
	if previous != "" {
		p.Effects = append(p.Effects, lastWayBack(previous, now.verdict.Kind))
	}
	return p, err
}

// cutover is freeze, tail, compare and promote in one. Until the selector is
// published everything can be undone, and is when the stall grows past the limit.
func (f *Flow) cutover(ctx context.Context, w *work) error {
	if w.m.Phase == manifest.PhasePlanned && f.selectorState() != fence.SelectorFrozen {
		if err := f.precopy(ctx, w); err != nil || w.refused != nil {
			return err
		}
	}
	if err := f.readSource(ctx, w); err != nil {
		return err
	}
	watched, cancel := f.watchStall(ctx, w)
	defer cancel()
	err := f.behindTheFence(watched, w)
	switch state := f.selectorState(); {
	case err == nil:
	case state == fence.SelectorFrozen && ctx.Err() == nil && watched.Err() != nil:
		return f.tooLong(ctx, w)
	case state == fence.SelectorFrozen || w.m.Phase == manifest.PhasePlanned:
		// Whatever it was, the source is made the authority again: nobody may wait
		// behind a fence for an operator who is not there.
		return errors.Join(err, f.unfreeze(context.WithoutCancel(ctx), w))
	default:
		return err
	}
	if w.refused != nil {
		return nil
	}
	if err := f.published(ctx, w); err != nil {
		return err
	}
	if err := w.unlock(); err != nil {
		return err
	}
	return f.reread(ctx, w)
}

// unfreeze takes back what a cutover did behind the fence, and its intent with it.
func (f *Flow) unfreeze(ctx context.Context, w *work) error {
	if w.m.Fence != nil {
		if err := f.backToSource(ctx, w); err != nil {
			return err
		}
	}
	w.m.Phase, w.m.Fence, w.m.Selector = manifest.PhasePlanned, nil, manifest.Selector{}
	return f.dropIntent(w)
}

// watchStall bounds the write stall. A step that died behind the fence has exceeded
// any: finishing it is then the shortest way out.
func (f *Flow) watchStall(ctx context.Context, w *work) (context.Context, context.CancelFunc) {
	if f.selectorState() == fence.SelectorFrozen {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, w.request.MaxStall)
}

func (f *Flow) selectorState() fence.SelectorState { return fence.ReadSelector(f.Place).State }

// precopy does everything that does not need the fence: a candidate that follows the
// source, proved and compared through a cursor. It predicts the stall and refuses,
// before anything is fenced, what cannot fit.
func (f *Flow) precopy(ctx context.Context, w *work) error {
	if w.files {
		return f.predictFiles(ctx, w)
	}
	if err := f.importHistory(ctx, w); err != nil {
		return err
	}
	report, err := f.parity(ctx, w.m, w.request.Parity)
	if err != nil {
		return err
	}
	w.report = report
	if w.refused = unqualified(report); w.refused != nil {
		return nil
	}
	verdict, err := f.comparison(ctx, w)
	if err != nil {
		return err
	}
	w.m.Verdicts = append(w.m.Verdicts, verdict)
	begun := time.Now()
	if err := f.copyAndProve(ctx, w, proved(w.m.Target)); err != nil { // what came meanwhile, to see what a tail costs
		return err
	}
	return f.predicted(w, 3*time.Since(begun))
}

// predictFiles takes what reading the legacy files costs for a measure of the stall;
// they have no history of which a part could be copied before it.
func (f *Flow) predictFiles(ctx context.Context, w *work) error {
	begun := time.Now()
	if _, err := f.proveRef(ctx, f.liveFiles(w.m.Retained).home(AccessUntouched), nil, authority.Bookmark{}); err != nil {
		return err
	}
	return f.predicted(w, 5*time.Since(begun))
}

// predicted refuses a cutover, before anything is fenced, whose stall cannot fit.
func (f *Flow) predicted(w *work, predicted time.Duration) error {
	w.facts["predicted_stall_ms"] = strconv.FormatInt(predicted.Milliseconds(), 10)
	if predicted > w.request.MaxStall {
		w.refused = refuse(KindRefused, "stall_too_long", "a stall of about %d ms was predicted and %d ms are allowed; nothing was fenced",
			predicted.Milliseconds(), w.request.MaxStall.Milliseconds())
		return nil
	}
	return f.save(w)
}

// behindTheFence is the write stall: from the frozen selector to the published one.
func (f *Flow) behindTheFence(ctx context.Context, w *work) error {
	selector := fence.ReadSelector(f.Place)
	if selects(selector, w.m) {
		return nil // published before the step died
	}
	if w.m.Phase != manifest.PhasePlanned && !ours(selector, w.m) {
		return f.undone(ctx, w)
	}
	if w.m.Phase == manifest.PhasePlanned {
		if err := f.lockWriters(ctx, w); err != nil {
			return err
		}
		if w.files && f.selectorState() != fence.SelectorFrozen {
			if _, err := f.filesStill(w.m.Accepted); err != nil {
				return err
			}
		}
		if err := f.freeze(ctx, w); err != nil || w.refused != nil {
			return err
		}
	}
	if w.m.Phase == manifest.PhaseFrozen {
		if err := f.copyTail(ctx, w); err != nil {
			return err
		}
		w.m.Phase = manifest.PhaseVerified // the prefix's verdict and the tail's equal digests, joined
		if err := f.save(w); err != nil {
			return err
		}
	}
	if err := f.lockWriters(ctx, w); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.switchOver(ctx, w)
}

// copyTail brings the candidate to the frozen source's end. One of legacy files has
// nothing yet, and is compared here.
func (f *Flow) copyTail(ctx context.Context, w *work) error {
	if !w.files {
		return f.copyAndProve(ctx, w, proved(w.m.Target))
	}
	if err := f.copyAndProve(ctx, w, nil); err != nil {
		return err
	}
	w.m.Phase = manifest.PhaseFrozen // whatever was copied, it is not compared
	verdict, err := f.comparison(ctx, w)
	if err != nil {
		return err
	}
	w.m.Verdicts = append(w.m.Verdicts, verdict)
	if refusal := unqualified(w.report); refusal != nil {
		return refuse(KindUnproved, refusal.Reason, "the candidate differs from the legacy files; nothing was published")
	}
	return nil
}

// tooLong undoes the freeze: the source is the authority again. The candidate stays to
// be gone on with, but for one of legacy files.
func (f *Flow) tooLong(ctx context.Context, w *work) error {
	if err := f.backToSource(ctx, w); err != nil {
		return err
	}
	w.m.Phase, w.m.Fence, w.m.Selector = manifest.PhasePlanned, nil, manifest.Selector{}
	w.refused = refuse(KindRefused, "stall_exceeded", "the stall grew past %d ms; everything was undone and the source is the authority", w.request.MaxStall.Milliseconds())
	return nil
}

// undone finishes what died while it took the freeze back.
func (f *Flow) undone(ctx context.Context, w *work) error {
	if err := f.backToSource(ctx, w); err != nil {
		return err
	}
	w.m.Phase, w.m.Fence, w.m.Selector = manifest.PhasePlanned, nil, manifest.Selector{}
	candidate := "the candidate is there to go on with"
	if w.files {
		candidate = "the candidate is set aside: the next one is made of the files as they are then"
	}
	w.refused = refuse(KindRefused, "cutover_undone", "the cutover died while it was taken back; the source is the authority, and %s", candidate)
	w.refused.Next = []string{CommandCutover}
	return nil
}

// backToSource takes back what was done behind the frozen selector before it was
// published, and restores the selector.
func (f *Flow) backToSource(ctx context.Context, w *work) error {
	if v := fence.ReadSelector(f.Place); !ours(v, w.m) && !original(v, w.m) {
		return selectorMoved(v)
	}
	source := f.source(w.m)
	if err := source.unretire(ctx); err != nil {
		return err
	}
	if err := f.target(w.m).uninstall(ctx); err != nil {
		return err
	}
	if w.files {
		if err := f.dropCandidate(ctx, w); err != nil {
			return err
		}
	}
	if err := source.lift(ctx, w.m.Fence.ID); err != nil {
		return err
	}
	if err := fence.Restore(f.Place, w.m.Selector); err != nil {
		return err
	}
	return source.liftLast(ctx)
}

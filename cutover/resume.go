package cutover

import (
	"context"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// planResume says which step died and that it would be finished.
func (f *Flow) planResume(now seen, r Request) (Plan, error) {
	m := now.snap.Manifest
	if now.lost != nil {
		return Plan{}, now.lost
	}
	if m == nil || m.Intent == nil {
		refusal := refuse(KindRefused, "nothing_to_resume", "no step of this goal is unfinished")
		refusal.Next = []string{"status"}
		return Plan{}, refusal
	}
	p := f.newPlan(now, r)
	p.Effects = []string{"finish " + m.Intent.Command + ", begun by operation " + m.Intent.OperationID}
	return p, nil
}

// Resume previews or executes the end of the step that died. The step is finished
// under its own operation id, so that its caller gets its outcome.
func (f *Flow) Resume(ctx context.Context, r Request) (Result, error) {
	r.Command = CommandResume
	if !r.Execute {
		now, err := f.look(ctx)
		if err != nil {
			return Result{}, err
		}
		plan, err := f.planResume(now, r)
		if err != nil {
			return Result{}, err
		}
		digest, err := plan.Digest()
		if err == nil {
			err = f.saidBefore(&plan)
		}
		if err != nil {
			return Result{}, err
		}
		result := Result{Command: CommandResume, Status: "preview", OperationID: r.OperationID, MigrationID: plan.MigrationID, Phase: plan.Phase,
			Plan: &plan, PlanDigest: digest}
		if err := held(plan); err != nil {
			return result, err
		}
		result.Next = f.executeLine(r, plan, digest)
		return result, nil
	}
	return f.guarded(ctx, r, func(command manifest.Command, fingerprint authority.Digest) (Result, error) {
		return f.resume(ctx, r, command, fingerprint)
	})
}

func (f *Flow) resume(ctx context.Context, r Request, own manifest.Command, fingerprint authority.Digest) (Result, error) {
	now, err := f.look(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := f.agreedResume(now, r); err != nil {
		return Result{}, f.decidedNow(own, fingerprint, err)
	}
	intent := *now.snap.Manifest.Intent
	dead := Request{Command: intent.Command, OperationID: intent.OperationID, Execute: true, PlanDigest: "sha256:" + intent.PlanDigest.String(),
		Parity: parityOf(intent.Parity), MaxStall: time.Duration(intent.MaxStallMillis) * time.Millisecond}
	command := manifest.Command{Kind: intent.Command, OperationID: intent.OperationID, Principal: intent.Principal, GoalID: own.GoalID}
	result, err := f.execute(ctx, f.steps()[intent.Command], dead, command, intent.Fingerprint)
	if err != nil { // a decided refusal of the step that died is the outcome of finishing it, too
		return result, f.decidedNow(own, fingerprint, err)
	}
	finished := newWork(manifest.Snapshot{Manifest: &manifest.Manifest{MigrationID: result.MigrationID, Phase: result.Phase}}, r)
	finished.facts = result.Facts
	return f.finish(own, fingerprint, finished, result.Phase)
}

// agreedResume refuses to finish another step than the previewed one.
func (f *Flow) agreedResume(now seen, r Request) error {
	plan, err := f.planResume(now, r)
	if err != nil {
		return err
	}
	digest, err := plan.Digest()
	if err == nil && digest != r.PlanDigest {
		return refuse(KindConflict, "plan_changed", "the step that died is now another one; nothing was changed")
	}
	return err
}

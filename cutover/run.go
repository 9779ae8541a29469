package cutover

import (
	"bytes"
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// step is one command of the flow: how it is planned, and how it is done.
type step struct {
	// plan says what would be done, from a fresh look. It changes nothing. The
	// request's Through is the bound cursor of an execution, zero for a preview.
	plan func(ctx context.Context, now seen, r Request) (Plan, error)
	// prepare does the long reading before any lock is taken. It is nil where there is none.
	prepare func(ctx context.Context, w *work) error
	// writers says whether LoopX's writers are kept out while the step performs.
	writers writers
	// perform does it, or sees that it is done already. The intent stands in the
	// manifest when it is called; what it leaves in w is recorded.
	perform func(ctx context.Context, w *work) error
}

// writers says what becomes of LoopX's writers during a step.
type writers int

const (
	writersGoOn   writers = iota // they go on, or the frozen selector stops them
	writersWaited                // their locks are held
)

// seen is a fresh look at record and Goal.
type seen struct {
	snap        manifest.Snapshot
	closed      []string // ids of earlier migrations
	observation fence.Observation
	verdict     fence.Verdict
	lost        *Refusal // see recordless
}

// look reads the record and the Goal. It changes nothing.
func (f *Flow) look(ctx context.Context) (seen, error) {
	snap, err := f.Folder.Load()
	if err != nil {
		return seen{}, err
	}
	closed, err := f.Folder.Closed()
	if err != nil {
		return seen{}, err
	}
	o, err := f.observe(ctx)
	return seen{snap: snap, closed: closed, observation: o, verdict: o.Authority(), lost: f.recordless(snap.Manifest, o.Selector)}, err
}

// work is a step in progress: the manifest it changes and what it will have said.
type work struct {
	snap     manifest.Snapshot
	m        *manifest.Manifest // == snap.Manifest, changed in place and saved
	request  Request
	facts    map[string]string
	evidence map[string]string
	report   any
	refused  *Refusal // a decided refusal to record as the outcome
	// source is what the long reading before the locks has proved of the source.
	source *proof
	// ahead is what a rollback did before its fence, nil when it did nothing.
	ahead *ahead
	// begun is whether this run put the intent on record: no earlier run did anything.
	begun bool
	// files is whether the source are legacy files.
	files bool
	// unlock gives LoopX's locks back; a step calls it as soon as it can.
	unlock func() error
}

// Run previews or executes one command.
func (f *Flow) Run(ctx context.Context, r Request) (Result, error) {
	s, known := f.steps()[r.Command]
	if !known {
		return Result{}, refuse(KindUsage, "unknown_command", "there is no step %q", r.Command)
	}
	if !r.Execute {
		return f.preview(ctx, s, r)
	}
	return f.guarded(ctx, r, func(command manifest.Command, fingerprint authority.Digest) (Result, error) {
		return f.execute(ctx, s, r, command, fingerprint)
	})
}

// guarded lets an executed command through once: a principal without a grant is
// refused whatever is stored, a stored outcome is the answer, and two commands of this
// tool never work on one Goal at a time. Both are asked again under the lock, which a
// withdrawal takes too: what holds there holds until the command ends.
func (f *Flow) guarded(ctx context.Context, r Request, do func(manifest.Command, authority.Digest) (Result, error)) (Result, error) {
	command, fingerprint, err := f.identify(r)
	if err != nil {
		return Result{}, err
	}
	if err := f.authorize(); err != nil {
		return Result{}, f.denied(ctx, command, fingerprint, err)
	}
	if result, done, err := f.replay(ctx, command, fingerprint); done {
		return result, err
	}
	unlock, err := f.operatorLock(ctx, r.Command)
	if err != nil {
		return Result{}, err
	}
	if err := f.authorize(); err != nil { // it was withdrawn while this command waited
		return Result{}, errors.Join(f.decidedNow(command, fingerprint, err), unlock())
	}
	if result, done, err := f.replay(ctx, command, fingerprint); done {
		return result, errors.Join(err, unlock())
	}
	result, err := do(command, fingerprint)
	return result, errors.Join(err, unlock())
}

func (f *Flow) preview(ctx context.Context, s step, r Request) (Result, error) {
	now, err := f.look(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := requirePhase(r.Command, now); err != nil {
		return Result{}, err
	}
	if err := f.filesKnown(now, r); err != nil {
		return Result{}, err
	}
	plan, err := s.plan(ctx, now, r)
	if err != nil {
		return Result{}, err
	}
	digest, err := plan.Digest()
	if err != nil {
		return Result{}, err
	}
	if err := f.saidBefore(&plan); err != nil {
		return Result{}, err
	}
	result := Result{Command: r.Command, Status: "preview", OperationID: r.OperationID,
		MigrationID: plan.MigrationID, Phase: now.snap.Phase(), Plan: &plan, PlanDigest: digest, Report: plan.report}
	if err := held(plan); err != nil {
		return result, err
	}
	if r.Command == CommandCompare {
		if refusal := unqualified(plan.report); refusal != nil {
			return result, refusal
		}
	}
	result.Next = f.executeLine(r, plan, digest)
	return result, nil
}

func (f *Flow) execute(ctx context.Context, s step, r Request, command manifest.Command, fingerprint authority.Digest) (Result, error) {
	w, err := f.begin(ctx, s, r, command, fingerprint)
	switch {
	case err != nil && w != nil && AsRefusal(err).Kind.decided():
		return Result{}, f.unproved(err, w) // its intent stands, so that no refusal can be the outcome
	case err != nil && w != nil:
		return Result{}, err
	case err != nil:
		return Result{}, f.decidedNow(command, fingerprint, err)
	}
	if step := w.m.StepOf(command.Principal, r.OperationID); step != nil { // it died between its record and its outcome
		if step.Command != r.Command || step.Fingerprint != fingerprint {
			return Result{}, refuse(KindConflict, "operation_identity_mismatch", "operation %s was a %s with other content; nothing was changed", r.OperationID, step.Command)
		}
		w.facts = step.Facts
		return f.finish(command, fingerprint, w, step.Phase)
	}
	if err := errors.Join(s.perform(ctx, w), w.unlock()); err != nil {
		return Result{}, f.unproved(err, w)
	}
	if w.refused != nil {
		if err := f.dropIntent(w); err != nil {
			return Result{}, f.unproved(err, w)
		}
		return Result{Command: r.Command, Report: w.report, Facts: w.facts},
			errors.Join(w.refused, f.storeRefusal(command, fingerprint, w.refused))
	}
	if err := f.record(w, command.Principal, fingerprint); err != nil {
		return Result{}, f.unproved(err, w)
	}
	return f.finish(command, fingerprint, w, w.m.Phase)
}

// begin brings the record to the point where the step's intent stands in it and the
// locks it needs are held: either an earlier run of the same operation left the
// intent, or the plan is made again, is the one that was previewed, and nothing
// holds it. An error leaves no lock and no new intent; it comes with the work where the
// intent of an earlier run stands.
func (f *Flow) begin(ctx context.Context, s step, r Request, command manifest.Command, fingerprint authority.Digest) (*work, error) {
	now, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	recorded, err := f.recorded(now, command)
	if err != nil {
		return nil, err
	}
	if recorded.Manifest != nil {
		return newWork(recorded, r), nil
	}
	if err := f.filesKnown(now, r); err != nil {
		return nil, err
	}
	w := newWork(now.snap, r)
	if m := now.snap.Manifest; m != nil && m.Intent != nil && !overrides(r, m.Intent) {
		if err := sameIntent(m.Intent, r, fingerprint); err != nil {
			return nil, err
		}
		return w, f.ready(ctx, s, w)
	}
	plan, digest, err := f.agreed(ctx, s, r, now)
	if err != nil {
		return nil, err
	}
	w.source, w.report = plan.source, plan.report
	w.files = plan.Source.Kind == authority.KindLegacy
	if err := f.ready(ctx, s, w); err != nil {
		return nil, err
	}
	if err := f.stillSo(ctx, now); err != nil {
		return nil, errors.Join(err, w.unlock())
	}
	if w.files && r.Command == CommandFreeze {
		if _, err := f.filesStill(plan.Accepted); err != nil {
			return nil, errors.Join(err, w.unlock())
		}
	}
	if err := f.intend(w, plan, digest, fingerprint); err != nil {
		return nil, errors.Join(err, w.unlock())
	}
	w.begun = true
	return w, nil
}

// agreed makes the plan again and returns it if it is the one that was previewed
// and nothing holds it.
func (f *Flow) agreed(ctx context.Context, s step, r Request, now seen) (Plan, string, error) {
	if err := requirePhase(r.Command, now); err != nil {
		return Plan{}, "", err
	}
	plan, err := s.plan(ctx, now, r)
	if err != nil {
		return Plan{}, "", err
	}
	digest, err := plan.Digest()
	if err != nil {
		return Plan{}, "", err
	}
	if err := held(plan); err != nil {
		return Plan{}, "", err
	}
	if digest != r.PlanDigest {
		refusal := refuse(KindConflict, "plan_changed", "the plan is now %s, not the one that was previewed; nothing was changed", digest)
		refusal.Next = []string{r.Command}
		return Plan{}, "", refusal
	}
	return plan, digest, nil
}

// ready does the long reading and takes LoopX's locks, where the step wants them.
func (f *Flow) ready(ctx context.Context, s step, w *work) error {
	if s.prepare != nil {
		if err := s.prepare(ctx, w); err != nil {
			return err
		}
	}
	if s.writers == writersGoOn {
		return nil
	}
	return f.lockWriters(ctx, w)
}

// stillSo refuses to go on if the authority changed while the plan was made.
func (f *Flow) stillSo(ctx context.Context, before seen) error {
	now, err := f.look(ctx)
	if err != nil {
		return err
	}
	if now.verdict.Row != before.verdict.Row || now.verdict.Identity != before.verdict.Identity ||
		!bytes.Equal(now.observation.Selector.Text, before.observation.Selector.Text) {
		return refuse(KindConflict, "authority_changed", "the authority was %q and is now %q; nothing was changed", before.verdict.Row, now.verdict.Row)
	}
	return nil
}

func newWork(snap manifest.Snapshot, r Request) *work {
	files := snap.Manifest != nil && snap.Manifest.Source.Kind == authority.KindLegacy
	return &work{snap: snap, m: snap.Manifest, files: files, request: r, facts: map[string]string{}, evidence: map[string]string{},
		unlock: func() error { return nil }}
}

// undoable reports whether a promoted migration can still be taken back: a rollback
// was begun and did not finish, or what was promoted turned out to be wrong and froze.
func undoable(m *manifest.Manifest) bool {
	if m == nil || m.Phase != manifest.PhasePromoted || m.Intent == nil {
		return false
	}
	return m.Intent.Command == CommandRollback || refrozen(m)
}

// overrides reports whether a command may begin although another step died: giving
// up undoes whatever that step did.
func overrides(r Request, intent *manifest.Intent) bool {
	return r.Command == CommandAbort && intent.Command != CommandAbort
}

func sameIntent(intent *manifest.Intent, r Request, fingerprint authority.Digest) error {
	if intent.OperationID == r.OperationID && intent.Fingerprint == fingerprint {
		return nil
	}
	refusal := refuse(KindUnproved, "step_unfinished", "%s was begun by operation %s and did not finish", intent.Command, intent.OperationID)
	refusal.Next = []string{CommandResume}
	return refusal
}

func requirePhase(command string, now seen) error {
	if now.lost != nil {
		return now.lost
	}
	snap := now.snap
	if m := snap.Manifest; m != nil && m.Intent != nil && command != CommandAbort {
		return sameIntent(m.Intent, Request{}, authority.Digest{})
	}
	if may(command, snap.Phase()) || command == CommandAbort && undoable(snap.Manifest) {
		return nil
	}
	refusal := refuse(KindRefused, "wrong_phase", "%s cannot run in phase %s; nothing was changed", command, snap.Phase())
	refusal.Next = nextStep(snap.Phase(), now.verdict.Kind)
	return refusal
}

// intend writes the intent, in a new manifest if the plan opens a migration.
func (f *Flow) intend(w *work, plan Plan, digest string, fingerprint authority.Digest) error {
	planDigest, err := authority.ParseDigest(digest[len("sha256:"):])
	if err != nil {
		return err
	}
	if w.m == nil || w.m.MigrationID != plan.MigrationID {
		w.m = &manifest.Manifest{
			SchemaVersion: manifest.SchemaVersion, MigrationID: plan.MigrationID, GoalID: plan.GoalID, Phase: manifest.PhasePlanned,
			Source:   manifest.Binding{Kind: plan.Source.Kind, Identity: plan.Source.Identity, Tenant: plan.Source.Tenant},
			Previous: previousPromotion(w.snap),
			Target:   manifest.Binding{Kind: plan.Target.Kind, Identity: plan.Target.Identity, Tenant: plan.Target.Tenant, Elsewhere: plan.Target.Elsewhere},
			Retained: plan.retained,
		}
		if err := f.rememberHost(w, w.m.MigrationID); err != nil {
			return err
		}
	}
	if given := w.request.Rehearsal.Given; given != nil {
		w.evidence["rehearsal"] = given.Digest.String()
	}
	for _, a := range plan.Accepted {
		a.OperationID = w.request.OperationID
		w.m.Accepted = append(w.m.Accepted, a)
	}
	w.m.Intent = &manifest.Intent{Command: w.request.Command, OperationID: w.request.OperationID, Fingerprint: fingerprint,
		Principal: f.Principal, PlanDigest: planDigest, MaxStallMillis: w.request.MaxStall.Milliseconds(), Through: plan.boundBookmark(), Parity: intentParity(w.request.Parity), At: f.now()}
	return f.save(w)
}

func (f *Flow) rememberHost(w *work, migration string) error {
	to := w.request.To
	host, err := f.Folder.LoadHost()
	if err != nil {
		return err
	}
	host.RuntimeRoot = f.Place.Root()
	if w.files {
		host.StateFile = f.Registration.StateFile
	}
	if to.elsewhere() {
		if host.Targets == nil {
			host.Targets = map[string]string{}
		}
		host.Targets[migration] = to.Path
	}
	if f.Server != "" {
		host.Postgres = f.Server
	}
	return f.Folder.SaveHost(host)
}

// save writes the manifest as it stands and takes what was read back.
func (f *Flow) save(w *work) error {
	snap, err := f.Folder.Save(w.snap, w.m)
	if err != nil {
		return err
	}
	w.snap, w.m = snap, snap.Manifest
	return nil
}

// record closes the step: chained into the manifest, the intent gone.
func (f *Flow) record(w *work, principal string, fingerprint authority.Digest) error {
	started := f.now()
	intent := w.m.Intent
	if intent != nil {
		started = intent.At
		w.evidence["plan"] = intent.PlanDigest.String()
	}
	w.m.Intent = nil
	finisher := ""
	if principal != f.Principal {
		finisher = f.Principal
	}
	err := w.m.AddStep(manifest.Step{Command: w.request.Command, OperationID: w.request.OperationID, Fingerprint: fingerprint,
		Principal: principal, FinishedBy: finisher, Actor: f.Actor, Phase: w.m.Phase, StartedAt: started, FinishedAt: f.now(),
		Facts: w.facts, Evidence: w.evidence})
	if err != nil {
		return err
	}
	return f.saveOr(w, intent)
}

// saveOr saves, and puts the intent back where that failed: it still stands on disk.
func (f *Flow) saveOr(w *work, intent *manifest.Intent) error {
	m := w.m
	err := f.save(w)
	if err != nil {
		m.Intent = intent
	}
	return err
}

// dropIntent takes the intent of a step back that was refused without an effect.
func (f *Flow) dropIntent(w *work) error {
	intent := w.m.Intent
	w.m.Intent = nil
	return f.saveOr(w, intent)
}

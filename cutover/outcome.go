package cutover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// recorded is the record that holds the finished step of an operation, the current one or
// an earlier one: it died before its outcome was stored, and another may have begun since.
func (f *Flow) recorded(now seen, command manifest.Command) (manifest.Snapshot, error) {
	if m := now.snap.Manifest; m != nil && m.StepOf(command.Principal, command.OperationID) != nil {
		return now.snap, nil
	}
	for _, id := range now.closed {
		snap, err := f.Folder.LoadClosed(id)
		if err != nil || snap.Manifest != nil && snap.Manifest.StepOf(command.Principal, command.OperationID) != nil {
			return snap, err
		}
	}
	return manifest.Snapshot{}, nil
}

// finish stores the outcome of a step that is recorded, and answers with it. The phase is
// the one it ended in.
func (f *Flow) finish(command manifest.Command, fingerprint authority.Digest, w *work, phase manifest.Phase) (Result, error) {
	if err := f.reinstate(w); err != nil {
		return Result{}, f.unproved(err, w)
	}
	result, err := f.done(command, fingerprint, Result{MigrationID: w.m.MigrationID, Phase: phase, Facts: w.facts, Report: w.report, Next: nextStep(phase, w.m.Source.Kind)})
	if err != nil {
		return Result{}, f.unproved(err, w)
	}
	return result, nil
}

// done stores the outcome of a command whose effect was read back, and answers with it.
func (f *Flow) done(command manifest.Command, fingerprint authority.Digest, r Result) (Result, error) {
	err := f.Folder.StoreOutcome(command, manifest.Outcome{
		SchemaVersion: manifest.OutcomeSchema, Command: command.Kind, OperationID: command.OperationID, Principal: command.Principal,
		GoalID: command.GoalID, Fingerprint: fingerprint, MigrationID: r.MigrationID, Phase: r.Phase, ReasonCode: manifest.Done,
		Sentence: "done", Facts: r.Facts, At: f.now()})
	r.Command, r.Status, r.OperationID = command.Kind, "done", command.OperationID
	return r, err
}

func (f *Flow) storeRefusal(command manifest.Command, fingerprint authority.Digest, r *Refusal) error {
	return f.Folder.StoreOutcome(command, manifest.Outcome{
		SchemaVersion: manifest.OutcomeSchema, Command: command.Kind, OperationID: command.OperationID, Principal: command.Principal,
		GoalID: command.GoalID, Fingerprint: fingerprint, Exit: int(r.Kind), ReasonCode: r.Reason, Sentence: r.Sentence, Holds: r.Holds, At: f.now()})
}

// decidedNow stores an error that came before the first effect, if it is a decided
// refusal and no passing trouble, and returns it.
func (f *Flow) decidedNow(command manifest.Command, fingerprint authority.Digest, err error) error {
	refusal := AsRefusal(err)
	if !refusal.Kind.decided() {
		return err
	}
	return errors.Join(refusal, f.storeRefusal(command, fingerprint, refusal))
}

// replay answers a command whose outcome is stored: the same content gets it again,
// unchanged, and beside it what a fresh look says; other content is a conflict. Neither
// changes a byte.
func (f *Flow) replay(ctx context.Context, command manifest.Command, fingerprint authority.Digest) (Result, bool, error) {
	stored, err := f.Folder.Outcome(command)
	if err != nil || stored == nil {
		return Result{}, err != nil, err
	}
	if stored.Fingerprint != fingerprint || stored.Command != command.Kind {
		refusal := refuse(KindConflict, "operation_identity_mismatch",
			"operation %s was a %s with other content; nothing was changed", command.OperationID, stored.Command)
		refusal.Next = newPreview(command)
		return Result{}, true, refusal
	}
	if err := f.contradicted(stored); err != nil {
		return Result{}, true, err
	}
	result := Result{Command: stored.Command, Status: "replayed", OperationID: stored.OperationID,
		MigrationID: stored.MigrationID, Phase: stored.Phase, Facts: stored.Facts, Observed: f.observed(ctx), Next: newPreview(command)}
	if stored.Exit != 0 {
		refusal := refuse(Kind(stored.Exit), stored.ReasonCode, "%s", stored.Sentence)
		refusal.Holds, refusal.Next = stored.Holds, newPreview(command)
		return result, true, refusal
	}
	return result, true, nil
}

// newPreview is where a retry points to: what was decided stays decided, and what holds
// today a new preview says.
func newPreview(command manifest.Command) []string {
	if principal := command.Arguments["principal"]; principal != "" {
		return []string{command.Kind, principal}
	}
	if store := command.Arguments["store_identity"]; store != "" {
		return []string{command.Kind, "--store-identity", store}
	}
	return []string{command.Kind}
}

// contradicted refuses an outcome that the record of its migration contradicts: then one
// of the two is not what this tool wrote, and neither is believed.
func (f *Flow) contradicted(o *manifest.Outcome) error {
	if o.MigrationID == "" {
		return nil
	}
	snap, err := f.Folder.Load()
	if err != nil {
		return err
	}
	if snap.Manifest == nil || snap.Manifest.MigrationID != o.MigrationID {
		if snap, err = f.Folder.LoadClosed(o.MigrationID); err != nil {
			return err
		}
	}
	contradiction := func(format string, args ...any) error {
		return &manifest.TamperedError{File: "the outcome of operation " + o.OperationID, Detail: fmt.Sprintf(format, args...)}
	}
	if snap.Manifest == nil {
		return contradiction("there is no record of migration %s", o.MigrationID)
	}
	if o.Command == CommandResume {
		return nil // it finished another operation's step and has none of its own
	}
	step := snap.Manifest.StepOf(o.Principal, o.OperationID)
	if step == nil || step.Command != o.Command || step.Fingerprint != o.Fingerprint {
		return contradiction("the record of migration %s has no such step", o.MigrationID)
	}
	return nil
}

// observed is what a fresh look says of the Goal: facts of today, not of the outcome
// they stand beside. What cannot be seen now takes nothing from the outcome.
func (f *Flow) observed(ctx context.Context) map[string]string {
	now, err := f.look(ctx)
	if err != nil {
		return map[string]string{"unreadable": AsRefusal(err).Reason}
	}
	seen := map[string]string{"phase": string(now.snap.Phase()), "authority": string(now.verdict.Kind)}
	if now.verdict.Blocked {
		seen["authority"] = "none: " + now.verdict.Reason
	}
	if m := now.snap.Manifest; m != nil && m.Intent != nil {
		seen["unfinished"] = m.Intent.Command
	}
	return seen
}

// unproved sorts an error that came after the intent was recorded. Where nothing is
// in doubt (a lock not had, an interruption) the error keeps its own kind; the
// intent stays, and the same command or resume goes on from it.
func (f *Flow) unproved(err error, w *work) error {
	refusal := AsRefusal(err)
	if refusal.Kind == KindInterrupted || w.m == nil || w.m.Intent == nil {
		return refusal
	}
	left := &Refusal{Kind: KindUnproved, Reason: refusal.Reason, Sentence: refusal.Sentence, Holds: refusal.Holds, Next: []string{CommandResume}, Err: err}
	switch {
	case refusal.Kind != KindUnproved:
		left.Sentence = fmt.Sprintf("%s did not finish (%s); its outcome is not proved", w.request.Command, refusal.Sentence)
	case len(refusal.Next) > 0: // it knows that resuming leads nowhere
		left.Next = refusal.Next
	}
	return left
}

// operationShape keeps an operation id usable in file names and messages.
var operationShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`) })

func (f *Flow) identify(r Request) (manifest.Command, authority.Digest, error) {
	if r.OperationID == "" || r.PlanDigest == "" {
		return manifest.Command{}, authority.Digest{}, refuse(KindUsage, "plan_required",
			"--execute needs --operation-id and --plan-digest of a preview; run %s without --execute first", r.Command)
	}
	if !operationShape().MatchString(r.OperationID) {
		return manifest.Command{}, authority.Digest{}, refuse(KindUsage, "operation_id_invalid",
			"an operation id is 1 to 128 letters, digits, dots, colons, dashes and underscores; nothing was changed")
	}
	arguments := map[string]string{"plan": r.PlanDigest, "place": placeDigest(r.To), "parity": parityText(r.Parity), "to": string(r.To.Kind), "tenant": r.To.Tenant, "through": strconv.FormatUint(uint64(r.Through), 10)}
	if r.WritersStopped {
		arguments["writers_stopped"] = "true"
	}
	if r.MaxStall != 0 {
		arguments["max_stall"] = r.MaxStall.String()
	}
	if r.Principal != "" {
		arguments["principal"] = r.Principal
	}
	if r.Store != "" {
		arguments["store_identity"] = string(r.Store)
	}
	maps.Copy(arguments, r.Rehearsal.arguments())
	for _, a := range r.Accept {
		arguments["accept "+a.Hold+":"+a.Record] = a.Owner + ": " + a.Reason
	}
	command := manifest.Command{Kind: r.Command, OperationID: r.OperationID, Principal: f.Principal, GoalID: f.Place.GoalID(), Arguments: arguments}
	fingerprint, err := command.Fingerprint()
	return command, fingerprint, err
}

// operatorLock keeps other commands of this tool out of the Goal's folder.
func (f *Flow) operatorLock(ctx context.Context, operation string) (func() error, error) {
	if err := atomicfile.MkdirAll(f.Folder.Dir(), 0o700); err != nil {
		return nil, err
	}
	lock, err := lockfile.AcquireKernel(ctx, f.Folder.OperatorLock(), f.LockWait, "loopx-migrate "+operation)
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

func closing(c io.Closer, err *error) { *err = errors.Join(*err, c.Close()) }

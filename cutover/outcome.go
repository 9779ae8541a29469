package cutover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// finish stores the outcome of a step that is recorded, and answers with it.
func (f *Flow) finish(command manifest.Command, fingerprint authority.Digest, w *work) (Result, error) {
	if err := f.reinstate(w); err != nil {
		return Result{}, f.unproved(err, w)
	}
	err := f.Folder.StoreOutcome(command, manifest.Outcome{
		SchemaVersion: manifest.OutcomeSchema, Command: command.Kind, OperationID: command.OperationID, Principal: command.Principal,
		GoalID: command.GoalID, Fingerprint: fingerprint, MigrationID: w.m.MigrationID, ReasonCode: "done",
		Sentence: "done", Facts: w.facts, At: f.now()})
	if err != nil {
		return Result{}, f.unproved(err, w)
	}
	return Result{Command: command.Kind, Status: "done", OperationID: command.OperationID, MigrationID: w.m.MigrationID,
		Phase: w.m.Phase, Facts: w.facts, Report: w.report, Next: nextStep(w.m.Phase)}, nil
}

func (f *Flow) storeRefusal(command manifest.Command, fingerprint authority.Digest, r *Refusal) error {
	return f.Folder.StoreOutcome(command, manifest.Outcome{
		SchemaVersion: manifest.OutcomeSchema, Command: command.Kind, OperationID: command.OperationID, Principal: command.Principal,
		GoalID: command.GoalID, Fingerprint: fingerprint, Exit: int(r.Kind), ReasonCode: r.Reason, Sentence: r.Sentence, At: f.now()})
}

// replay answers a command whose outcome is stored: the same content gets it again,
// other content is a conflict. Neither changes a byte.
func (f *Flow) replay(command manifest.Command, fingerprint authority.Digest) (Result, bool, error) {
	stored, err := f.Folder.Outcome(command)
	if err != nil || stored == nil {
		return Result{}, err != nil, err
	}
	if err := f.authorize(); err != nil {
		return Result{}, true, err
	}
	if stored.Fingerprint != fingerprint || stored.Command != command.Kind {
		refusal := refuse(KindConflict, "operation_identity_mismatch",
			"operation %s was a %s with other content; nothing was changed", command.OperationID, stored.Command)
		refusal.Next = []string{command.Kind}
		return Result{}, true, refusal
	}
	result := Result{Command: stored.Command, Status: "replayed", OperationID: stored.OperationID,
		MigrationID: stored.MigrationID, Facts: stored.Facts, Next: []string{command.Kind}}
	if snap, err := f.Folder.Load(); err == nil {
		result.Phase = snap.Phase()
	}
	if stored.Exit != 0 {
		refusal := refuse(Kind(stored.Exit), stored.ReasonCode, "%s", stored.Sentence)
		refusal.Next = []string{command.Kind}
		return result, true, refusal
	}
	return result, true, nil
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

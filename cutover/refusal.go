package cutover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Kind is the closed set of ways a command can end, each with one exit status.
type Kind int

// The kinds; the values are the exit statuses of the command line.
const (
	KindDone        Kind = 0
	KindOther       Kind = 1
	KindUsage       Kind = 2
	KindRefused     Kind = 3 // a hold or a precondition
	KindDiffers     Kind = 4 // parity
	KindConflict    Kind = 5 // operation id, plan digest, revision
	KindUnproved    Kind = 6 // blocked, or an outcome that is not known
	KindUnreachable Kind = 7 // a store or a lock
	KindInterrupted Kind = 130
)

// decided reports whether a refusal of this kind is an outcome, to be stored and
// returned again, and not a passing trouble.
func (k Kind) decided() bool { return k == KindRefused || k == KindDiffers || k == KindConflict }

// Refusal is what an operator meets when a command does not do what was asked.
type Refusal struct {
	Kind     Kind
	Reason   string // stable, snake case
	Sentence string // what was found, where, and what was not changed
	Holds    []Hold
	Next     []string // arguments of the command to run next
	Err      error
}

// Error is the sentence and its cause.
func (r *Refusal) Error() string {
	if r.Err != nil {
		return fmt.Sprintf("%s (%s): %v", r.Sentence, r.Reason, r.Err)
	}
	return fmt.Sprintf("%s (%s)", r.Sentence, r.Reason)
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(kind Kind, reason, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Reason: reason, Sentence: fmt.Sprintf(format, args...)}
}

// AsRefusal sorts any error of the flow into its kind, with a reason code. It is
// the one place where errors of the layers below become exit statuses.
func AsRefusal(err error) *Refusal {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	var probe *fence.ProbeError
	if errors.As(err, &probe) {
		return ofManifest(err)
	}
	if errors.Is(err, context.Canceled) {
		return &Refusal{Kind: KindInterrupted, Reason: "interrupted", Sentence: "stopped at a safe point; the same command goes on from there", Err: err}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Refusal{Kind: KindUnreachable, Reason: "timeout", Sentence: "the time given by --timeout is over", Err: err}
	}
	for _, sort := range []func(error) *Refusal{ofLock, ofManifest, ofStore, ofDisk} {
		if r := sort(err); r != nil {
			return r
		}
	}
	return &Refusal{Kind: KindOther, Reason: "internal_error", Sentence: "an error that has no name yet", Err: err}
}

func ofLock(err error) *Refusal {
	var busy *lockfile.BusyError
	if errors.As(err, &busy) {
		return &Refusal{Kind: KindUnreachable, Reason: "lock_timeout", Sentence: "another process holds a lock; nothing was changed", Err: err}
	}
	return nil
}

func ofManifest(err error) *Refusal {
	var tampered *manifest.TamperedError
	var probe *fence.ProbeError
	var diverged *bootstrap.DivergedError
	switch {
	case errors.As(err, &probe):
		return &Refusal{Kind: KindUnproved, Reason: "probe_failed", Sentence: "the writer whose try has to fail could not be run: " + probe.Detail, Next: []string{CommandResume}, Err: err}
	case errors.As(err, &tampered):
		return &Refusal{Kind: KindUnproved, Reason: "record_tampered", Sentence: "a record of this tool cannot be trusted; nothing was changed", Err: err}
	case errors.Is(err, manifest.ErrStale):
		return &Refusal{Kind: KindConflict, Reason: "manifest_changed", Sentence: "another command changed the migration meanwhile", Err: err}
	case errors.Is(err, manifest.ErrGrantsStale):
		return &Refusal{Kind: KindConflict, Reason: "grants_changed", Sentence: "another command changed the grants meanwhile", Err: err}
	case errors.As(err, &diverged):
		return &Refusal{Kind: KindConflict, Reason: "candidate_diverged", Sentence: "abort this migration and begin a new one", Err: err}
	}
	return nil
}

func ofStore(err error) *Refusal {
	var e *authority.Error
	if !errors.As(err, &e) {
		return nil
	}
	r := &Refusal{Reason: string(e.Reason), Sentence: "a store refused; nothing was changed", Err: err}
	switch e.Class {
	case authority.ClassMissing:
		r.Kind, r.Reason = KindRefused, "store_missing"
	case authority.ClassConflict:
		r.Kind = KindConflict
	case authority.ClassAmbiguous:
		r.Kind, r.Sentence = KindUnproved, "a store cannot tell whether it committed"
	case authority.ClassUnavailable:
		r.Kind = KindUnreachable
	case authority.ClassFailed:
		r.Kind = KindRefused
		if e.Reason == authority.ReasonLockTimeout || e.Reason == authority.ReasonReadUnavailable {
			r.Kind = KindUnreachable
		}
	}
	return r
}

func ofDisk(err error) *Refusal {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Refusal{Kind: KindUnreachable, Reason: "no_space", Sentence: "the disk is full", Err: err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &Refusal{Kind: KindUnreachable, Reason: "no_permission", Sentence: "this place cannot be written or read by this user", Err: err}
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EISDIR):
		return &Refusal{Kind: KindUnreachable, Reason: "place_taken", Sentence: "something else stands where a file or folder of the goal belongs", Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return &Refusal{Kind: KindRefused, Reason: "file_missing", Sentence: "a file that has to be there is not", Err: err}
	case errors.Is(err, syscall.EIO):
		return &Refusal{Kind: KindUnreachable, Reason: "io_error", Sentence: "the disk answered with an error", Err: err}
	}
	return nil
}

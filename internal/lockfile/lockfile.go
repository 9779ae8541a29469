// Package lockfile takes the two families of locks that LoopX's writers take.
//
// A marker lock is the file TARGET.ts-effect.lock, created exclusively, that names
// its owner by process id and token; LoopX's TypeScript writers use it. A kernel
// lock is an flock on TARGET.lock, whose content only tells people who holds it;
// LoopX's Python writers use that. Neither family knows of the other, so whoever
// wants to stop all writers takes both, the marker first.
//
// Rules and file formats are LoopX's (effect_runtime_io.ts, file_lock.py), since
// its processes must understand ours and the other way round. Process ids mean
// something on one host and in one pid namespace only.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// Family is one of the two kinds of lock.
type Family string

// The families.
const (
	Marker Family = "marker"
	Kernel Family = "kernel"
)

// BusyError: another process held the lock for as long as the caller would wait.
// Nothing was changed.
type BusyError struct {
	Target string // base name of what is locked
	Family Family
	PID    int // the holder, 0 when it could not be learnt
	Waited time.Duration
}

// Error names family, target, holder and the time waited.
func (e *BusyError) Error() string {
	holder := "an unknown process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s lock of %s is held by %s (waited %s)",
		e.Family, e.Target, holder, e.Waited.Round(time.Millisecond))
}

// Errors beside BusyError.
var (
	// ErrLost: at release the lock was no longer ours; another process took it for
	// abandoned, and both may have written.
	ErrLost = errors.New("the lock was taken over by another process")
	// ErrUnsafe: what stands in the lock's place is no regular file with one name.
	// It is left alone.
	ErrUnsafe = errors.New("the lock's place is taken by something that is not a lock file")
)

// Lock is held from its acquisition until Release or the end of the process.
type Lock struct {
	once      sync.Once
	release   func() error
	released  error
	abandoned *Holder
}

// Release gives the lock up. A second call returns what the first one did. An
// error does not mean that the lock is still held; ErrLost means that it was not
// held to the end.
func (l *Lock) Release() error {
	l.once.Do(func() { l.released = l.release() })
	return l.released
}

// Abandoned returns the record of the kernel lock's previous holder when that one
// ended without releasing it, which LoopX's Python writers do only when they were
// killed: the locked file may then be cut short. Otherwise nil.
func (l *Lock) Abandoned() *Holder { return l.abandoned }

// What an attempt answers, beside success and real errors.
var (
	errTaken   = errors.New("taken")           // wait a turn
	errChanged = errors.New("changed, retry")  // the way may be free now: no wait, even with no time left
	errNotOurs = errors.New("not what we saw") // the file is another one by now
)

// waiter asks again and again until the lock is had or the time is up.
type waiter struct {
	family   Family
	target   string
	wait     time.Duration
	interval time.Duration // between two attempts, on average
	attempt  func() (*Lock, error)
	holder   func() int
}

func (w waiter) acquire(ctx context.Context) (*Lock, error) {
	if err := makeParent(w.target); err != nil {
		return nil, w.wrap(err)
	}
	start := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return nil, w.wrap(context.Cause(ctx))
		}
		lock, err := w.attempt()
		switch {
		case err == nil:
			return lock, nil
		case errors.Is(err, errChanged):
			continue
		case !errors.Is(err, errTaken):
			return nil, w.wrap(err)
		}
		left := w.wait - time.Since(start)
		if left <= 0 {
			return nil, w.busy(start)
		}
		turn := w.interval/2 + rand.N(w.interval) // not in step with a holder that comes back at once
		if err := Pause(ctx, min(left, turn)); err != nil {
			return nil, fmt.Errorf("%w: %w", w.busy(start), err)
		}
	}
}

func (w waiter) busy(start time.Time) *BusyError {
	return &BusyError{Target: filepath.Base(w.target), Family: w.family, PID: w.holder(), Waited: time.Since(start)}
}

func (w waiter) wrap(err error) error {
	return fmt.Errorf("%s lock of %s: %w", w.family, filepath.Base(w.target), err)
}

// Pause waits a little before another try, or ends early with the context's cause. Whatever waits
// for somebody else, a lock or not, waits by it.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// makeParent makes the directory a lock stands in, as LoopX does, which also locks
// what does not exist yet. Locks do not survive a power loss, so nothing is synced.
func makeParent(target string) error {
	dir := filepath.Dir(target)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return faultio.MkdirAll(dir, 0o700)
}

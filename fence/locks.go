package fence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// Held is a set of LoopX's locks, to be given back together.
type Held struct{ locks []*lockfile.Lock }

// Release gives the locks back, the last one taken first. A failure to release is
// joined, and does not keep the others from being released.
func (h *Held) Release() error {
	var errs []error
	for i := len(h.locks) - 1; i >= 0; i-- {
		errs = append(errs, h.locks[i].Release())
	}
	h.locks = nil
	return errors.Join(errs...)
}

// LockRequest says which of LoopX's writers to keep out.
type LockRequest struct {
	StateFile string // resolved path of the legacy state file, empty when none is known
	Wait      time.Duration
	Operation string // for the holder record of kernel locks
	// Legacy is set where the legacy files are the authority or are to become it.
	Legacy *LegacyLocks
}

// LegacyLocks are the locks beside those of every Goal: the lease folder's also where
// there is none yet, the registry's, which LoopX never waits for, and the writer fence's.
type LegacyLocks struct {
	Registry string // empty when none is known
}

// Lock takes the locks that LoopX's writers take, in their order and in both
// families: maintenance, Todo writers, state file, lease writers, leases, for legacy
// files registry and fence, and the document of the file store. Marker first, then kernel, for each that has both.
// On failure nothing stays held.
//
// LoopX 2.1.1 takes only maintenance and document for a canonical write; the others
// keep older writers and projections out (docs/formats.md, "Locks").
func Lock(ctx context.Context, place authority.Place, request LockRequest) (*Held, error) {
	held := &Held{}
	for _, step := range lockOrder(place, request) {
		if err := held.take(ctx, step, request); err != nil {
			return nil, errors.Join(err, held.Release())
		}
	}
	return held, nil
}

type lockStep struct {
	target string
	kernel bool // also the kernel family
	atOnce bool // it is had now or not at all
}

func lockOrder(place authority.Place, request LockRequest) []lockStep {
	steps := []lockStep{
		{target: place.MaintenanceLock()},
		{target: place.TodoWriterLock(), kernel: true},
	}
	if request.StateFile != "" {
		steps = append(steps, lockStep{target: request.StateFile, kernel: true})
	}
	steps = append(steps, lockStep{target: place.LeaseWriterLock(), kernel: true})
	if _, err := os.Stat(place.LeaseDir()); err == nil || request.Legacy != nil {
		steps = append(steps, lockStep{target: place.LeaseLock(), kernel: true})
	}
	if request.Legacy != nil {
		if registry := request.Legacy.Registry; registry != "" {
			steps = append(steps, lockStep{target: registry, kernel: true, atOnce: true})
		}
		steps = append(steps, lockStep{target: place.WriterFence()})
	}
	return append(steps, lockStep{target: place.Journal()})
}

func (h *Held) take(ctx context.Context, step lockStep, request LockRequest) error {
	if err := atomicfile.MkdirAll(filepath.Dir(step.target), 0o700); err != nil {
		return fmt.Errorf("make the folder of a lock: %w", err)
	}
	wait := request.Wait
	if step.atOnce {
		wait = 0
	}
	marker, err := lockfile.AcquireMarker(ctx, step.target, wait)
	if err != nil {
		return err
	}
	h.locks = append(h.locks, marker)
	if !step.kernel {
		return nil
	}
	kernel, err := lockfile.AcquireKernel(ctx, step.target, wait, request.Operation)
	if err != nil {
		return err
	}
	h.locks = append(h.locks, kernel)
	return nil
}

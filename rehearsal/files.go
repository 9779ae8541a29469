package rehearsal

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// filesHand drives a workload through the legacy files of a copy, by this program's own
// writer: each operation is decided from what the files say, and laid over them.
type filesHand struct {
	at    copied
	clock func() time.Time
	watch func(done int)
}

// never is a time at which every lease has run out, so that files with a running one can
// be written: the copy has no other writer whom that would cheat.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (h filesHand) load() (legacy.Files, error) {
	return legacy.Load(h.at.place, h.at.registration.StateFile, h.at.registration.EventLogs)
}

func (h filesHand) head() (authority.Canonical, error) {
	files, err := h.load()
	if err != nil {
		return nil, err
	}
	return legacy.Inspect(files, h.clock()).Projection()
}

func (h filesHand) drive(ctx context.Context, w Workload) (work, error) {
	done := work{took: map[Verb][]time.Duration{}}
	for i, o := range w.Operations {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		answer := "not_asked" // files keep no operation that could be repeated
		if o.commits() {
			began := h.clock()
			var err error
			if answer, err = h.one(o, w.at(i)); err != nil {
				return done, fmt.Errorf("operation %s: %w", o.ID, err)
			}
			done.took[o.Verb] = append(done.took[o.Verb], h.clock().Sub(began))
		}
		if answer == "applied" {
			done.committed++
		}
		done.answers = append(done.answers, answer)
		if h.watch != nil {
			h.watch(i + 1)
		}
	}
	return done, nil
}

func (h filesHand) one(o Operation, at time.Time) (string, error) {
	files, err := h.load()
	if err != nil {
		return "", err
	}
	projection, err := legacy.Inspect(files, h.clock()).Projection()
	if err != nil {
		return "", err
	}
	next, err := decide(files.Goal, projection, o, at)
	if err != nil || next.refused != "" {
		return next.answer(), err
	}
	returned, err := legacy.Return(files, next.projection, files.Declarations(), never)
	if err != nil {
		return "", err
	}
	return "applied", h.write(returned)
}

// write lays the files down. A copy needs no order in which a crash would be safe.
func (h filesHand) write(r legacy.Returned) error {
	for _, lease := range r.Leases {
		path := filepath.Join(h.at.place.LeaseDir(), lease.Name)
		if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := atomicfile.Replace(path, 0o600, lease.Bytes); err != nil {
			return err
		}
	}
	return atomicfile.Replace(h.at.registration.StateFile, 0o600, r.State)
}

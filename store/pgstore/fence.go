package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// FenceState is the state of a Goal's fence row.
type FenceState string

// The states of a fence row. A Goal without one is FenceOpen.
const (
	FenceOpen      FenceState = "open"      // anybody with the privileges writes
	FenceEngaged   FenceState = "fenced"    // every write fails with the fence id
	FenceCandidate FenceState = "candidate" // only the importer with the candidate's id writes
)

// Standing is what a fence row says.
type Standing struct {
	State FenceState
	ID    string // of the fence or candidate, empty when open
}

const fenceMessage = "loopx_migrate_fence:"

// fenceIDShape keeps the id usable in messages and settings.
// Compiling it takes longer than a command that has nothing to do with fences may start.
var fenceIDShape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._:-]{1,200}$`)
})

func checkFenceID(id string) error {
	if fenceIDShape().MatchString(id) {
		return nil
	}
	return refuse(authority.ClassFailed, ReasonFenceID,
		"a fence id is 1 to 200 letters, digits, dots, colons, dashes and underscores").Field("fence_id")
}

// Standing reads the Goal's fence row. Without this tool's objects in the database it is open.
func (s *Store) Standing(ctx context.Context) (Standing, error) {
	now := Standing{State: FenceOpen}
	err := s.link.reading(ctx, snapshot, func(in *session) (err error) {
		now, err = in.standing(ctx, "")
		return err
	})
	return now, s.answer("fence", err, unreadable)
}

// Fence reads which fence stands in the database, if any. A candidate is not a fence.
func (s *Store) Fence(ctx context.Context) (fenceID string, engaged bool, err error) {
	now, err := s.Standing(ctx)
	if err != nil || now.State != FenceEngaged {
		return "", false, err
	}
	return now.ID, true, nil
}

func (s *session) standing(ctx context.Context, locking string) (Standing, error) {
	now := Standing{State: FenceOpen}
	if !s.installed {
		return now, nil
	}
	err := s.row(ctx, []any{&now.State, &now.ID}, `SELECT state, fence_id FROM loopx_control_plane.loopx_migrate_fences
		WHERE tenant_id = $1 AND goal_id = $2`+locking, s.tenant, s.goal)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return now, err
}

// checkFence answers what a write would.
func (s *session) checkFence(ctx context.Context) error {
	now, err := s.standing(ctx, "")
	if err == nil && now.State != FenceOpen {
		err = refuse(authority.ClassFailed, authority.ReasonTransactionFailed, sentenceTransaction).
			Because(&serverError{code: "55000", said: fenceMessage + now.ID})
	}
	return err
}

// EngageFence makes every write to the Goal's rows fail with the fence id. It is engaged
// under the head row's lock, in the transaction that proves that the head still is the
// expected one (the zero Applied for a Goal without a head): whoever committed before is
// in that head, whoever comes later, also with a transaction already open, fails. A fence
// of the same id is left as it is. Errors: ReasonFenceID; ClassConflict with
// ReasonFenceHeld for another fence or a candidate, or ReasonRevisionMismatch;
// ReasonNotInstalled when a trigger is missing or disabled; else those of Commit.
func (s *Store) EngageFence(ctx context.Context, fenceID string, expected authority.Applied) error {
	return s.turn(ctx, "engage fence", fenceID, &expected, func(now Standing) (Standing, error) {
		switch {
		case now == Standing{FenceEngaged, fenceID}:
			return now, nil
		case now.State != FenceOpen:
			return now, fenceHeld(now)
		}
		return Standing{FenceEngaged, fenceID}, nil
	})
}

// LiftFence opens the Goal again. Without a fence there is nothing to do. Another fence, or
// a candidate of another id, is ReasonFenceHeld.
func (s *Store) LiftFence(ctx context.Context, fenceID string) error {
	return s.turn(ctx, "lift fence", fenceID, nil, open(fenceID))
}

// ReleaseCandidate makes a candidate an ordinary Goal that LoopX may write to, if its
// head is the expected one. Released already, there is nothing to do.
func (s *Store) ReleaseCandidate(ctx context.Context, candidateID string, expected authority.Applied) error {
	return s.turn(ctx, "release candidate", candidateID, &expected, open(candidateID))
}

func open(id string) func(Standing) (Standing, error) {
	return func(now Standing) (Standing, error) {
		if now.State != FenceOpen && now.ID != id {
			return now, fenceHeld(now)
		}
		return Standing{State: FenceOpen}, nil
	}
}

func fenceHeld(now Standing) *refusal {
	return refuse(authority.ClassConflict, ReasonFenceHeld, fmt.Sprintf("the goal is %s under another id: %s", now.State, now.ID)).
		Field("loopx_migrate_fences.fence_id")
}

// turn changes the fence row under the head row's lock, and reads it back afterwards.
func (s *Store) turn(ctx context.Context, label, id string, expected *authority.Applied, next func(Standing) (Standing, error)) error {
	err := checkFenceID(id)
	if err == nil && s.options.Mode != ReadWrite {
		err = &refusal{Made: readOnly}
	}
	var want Standing
	if err == nil {
		how := change
		how.pass = id // a fence of the same id must not stop its own turning
		err = s.link.writing(ctx, how, label, func(ctx context.Context, in *session) (err error) {
			want, err = in.turn(ctx, expected, next)
			return err
		})
	}
	var unknown *uncertain
	if errors.As(err, &unknown) {
		err = s.turned(ctx, want, unknown)
	}
	return s.answer("fence", err, unwritten)
}

// turned looks what a COMMIT without an answer did to the fence.
func (s *Store) turned(ctx context.Context, want Standing, unknown *uncertain) error {
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.link.server.SettleWait)
	defer cancel()
	for {
		var now Standing
		err := s.link.reading(wait, change, func(in *session) (err error) {
			if _, err = in.place(wait, "NULL::text", " FOR UPDATE"); err == nil {
				now, err = in.standing(wait, "")
			}
			return err
		})
		if err == nil && now == want {
			return nil
		}
		if err == nil {
			return &refusal{Made: unwritten}
		}
		if lockfile.Pause(wait, settleStep) != nil {
			return refuse(authority.ClassAmbiguous, authority.ReasonOutcomeUnknown, "whether the fence was turned is unknown; read it before any retry").
				Because(errors.Join(unknown, err))
		}
	}
}

func (s *session) turn(ctx context.Context, expected *authority.Applied, next func(Standing) (Standing, error)) (Standing, error) {
	if err := s.requireTriggers(ctx); err != nil {
		return Standing{}, err
	}
	if expected != nil && *expected == (authority.Applied{}) {
		// A Goal without any row has no lock to take; LoopX's first commit makes the same row.
		if _, err := s.conn.Exec(ctx, emptyHead, s.tenant, s.goal); err != nil {
			return Standing{}, err
		}
	}
	h, err := s.place(ctx, "NULL::text", " FOR UPDATE")
	if err != nil {
		return Standing{}, err
	}
	now, err := s.standing(ctx, " FOR UPDATE")
	if err != nil {
		return Standing{}, err
	}
	if found := h.applied(s.identity); expected != nil && found != *expected {
		return Standing{}, conflict(authority.ReasonRevisionMismatch, &offer{}, found)
	}
	want, err := next(now)
	if err != nil || want == now {
		return want, err
	}
	return want, s.setStanding(ctx, want)
}

// setStanding updates the fence row, so that a snapshot taken before fails instead of
// not seeing it. Install and the first row of a Goal have made it; a row that is missing
// all the same is made here.
func (s *session) setStanding(ctx context.Context, want Standing) error {
	_, err := s.conn.Exec(ctx, `INSERT INTO loopx_control_plane.loopx_migrate_fences (tenant_id, goal_id, state, fence_id)
		VALUES ($1, $2, $3, $4) ON CONFLICT (tenant_id, goal_id)
		DO UPDATE SET state = excluded.state, fence_id = excluded.fence_id, changed_at = transaction_timestamp()`,
		s.tenant, s.goal, string(want.State), want.ID)
	return err
}

// ourTriggers is how many triggers of ours must stand: on each of four tables a gate for
// rows and one for TRUNCATE, and the seal.
const ourTriggers = 9

// requireTriggers refuses to rely on a fence whose triggers are not all there.
func (s *session) requireTriggers(ctx context.Context) error {
	n := int64(0)
	if s.installed {
		err := s.row(ctx, []any{&n}, `SELECT count(*) FROM pg_catalog.pg_trigger AS t
			JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
			WHERE n.nspname = 'loopx_control_plane' AND t.tgenabled = 'A' AND (t.tgname IN ('loopx_migrate_gate', 'loopx_migrate_gate_all')
				AND c.relname IN ('authority_heads', 'authority_commits', 'authority_events', 'authority_receipts')
				OR t.tgname = 'loopx_migrate_seal' AND c.relname = 'authority_heads')`)
		if err != nil {
			return err
		}
	}
	if n != ourTriggers {
		return refuse(authority.ClassFailed, ReasonNotInstalled,
			fmt.Sprintf("%d of %d triggers of loopx-migrate stand; run pg install", n, ourTriggers)).Field("pg_trigger")
	}
	return nil
}

package cutover

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Status is the truth about a Goal, from a fresh look.
type Status struct {
	Manifest    *manifest.Manifest
	Observation fence.Observation
	Verdict     fence.Verdict
	// State is one word for where the Goal stands: the phase, or "unfinished" behind
	// a step that died, "fence_lost", "record_missing" or "blocked".
	State string
	// Tripped names retired stores that somebody wrote to since.
	Tripped []Trip
	// Nothing is set where no file of such a Goal was found: its id may be mistyped.
	Nothing bool
	// Lost is set where the fence of a migration stands without its record.
	Lost *Refusal
	Next []string
}

// Trip is a write on a retired store.
type Trip struct {
	Where       string
	Cursor      authority.Cursor // of the first row that should not be there
	OperationID string
	Detail      string
}

// Status looks at record and Goal and changes nothing.
func (f *Flow) Status(ctx context.Context) (Status, error) {
	now, err := f.look(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Manifest: now.snap.Manifest, Observation: now.observation, Verdict: now.verdict, State: string(now.snap.Phase())}
	s.Next = nextStep(now.snap.Phase(), now.verdict.Kind)
	m := now.snap.Manifest
	switch {
	case now.lost != nil:
		s.State, s.Lost, s.Next = now.lost.Reason, now.lost, now.lost.Next
		return s, nil
	case m != nil && m.Intent != nil:
		s.State = "unfinished"
		s.Next = []string{CommandResume}
	case now.fenceLost():
		s.State = "fence_lost"
		s.Next = []string{CommandAbort}
	case now.verdict.Blocked && (m == nil || now.verdict.Migration != m.MigrationID):
		s.State = "blocked"
		s.Next = []string{"inspect"}
	}
	if s.Nothing, err = f.nothing(now); err != nil || s.Nothing {
		s.Next = nil
		return s, err
	}
	if s.Tripped, err = f.tripped(ctx, m); len(s.Tripped) > 0 && m.Phase != manifest.PhasePromoted {
		s.Next = []string{CommandAbort}
	}
	return s, err
}

// fenceLost reports whether the frozen selector that a migration is behind is not there
// any more: nothing keeps writers out then.
func (now seen) fenceLost() bool {
	m := now.snap.Manifest
	return m != nil && m.Intent == nil && behindFence(m.Phase) && !ours(now.observation.Selector, m)
}

// behindFence reports whether the Goal has to be frozen in a phase.
func behindFence(phase manifest.Phase) bool {
	switch phase {
	case manifest.PhaseFrozen, manifest.PhaseImported, manifest.PhaseVerified, manifest.PhaseTargetFenced, manifest.PhaseExported:
		return true
	}
	return false
}

// tripped looks at the store that nobody may write to now: the source, which a freeze
// fenced and a promotion retired.
func (f *Flow) tripped(ctx context.Context, m *manifest.Manifest) ([]Trip, error) {
	if m == nil {
		return nil, nil
	}
	if m.Source.Kind == authority.KindLegacy {
		return f.trippedFiles(m)
	}
	switch m.Phase {
	case manifest.PhaseFrozen, manifest.PhaseImported, manifest.PhaseVerified:
		return f.trip(ctx, m)
	case manifest.PhasePromoted:
		trips, err := f.trip(ctx, m)
		home := f.source(m).home(AccessUntouched)
		if err != nil || home.Path == "" || m.Intent != nil {
			return trips, err
		}
		there, err := exists(home.Path)
		if there {
			trips = append(trips, Trip{Where: f.where(home), Detail: "a store stands at LoopX's place again; this migration had moved it away"})
		}
		return trips, err
	}
	return nil, nil
}

// trippedFiles: until the promotion the legacy files must say what was kept of them;
// prose may change. Afterwards they are display, and only what was kept is watched.
func (f *Flow) trippedFiles(m *manifest.Manifest) ([]Trip, error) {
	if m.Kept == nil || m.Intent != nil || m.Phase.Closed() || m.Phase == manifest.PhasePlanned {
		return nil, nil
	}
	kept, err := readKept(filesSide{fileSide{f: f, m: m, b: m.Source}}.kept(), m.Kept.SHA256)
	if err != nil {
		return []Trip{{Where: m.Kept.Where, Detail: "the copy of the legacy files is not what was kept"}}, nil //nolint:nilerr // named as a trip
	}
	if m.Promotion != nil || f.Registration.StateFile == "" {
		return nil, nil
	}
	live, err := f.loadFiles()
	if err != nil {
		return nil, err
	}
	before, errBefore := legacy.Inspect(kept.Files, f.now()).Projection()
	now, errNow := legacy.Inspect(live, f.now()).Projection()
	if errBefore == nil && errNow == nil && bytes.Equal(before, now) {
		return nil, nil
	}
	return []Trip{{Where: "legacy files", Detail: "Todos or leases were written behind the fence"}}, nil
}

// trip audits the source from where it was bound. A promotion that died has it at
// neither place for certain; resume comes first then.
func (f *Flow) trip(ctx context.Context, m *manifest.Manifest) ([]Trip, error) {
	if m.Intent != nil {
		return nil, nil
	}
	ref, err := f.source(m).now(AccessUntouched)
	if err != nil {
		return nil, err
	}
	return f.tripAt(ctx, m, ref)
}

// tripAt audits the source, wherever it stands, from where it was bound.
func (f *Flow) tripAt(ctx context.Context, m *manifest.Manifest, ref Ref) (_ []Trip, err error) {
	where := f.where(ref)
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer closing(store, &err)
	var first *Trip
	lineage, err := f.auditAgain(ctx, store, &m.Source.End, func(row authority.Row) error {
		if row.Cursor > m.Source.Cursor && first == nil {
			first = &Trip{Where: where, Cursor: row.Cursor, OperationID: row.OperationID, Detail: "a commit on a store that is fenced or retired"}
		}
		return nil
	})
	if errors.Is(err, authority.ErrMissing) || err == nil && lineage.End.Cursor == 0 {
		return []Trip{{Where: where, Detail: "the store that is fenced or retired is gone"}}, nil
	}
	if class, reason := authority.ReasonOf(err); class == authority.ClassFailed || class == authority.ClassUnavailable {
		return []Trip{{Where: where, Detail: fmt.Sprintf("the retired store no longer verifies (%s)", reason)}}, nil
	}
	if err != nil {
		return nil, err
	}
	if first != nil {
		return []Trip{*first}, nil
	}
	if lineage.End.Cursor != m.Source.Cursor || lineage.Logical != m.Source.LogicalDigest {
		return []Trip{{Where: where, Cursor: lineage.End.Cursor, Detail: "the retired store is not where it was left"}}, nil
	}
	return nil, nil
}

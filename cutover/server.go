package cutover

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Standing is a store whose candidate, authority, retired state and quarantine are all
// in one database: nothing is moved as a file, and who may write is a row in it.
type Standing interface {
	Fencer
	// ReleaseCandidate lets everybody write to a candidate whose head is the expected one.
	ReleaseCandidate(ctx context.Context, candidateID string, expected authority.Applied) error
	// RecallCandidate makes a Goal that is fenced or released under an id a candidate of
	// that id again: only the importer writes.
	RecallCandidate(ctx context.Context, candidateID string) error
	// FenceCandidateOf makes a candidate, or one that was released, a fenced Goal under that id.
	FenceCandidateOf(ctx context.Context, candidateID string) error
	// SetAside moves the Goal into the quarantine of the database, BringBack out of it.
	SetAside(ctx context.Context, fenceID string) (string, error)
	BringBack(ctx context.Context, quarantineID string) (string, error)
}

// Sealed is a store whose rows are chained by seals beside them.
type Sealed interface {
	// LastSeal is the newest seal and its cursor, zero values when there is none.
	LastSeal(ctx context.Context) (authority.Cursor, authority.Digest, error)
}

// serverSide is a store in a database server.
type serverSide struct{ fileSide }

func (s serverSide) id() string { return "loopx-migrate:" + s.m.MigrationID }

func (s serverSide) home(access Access) Ref {
	server, err := s.f.server()
	if err != nil {
		server = "" // the opener then says that no server is known
	}
	return Ref{Kind: s.b.Kind, Goal: s.f.Place.GoalID(), Server: server, Tenant: s.b.Tenant, Identity: s.b.Identity, CandidateID: s.id(), Access: access}
}

func (s serverSide) now(access Access) (Ref, error)       { return s.home(access), nil }
func (s serverSide) candidate(access Access) (Ref, error) { return s.home(access), nil }

func (s serverSide) with(ctx context.Context, do func(History, Standing) error) error {
	return s.f.withFencer(ctx, s.home(AccessWrite), func(store History, fencer Fencer) error {
		standing, able := fencer.(Standing)
		if !able {
			return refuse(KindRefused, "store_cannot_stand", "the %s store has no candidates", s.b.Kind)
		}
		return do(store, standing)
	})
}

// taken asks the server: a Goal that has a head there already is in the way.
func (s serverSide) taken(ctx context.Context) (_ string, err error) {
	store, err := s.f.Stores.Open(ctx, s.home(AccessUntouched))
	if err != nil {
		return "", err
	}
	defer closing(store, &err)
	_, err = store.Load(ctx)
	if errors.Is(err, authority.ErrMissing) {
		return "", nil
	}
	if err == nil && s.b.Identity != "" { // a plan for a migration whose candidate this is
		return "", nil
	}
	return "tenant " + s.b.Tenant, err
}

func (s serverSide) engage(ctx context.Context, fenceID string) error {
	return s.f.engageInside(ctx, s.home(AccessWrite), fenceID)
}

func (s serverSide) lift(ctx context.Context, fenceID string) error {
	return s.f.liftInside(ctx, s.home(AccessWrite), fenceID)
}

func (s serverSide) install(ctx context.Context) error {
	return s.with(ctx, func(_ History, standing Standing) error {
		return standing.ReleaseCandidate(ctx, s.id(), authority.Applied{Cursor: s.b.Cursor, Revision: s.b.Revision})
	})
}

// uninstall makes the Goal a candidate again. Without a row there is nothing to recall: a
// standing without a Goal would be taken for a candidate that can be gone on with.
func (s serverSide) uninstall(ctx context.Context) error {
	return s.with(ctx, func(store History, standing Standing) error {
		if _, err := store.Load(ctx); errors.Is(err, authority.ErrMissing) {
			return nil
		}
		return standing.RecallCandidate(ctx, s.id())
	})
}

// setAside fences the Goal first, unless it is a candidate or fenced for a rollback.
func (s serverSide) setAside(ctx context.Context, w *work) error {
	return s.with(ctx, func(store History, standing Standing) error {
		id, engaged, err := standing.Fence(ctx)
		if err != nil {
			return err
		}
		if !engaged {
			id = s.id()
		}
		_, err = store.Load(ctx)
		if err == nil && !engaged && w.m.Promotion == nil {
			if err := standing.RecallCandidate(ctx, id); err != nil {
				return err
			}
		}
		kept, err := standing.SetAside(ctx, id)
		if errors.Is(err, authority.ErrMissing) && !engaged {
			return nil // there never was a candidate
		}
		if err != nil {
			return err
		}
		return s.note(ctx, w, kept)
	})
}

// quarantined is what the database keeps under an id.
func (s serverSide) quarantined(id string) Ref {
	ref := s.home(AccessUntouched)
	ref.CandidateID, ref.Quarantine = "", id
	return ref
}

// kept is the id of the record's last quarantine of this store, empty when there is none.
func (s serverSide) kept() string {
	for _, q := range slices.Backward(s.m.Quarantine) {
		if id, ours := strings.CutPrefix(q.Where, string(s.b.Kind)+":"); ours && q.Kind == s.b.Kind {
			return id
		}
	}
	return ""
}

func (s serverSide) note(ctx context.Context, w *work, kept string) error {
	where := string(s.b.Kind) + ":" + kept
	w.facts["quarantine"] = where
	for _, listed := range w.m.Quarantine {
		if listed.Where == where {
			return nil
		}
	}
	at, seal, err := s.f.lastSeal(ctx, s.quarantined(kept))
	if err != nil {
		return err
	}
	w.m.Quarantine = append(w.m.Quarantine, manifest.Quarantined{Kind: s.b.Kind, Identity: s.b.Identity, Where: where,
		SHA256: seal, Cursor: at, Why: w.request.Command, At: s.f.now()})
	return nil
}

// lastSeal opens a store in a server and asks for the end of its chain.
func (f *Flow) lastSeal(ctx context.Context, ref Ref) (_ authority.Cursor, _ authority.Digest, err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return 0, authority.Digest{}, err
	}
	defer closing(store, &err)
	sealed, able := store.(Sealed)
	if !able {
		return 0, authority.Digest{}, refuse(KindRefused, "store_has_no_seals", "the %s store has no seals", ref.Kind)
	}
	return sealed.LastSeal(ctx)
}

func (s serverSide) bringBack(ctx context.Context) error {
	return s.with(ctx, func(store History, standing Standing) error {
		if _, err := store.Load(ctx); !errors.Is(err, authority.ErrMissing) {
			return err // it was brought back, or never was set aside
		}
		kept, err := standing.SetAside(ctx, rollbackFence(s.m)) // set aside already, it says under which id
		if err != nil {
			return err
		}
		_, err = standing.BringBack(ctx, kept)
		return err
	})
}

// A retired Goal stays where it is, fenced.
func (s serverSide) retire(context.Context) error   { return nil }
func (s serverSide) unretire(context.Context) error { return nil }

// export makes the fenced source a candidate again, which takes the tail.
func (s serverSide) export(ctx context.Context) (Ref, error) {
	return s.home(AccessWrite), s.with(ctx, func(_ History, standing Standing) error { return standing.RecallCandidate(ctx, s.id()) })
}

func (s serverSide) reinstate(ctx context.Context, w *work) error {
	end := w.m.Rollback.RolledBackFrom.Cursor
	return s.with(ctx, func(store History, standing Standing) error {
		head, err := store.Load(ctx)
		if err != nil {
			return err
		}
		if head.Cursor != end {
			return refuse(KindUnproved, "export_short", "the source ends at cursor %s, the target at %s", head.Cursor, end)
		}
		return standing.ReleaseCandidate(ctx, s.id(), authority.Applied{Cursor: head.Cursor, Revision: head.Revision})
	})
}

func (s serverSide) clean(context.Context, *work) error { return nil }

// dropExport cannot take rows out of a history again, and need not: they are the
// target's. The source is bound where it stands now, and fenced there.
func (s serverSide) dropExport(ctx context.Context, w *work) error {
	if w.m.Phase == manifest.PhasePromoted {
		return nil // nothing was exported yet, and the fence stands as it stood
	}
	err := s.with(ctx, func(_ History, standing Standing) error { return standing.FenceCandidateOf(ctx, s.id()) })
	if err != nil {
		return err
	}
	p, err := s.f.proveRef(ctx, s.home(AccessUntouched), nil, authority.Bookmark{})
	if err != nil {
		return err
	}
	if end := w.m.Rollback.RolledBackFrom.Cursor; p.lineage.End.Cursor > end {
		refusal := refuse(KindUnproved, "source_written", "the source was released and ends at cursor %s, the target at %s: a commit stands there that the target lacks", p.lineage.End.Cursor, end)
		refusal.Next = []string{CommandResume}
		return refusal
	}
	w.m.Source = bound(w.m.Source, p)
	return nil
}

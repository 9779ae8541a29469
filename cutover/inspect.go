package cutover

import (
	"context"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// Inspection is everything that can be learnt of a Goal without changing a byte.
type Inspection struct {
	Observation fence.Observation
	Verdict     fence.Verdict
	// FenceLost is set where the frozen selector of the migration that goes on is gone.
	FenceLost bool
	// Lost is set where the fence of a migration stands without its record.
	Lost *Refusal
	// Nothing is set where no file of such a Goal was found: its id may be mistyped.
	Nothing bool
	Stores  []StoreInspection
	// Legacy are the legacy files, where they are the authority and could be found.
	Legacy *legacy.Goal
	Holds  []Hold
}

// StoreInspection is one store at LoopX's own place, audited in full.
type StoreInspection struct {
	Kind      authority.Kind
	Where     string // relative to the runtime root
	Authority bool
	Lineage   authority.Lineage
	Head      authority.Head
	// Defect is why the audit ended early, nil for a history that verifies.
	Defect error
}

// Inspect says who the authority is and why, audits every store that stands at
// LoopX's places, and names what would hold a migration.
func (f *Flow) Inspect(ctx context.Context) (Inspection, error) {
	now, err := f.look(ctx)
	if err != nil {
		return Inspection{}, err
	}
	seen := Inspection{Observation: now.observation, Verdict: now.verdict, FenceLost: now.fenceLost(), Lost: now.lost}
	for kind, there := range map[authority.Kind]bool{authority.KindFile: now.observation.Journal, authority.KindSQLite: now.observation.Database} {
		if !there {
			continue
		}
		store, err := f.inspectStore(ctx, kind)
		if err != nil {
			return seen, err
		}
		store.Authority = !now.verdict.Blocked && now.verdict.Kind == kind
		seen.Stores = append(seen.Stores, store)
		// What would hold a migration stands in the head of the authority. No store may be it: a
		// fence blocks it, or the files before any store are it. Then it stands in the journal's,
		// which was frozen or is here to be imported.
		noStore := now.verdict.Blocked || now.verdict.Kind == authority.KindLegacy
		if store.Defect == nil && (store.Authority || noStore && kind == authority.KindFile) {
			seen.Holds = append(seen.Holds, headHolds(store.Head.Projection, f.Place.GoalID(), store.Lineage.Identity, f.now())...)
		}
	}
	if seen.Nothing, err = f.nothing(now); err != nil {
		return seen, err
	}
	if err := f.inspectFiles(now, &seen); err != nil {
		return seen, err
	}
	around, err := f.around()
	seen.Holds = append(seen.Holds, around...)
	sortHolds(seen.Holds)
	return seen, err
}

// nothing reports whether the Goal is known by its id alone: no registry and no flag names
// it, and neither LoopX nor this tool has a file of it below the runtime root. Such a Goal
// looks like one in the legacy files, whose place nobody said.
func (f *Flow) nothing(now seen) (bool, error) {
	o := now.observation
	if f.Registration.Path != "" || f.Registration.StateFile != "" || o.Journal || o.Database ||
		o.Selector.State != fence.SelectorAbsent || o.WriterFence.State != fence.WriterFenceAbsent {
		return false, nil
	}
	for _, path := range []string{filepath.Dir(f.Place.LeaseDir()), f.Place.ShadowOutbox(), f.Folder.Dir()} {
		if there, err := exists(path); there || err != nil {
			return false, err
		}
	}
	return true, nil
}

// inspectFiles reads the legacy files where they are the authority, and says what of
// them would hold a migration. Without a registry nobody knows where they are.
func (f *Flow) inspectFiles(now seen, found *Inspection) error {
	if found.Verdict.Blocked || found.Verdict.Kind != authority.KindLegacy || f.Registration.StateFile == "" {
		return nil
	}
	files, err := f.loadFiles()
	if err != nil {
		return err
	}
	found.Legacy = legacy.Inspect(files, f.now())
	holds, err := f.liveFileHolds(now, found.Legacy)
	if err != nil {
		return err
	}
	found.Holds = append(found.Holds, holds...)
	if head, err := found.Legacy.Projection(); err == nil {
		found.Holds = oncePerRecord(append(found.Holds, headHolds(head, f.Place.GoalID(), "", f.now())...))
	}
	return nil
}

func (f *Flow) inspectStore(ctx context.Context, kind authority.Kind) (s StoreInspection, err error) {
	ref := f.ref(kind, AccessUntouched)
	s = StoreInspection{Kind: kind, Where: f.Place.Rel(ref.Path)}
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return s, err
	}
	defer closing(store, &err)
	var last []byte // the head of a history that verifies is its last row
	s.Lineage, s.Defect = f.audit(ctx, store, nil, func(row authority.Row) error {
		last = append(last[:0], row.Projection...)
		return nil
	})
	if s.Defect != nil {
		return s, ctx.Err()
	}
	s.Head = authority.Head{Cursor: s.Lineage.End.Cursor, Revision: s.Lineage.End.Revision, Projection: last}
	return s, nil
}

// around turns what goes on around the Goal into holds.
func (f *Flow) around() ([]Hold, error) {
	remarks, err := fence.Around(f.Place, f.Registration)
	if err != nil {
		return nil, &Refusal{Kind: KindUnproved, Reason: "surroundings_unreadable", Sentence: "what goes on around the goal cannot be read", Err: err}
	}
	var holds []Hold
	for _, r := range remarks {
		holds = append(holds, Hold{Code: r.Code, Record: r.Record, Detail: r.Detail})
	}
	return holds, nil
}

package cutover

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

// Fencer is a store that can hold a fence inside itself, so that a writer who ignores
// every file is still refused.
type Fencer interface {
	// EngageFence engages the fence in the transaction that proves the head to be the
	// expected one. The same fence again is no write.
	EngageFence(ctx context.Context, fenceID string, expected authority.Applied) error
	Fence(ctx context.Context) (fenceID string, engaged bool, err error)
	LiftFence(ctx context.Context, fenceID string) error
}

// Appender is a store that takes many transactions as one durable replace.
type Appender interface {
	Append(ctx context.Context, expected authority.Applied, rows iter.Seq2[authority.Transaction, error]) ([]authority.Revision, error)
}

// rollback goes back to the source with everything the target was given since. The
// target is fenced inside itself and the selector frozen; the source's journal gets
// the tail, on a copy, as one durable replace; both sides are compared, all of them;
// the target goes to quarantine, the journal to its place, the selector to what it
// was. Nothing is published before everything is proved.
func (f *Flow) rollback(ctx context.Context, w *work) error {
	if w.m.Phase == manifest.PhasePromoted {
		if err := f.fenceTarget(ctx, w); err != nil {
			return err
		}
	}
	if w.m.Phase == manifest.PhaseTargetFenced {
		if err := f.exportTail(ctx, w); err != nil {
			return err
		}
	}
	if fence.ReadSelector(f.Place).State == fence.SelectorFrozen {
		if err := f.putBack(ctx, w); err != nil {
			return err
		}
		if err := fence.Restore(f.Place, w.m.Selector); err != nil {
			return err
		}
	}
	return f.restored(ctx, w)
}

// fenceTarget stops the target: triggers inside the database in the transaction that
// proves its revision, then the frozen selector. Its whole history is bound.
func (f *Flow) fenceTarget(ctx context.Context, w *work) error {
	id := "loopx-migrate:" + w.m.MigrationID + ":rollback"
	target, err := f.boundTarget(ctx, w, AccessWrite, id)
	if err != nil {
		return err
	}
	now := fence.ReadSelector(f.Place)
	if w.m.Rollback == nil {
		w.m.Rollback = &manifest.Rollback{OperationID: w.request.OperationID, FenceID: id, FrozenAt: f.now()}
		if err := f.save(w); err != nil {
			return err
		}
	}
	frozen := fence.Frozen{MigrationID: w.m.MigrationID, FenceID: id, Original: now.Original()}
	if err := fence.Freeze(f.Place, frozen); err != nil {
		return err
	}
	w.m.Rollback.RolledBackFrom = target
	w.m.Phase = manifest.PhaseTargetFenced
	if err := f.save(w); err != nil {
		return err
	}
	if err := w.unlock(); err != nil {
		return err
	}
	return f.probeRollback(ctx, w)
}

// boundTarget fences the target inside itself and binds what it holds behind that.
func (f *Flow) boundTarget(ctx context.Context, w *work, access Access, fenceID string) (_ manifest.Binding, err error) {
	ref := f.ref(w.m.Target.Kind, access)
	ref.Identity = w.m.Target.Identity
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return manifest.Binding{}, err
	}
	defer closing(store, &err)
	head, err := store.Load(ctx)
	if err != nil {
		return manifest.Binding{}, err
	}
	fencer, able := store.(Fencer)
	if !able {
		return manifest.Binding{}, refuse(KindRefused, "target_cannot_be_fenced", "the %s store has no fence of its own", ref.Kind)
	}
	if err := fencer.EngageFence(ctx, fenceID, authority.Applied{Cursor: head.Cursor, Revision: head.Revision}); err != nil {
		return manifest.Binding{}, err
	}
	p, err := f.prove(ctx, store, nil)
	return bind(ref.Kind, p), err
}

func (f *Flow) probeRollback(ctx context.Context, w *work) error {
	found, err := f.Probes(w.m.Target.Kind).Probe(ctx)
	if err != nil {
		return err
	}
	w.m.Fence.Probes = append(w.m.Fence.Probes, found)
	w.facts["probe"] = found.By + ": " + found.Answer
	if !found.Refused {
		return refuse(KindUnproved, "fence_does_not_hold", "a writer's try went through behind the fence")
	}
	return f.save(w)
}

// stagedExport is the journal that is to become the authority again.
func (f *Flow) stagedExport(migration string) string {
	return filepath.Join(f.Folder.Staging(migration), "export", filepath.Base(f.Place.Journal()))
}

// exportTail makes the journal that carries everything, and proves it against the
// target, row by row and receipt by receipt.
func (f *Flow) exportTail(ctx context.Context, w *work) error {
	if err := f.writeExport(ctx, w); err != nil {
		return err
	}
	journal := f.ref(w.m.Source.Kind, AccessUntouched)
	journal.Path = f.stagedExport(w.m.MigrationID)
	target := f.ref(w.m.Target.Kind, AccessUntouched)
	report, err := f.compareArms(ctx, w.request.Parity, journal, target)
	if err != nil {
		return err
	}
	w.report = report
	digest, err := manifest.DigestOf(report)
	if err != nil {
		return err
	}
	if report.Verdict != parity.Qualified {
		return refuse(KindUnproved, "export_differs", "the exported journal and the target differ; the target stays fenced and complete")
	}
	w.m.Rollback.Report = digest
	w.m.Rollback.Exported = uint64(w.m.Rollback.RolledBackFrom.Cursor - w.m.Source.Cursor)
	w.evidence["report"] = digest.String()
	w.m.Phase = manifest.PhaseExported
	return f.save(w)
}

// writeExport brings the staged journal to the target's end. One that a dead run left
// is used if it is complete, and set aside otherwise.
func (f *Flow) writeExport(ctx context.Context, w *work) (err error) {
	staged := f.stagedExport(w.m.MigrationID)
	if err := f.beginExport(w, staged); err != nil {
		return err
	}
	ref := f.ref(w.m.Source.Kind, AccessWrite)
	ref.Path = staged
	if f.rebuilds(w.m) {
		ref.Access, ref.Format = AccessCreate, w.m.Source.Format
	}
	journal, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(journal, &err)
	head, err := journal.Load(ctx)
	if err != nil && w.m.Source.Cursor != 0 && !f.rebuilds(w.m) {
		return err
	}
	end := w.m.Rollback.RolledBackFrom.Cursor
	if head.Cursor == end {
		return nil
	}
	appender, able := journal.(Appender)
	if !able {
		return refuse(KindRefused, "source_cannot_append", "the %s store takes no bulk append", ref.Kind)
	}
	revisions, err := appender.Append(ctx, authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, f.targetRows(ctx, w, head.Cursor))
	if err != nil {
		return err
	}
	if got := head.Cursor + authority.Cursor(len(revisions)); got != end {
		return refuse(KindUnproved, "export_short", "the export ends at cursor %s, the target at %s", got, end)
	}
	return nil
}

// beginExport puts a copy of the retired journal where the export is written. A
// retired journal that was written to is not used: the copy is then rebuilt from
// the target from the first row on, which gives the same revisions.
func (f *Flow) beginExport(w *work, staged string) (err error) {
	there, err := exists(staged)
	if err != nil || there {
		return err
	}
	if f.rebuilds(w.m) {
		return atomicfile.MkdirAll(filepath.Dir(staged), 0o700)
	}
	if err := atomicfile.MkdirAll(filepath.Dir(staged), 0o700); err != nil {
		return err
	}
	from, err := os.Open(f.retiredJournal(w.m.MigrationID))
	if err != nil {
		return err
	}
	defer closing(from, &err)
	return atomicfile.ReplaceFrom(staged, 0o600, func(to io.Writer) error {
		_, err := io.Copy(to, from)
		return err
	})
}

// rebuilds reports whether the retired journal was accepted as written to.
func (f *Flow) rebuilds(m *manifest.Manifest) bool {
	for _, a := range m.Accepted {
		if a.Hold == holdRetiredWritten {
			return true
		}
	}
	return false
}

// targetRows are the target's transactions after a cursor, proved as they pass.
func (f *Flow) targetRows(ctx context.Context, w *work, after authority.Cursor) iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		ref := f.ref(w.m.Target.Kind, AccessUntouched)
		store, err := f.Stores.Open(ctx, ref)
		if err != nil {
			yield(authority.Transaction{}, err)
			return
		}
		defer closing(store, &err)
		_, err = f.audit(ctx, store, nil, func(row authority.Row) error {
			if row.Cursor > after && !yield(row.Transaction, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(authority.Transaction{}, err)
		}
	}
}

var errEnough = fmt.Errorf("enough rows")

// putBack takes the target out of LoopX's place and puts the journal back, behind the
// frozen selector.
func (f *Flow) putBack(ctx context.Context, w *work) error {
	quarantined := filepath.Join(f.Folder.Quarantine(w.m.MigrationID), filepath.Base(f.Place.Database()))
	if there, err := exists(f.Place.Database()); err != nil {
		return err
	} else if there {
		if err := f.Stores.Settle(ctx, f.ref(w.m.Target.Kind, AccessWrite)); err != nil {
			return err
		}
		if err := moveOnce(f.Place.Database(), quarantined); err != nil {
			return err
		}
	}
	if err := f.clearTheWay(w); err != nil {
		return err
	}
	if err := moveOnce(f.stagedExport(w.m.MigrationID), f.Place.Journal()); err != nil {
		return err
	}
	return f.journalStands(ctx, w)
}

// clearTheWay sets a journal aside that somebody put at LoopX's place, if that was
// accepted by name.
func (f *Flow) clearTheWay(w *work) error {
	staged, err := exists(f.stagedExport(w.m.MigrationID))
	if err != nil || !staged || !f.rebuilds(w.m) {
		return err
	}
	return moveOnce(f.Place.Journal(), filepath.Join(f.Folder.Quarantine(w.m.MigrationID), "found-"+filepath.Base(f.Place.Journal())))
}

// journalStands reads the journal at its final place and refuses unless it holds
// exactly what the target held.
func (f *Flow) journalStands(ctx context.Context, w *work) (err error) {
	store, err := f.Stores.Open(ctx, f.ref(w.m.Source.Kind, AccessUntouched))
	if err != nil {
		return err
	}
	defer closing(store, &err)
	through := authority.NewLogicalHash()
	var revision authority.Revision
	lineage, err := f.audit(ctx, store, nil, func(row authority.Row) error {
		if row.Cursor == w.m.Source.Cursor {
			revision = row.Revision
		}
		through.Add(row)
		return nil
	})
	if err != nil {
		return err
	}
	from := w.m.Rollback.RolledBackFrom
	if lineage.End.Cursor != from.Cursor || through.Digest() != from.LogicalDigest || revision != w.m.Source.Revision || lineage.Identity != w.m.Source.Identity {
		return refuse(KindUnproved, "read_back_differs", "the journal at its place does not hold what the target held")
	}
	return nil
}

// restored proves that the source is the authority again and closes the migration.
// LoopX may have gone on with it already, when a dead run had published it.
func (f *Flow) restored(ctx context.Context, w *work) error {
	now, err := f.observe(ctx)
	if err != nil {
		return err
	}
	if v := now.Authority(); v.Blocked || v.Kind != w.m.Source.Kind {
		return refuse(KindUnproved, "authority_not_restored", "after the rollback the authority reads as %q", v.Row)
	}
	if err := f.setRetiredAside(w); err != nil {
		return err
	}
	w.m.Rollback.RestoredAt = f.now()
	w.m.Rollback.StallMillis = w.m.Rollback.RestoredAt.Sub(w.m.Rollback.FrozenAt).Milliseconds()
	w.m.Phase = manifest.PhaseRolledBack
	w.facts["authority"] = string(w.m.Source.Kind)
	w.facts["cursor"] = w.m.Rollback.RolledBackFrom.Cursor.String()
	w.facts["exported_transactions"] = strconv.FormatUint(w.m.Rollback.Exported, 10)
	w.facts["outage_ms"] = strconv.FormatInt(w.m.Rollback.StallMillis, 10)
	return nil
}

// setRetiredAside lists the target and the old journal in quarantine.
func (f *Flow) setRetiredAside(w *work) error {
	old := filepath.Join(f.Folder.Quarantine(w.m.MigrationID), "retired-"+filepath.Base(f.Place.Journal()))
	if err := moveOnce(f.retiredJournal(w.m.MigrationID), old); err != nil {
		return err
	}
	w.m.Tripwires = nil
	entries := []manifest.Quarantined{
		{Kind: w.m.Target.Kind, Identity: w.m.Target.Identity, Where: filepath.Base(f.Place.Database())},
		{Kind: w.m.Source.Kind, Identity: w.m.Source.Identity, Where: filepath.Base(old)},
		{Kind: w.m.Source.Kind, Identity: w.m.Source.Identity, Where: "found-" + filepath.Base(f.Place.Journal())},
	}
	for _, e := range entries {
		if err := f.list(w, e); err != nil {
			return err
		}
	}
	return nil
}

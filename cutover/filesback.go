package cutover

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/export"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
)

const (
	holdStateEdited  = "state_file_edited"
	holdReceipts     = "receipts_not_replayable"
	holdReadOnly     = "legacy_read_only_in_loopx_2_1"
	holdLeasesEdited = "lease_files_written"
)

// wayBack is a head as legacy files, over the files that are there.
type wayBack struct {
	live  legacy.Files // as they are
	files legacy.Files // as they will be
	back  legacy.Returned
	holds []Hold
}

// filesBack makes the legacy files of a head. What cannot be expressed, and what the
// operator has to accept, is in holds; with a hold that stands files are not made.
func (f *Flow) filesBack(m *manifest.Manifest, head authority.Canonical) (w wayBack, err error) {
	kept, err := readKept(filesSide{fileSide{f: f, m: m, b: m.Source}}.kept(), m.Kept.SHA256)
	if err != nil {
		return w, &Refusal{Kind: KindUnproved, Reason: "kept_files_damaged", Sentence: "the copy of the legacy files is not what was kept at the freeze", Err: err}
	}
	if w.live, err = f.loadFiles(); err != nil {
		return w, err
	}
	known := append(w.live.Declarations(), kept.Files.Declarations()...)
	base := w.live
	base.State, base.StateMissing, w.holds = f.baseOf(kept.Files, w.live, head, known)
	if !sameLeases(kept.Files, w.live) {
		w.holds = append(w.holds, Hold{Code: holdLeasesEdited, Record: "task-leases", Detail: "lease files were written since the freeze; put them back as they were kept"})
	}
	w.back, err = legacy.Return(base, head, known, f.now())
	if err != nil {
		w.holds = append(w.holds, inexpressible(err, f.Place.GoalID())...)
		return w, nil
	}
	for _, finding := range w.back.Findings {
		w.holds = append(w.holds, holdOf(finding, f.Place.GoalID()))
	}
	w.files = base.With(w.back)
	return w, nil
}

// baseOf chooses the state file that a head is written into. The live one, since prose is
// written there after a promotion too; but not if rows that no head has are gone from it,
// as LoopX's display drops them: then the kept one, when no prose differs.
func (f *Flow) baseOf(kept, live legacy.Files, head authority.Canonical, known []legacy.Validation) (state []byte, missing bool, holds []Hold) {
	if string(live.State) == string(kept.State) {
		return live.State, live.StateMissing, nil
	}
	if legacy.KeepsOutside(kept.State, live.State) {
		if _, err := legacy.Return(live, head, known, f.now()); err == nil {
			return live.State, false, nil
		}
	}
	if legacy.SameNarrative(kept.State, live.State) {
		return kept.State, false, nil
	}
	return kept.State, false, []Hold{{Code: holdStateEdited, Record: "state_file", Acceptable: true,
		Detail: "the state file was edited since the freeze in a way that cannot be kept; accepted, the kept one is the base, and the edited one stays in the migration's folder"}}
}

func sameLeases(kept, live legacy.Files) bool {
	bare := func(f legacy.Files) authority.Digest {
		return legacy.Files{Goal: f.Goal, Leases: f.Leases, LifecycleFences: f.LifecycleFences}.Digest()
	}
	return bare(kept) == bare(live)
}

// inexpressible words what package legacy refused.
func inexpressible(err error, goal string) []Hold {
	var held *legacy.HoldError
	var render *legacy.RenderError
	var record *legacy.RecordError
	switch {
	case errors.As(err, &held):
		var holds []Hold
		for _, finding := range held.Holds {
			holds = append(holds, holdOf(finding, goal))
		}
		return holds
	case errors.As(err, &render):
		return []Hold{{Code: render.Reason, Record: render.TodoID + "." + render.Field, Detail: "Markdown cannot hold it, and it would be lost"}}
	case errors.As(err, &record):
		return []Hold{{Code: record.Reason, Record: record.TodoID + "." + record.Field, Detail: "the head breaks LoopX's record contract"}}
	}
	return []Hold{{Code: legacy.CodeStateUnreadable, Record: goal, Detail: err.Error()}}
}

// filesRollbackHolds is what stands against going back to the legacy files.
func (f *Flow) filesRollbackHolds(m *manifest.Manifest, found liveSource, holds []Hold) ([]Hold, error) {
	way, err := f.filesBack(m, found.head)
	if err != nil {
		return nil, err
	}
	around, err := f.around()
	if err != nil {
		return nil, err
	}
	holds = append(append(append(way.holds, holds...), around...), Hold{Code: holdReadOnly, Record: f.Place.GoalID(), Acceptable: true,
		Detail: "LoopX 2.1.1 only reads a goal without a writer fence; an older release works on it"})
	if found.lineage.End.Cursor > 1 {
		holds = append(holds, Hold{Code: holdReceipts, Record: f.Place.GoalID(), Acceptable: true,
			Detail: "Markdown holds no receipts: they go to an archive that LoopX does not replay from; a later migration begins with it"})
	}
	holds = oncePerRecord(holds)
	sortHolds(holds)
	return holds, nil
}

// writeFiles keeps the target's history in an archive and makes the legacy files of its
// head, in the migration's folder, under LoopX's locks, which stay held from here on.
func (f *Flow) writeFiles(ctx context.Context, w *work) error {
	if err := f.lockWriters(ctx, w); err != nil {
		return err
	}
	head, err := f.retain(ctx, w)
	if err != nil {
		return err
	}
	way, err := f.filesBack(w.m, head.Projection)
	if err != nil {
		return err
	}
	for _, h := range way.holds {
		if !slices.ContainsFunc(w.m.Accepted, func(a manifest.Accepted) bool { return a.Hold == h.Code && a.Record == h.Record }) {
			refusal := refuse(KindUnproved, h.Code, "since the preview %s has come up: %s; abort takes the rollback back", h.Record, h.Detail)
			refusal.Next = []string{CommandAbort}
			return refusal
		}
	}
	changed := []string{}
	for _, lease := range way.back.Leases {
		changed = append(changed, lease.Name)
	}
	_, err = f.writeKept(f.filesOf(w.m).staged(), legacy.Kept{Files: way.files, OperationID: w.m.Rollback.OperationID, Over: way.live.Digest(), Changed: changed})
	return err
}

func (f *Flow) filesOf(m *manifest.Manifest) filesSide {
	return filesSide{fileSide{f: f, m: m, b: m.Source}}
}

// retain writes the target's history as LoopX's archive, proves it, and returns the head.
func (f *Flow) retain(ctx context.Context, w *work) (head authority.Head, err error) {
	from := w.m.Rollback.RolledBackFrom
	path := f.Folder.Retained(w.m.MigrationID, from.Cursor)
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return head, err
	}
	store, err := f.Stores.Open(ctx, f.target(w.m).home(AccessUntouched))
	if err != nil {
		return head, err
	}
	defer closing(store, &err)
	if _, err = export.WriteArchive(ctx, path, store); err != nil && !errors.Is(err, fs.ErrExist) {
		return head, err
	}
	seal, err := provedArchive(ctx, path)
	if err != nil {
		return head, err
	}
	if seal.Lineage.End.Cursor != from.Cursor || seal.Lineage.Logical != from.LogicalDigest {
		return head, refuse(KindUnproved, "archive_differs", "the archive does not hold what the target holds")
	}
	w.m.Rollback.Archive = &manifest.Archive{Where: f.Place.Rel(path), SHA256: seal.SHA256, Cursor: from.Cursor, Logical: from.LogicalDigest}
	head, err = store.Load(ctx)
	if err == nil && authority.DigestOf(head.Projection) != from.HeadDigest {
		err = refuse(KindUnproved, "read_back_differs", "the target's head is not the one that was fenced")
	}
	return head, err
}

func (s filesSide) export(context.Context) (Ref, error) {
	ref := s.at(s.staged())
	ref.Retained = "" // the head is compared; the history stays in its archive
	return ref, nil
}

// exportStale reports whether the live files changed since the export was made of them,
// in a run that died before it began to replace them. The caller holds LoopX's locks.
func (f *Flow) exportStale(w *work) (bool, error) {
	s := f.filesOf(w.m)
	if begun, err := exists(s.before()); err != nil || begun {
		return false, err
	}
	staged, err := readKept(s.staged(), authority.Digest{})
	if err != nil {
		return false, err
	}
	live, err := f.loadFiles()
	return live.Digest() != staged.Over, err
}

// reinstate writes the legacy files, the lease files first. What they replace is kept
// before the first of them is written.
func (s filesSide) reinstate(_ context.Context, w *work) error {
	staged, err := readKept(s.staged(), authority.Digest{})
	if err != nil {
		return err
	}
	begun, err := exists(s.before())
	if err != nil {
		return err
	}
	if !begun {
		live, err := s.f.loadFiles()
		if err != nil {
			return err
		}
		if _, err := s.f.writeKept(s.before(), legacy.Kept{Files: live, OperationID: w.m.Rollback.OperationID}); err != nil {
			return err
		}
	}
	return s.f.putFiles(staged.Files, staged.Changed)
}

// putFiles writes the state file and the named lease files as they are in files; one that
// files do not have is taken away. What stands there already is no write.
func (f *Flow) putFiles(files legacy.Files, leases []string) error {
	for _, name := range leases {
		path := filepath.Join(f.Place.LeaseDir(), name)
		put := dropFile(path)
		if entry, there := files.Lease(name); there {
			put = putFile(path, entry.Bytes)
		}
		if put != nil {
			return put
		}
	}
	return putFile(f.Registration.StateFile, files.State)
}

// putFile writes a file with the mode it has, or for its owner alone.
func putFile(path string, text []byte) error {
	now, err := os.ReadFile(path)
	if err == nil && string(now) == string(text) {
		return nil
	}
	perm := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		perm = info.Mode().Perm()
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(path, perm, text)
}

func dropFile(path string) error {
	if there, err := exists(path); err != nil || !there {
		return err
	}
	return errors.Join(faultio.Remove(path), faultio.SyncDir(filepath.Dir(path)))
}

// putFilesBack is putBack for legacy files: they are written first, while the target can
// still be read again, should they have changed since they were exported.
func (f *Flow) putFilesBack(ctx context.Context, w *work) error {
	stale, err := f.exportStale(w)
	if err != nil {
		return err
	}
	if stale {
		if err := f.exportTail(ctx, w); err != nil {
			return err
		}
	}
	if err := f.source(w.m).reinstate(ctx, w); err != nil {
		return err
	}
	if err := f.target(w.m).setAside(ctx, w); err != nil {
		return err
	}
	if err := f.targetAsideStands(ctx, w); err != nil {
		return err
	}
	return f.filesCarry(w)
}

// filesCarry reads the legacy files at their places and refuses unless they are those
// that were compared with the target.
func (f *Flow) filesCarry(w *work) error {
	staged, err := readKept(f.filesOf(w.m).staged(), authority.Digest{})
	if err != nil {
		return err
	}
	live, err := f.loadFiles()
	if err != nil {
		return err
	}
	if live.Digest() != staged.Files.Digest() {
		return refuse(KindUnproved, "read_back_differs", "the legacy files at their places are not those that were compared with the target")
	}
	return nil
}

// dropExport puts the files back that a rollback had replaced.
func (s filesSide) dropExport(_ context.Context, _ *work) error {
	if s.m.Rollback == nil {
		return nil // it died before anything was exported
	}
	before, err := readKept(s.before(), authority.Digest{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	staged, err := readKept(s.staged(), authority.Digest{})
	if err != nil {
		return err
	}
	return s.f.putFiles(before.Files, staged.Changed)
}

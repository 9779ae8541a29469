package cutover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// filesSide are the legacy files. They never move: a freeze keeps a copy of them in one
// document, which is the source from then on, and puts up the writer fence behind the
// frozen selector; a rollback writes them anew.
type filesSide struct{ fileSide }

func (s filesSide) kept() string {
	return filepath.Join(s.f.Folder.Frozen(s.m.MigrationID), "files.json")
}

func (s filesSide) staged() string {
	return filepath.Join(s.f.Folder.Staging(s.m.MigrationID), "return", "files.json")
}

// before is where the files are kept that a rollback replaced.
func (s filesSide) before() string {
	operation := authority.DigestOf([]byte(s.m.Rollback.OperationID)).String()[:16]
	return filepath.Join(s.f.Folder.Frozen(s.m.MigrationID), "before-rollback-"+operation+".json")
}

func (s filesSide) at(path string) Ref {
	ref := Ref{Kind: authority.KindLegacy, Goal: s.f.Place.GoalID(), Path: path, Identity: s.b.Identity}
	if path == "" {
		ref.Live = LegacyFiles{Root: s.f.Place.Root(), StateFile: s.f.Registration.StateFile, EventLogs: s.f.Registration.EventLogs}
	}
	if s.m.Retained != nil {
		ref.Retained = filepath.Join(s.f.Place.Root(), filepath.FromSlash(s.m.Retained.Where))
	}
	return ref
}

// home is the copy that was kept, once a freeze began; nothing is read from the live
// files after it, since prose may go on being written there.
func (s filesSide) home(Access) Ref {
	if s.m.Fence == nil {
		return s.at("")
	}
	return s.at(s.kept())
}

func (s filesSide) now(access Access) (Ref, error) { return s.home(access), nil }

func (s filesSide) retire(context.Context) error   { return nil }
func (s filesSide) unretire(context.Context) error { return nil }

// clean keeps everything: what was kept at the freeze is evidence.
func (s filesSide) clean(context.Context, *work) error { return nil }

func (s filesSide) writerFence() (fence.ColdImport, bool) {
	if s.m.Fence == nil || s.m.Fence.Import == nil {
		return fence.ColdImport{}, false
	}
	return fence.ColdImport{OperationID: s.m.Fence.Import.OperationID, Plan: s.m.Fence.Import.PlanDigest}, true
}

// engageBehind keeps the files and engages the writer fence, under all locks and behind
// the frozen selector, since an engaged fence alone would send LoopX to an empty store.
// A run that died before the fence stood may have let writers in since: the files are
// then kept anew. Afterwards they are compared with what was kept.
func (s filesSide) engageBehind(_ context.Context, w *work) error {
	writers, _ := s.writerFence()
	standing, err := writers.Standing(s.f.Place)
	if err != nil {
		return err
	}
	if !standing {
		if err := s.keep(w, writers); err != nil {
			return err
		}
		if err := writers.Engage(s.f.Place); err != nil {
			return err
		}
	}
	live, err := s.f.loadFiles()
	if err != nil {
		return err
	}
	if live.Digest() != w.m.Kept.Files {
		refusal := refuse(KindUnproved, "source_moved_while_frozen", "the legacy files changed while they were fenced: somebody writes without a lock")
		refusal.Next = []string{CommandAbort}
		return refusal
	}
	return nil
}

// keep writes the document of kept files and binds it.
func (s filesSide) keep(w *work, writers fence.ColdImport) error {
	files, err := s.f.filesStill(w.m.Accepted)
	if found := AsRefusal(err); err != nil && len(found.Holds) > 0 {
		refusal := refuse(KindUnproved, found.Reason, "the legacy files were written behind the frozen selector, before the writer fence stood, and %d hold(s) stand against them now", len(found.Holds))
		refusal.Holds, refusal.Next = found.Holds, []string{CommandAbort}
		return refusal
	}
	if err != nil {
		return err
	}
	w.m.Kept, err = s.f.writeKept(s.kept(), legacy.Kept{Files: files, OperationID: writers.OperationID, Plan: writers.Plan})
	if err != nil {
		return err
	}
	return s.f.save(w)
}

func (f *Flow) writeKept(path string, kept legacy.Kept) (*manifest.Kept, error) {
	text, err := kept.Encode()
	if err != nil {
		return nil, err
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := atomicfile.Replace(path, 0o600, text); err != nil {
		return nil, fmt.Errorf("keep the legacy files: %w", err)
	}
	return &manifest.Kept{Where: f.Place.Rel(path), SHA256: authority.DigestOf(text), Files: kept.Files.Digest(),
		State: authority.DigestOf(kept.Files.State), Leases: len(kept.Files.Leases)}, nil
}

// readKept reads a document of kept files, and proves it where its digest is known.
func readKept(path string, digest authority.Digest) (legacy.Kept, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return legacy.Kept{}, err
	}
	if !digest.IsZero() && authority.DigestOf(text) != digest {
		return legacy.Kept{}, legacy.ErrKept
	}
	return legacy.DecodeKept(text)
}

// liftLast takes the writer fence away, when the selector is what it was before.
func (s filesSide) liftLast(context.Context) error {
	if writers, engaged := s.writerFence(); engaged {
		return writers.Lift(s.f.Place)
	}
	return nil
}

// loadFiles reads the live legacy files. Who holds their lock is of no interest to a
// caller that holds it itself.
func (f *Flow) loadFiles() (legacy.Files, error) {
	if f.Registration.StateFile == "" {
		return legacy.Files{}, stateFileUnknown()
	}
	files, err := legacy.Load(f.Place, f.Registration.StateFile, f.Registration.EventLogs)
	files.LockHolder = foreignHolder(files.LockHolder)
	if errors.Is(err, legacy.ErrMoving) {
		return files, &Refusal{Kind: KindUnreachable, Reason: "source_busy", Sentence: "the legacy files are being written; nothing was changed", Err: err}
	}
	return files, err
}

// filesKnown sees to it that every later command of a migration of legacy files works on
// the state file that it began with, whatever flags it is given.
func (f *Flow) filesKnown(now seen, r Request) error {
	m := now.snap.Manifest
	if m == nil || m.Source.Kind != authority.KindLegacy || opens(r.Command, m.Phase) {
		return nil
	}
	host, err := f.Folder.LoadHost()
	switch {
	case err != nil:
		return err
	case host.StateFile == "" || f.Registration.StateFile == host.StateFile:
		return nil
	case host.RuntimeRoot != f.Place.Root():
		return nil // the runtime root was moved, and the state file may have been
	case f.Registration.StateFile != "":
		return refuse(KindRefused, "two_state_files", "the migration began with another state file than is named now; nothing was changed")
	}
	f.Registration.StateFile = host.StateFile
	return nil
}

func stateFileUnknown() *Refusal {
	return refuse(KindUsage, "state_file_required", "nothing says where the state file of the goal is: give --registry or --state-file")
}

// foreignHolder drops the holder record of a lock that this tool had.
func foreignHolder(record []byte) []byte {
	var holder struct {
		Operation string `json:"operation"`
	}
	if json.Unmarshal(record, &holder) == nil && strings.HasPrefix(holder.Operation, "loopx-migrate ") {
		return nil
	}
	return record
}

// retained is the history that a migration of legacy files begins with: that which the
// last one brought back and the files could not hold. It must be the one that was written.
func (f *Flow) retained(ctx context.Context, m *manifest.Manifest) (*manifest.Archive, error) {
	if m == nil {
		return nil, nil
	}
	archive := m.Retained // of a migration that was given up, or is being planned
	if m.Phase == manifest.PhaseRolledBack && m.Rollback != nil && m.Rollback.Archive != nil {
		archive = m.Rollback.Archive
	}
	if archive == nil {
		return nil, nil
	}
	seal, err := provedArchive(ctx, filepath.Join(f.Place.Root(), filepath.FromSlash(archive.Where)))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || seal.SHA256 != archive.SHA256 {
		return nil, &Refusal{Kind: KindUnproved, Reason: "retained_history_damaged", Err: err,
			Sentence: "the archive " + archive.Where + " is not what was written when the goal came back to its files; its receipts would be lost, and nothing was changed"}
	}
	return archive, nil
}

// dropCandidate sets the candidate of an import aside that was undone but not given up.
// It holds that import's receipt and the files as they were then: nothing can go on with
// it. Each freeze has its own name for it, so that none is in the way of another.
func (f *Flow) dropCandidate(ctx context.Context, w *work) error {
	target := f.target(w.m)
	if s, server := target.(serverSide); server {
		w.m.Copied = nil
		return s.setAside(ctx, w)
	}
	staged, err := target.candidate(AccessUntouched)
	if err != nil {
		return err
	}
	aside := filepath.Join(f.Folder.Quarantine(w.m.MigrationID), strconv.FormatInt(w.m.Fence.FrozenAt.UnixMilli(), 10)+"-"+filepath.Base(staged.Path))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := moveOnce(staged.Path+suffix, aside+suffix); err != nil {
			return err
		}
	}
	w.m.Copied = nil
	return fileSide{f: f, m: w.m, b: w.m.Target}.list(w, aside)
}

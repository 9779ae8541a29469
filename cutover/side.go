package cutover

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// side is one store of a migration, beside what the contract of a store gives: the
// places it can be in, and how it gets from one to the other. Every move is durable
// when it returns and re-enterable: made already, it is not made again.
type side interface {
	// home is LoopX's own place, where a store can be the authority.
	home(access Access) Ref
	// now is where the store is at this moment: at home, or retired.
	now(access Access) (Ref, error)
	// taken names what stands at the home of a target that is to go there, empty when it is free.
	taken(ctx context.Context) (string, error)

	// engage fences the store inside itself, where it can be; lift takes that back.
	engage(ctx context.Context, fenceID string) error
	lift(ctx context.Context, fenceID string) error

	// engageBehind puts up what has to stand behind the frozen selector; liftLast takes
	// that down when the selector is what it was before.
	engageBehind(ctx context.Context, w *work) error
	liftLast(ctx context.Context) error

	// candidate is where a target is built. install brings it home, uninstall takes it
	// back, and setAside puts it into quarantine from wherever it is.
	candidate(access Access) (Ref, error)
	install(ctx context.Context) error
	uninstall(ctx context.Context) error
	setAside(ctx context.Context, w *work) error
	// bringBack undoes setAside.
	bringBack(ctx context.Context) error

	// retire takes a source out of LoopX's place after a promotion, unretire brings it back.
	retire(ctx context.Context) error
	unretire(ctx context.Context) error
	// export is where a source that is to become the authority again is written, a copy
	// of the retired one at first. reinstate brings that home and sets the old one aside.
	export(ctx context.Context) (Ref, error)
	reinstate(ctx context.Context, w *work) error
	// clean sets aside what a rollback left of the source beside itself.
	clean(ctx context.Context, w *work) error
	// dropExport sets an export aside, wherever it is.
	dropExport(ctx context.Context, w *work) error
}

func (f *Flow) source(m *manifest.Manifest) side { return f.side(m, m.Source) }
func (f *Flow) target(m *manifest.Manifest) side { return f.side(m, m.Target) }

func (f *Flow) side(m *manifest.Manifest, b manifest.Binding) side {
	s := fileSide{f: f, m: m, b: b}
	switch b.Kind {
	case authority.KindSQLite:
		return sqliteSide{s}
	case authority.KindPostgreSQL:
		return serverSide{s}
	case authority.KindLegacy:
		return filesSide{s}
	case authority.KindFile:
		return journalSide{s}
	}
	return s
}

// fileSide is a store that is one file, and the journal in particular: it moves by
// being renamed, and has no fence of its own.
type fileSide struct {
	f *Flow
	m *manifest.Manifest
	b manifest.Binding
}

func (s fileSide) home(access Access) Ref {
	ref := s.f.ref(s.b.Kind, access)
	ref.Identity, ref.Format = s.b.Identity, s.b.Format
	if s.b.Kind == authority.KindFile {
		ref.Identity = "" // the identity file is shared by the Goals of its folder and is looked at by itself
	}
	return ref
}

func (s fileSide) base() string { return filepath.Base(s.home(AccessUntouched).Path) }

func (s fileSide) at(path string, access Access) Ref {
	ref := s.home(access)
	ref.Path = path
	return ref
}

func (s fileSide) retired() string {
	return filepath.Join(s.f.Folder.Retired(s.m.MigrationID), s.base())
}

func (s fileSide) quarantined(prefix string) string {
	return filepath.Join(s.f.Folder.Quarantine(s.m.MigrationID), prefix+s.base())
}

func (s fileSide) exported() string {
	return filepath.Join(s.f.Folder.Staging(s.m.MigrationID), "export", s.base())
}

func (s fileSide) now(access Access) (Ref, error) {
	moved, err := exists(s.retired())
	if moved {
		return s.at(s.retired(), access), err
	}
	return s.home(access), err
}

func (s fileSide) taken(context.Context) (string, error) {
	there, err := exists(s.home(AccessUntouched).Path)
	if !there {
		return "", err
	}
	return s.f.Place.Rel(s.home(AccessUntouched).Path), err
}

func (s fileSide) engage(context.Context, string) error      { return nil }
func (s fileSide) lift(context.Context, string) error        { return nil }
func (s fileSide) engageBehind(context.Context, *work) error { return nil }
func (s fileSide) liftLast(context.Context) error            { return nil }

func (s fileSide) candidate(access Access) (Ref, error) {
	if s.b.Elsewhere {
		host, err := s.f.Folder.LoadHost()
		return s.at(host.Targets[s.m.MigrationID], access), err
	}
	return s.at(filepath.Join(s.f.Folder.Staging(s.m.MigrationID), s.base()), access), nil
}

func (s fileSide) install(context.Context) error {
	staged, err := s.candidate(AccessUntouched)
	if err != nil {
		return err
	}
	return moveOnce(staged.Path, s.home(AccessUntouched).Path)
}

func (s fileSide) uninstall(ctx context.Context) error {
	staged, err := s.candidate(AccessUntouched)
	if err != nil {
		return err
	}
	mine, err := s.atHome(ctx)
	if err != nil || !mine {
		return err
	}
	return moveOnce(s.home(AccessUntouched).Path, staged.Path)
}

// atHome reports whether what stands at LoopX's place is this store and no other.
func (s fileSide) atHome(ctx context.Context) (_ bool, err error) {
	ref := s.home(AccessUntouched)
	if there, err := exists(ref.Path); err != nil || !there {
		return false, err
	}
	ref.Identity = "" // it is asked, not expected
	store, err := s.f.Stores.Open(ctx, ref)
	if err != nil {
		return false, err
	}
	defer closing(store, &err)
	identity, err := store.Identity(ctx)
	return err == nil && identity == s.b.Identity, err
}

func (s fileSide) setAside(ctx context.Context, w *work) error {
	if s.b.Elsewhere {
		return nil // it stands where the operator wanted it; it never was in LoopX's place
	}
	staged, err := s.candidate(AccessUntouched)
	if err != nil {
		return err
	}
	from := staged.Path
	if there, err := exists(from); err != nil {
		return err
	} else if !there {
		mine, err := s.atHome(ctx)
		if err != nil {
			return err
		}
		if mine {
			from = s.home(AccessUntouched).Path
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // a load that died has a log beside it
		if err := moveOnce(from+suffix, s.quarantined("")+suffix); err != nil {
			return err
		}
	}
	return s.list(w, s.quarantined(""))
}

func (s fileSide) bringBack(context.Context) error {
	return moveOnce(s.quarantined(""), s.home(AccessUntouched).Path)
}

func (s fileSide) retire(context.Context) error {
	return moveOnce(s.home(AccessUntouched).Path, s.retired())
}

func (s fileSide) unretire(context.Context) error {
	return moveOnce(s.retired(), s.home(AccessUntouched).Path)
}

// export puts a copy of the retired store where the export is written. A retired
// store that was accepted as written to is not used: the export is then rebuilt from
// the target from the first row on, which gives a journal the same revisions.
func (s fileSide) export(context.Context) (Ref, error) {
	ref := s.at(s.exported(), AccessWrite)
	if s.f.rebuilds(s.m) {
		ref.Access = AccessCreate
		return ref, atomicfile.MkdirAll(filepath.Dir(ref.Path), 0o700)
	}
	there, err := exists(ref.Path)
	if err != nil || there {
		return ref, err
	}
	return ref, copyFile(s.retired(), ref.Path)
}

func copyFile(from, to string) (err error) {
	if err := atomicfile.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer closing(file, &err)
	return atomicfile.ReplaceFrom(to, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, file)
		return err
	})
}

func (s fileSide) reinstate(_ context.Context, w *work) error {
	staged, err := exists(s.exported())
	if err != nil {
		return err
	}
	if home := s.home(AccessUntouched).Path; staged && s.f.acceptedFor(s.m, s.f.Place.Rel(home)) { // what somebody put at LoopX's place was accepted by name
		if err := moveOnce(home, s.quarantined("found-")); err != nil {
			return err
		}
	}
	return moveOnce(s.exported(), s.home(AccessUntouched).Path)
}

func (s fileSide) clean(_ context.Context, w *work) error {
	if err := moveOnce(s.retired(), s.quarantined("retired-")); err != nil {
		return err
	}
	for _, prefix := range []string{"retired-", "found-"} {
		if err := s.list(w, s.quarantined(prefix)); err != nil {
			return err
		}
	}
	return nil
}

// dropExport sets an export aside, wherever the rollback had it. A rollback moves it
// home only after it was proved, and whatever stands there before that is not ours.
func (s fileSide) dropExport(_ context.Context, w *work) error {
	aside := s.quarantined("export-" + authority.DigestOf([]byte(w.request.OperationID)).String()[:16] + "-")
	there, err := exists(s.exported())
	if err != nil {
		return err
	}
	switch {
	case there:
		err = moveOnce(s.exported(), aside)
	case w.m.Phase == manifest.PhaseExported:
		err = moveOnce(s.home(AccessUntouched).Path, aside)
	}
	return errors.Join(err, s.list(w, aside))
}

// list puts a file of the quarantine on record, once, if it is there.
func (s fileSide) list(w *work, path string) error {
	digest, size, err := digestFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	where := s.f.Place.Rel(path)
	w.facts["quarantine"] = where
	for _, listed := range w.m.Quarantine {
		if listed.Where == where {
			return nil
		}
	}
	w.m.Quarantine = append(w.m.Quarantine, manifest.Quarantined{Kind: s.b.Kind, Identity: s.b.Identity, Where: where,
		SHA256: digest, Bytes: size, Why: w.request.Command, At: s.f.now()})
	return nil
}

// sqliteSide is a file that has a fence of its own and may have a log beside it.
type sqliteSide struct{ fileSide }

func (s sqliteSide) engage(ctx context.Context, fenceID string) error {
	return s.f.engageInside(ctx, s.home(AccessWrite), fenceID)
}

func (s sqliteSide) lift(ctx context.Context, fenceID string) error {
	ref := s.home(AccessWrite)
	if there, err := exists(ref.Path); err != nil || !there {
		return err
	}
	return s.f.liftInside(ctx, ref, fenceID)
}

func (s sqliteSide) settled(ctx context.Context, path string) error {
	if there, err := exists(path); err != nil || !there {
		return err
	}
	return s.f.Stores.Settle(ctx, s.at(path, AccessWrite))
}

func (s sqliteSide) setAside(ctx context.Context, w *work) error {
	mine, err := s.atHome(ctx)
	if err != nil {
		return err
	}
	if mine {
		if err := s.settled(ctx, s.home(AccessUntouched).Path); err != nil {
			return err
		}
	}
	return s.fileSide.setAside(ctx, w)
}

func (s sqliteSide) retire(ctx context.Context) error {
	if err := s.settled(ctx, s.home(AccessUntouched).Path); err != nil {
		return err
	}
	return s.fileSide.retire(ctx)
}

// export is a copy whose fence is lifted: it is behind the frozen selector, in a place
// where nobody looks, and has to take the rows that came since.
func (s sqliteSide) export(ctx context.Context) (Ref, error) {
	ref, err := s.fileSide.export(ctx)
	if err != nil || ref.Access == AccessCreate {
		return ref, err
	}
	return ref, s.f.liftAny(ctx, ref)
}

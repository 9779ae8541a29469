package cutover

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// journalSide is a file journal, which as a target has two things of its own. Its identity
// stands in a file beside it that all journals of the folder share: the target takes the
// one that is there, and brings one where there is none. And LoopX's own migration leaves
// the journal where it stood: one that is a beginning of the same history is moved out of
// the way for as long as the target stands there, and comes back with an abort or a
// rollback.
type journalSide struct{ fileSide }

// candidate has an identity file of its own, so that nothing of LoopX's place is needed
// to read it, or what became of it.
func (s journalSide) candidate(access Access) (Ref, error) {
	ref, err := s.fileSide.candidate(access)
	ref.Identity = s.b.Identity
	ref.IdentityFile = beside(ref.Path, s.f.Place.StoreIdentity())
	return ref, err
}

// beside is the place of a file's namesake beside another file.
func beside(path, namesake string) string {
	return filepath.Join(filepath.Dir(path), filepath.Base(namesake))
}

func (s journalSide) displaced() string {
	return filepath.Join(s.f.Folder.Retired(s.m.MigrationID), "displaced-"+s.base())
}

// taken lets a journal pass that is a beginning of the source's history.
func (s journalSide) taken(ctx context.Context) (string, error) {
	home := s.home(AccessUntouched)
	identity, err := s.f.folderIdentity(ctx, home)
	if err != nil {
		return "", err
	}
	if s.b.Identity != "" && identity != "" && identity != s.b.Identity {
		return s.f.Place.Rel(home.IdentityFile), nil
	}
	where, err := s.fileSide.taken(ctx)
	if where == "" || err != nil {
		return where, err
	}
	source, err := s.f.source(s.m).now(AccessUntouched)
	if err != nil {
		return "", err
	}
	begins, err := s.f.begins(ctx, home, source)
	if begins {
		where = ""
	}
	return where, err
}

// begins reports whether one store holds the beginning, or all, of another's history.
func (f *Flow) begins(ctx context.Context, first, whole Ref) (bool, error) {
	beginning, err := f.proveRef(ctx, first, nil, authority.Bookmark{})
	if class, _ := authority.ReasonOf(err); class == authority.ClassFailed || class == authority.ClassUnavailable {
		return false, nil // whatever it is, it is not that
	}
	if err != nil {
		return false, err
	}
	end := beginning.lineage.End.Cursor
	through, err := f.logicalThrough(ctx, whole, end)
	if busy(whole, err) && ctx.Err() == nil {
		whole.Access = AccessLive
		through, err = f.logicalThrough(ctx, whole, end)
	}
	return err == nil && end != 0 && through == beginning.lineage.Logical, err
}

// logicalThrough audits a store and returns the digest of its rows through a cursor, zero
// when it ends before.
func (f *Flow) logicalThrough(ctx context.Context, ref Ref, through authority.Cursor) (_ authority.Digest, err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return authority.Digest{}, err
	}
	defer closing(store, &err)
	rows := authority.NewLogicalHash()
	lineage, err := f.audit(ctx, store, nil, func(row authority.Row) error {
		if row.Cursor <= through {
			rows.Add(row)
		}
		return nil
	})
	if err != nil || lineage.End.Cursor < through {
		return authority.Digest{}, err
	}
	return rows.Digest(), nil
}

// folderIdentity is the identity that the journals of a folder share, empty where there
// is none yet.
func (f *Flow) folderIdentity(ctx context.Context, ref Ref) (authority.Identity, error) {
	there, err := exists(ref.IdentityFile)
	if !there {
		return "", err
	}
	return f.identityOf(ctx, ref)
}

// journalIdentity is the identity of the folder the target goes to. A migration that was
// begun keeps its own, and refuses when the folder has got another one since.
func (f *Flow) journalIdentity(ctx context.Context, now seen, to Target, p Plan) (Plan, error) {
	ref := f.ref(authority.KindFile, AccessUntouched)
	if to.elsewhere() {
		ref.Path, ref.IdentityFile = to.Path, beside(to.Path, ref.IdentityFile)
	}
	if p.Target.Elsewhere && !to.elsewhere() {
		return p, nil // a migration that was begun goes where it goes
	}
	found, err := f.folderIdentity(ctx, ref)
	if err != nil || found == "" {
		return p, err
	}
	if m := now.snap.Manifest; m != nil && m.MigrationID == p.MigrationID && m.Target.Identity != found {
		refusal := refuse(KindConflict, "target_identity_changed", "the journals' folder has got another store identity since this migration was begun; give it up first")
		refusal.Next = []string{CommandAbort}
		return p, refusal
	}
	p.Target.Identity = found
	return p, nil
}

// installed reports whether the target was built and is neither where it was built nor
// set aside. The identity does not tell: a displaced journal has the same.
func (s journalSide) installed() (bool, error) {
	staged, err := s.candidate(AccessUntouched)
	if err != nil {
		return false, err
	}
	for _, path := range []string{staged.Path, s.quarantined("")} {
		if there, err := exists(path); there || err != nil {
			return false, err
		}
	}
	return s.m.Copied != nil, nil
}

func (s journalSide) install(ctx context.Context) error {
	home := s.home(AccessUntouched)
	staged, err := s.candidate(AccessUntouched)
	if err != nil {
		return err
	}
	if there, err := exists(staged.Path); err != nil || !there {
		return err // it was moved before the step died
	}
	home.Identity = s.b.Identity
	if err := s.f.Stores.AdoptIdentity(home); err != nil {
		return err
	}
	if err := moveOnce(home.Path, s.displaced()); err != nil {
		return err
	}
	return moveOnce(staged.Path, home.Path)
}

func (s journalSide) uninstall(context.Context) error {
	staged, err := s.candidate(AccessUntouched)
	if err != nil {
		return err
	}
	return s.takeOut(staged.Path)
}

// takeOut moves the target away from LoopX's place, if it is there, and what it had
// displaced back.
func (s journalSide) takeOut(to string) error {
	home := s.home(AccessUntouched).Path
	installed, err := s.installed()
	if err != nil {
		return err
	}
	if installed {
		if err := moveOnce(home, to); err != nil {
			return err
		}
	}
	return moveOnce(s.displaced(), home)
}

func (s journalSide) setAside(_ context.Context, w *work) error {
	if s.b.Elsewhere {
		return nil
	}
	staged, err := s.candidate(AccessUntouched)
	if err != nil {
		return err
	}
	if err := moveOnce(staged.Path, s.quarantined("")); err != nil {
		return err
	}
	if err := s.takeOut(s.quarantined("")); err != nil {
		return err
	}
	return s.list(w, s.quarantined(""))
}

func (s journalSide) bringBack(context.Context) error {
	home := s.home(AccessUntouched).Path
	if there, err := exists(s.quarantined("")); err != nil || !there {
		return err // it was brought back, or never was set aside
	}
	if err := moveOnce(home, s.displaced()); err != nil {
		return err
	}
	return moveOnce(s.quarantined(""), home)
}

// targetAsideStands refuses to go on if a journal that was set aside is not what was
// compared: it has no fence inside, and a writer that kept it open may have written.
func (f *Flow) targetAsideStands(ctx context.Context, w *work) error {
	if w.m.Target.Kind != authority.KindFile {
		return nil
	}
	aside, err := f.target(w.m).candidate(AccessUntouched)
	if err != nil {
		return err
	}
	aside.Path = journalSide{fileSide{f: f, m: w.m, b: w.m.Target}}.quarantined("")
	store, err := f.Stores.Open(ctx, aside)
	if err != nil {
		return err
	}
	lineage, err := f.auditAgain(ctx, store, &w.m.Rollback.RolledBackFrom.End, nil)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if from := w.m.Rollback.RolledBackFrom; lineage.End.Cursor != from.Cursor || lineage.Logical != from.LogicalDigest {
		refusal := refuse(KindUnproved, "target_moved_while_frozen", "the target was bound at cursor %s and ends at %s: somebody wrote behind the fence", from.Cursor, lineage.End.Cursor)
		refusal.Next = []string{CommandAbort}
		return refusal
	}
	return nil
}

// longestPrint is no less than what one row takes in a journal of either format: a
// delta, or a projection, and never twice both.
func longestPrint(row authority.Row) int64 {
	const keys, escaped = 256, 6
	return int64(2*len(row.Projection) + len(row.Events) + len(row.Receipts) + escaped*len(row.OperationID) + keys)
}

// Measure adds up how long a journal would become. Add refuses with ReasonCapacity the row
// that makes it longer than LoopX can read.
type Measure interface {
	Add(row authority.Transaction) error
}

// journalTooLong measures a journal that takes the rows of a store after a cursor, if it
// can be too long at all.
func (f *Flow) journalTooLong(ctx context.Context, rows Ref, onto manifest.Binding, longest int64) ([]Hold, error) {
	if onto.Bytes+longest <= f.Stores.JournalLimit() {
		return nil, nil
	}
	err := f.measure(ctx, rows, onto)
	if busy(rows, err) && ctx.Err() == nil {
		rows.Access = AccessLive
		err = f.measure(ctx, rows, onto)
	}
	if _, reason := authority.ReasonOf(err); reason == authority.ReasonCapacity {
		return []Hold{{Code: "journal_too_large", Record: f.Place.Rel(f.Place.Journal()), Detail: "the journal would grow past what LoopX can read, 512 MiB of text"}}, nil
	}
	return nil, err
}

func (f *Flow) measure(ctx context.Context, rows Ref, onto manifest.Binding) (err error) {
	store, err := f.Stores.Open(ctx, rows)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	var journal Measure
	var newest authority.Canonical
	_, err = f.audit(ctx, store, nil, func(row authority.Row) (err error) {
		if row.Cursor <= onto.Cursor {
			newest = append(newest[:0], row.Projection...)
			return nil
		}
		if journal == nil {
			ref := Ref{Kind: authority.KindFile, Goal: f.Place.GoalID(), Identity: onto.Identity, Format: onto.Format}
			journal, err = f.Stores.Measure(ref, onto.Bytes, authority.Applied{Cursor: onto.Cursor, Revision: onto.Revision}, newest)
		}
		if err != nil {
			return err
		}
		return journal.Add(row.Transaction)
	})
	return err
}

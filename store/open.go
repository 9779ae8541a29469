package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/export"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/legacystore"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

// Opener opens the stores of this build. It holds nothing open itself.
type Opener struct {
	// Wait is how long to wait for another writer of a store; zero is what LoopX waits.
	Wait time.Duration
	// Scratch is the folder for private copies of databases that have a log;
	// empty is the system's folder for temporary files.
	Scratch string

	proofs *filestore.Proofs // nil: each journal that is opened has its own
}

// Remembering returns an Opener whose journals share what was proved of them: one whose
// bytes were proved twice in this process is known from then on by their SHA-256.
func Remembering() Opener { return Opener{proofs: &filestore.Proofs{}} }

var _ cutover.Stores = Opener{}

func (o Opener) postgres(ref cutover.Ref) (cutover.History, error) {
	if ref.Server == "" {
		return nil, &cutover.Refusal{Kind: cutover.KindUsage, Reason: "server_required",
			Sentence: "no PostgreSQL server is known: give --postgres postgres://HOST/DATABASE, without a password"}
	}
	options := pgstore.Options{Server: pgstore.Server{DSN: ref.Server, LockWait: o.Wait}, Tenant: ref.Tenant, GoalID: ref.Goal, ExpectedIdentity: ref.Identity, Quarantine: ref.Quarantine}
	if ref.Access == cutover.AccessWrite {
		options.Mode = pgstore.ReadWrite
	}
	store, err := pgstore.Open(options)
	if err != nil {
		return nil, err
	}
	return store, nil
}

func (o Opener) postgresCandidate(ctx context.Context, ref cutover.Ref) (bootstrap.Candidate, error) {
	options := pgstore.CandidateOptions{Server: pgstore.Server{DSN: ref.Server, LockWait: o.Wait}, Tenant: ref.Tenant, GoalID: ref.Goal,
		Identity: ref.Identity, CandidateID: ref.CandidateID}
	candidate, err := pgstore.OpenCandidate(ctx, options)
	// A place that is fenced still, since its goal was set aside, is free to a candidate.
	if _, reason := authority.ReasonOf(err); errors.Is(err, authority.ErrMissing) || reason == pgstore.ReasonFenceHeld {
		candidate, err = pgstore.CreateCandidate(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	return candidate, nil
}

// Unholdable names what a store of that kind cannot hold exactly of one transaction.
// SQLite's limits are the flow's own to check.
func (o Opener) Unholdable(ref cutover.Ref, row authority.Row) authority.Findings {
	switch ref.Kind {
	case authority.KindPostgreSQL:
		return pgstore.CheckRow(ref.Tenant, ref.Goal, row)
	case authority.KindFile:
		return filestore.CheckRow(row)
	}
	return nil
}

// Open names a store. As in LoopX nothing is looked up yet: a store that is not
// there says so when it is asked. Only AccessCreate lets a commit begin a file journal.
func (o Opener) Open(_ context.Context, ref cutover.Ref) (cutover.History, error) {
	switch ref.Kind {
	case authority.KindFile:
		return o.file(ref)
	case authority.KindSQLite:
		return o.sqlite(ref)
	case authority.KindPostgreSQL:
		return o.postgres(ref)
	case authority.KindLegacy:
		return o.legacy(ref)
	}
	return nil, unsupported(ref.Kind)
}

func (o Opener) file(ref cutover.Ref) (cutover.History, error) {
	options := filestore.Options{GoalID: ref.Goal, Existence: filestore.ExistingOnly, Access: filestore.ReadOnly, LockWait: o.Wait, Proofs: o.proofs}
	switch ref.Access {
	case cutover.AccessCreate:
		options.Access, options.Existence, options.NewFormat = filestore.ReadWrite, filestore.MayCreate, ref.Format
	case cutover.AccessWrite:
		options.Access = filestore.ReadWrite
	}
	store, err := filestore.OpenDocument(ref.Path, ref.IdentityFile, options)
	if err != nil {
		return nil, err // a nil *Store must not become a non-nil interface
	}
	return store, nil
}

// legacy shows the files that were kept, or those of the Goal as they are, behind the
// history that an earlier way back retained.
func (o Opener) legacy(ref cutover.Ref) (cutover.History, error) {
	options := legacystore.Options{GoalID: ref.Goal, Kept: ref.Path}
	if ref.Path == "" {
		place, err := authority.NewPlace(ref.Live.Root, ref.Goal)
		if err != nil {
			return nil, err
		}
		options.Live = func() (legacy.Files, error) { return legacy.Load(place, ref.Live.StateFile, ref.Live.EventLogs) }
	}
	if ref.Retained != "" {
		archive, err := export.OpenArchive(ref.Retained)
		if err != nil {
			return nil, err
		}
		options.Retained = archive
	}
	return legacystore.Open(options), nil
}

func (o Opener) sqlite(ref cutover.Ref) (cutover.History, error) {
	modes := map[cutover.Access]sqlitestore.Mode{
		cutover.AccessUntouched: sqlitestore.Untouched,
		cutover.AccessLive:      sqlitestore.Live,
		cutover.AccessWrite:     sqlitestore.ExistingOnly,
	}
	store, err := sqlitestore.Open(sqlitestore.Options{Path: ref.Path, GoalID: ref.Goal, ExpectedIdentity: ref.Identity,
		Mode: modes[ref.Access], BusyWait: o.Wait, Scratch: o.Scratch})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Candidate opens a target under construction and makes it if it is not there, with
// the identity the reference gives. A place that is taken by anything else is
// authority.ReasonForeignStore and stays as it is.
func (o Opener) Candidate(ctx context.Context, ref cutover.Ref) (bootstrap.Candidate, error) {
	if ref.Kind == authority.KindPostgreSQL {
		return o.postgresCandidate(ctx, ref)
	}
	if ref.Kind == authority.KindFile {
		return o.journalCandidate(ctx, ref)
	}
	if ref.Kind != authority.KindSQLite {
		return nil, unsupported(ref.Kind)
	}
	options := sqlitestore.CandidateOptions{Path: ref.Path, GoalID: ref.Goal, Identity: ref.Identity, BusyWait: o.Wait, Scratch: o.Scratch}
	candidate, err := sqlitestore.OpenCandidate(ctx, options)
	if errors.Is(err, authority.ErrMissing) {
		candidate, err = sqlitestore.CreateCandidate(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	return candidate, nil
}

func (o Opener) journalCandidate(ctx context.Context, ref cutover.Ref) (bootstrap.Candidate, error) {
	candidate, err := filestore.OpenCandidate(ctx, filestore.CandidateOptions{Path: ref.Path, IdentityPath: ref.IdentityFile, GoalID: ref.Goal, Identity: ref.Identity})
	if err != nil {
		return nil, err
	}
	return candidate, nil
}

// AdoptIdentity gives the folder of a journal the identity of the reference.
func (o Opener) AdoptIdentity(ref cutover.Ref) error {
	return filestore.AdoptIdentity(ref.IdentityFile, ref.Identity)
}

// JournalLimit is the longest journal LoopX reads, in UTF-16 units.
func (o Opener) JournalLimit() int64 { return filestore.MaxUnits }

// Measure begins to measure a journal that grows.
func (o Opener) Measure(ref cutover.Ref, size int64, end authority.Applied, newest authority.Canonical) (cutover.Measure, error) {
	measure, err := filestore.NewMeasure(ref.Goal, ref.Identity, ref.Format, size, end, newest)
	if err != nil {
		return nil, err
	}
	return measure, nil
}

// Settle empties a database's log into it, so that the one file holds everything and
// can be moved; nothing stands beside it afterwards. A journal is one file always. A
// database that somebody has open is authority.ReasonWriteUnavailable.
func (o Opener) Settle(ctx context.Context, ref cutover.Ref) (err error) {
	if ref.Kind != authority.KindSQLite {
		return nil
	}
	if ref.Identity == "" {
		ref.Access = cutover.AccessUntouched
		if ref.Identity, err = o.identity(ctx, ref); err != nil {
			return err
		}
	}
	database, err := sqlitestore.OpenCandidate(ctx, sqlitestore.CandidateOptions{Path: ref.Path, GoalID: ref.Goal,
		Identity: ref.Identity, BusyWait: o.Wait, Scratch: o.Scratch})
	if err != nil {
		return err
	}
	return errors.Join(database.Seal(ctx), database.Close())
}

func (o Opener) identity(ctx context.Context, ref cutover.Ref) (authority.Identity, error) {
	store, err := o.Open(ctx, ref)
	if err != nil {
		return "", err
	}
	identity, err := store.Identity(ctx)
	return identity, errors.Join(err, store.Close())
}

// Suits refuses a folder whose file system is no place for a database: a network
// file system, where a write-ahead log loses data without a message. The nearest
// folder that exists is looked at. The refusal is authority.ReasonFileSystem.
func (o Opener) Suits(dir string) error { return sqlitestore.CheckFolder(dir) }

func unsupported(kind authority.Kind) error {
	return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "store_kind_not_supported",
		Sentence: fmt.Sprintf("this build has no %s store to do that with; nothing was changed", kind)}
}

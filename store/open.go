package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

// Opener opens the stores of this build. It holds nothing open itself.
type Opener struct {
	// Wait is how long to wait for another writer of a store; zero is what LoopX waits.
	Wait time.Duration
	// Scratch is the folder for private copies of databases that have a log;
	// empty is the system's folder for temporary files.
	Scratch string
}

var _ cutover.Stores = Opener{}

// Open names a store. As in LoopX nothing is looked up yet: a store that is not
// there says so when it is asked. Only AccessCreate lets a commit begin a file journal.
func (o Opener) Open(_ context.Context, ref cutover.Ref) (cutover.History, error) {
	switch ref.Kind {
	case authority.KindFile:
		return o.file(ref)
	case authority.KindSQLite:
		return o.sqlite(ref)
	}
	return nil, unsupported(ref.Kind)
}

func (o Opener) file(ref cutover.Ref) (cutover.History, error) {
	options := filestore.Options{GoalID: ref.Goal, Existence: filestore.ExistingOnly, Access: filestore.ReadOnly, LockWait: o.Wait}
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

// Settle empties a database's log into it, so that the one file holds everything and
// can be moved; nothing stands beside it afterwards. A journal is one file always. A
// database that somebody has open is authority.ReasonWriteUnavailable.
func (o Opener) Settle(ctx context.Context, ref cutover.Ref) (err error) {
	if ref.Kind == authority.KindFile {
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

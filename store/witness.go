package store

import (
	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
	"github.com/loopx-project/loopx-migrate/witness"
)

// Witness names a history for the witness, which reads it without the stores of this
// module. Nobody may write to a file or database meanwhile. release gives up what was
// opened.
func (o Opener) Witness(name string, ref cutover.Ref) (history *witness.History, release func() error, err error) {
	release = func() error { return nil }
	switch ref.Kind {
	case authority.KindFile:
		history, err = witness.FileJournal(name, ref.Path, ref.IdentityFile)
		return history, release, err
	case authority.KindSQLite:
		db, release, err := sqlitestore.Database(ref.Path, o.Scratch)
		if err != nil {
			return nil, nil, err
		}
		return witness.SQLite(name, db, sqlitestore.Memory), release, nil
	case authority.KindPostgreSQL:
		db, err := pgstore.Server{DSN: ref.Server, LockWait: o.Wait}.Database()
		if err != nil {
			return nil, nil, err
		}
		return witness.PostgreSQL(name, db, ref.Tenant, ref.Goal), db.Close, nil
	}
	return nil, nil, unsupported(ref.Kind)
}

package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/loopx-project/loopx-migrate/authority"
)

// tenant is who has a place already.
type tenant int

const (
	nobody  tenant = iota // no file, an empty file, or a database without version or object
	thisOne               // an authority of this Goal, version 2
)

// tenantOf looks who has the path, without a byte of it or beside it changing. Whatever
// is neither free nor an authority of this Goal is refused, each with its own sentence.
func tenantOf(ctx context.Context, o Options) (tenant, authority.Identity, error) {
	info, err := os.Stat(o.Path)
	if err != nil {
		return nobody, "", unlessAbsent(err)
	}
	if !info.Mode().IsRegular() {
		return nobody, "", foreign("the path is no regular file")
	}
	if mark, err := look(o.Path); err != nil || info.Size() == 0 && !mark.logged() {
		return nobody, "", err
	}
	o.Mode = Untouched
	var who tenant
	var id authority.Identity
	looker := &Store{options: o}
	err = looker.read(ctx, func(in *session) (err error) {
		if in == nil {
			return nil
		}
		who, id, err = in.tenant(o.GoalID)
		return err
	})
	return who, id, errors.Join(notADatabase(err), looker.Close())
}

func foreign(detail string) *refusal {
	return refuse(authority.ClassFailed, authority.ReasonForeignStore, detail).Field("path")
}

// notADatabase gives a sentence to the driver's complaint about a file that is none.
func notADatabase(err error) error {
	var said *sqlite.Error
	if errors.As(err, &said) && said.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return foreign("the file is not a SQLite database").Because(err)
	}
	return err
}

func (s *session) tenant(goal string) (tenant, authority.Identity, error) {
	vacant, err := s.vacant()
	if vacant {
		return nobody, "", nil
	}
	var said *refusal
	if err != nil && !errors.As(err, &said) {
		return nobody, "", err
	}
	var user int64
	if err := s.row([]any{&user}, "PRAGMA user_version"); err != nil {
		return nobody, "", err
	}
	owner, id, err := s.owner()
	switch {
	case err != nil:
		return nobody, "", err
	case owner == "" || user != 1 && user != 2:
		return nobody, "", foreign("the database is somebody else's: it holds tables and is no LoopX authority")
	case user == 1:
		return nobody, "", refuse(authority.ClassFailed, authority.ReasonFormatUnsupported,
			"the database is a LoopX authority of schema version 1, which LoopX itself must migrate first").Field("user_version")
	case owner != goal:
		return nobody, "", foreign("the database is the authority of another Goal")
	}
	return thisOne, id, nil
}

// owner reads the Goal and the identity out of metadata of either version, empty when
// there is no such table or row.
func (s *session) owner() (goal string, id authority.Identity, err error) {
	var tables int
	err = s.row([]any{&tables}, "SELECT COUNT(*) FROM pragma_table_info('metadata') WHERE name IN ('singleton', 'schema_version', 'goal_id', 'store_identity')")
	if err != nil || tables != 4 {
		return "", "", err
	}
	var owner, identity any
	err = s.row([]any{&owner, &identity},
		"SELECT goal_id, store_identity FROM metadata WHERE singleton = 1 AND schema_version GLOB 'loopx_sqlite_authority_store_v*'")
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", nil
	}
	goal, _ = owner.(string)
	text, _ := identity.(string)
	return goal, authority.Identity(text), err
}

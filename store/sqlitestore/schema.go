package sqlitestore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// schema is LoopX's, character for character: SQLite keeps the text, and a database
// of ours shows the same text as one of LoopX's.
var schema = []string{
	`CREATE TABLE metadata (
  singleton INTEGER PRIMARY KEY CHECK(singleton = 1),
  schema_version TEXT NOT NULL, goal_id TEXT NOT NULL, store_identity TEXT NOT NULL
)`,
	`CREATE TABLE commits (
  cursor INTEGER PRIMARY KEY CHECK(cursor > 0),
  operation_id TEXT NOT NULL UNIQUE,
  commit_digest TEXT NOT NULL CHECK(length(commit_digest) = 64),
  state_digest TEXT NOT NULL CHECK(length(state_digest) = 64),
  parent_state_digest TEXT CHECK(parent_state_digest IS NULL OR length(parent_state_digest) = 64),
  delta TEXT NOT NULL, events TEXT NOT NULL, receipts TEXT NOT NULL
)`,
	`CREATE TABLE checkpoints (
  cursor INTEGER PRIMARY KEY CHECK(cursor > 0),
  projection TEXT NOT NULL,
  projection_digest TEXT NOT NULL CHECK(length(projection_digest) = 64)
)`,
	`CREATE TABLE head (
  singleton INTEGER PRIMARY KEY CHECK(singleton = 1),
  cursor INTEGER NOT NULL REFERENCES commits(cursor),
  projection TEXT NOT NULL,
  state_digest TEXT NOT NULL CHECK(length(state_digest) = 64)
)`,
	`PRAGMA user_version = 2`,
}

// vacant reports whether the database is new: version 0 and not one object in it.
// Objects without a version are somebody else's and refused.
func (s *session) vacant() (bool, error) {
	var user, objects int64
	if err := s.row([]any{&user}, "PRAGMA user_version"); err != nil || user != 0 {
		return false, err
	}
	if err := s.row([]any{&objects}, "SELECT COUNT(*) FROM sqlite_master"); err != nil {
		return false, err
	}
	if objects != 0 {
		return false, violation(notEmptyAuthority).Field("sqlite_master")
	}
	return true, nil
}

// install makes the tables and mints the identity, unless it is there already.
func (s *session) install(ctx context.Context, id authority.Identity) error {
	return s.writing(ctx, "install schema", func() error {
		vacant, err := s.vacant()
		if err != nil || !vacant {
			return err
		}
		for _, statement := range schema {
			if _, err := s.conn.ExecContext(context.Background(), statement); err != nil {
				return err
			}
		}
		return s.exec("INSERT INTO metadata (singleton, schema_version, goal_id, store_identity) VALUES (1, ?, ?, ?)",
			schemaVersion, s.goal, string(id))
	})
}

// MintIdentity makes a new identity from 128 random bits.
func MintIdentity() (authority.Identity, error) {
	var bits [16]byte
	if _, err := rand.Read(bits[:]); err != nil {
		return "", fmt.Errorf("mint a store identity: %w", err)
	}
	return authority.Identity("sqlite:" + hex.EncodeToString(bits[:])), nil
}

// ensure makes s.writer a writing session on an installed database.
func (s *Store) ensure(ctx context.Context) error {
	o := s.options
	if s.writer != nil && s.writer.current(o.Path) {
		return nil
	}
	if err := s.drop(); err != nil {
		return err
	}
	how := accessWrite
	if _, err := os.Stat(o.Path); unlessAbsent(err) == nil && err != nil {
		if o.Mode != ReadWrite {
			return violation("SQLite authority store is missing").Field("path")
		}
		if err := makeFolder(filepath.Dir(o.Path)); err != nil {
			return err
		}
		how = accessCreate
	}
	vacant, err := firstLook(ctx, how, o)
	if err != nil {
		return err
	}
	s.writer, err = openWriter(ctx, vacant, accessWrite, o)
	return err
}

// firstLook decides whether the database is one to write to, before a connection
// that would turn it into a WAL database is opened.
func firstLook(ctx context.Context, how access, o Options) (vacant bool, err error) {
	in, err := openSession(ctx, o.Path, how, keepJournal, o)
	if err != nil {
		return false, err
	}
	err = in.reading(ctx, func() error {
		if vacant, err = in.vacant(); err != nil || vacant {
			return err
		}
		return in.admit()
	})
	return vacant, errors.Join(err, in.close())
}

// openWriter opens a writing session and installs the schema where there is none.
func openWriter(ctx context.Context, vacant bool, how access, o Options) (*session, error) {
	in, err := openSession(ctx, o.Path, how, walJournal, o)
	if err != nil || !vacant {
		return in, err
	}
	id := o.ExpectedIdentity
	if id == "" {
		id, err = MintIdentity()
	}
	if err == nil {
		err = in.install(ctx, id)
	}
	if err == nil {
		err = faultio.SyncDir(filepath.Dir(o.Path))
	}
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

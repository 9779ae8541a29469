package sqlitestore

import (
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Mode says what a store may do to its file, and what it may leave behind.
type Mode int

const (
	// Untouched reads only, changes no byte of any file and leaves none behind.
	// A database that never rests for BusyWait is ReasonReadUnavailable.
	Untouched Mode = iota
	// Live reads only, over an ordinary connection. It follows a database that is
	// being written and leaves -wal and -shm behind, as LoopX's own reads do.
	Live
	// ExistingOnly reads and commits, and never makes a database. As in LoopX, an
	// empty file counts as a database that only lacks its tables.
	ExistingOnly
	// ReadWrite reads and commits, and makes the database when it is not there.
	ReadWrite
)

func (m Mode) writes() bool { return m == ExistingOnly || m == ReadWrite }

// DefaultBusyWait is how long LoopX waits for another writer, and so do we.
const DefaultBusyWait = 5 * time.Second

// Options says which database, whose, and how.
type Options struct {
	// Path is the database file.
	Path string
	// GoalID is the Goal the database must belong to.
	GoalID string
	// ExpectedIdentity, when not empty, is the only identity accepted. A database
	// that is made takes it; without it a random one is minted.
	ExpectedIdentity authority.Identity
	Mode             Mode
	// BusyWait is how long to wait for another writer; zero is DefaultBusyWait.
	BusyWait time.Duration
	// Scratch is the folder for private copies; empty is the system's folder for
	// temporary files. A copy takes as much room as the database and its log.
	Scratch string
}

// DatabaseName is the file name LoopX gives a Goal's database.
func DatabaseName(goal string) string {
	return "authority-" + authority.GoalHash(goal) + ".sqlite"
}

// Store is one Goal's SQLite authority. It is safe for concurrent use; verbs run
// one at a time, audits and views beside them on connections of their own.
type Store struct {
	options Options

	mu     sync.Mutex
	held   *lens // what the last verb read through, if it can serve the next
	writer *session
	closed bool
}

var (
	_ authority.Store   = (*Store)(nil)
	_ authority.Auditor = (*Store)(nil)
	_ authority.Viewer  = (*Store)(nil)
)

// Open names a store. Nothing is looked up: an absent database is an answer of the
// verbs. A Goal id that is no trimmed non-empty text, or holds a lone surrogate, which
// SQLite cannot keep, is ClassFailed/ReasonProtocolViolation.
func Open(options Options) (*Store, error) {
	path, err := filepath.Abs(options.Path)
	if err != nil {
		return nil, err
	}
	options.Path = path
	if options.BusyWait <= 0 {
		options.BusyWait = DefaultBusyWait
	}
	s := &Store{options: options}
	if !canonical.ValidID(options.GoalID) || !utf8.ValidString(options.GoalID) {
		return nil, s.answer("open", violation("Goal id is invalid").Field("goal_id"), unreadable)
	}
	if id := options.ExpectedIdentity; id != "" && !id.Valid(authority.KindSQLite) {
		return nil, s.answer("open", violation(metadataInvalid).Field("store_identity"), unreadable)
	}
	return s, nil
}

// Kind is authority.KindSQLite.
func (s *Store) Kind() authority.Kind { return authority.KindSQLite }

// GoalID is the Goal the store was opened for.
func (s *Store) GoalID() string { return s.options.GoalID }

// Close ends the store's connections. In the writing modes the last connection to a
// database empties its log into it and removes -wal and -shm.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.drop()
}

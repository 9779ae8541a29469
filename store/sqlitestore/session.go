package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// session is one connection, its prepared statements and what it remembers. It is
// used by one goroutine at a time.
type session struct {
	pool *sql.DB
	conn *sql.Conn
	stmt map[string]*sql.Stmt

	file     os.FileInfo // what was opened, to notice that another stands there now
	goal     string
	expected authority.Identity
	identity authority.Identity

	admitted memory // when the identity was checked
	counted  memory // when the rows were counted
	rows     uint64 // how many there were, 1..rows without a gap
}

// memory is something proved at one PRAGMA data_version, which changes when, and
// only when, another connection has committed.
type memory struct {
	known   bool
	version int64
}

func (m memory) holds(version int64) bool { return m.known && m.version == version }

// openSession opens one connection. The file must belong to the Goal and, where an
// identity is expected, be of it; that is checked with the first transaction.
func openSession(ctx context.Context, path string, how access, mode journal, o Options) (*session, error) {
	link, err := newConnector(path, how, o.BusyWait, mode)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(link)
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	s := &session{pool: pool, conn: conn, stmt: map[string]*sql.Stmt{}, goal: o.GoalID, expected: o.ExpectedIdentity}
	if s.file, err = os.Stat(path); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// current reports whether the file at path is still the one that was opened.
func (s *session) current(path string) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, s.file)
}

// close ends statements first: a connection with a live statement would linger, and
// its -wal with it.
func (s *session) close() error {
	var errs []error
	for _, stmt := range s.stmt {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close(), s.pool.Close())...)
}

// prepared returns the statement for a text, compiled once a connection.
func (s *session) prepared(text string) (*sql.Stmt, error) {
	if stmt := s.stmt[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	s.stmt[text] = stmt
	return stmt, nil
}

// Statements run without the caller's context: an interrupted statement would cost
// the connection, and none runs long. Loops ask the context between rows.

func (s *session) exec(text string, args ...any) error {
	stmt, err := s.prepared(text)
	if err != nil {
		return err
	}
	_, err = stmt.Exec(args...)
	return err
}

func (s *session) query(text string, args ...any) (*sql.Rows, error) {
	stmt, err := s.prepared(text)
	if err != nil {
		return nil, err
	}
	return stmt.Query(args...)
}

// row scans the only row of a query; sql.ErrNoRows when there is none.
func (s *session) row(dest []any, text string, args ...any) error {
	stmt, err := s.prepared(text)
	if err != nil {
		return err
	}
	return stmt.QueryRow(args...).Scan(dest...)
}

// reading runs work in a read transaction: everything work sees is one state.
func (s *session) reading(ctx context.Context, work func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.exec("BEGIN"); err != nil {
		return err
	}
	return errors.Join(work(), s.exec("ROLLBACK"))
}

// writing runs work in a write transaction and commits it. The wait for another
// writer ends with ctx. An error before COMMIT rolls back and nothing was written;
// an error of COMMIT is uncertain.
func (s *session) writing(ctx context.Context, label string, work func() error) error {
	if _, err := s.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		// A context that ends just as the lock is had leaves the transaction open; when
		// there is none this fails and means nothing.
		_ = s.exec("ROLLBACK")
		return err
	}
	if err := work(); err != nil {
		return errors.Join(err, s.exec("ROLLBACK"))
	}
	return s.commit(label)
}

// commit ends the transaction. Whether a COMMIT that failed has happened all the same
// is not known, so nothing is remembered and the answer is ambiguous.
func (s *session) commit(label string) error {
	err := faultio.Commit(label, func() error { return s.exec("COMMIT") })
	if err == nil {
		return nil
	}
	s.admitted, s.counted = memory{}, memory{}
	// SQLite may have rolled back already; then this fails and means nothing.
	_ = s.exec("ROLLBACK")
	return refuse(authority.ClassAmbiguous, authority.ReasonOutcomeUnknown, outcomeUnknown).Because(err)
}

const outcomeUnknown = "SQLite COMMIT outcome is unknown; read the operation receipt before any retry"

// version is PRAGMA data_version; inside a transaction it stands still.
func (s *session) version() (version int64, err error) {
	err = s.row([]any{&version}, "PRAGMA data_version")
	return version, err
}

// pause waits a little before another try, unless the context or the deadline ends it.
func pause(ctx context.Context, wait time.Duration, deadline time.Time) error {
	left := time.Until(deadline)
	if left <= 0 {
		return errNeverRested
	}
	return lockfile.Pause(ctx, min(wait, left))
}

var errNeverRested = errors.New("the database was written each time it was read")

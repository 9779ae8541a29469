package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// Case 54: what belongs to a connection is set on every one a pool opens.
func TestEveryConnectionHasItsPragmas(t *testing.T) {
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	link, err := newConnector(path, accessWrite, 1234*time.Millisecond, walJournal)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(link)
	defer requireClosed(t, pool)
	for range 8 {
		conn, err := pool.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer requireClosed(t, conn)
		for pragma, want := range map[string]string{"busy_timeout": "1234", "foreign_keys": "1", "synchronous": "2", "journal_mode": "wal"} {
			var got string
			if err := conn.QueryRowContext(context.Background(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, %v; want %s", pragma, got, err, want)
			}
		}
	}
	if pool.Stats().OpenConnections != 8 {
		t.Errorf("%d connections, want 8", pool.Stats().OpenConnections)
	}
}

// A database that cannot be given a write-ahead log is refused, not written otherwise.
func TestNoWALNoConnection(t *testing.T) {
	link, err := newConnector("", accessWrite, time.Second, walJournal)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(link) // the empty name is a temporary database, which has no log
	defer requireClosed(t, pool)
	_, err = pool.Conn(context.Background())
	requireRefusal(t, "temporary database", answerAs("open", goalSmall, err, unreadable),
		authority.ClassFailed, authority.ReasonFileSystem, "journal_mode")
}

// Another writer is waited for; when it outlasts the wait, nothing was written.
func TestBusyWriter(t *testing.T) {
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	o := Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly, BusyWait: 50 * time.Millisecond}
	holder := openStore(t, o)
	o2 := o
	o2.BusyWait = time.Minute
	patient, hasty := openStore(t, o2), openStore(t, o)
	request := nextOfSmall("op-013")
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 2)
	go func() {
		done <- holder.write(context.Background(), "hold", func(*session) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	_, err := hasty.Commit(context.Background(), request)
	requireRefusal(t, "hasty", err, authority.ClassFailed, authority.ReasonTransactionFailed, "")
	go func() {
		_, err := patient.Commit(context.Background(), request)
		done <- err
	}()
	close(release)
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("patient: %v", err)
		}
	}
}

func nextOfSmall(operation string) authority.CommitRequest {
	return authority.CommitRequest{
		Expected: authority.Revision(string(identitySmall) + ":12"), OperationID: operation,
		Events: []byte(`[]`), Projection: []byte(`{"a":1}`), Receipts: []byte(`[]`),
	}
}

// Case 59: the linked SQLite is one that LoopX opens databases of.
func TestLinkedSQLiteIsAdmitted(t *testing.T) {
	var asked Linked
	db, err := sql.Open("sqlite", ":memory:")
	if err == nil {
		err = errors.Join(db.QueryRow("SELECT sqlite_version(), sqlite_source_id()").Scan(&asked.Version, &asked.SourceID), db.Close())
	}
	linked := Version()
	if err != nil || linked != asked || !AdmittedByLoopX(linked.Version) || len(linked.SourceID) < 60 {
		t.Errorf("linked SQLite %+v, %v", linked, err)
	}
	for version, want := range map[string]bool{
		"3.44.5": false, "3.44.6": true, "3.45.9": false, "3.49.2": false, "3.50.6": false, "3.50.7": true,
		"3.51.2": false, "3.51.3": true, "3.52.0": true, "3.53.4": true, "4.0.0": true, "3.51": false, "": false, "x.y.z": false, "2.99.9": false,
	} {
		if AdmittedByLoopX(version) != want {
			t.Errorf("%q admitted: %t", version, !want)
		}
	}
}

// A database whose last commits stand in the log only, left by a writer that died.
func databaseWithLog(t *testing.T) string {
	t.Helper()
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	s := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
	if _, err := s.Commit(context.Background(), nextOfSmall("op-013")); err != nil {
		t.Fatal(err)
	}
	crashed := filepath.Join(t.TempDir(), DatabaseName(goalSmall))
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(path+suffix, crashed+suffix); err != nil {
			t.Fatal(err)
		}
	}
	return crashed
}

func TestUntouchedReadsTheLogAndChangesNothing(t *testing.T) {
	path := databaseWithLog(t)
	before := fixture.TreeHash(t, filepath.Dir(path))
	scratch := t.TempDir()
	s := openStore(t, Options{Path: path, GoalID: goalSmall, Scratch: scratch})
	head, err := s.Load(context.Background())
	if err != nil || head.Cursor != 13 || string(head.Projection) != `{"a":1}` {
		t.Errorf("head %+v, %v; the 13th commit stands in the log", head, err)
	}
	lineage, err := s.Audit(context.Background(), nil, nil)
	if err != nil || lineage.Transactions != 13 {
		t.Errorf("audit %+v, %v", lineage, err)
	}
	requireClosed(t, s)
	fixture.Unchanged(t, filepath.Dir(path), before)
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("private copies left: %v, %v", left, err)
	}
	// Case 56: the file without its log is an older history, and says so.
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Path: path, GoalID: goalSmall})
	if head, err := s.Load(context.Background()); err != nil || head.Cursor != 12 {
		t.Errorf("without the log: head %s, %v", head.Cursor, err)
	}
	_, err = s.Audit(context.Background(), &lineage.End, nil)
	requireRefusal(t, "bookmark of the log", err, authority.ClassFailed, authority.ReasonRewritten, "")
}

// A handle that read before a commit sees it afterwards, in every mode, also when the
// file has been replaced by another one.
func TestReadersFollow(t *testing.T) {
	for _, mode := range []Mode{Untouched, Live, ExistingOnly} {
		path := databaseOf(t, "sqlite-v2-small", goalSmall)
		reader := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: mode})
		writer := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
		requireHead(t, reader, 12)
		if _, err := writer.Commit(context.Background(), nextOfSmall("op-013")); err != nil {
			t.Fatal(err)
		}
		requireHead(t, reader, 13)
		requireClosed(t, writer)
		requireHead(t, reader, 13)
		requireClosed(t, reader)

		reader = openStore(t, Options{Path: path, GoalID: goalSmall, Mode: mode})
		requireHead(t, reader, 13)
		if err := os.Rename(databaseOf(t, "sqlite-v2-small", goalSmall), path); err != nil {
			t.Fatal(err)
		}
		if mode == Untouched {
			requireHead(t, reader, 12)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_, err := reader.Load(context.Background())
		requireRefusal(t, "removed", err, authority.ClassMissing, authority.ReasonNone, "")
	}
}

func requireHead(t *testing.T, s *Store, cursor authority.Cursor) {
	t.Helper()
	if head, err := s.Load(context.Background()); err != nil || head.Cursor != cursor {
		t.Errorf("head %s, %v; want %s", head.Cursor, err, cursor)
	}
}

// A commit while an Untouched audit is under way, once into the log and once into the
// file itself: each row is shown once, in order, and the end is the new head.
func TestUntouchedAuditBesideAWriter(t *testing.T) {
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	reader := openStore(t, Options{Path: path, GoalID: goalSmall, BusyWait: time.Minute})
	writer := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
	var rows authority.Cursor
	lineage, err := reader.Audit(context.Background(), nil, func(row authority.Row) error {
		if rows++; row.Cursor != rows {
			t.Errorf("row %s shown as the %sth", row.Cursor, rows)
		}
		switch row.Cursor {
		case 3:
			_, err := writer.Commit(context.Background(), nextOfSmall("op-013"))
			return err
		case 7:
			return writer.Close() // empties the log into the file
		}
		return nil
	})
	if err != nil || rows != 13 || lineage.End.Cursor != 13 || lineage.Transactions != 13 {
		t.Errorf("%s rows, %+v, %v", rows, lineage.End, err)
	}
}

// A view of an Untouched database that was written says so and answers nothing.
func TestUntouchedViewOfAWrittenDatabase(t *testing.T) {
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	view, err := openStore(t, Options{Path: path, GoalID: goalSmall}).View(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer requireClosed(t, view)
	writer := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
	if _, err := writer.Commit(context.Background(), nextOfSmall("op-013")); err != nil {
		t.Fatal(err)
	}
	_, err = view.Load(context.Background())
	requireRefusal(t, "load", err, authority.ClassUnavailable, authority.ReasonReadUnavailable, "")
	_, err = view.Scan(context.Background(), 0, 5)
	requireRefusal(t, "scan", err, authority.ClassUnavailable, authority.ReasonReadUnavailable, "")
}

// A database and what SQLite keeps beside it belong to their owner alone, like every other
// file of a private runtime root, while they are written and afterwards.
func TestDatabaseIsPrivate(t *testing.T) {
	o := candidateOptions(t, goalSmall, identitySmall)
	c := newCandidate(t, o)
	requireLoaded(t, c, rowsOfCommits(t, fixture.Commits(t, "file-v0-small"), 0))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(o.Path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%q is %v", suffix, info.Mode())
		}
	}
}

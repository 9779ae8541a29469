package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// access is how a connection opens the file, as SQLite's URI spells it.
type access string

const (
	accessRead      access = "mode=ro"
	accessWrite     access = "mode=rw"
	accessCreate    access = "mode=rwc"
	accessImmutable access = "mode=ro&immutable=1"
)

// journal is what a connection demands of the journal mode.
type journal int

const (
	// keepJournal takes the file as it is: a reader, or a first look at a file
	// that may be somebody else's, must not turn it into a WAL database.
	keepJournal journal = iota
	// walJournal sets WAL and reads it back.
	walJournal
)

// pragmas belong to a connection and not to a database, so that a pool must set
// them on each one it opens. Each is read back.
var pragmas = []struct {
	name string
	want int64
}{
	{"foreign_keys", 1},
	{"synchronous", 2},
}

// connector opens connections that have their pragmas set.
type connector struct {
	driver.Connector
	busy    time.Duration
	journal journal
	made    string // path of a database that connecting may make, else empty
}

var processWide sync.Once

// newConnector opens nothing yet.
//
// Two switches of the driver hold for the whole process and are thrown before the
// first database is opened. OFD locks: without them, closing any other descriptor of
// a database file (and Untouched copies such files) would drop the locks SQLite
// holds on it. fdatasync: as durable as fsync, and what C builds of SQLite use. Where
// the platform lacks one of them the default stays, which is correct but for that
// hazard and slower.
func newConnector(path string, how access, busy time.Duration, mode journal) (*connector, error) {
	processWide.Do(func() {
		_, _ = sqlite.OFDLocking(true)
		_, _ = sqlite.Fdatasync(true)
	})
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: string(how)}
	base, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, err
	}
	link := &connector{Connector: base, busy: busy, journal: mode}
	if how == accessCreate {
		link.made = path
	}
	return link, nil
}

// Connect opens a connection and refuses to hand it out unless every pragma was
// read back as it was set.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.made != "" {
		if err := faultio.Born(c.made); err != nil {
			return nil, err
		}
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// inherit gives a database that is still empty the access of its folder, before SQLite
// makes the files beside it, which get the database's own.
func (c *connector) inherit() error {
	if c.made == "" {
		return nil
	}
	info, err := os.Stat(c.made)
	if err != nil || info.Size() > 0 {
		return unlessAbsent(err)
	}
	return faultio.Inherit(c.made)
}

func (c *connector) prepare(ctx context.Context, conn driver.Conn) error {
	if err := c.inherit(); err != nil {
		return err
	}
	// First of all, since the others may wait for a lock.
	wait := c.busy.Milliseconds()
	if err := setPragma(ctx, conn, "busy_timeout", wait, wait); err != nil {
		return err
	}
	for _, p := range pragmas {
		if err := setPragma(ctx, conn, p.name, p.want, p.want); err != nil {
			return err
		}
	}
	if c.journal == keepJournal {
		return nil
	}
	mode, err := askPragma(ctx, conn, "PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if text, _ := mode.(string); !strings.EqualFold(text, "wal") {
		return refuse(authority.ClassFailed, authority.ReasonFileSystem,
			fmt.Sprintf("SQLite keeps journal_mode %v where a write-ahead log is needed", mode)).Field("journal_mode")
	}
	return nil
}

func setPragma(ctx context.Context, conn driver.Conn, name string, value, want int64) error {
	if _, err := askPragma(ctx, conn, fmt.Sprintf("PRAGMA %s = %d", name, value)); err != nil {
		return err
	}
	got, err := askPragma(ctx, conn, "PRAGMA "+name)
	if err != nil {
		return err
	}
	if got != want {
		return refuse(authority.ClassFailed, authority.ReasonFileSystem,
			fmt.Sprintf("SQLite keeps %s at %v, not %d", name, got, want)).Field(name)
	}
	return nil
}

// askPragma runs a pragma and returns the first column of its first row, or nil.
func askPragma(ctx context.Context, conn driver.Conn, text string) (driver.Value, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, text, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	value := make([]driver.Value, len(rows.Columns()))
	err = rows.Next(value)
	if errors.Is(err, io.EOF) || len(value) == 0 {
		value, err = []driver.Value{nil}, nil
	}
	if err = errors.Join(err, rows.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return value[0], nil
}

package sqlitestore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// settling is how long a file must have been left alone before its times can tell
// one write from the next: kernels count them in steps of up to 10 ms.
const settling = 20 * time.Millisecond

// stamp is what changes when a database is written: its file and, while they hold
// anything, its logs.
type stamp struct{ main, wal, journal fileMark }

type fileMark struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // nanoseconds
}

// look takes the stamp; an absent database is fs.ErrNotExist.
func look(path string) (mark stamp, err error) {
	if mark.main, err = lookAt(path); err != nil {
		return mark, err
	}
	for name, to := range map[string]*fileMark{"-wal": &mark.wal, "-journal": &mark.journal} {
		found, err := lookAt(path + name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return mark, err
		}
		// An empty log says nothing, and any reader may have left it.
		if found.size > 0 {
			*to = found
		}
	}
	return mark, nil
}

func lookAt(path string) (fileMark, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return fileMark{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileMark{
		device: stat.Dev, inode: stat.Ino, size: stat.Size,
		modified: stat.Mtim.Nano(), changed: stat.Ctim.Nano(),
	}, nil
}

// logged reports whether a log may hold what the database file does not.
func (m stamp) logged() bool { return m.wal.size > 0 || m.journal.size > 0 }

// unsettled is how long to wait until the times can be relied upon.
func (m stamp) unsettled() time.Duration {
	var wait time.Duration
	for _, f := range []fileMark{m.main, m.wal, m.journal} {
		age := time.Since(time.Unix(0, max(f.modified, f.changed)))
		if age >= 0 && age < settling {
			wait = max(wait, settling-age)
		}
	}
	return wait
}

// fix opens a lens on one moment of the database, nil when the file is absent.
func (s *Store) fix(ctx context.Context, deadline time.Time) (*lens, error) {
	for {
		mark, err := look(s.options.Path)
		if err != nil {
			return nil, unlessAbsent(err)
		}
		wait := mark.unsettled()
		if wait == 0 {
			l, err := s.fixAt(ctx, mark)
			if err == nil && l.steady() {
				return l, nil
			}
			if now, looked := look(s.options.Path); err != nil && looked == nil && now == mark {
				return nil, err
			}
			if err := l.close(); err != nil {
				return nil, err
			}
			wait = settling
		}
		if err := pause(ctx, wait, deadline); err != nil {
			return nil, err
		}
	}
}

func (s *Store) fixAt(ctx context.Context, mark stamp) (*lens, error) {
	l := &lens{path: s.options.Path, fixed: true, mark: mark}
	target, how := s.options.Path, accessImmutable
	if mark.logged() {
		var err error
		if l.copy, err = copyDatabase(s.options.Path, s.options.Scratch); err != nil {
			return nil, err
		}
		target, how = l.copy.database, accessWrite // recovering the log writes to the copy
	}
	var err error
	if l.session, err = openSession(ctx, target, how, keepJournal, s.options); err != nil {
		if l.copy != nil {
			err = errors.Join(err, l.copy.remove())
		}
		return nil, err
	}
	return l, nil
}

// scratch is a private copy of a database and its logs. It is thrown away after use,
// so none of it is synced.
type scratch struct{ folder, database string }

func (c *scratch) remove() error { return os.RemoveAll(c.folder) }

func copyDatabase(path, folder string) (*scratch, error) {
	private, err := os.MkdirTemp(folder, "loopx-migrate-read-")
	if err != nil {
		return nil, err
	}
	c := &scratch{folder: private, database: filepath.Join(private, "copy.sqlite")}
	for _, suffix := range []string{"", "-wal", "-journal"} {
		err := copyFile(path+suffix, c.database+suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, c.remove())
		}
	}
	return c, nil
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := faultio.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(target, source, make([]byte, 1<<20))
	return errors.Join(err, target.Close())
}

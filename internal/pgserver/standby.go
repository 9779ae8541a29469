package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Standby makes a second server from a copy of this one, which follows it, and
// starts it.
func (c *Cluster) Standby() (*Cluster, error) {
	dir, err := os.MkdirTemp("/tmp", "lmpg")
	if err != nil {
		return nil, err
	}
	s := &Cluster{bin: c.bin, dir: dir, password: c.password, owner: c.owner}
	if err := s.backup(c); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// backup copies the running primary as PostgreSQL's manual has it for a copy by hand: the
// programs of npm hold no pg_basebackup. What was torn while it was copied the log mends.
func (c *Cluster) backup(primary *Cluster) (err error) {
	if err := c.own(c.dir); err != nil {
		return err
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, primary.DSN("postgres", Admin))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, "SELECT pg_backup_start('standby', true)"); err != nil {
		return err
	}
	notYet := []string{"pg_wal", "postmaster.pid", "postmaster.opts"}
	if err := c.copy(primary.data(), c.data(), notYet...); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, "SELECT labelfile FROM pg_backup_stop(false)").Scan(&label); err != nil {
		return err
	}
	if err := c.copy(filepath.Join(primary.data(), "pg_wal"), filepath.Join(c.data(), "pg_wal")); err != nil {
		return err
	}
	follow := fmt.Sprintf("\nprimary_conninfo = 'host=%s port=%d user=%s'\n", primary.dir, primary.port, Admin)
	return errors.Join(
		c.note("backup_label", label), c.note("standby.signal", ""), c.note("postgresql.auto.conf", follow))
}

// note adds text to a file of the data folder.
func (c *Cluster) note(name, text string) error {
	path := filepath.Join(c.data(), name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close(), c.own(path))
}

func (c *Cluster) own(path string) error {
	if c.owner == nil {
		return nil
	}
	return os.Chown(path, int(c.owner.Uid), int(c.owner.Gid))
}

// copy copies a folder of a server that is running. A file that goes away meanwhile is
// one that nobody needs.
func (c *Cluster) copy(from, to string, except ...string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(from, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case slices.Contains(except, name) && entry.IsDir():
			return fs.SkipDir
		case slices.Contains(except, name):
			return nil
		case entry.IsDir():
			return errors.Join(os.MkdirAll(filepath.Join(to, name), 0o700), c.own(filepath.Join(to, name)))
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(filepath.Join(to, name), text, 0o600), c.own(filepath.Join(to, name)))
	})
}

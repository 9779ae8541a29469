package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// Standby makes a second server from a base backup of this one, which follows it, and
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

func (c *Cluster) backup(primary *Cluster) error {
	if c.owner != nil {
		if err := os.Chown(c.dir, int(c.owner.Uid), int(c.owner.Gid)); err != nil {
			return err
		}
	}
	program := exec.Command(filepath.Join(c.bin, "pg_basebackup"), "-D", c.data(), "-R", "--no-sync", "-c", "fast",
		"-h", primary.dir, "-p", strconv.Itoa(primary.port), "-U", Admin)
	program.SysProcAttr, program.Dir = &syscall.SysProcAttr{Credential: c.owner}, c.dir
	if out, err := program.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return nil
}

package faultio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// op is the kind of an effect, as LM_FAULT_OP and a trace spell it.
type op string

const (
	opCreate   op = "create"
	opTruncate op = "truncate"
	opWrite    op = "write"
	opSync     op = "sync"
	opRename   op = "rename"
	opRemove   op = "remove"
	opMkdir    op = "mkdir"
	opSyncDir  op = "syncdir"
	opLink     op = "link"
	opChmod    op = "chmod"
	opCommit   op = "commit"
)

// OpenFile is os.OpenFile. With O_CREATE it is the effect "create", otherwise
// with O_TRUNC "truncate", otherwise none. A new file gets the access its folder
// grants; see Inherit.
func OpenFile(path string, flag int, perm fs.FileMode) (*File, error) {
	var file *os.File
	open := func() (err error) {
		file, err = os.OpenFile(path, flag, perm)
		if err == nil && flag&os.O_CREATE != 0 {
			err = inherit(file)
		}
		return err
	}
	var err error
	switch {
	case flag&os.O_CREATE != 0:
		err = perform(opCreate, path, open)
	case flag&os.O_TRUNC != 0:
		err = perform(opTruncate, path, open)
	default:
		err = open()
	}
	if err != nil {
		if file != nil {
			err = closeAfter(file, err)
		}
		return nil, err
	}
	return &File{file: file}, nil
}

// Rename is os.Rename: to is replaced when it is there.
func Rename(from, to string) error {
	return perform(opRename, from+" -> "+to, func() error { return os.Rename(from, to) })
}

// RenameNoReplace renames in one step and fails with fs.ErrExist when to is
// there. A file system that cannot promise this fails with EINVAL.
func RenameNoReplace(from, to string) error {
	return perform(opRename, from+" -> "+to, func() error {
		err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
		if err != nil {
			return &os.LinkError{Op: "renameat2", Old: from, New: to, Err: err}
		}
		return nil
	})
}

// Remove is os.Remove.
func Remove(path string) error {
	return perform(opRemove, path, func() error { return os.Remove(path) })
}

// RemoveAll is os.RemoveAll, as one effect. It is meant for folders this tool
// made for itself; nothing else may be removed unseen.
func RemoveAll(path string) error {
	return perform(opRemove, path, func() error { return os.RemoveAll(path) })
}

// Mkdir is os.Mkdir. The folder gets the access that the one above it grants; see Inherit.
func Mkdir(path string, perm fs.FileMode) error {
	return perform(opMkdir, path, func() error { return mkdir(path, perm) })
}

// MkdirAll is os.MkdirAll, as one effect. Nothing is synced; atomicfile.MkdirAll does
// that. New folders are as those of Mkdir.
func MkdirAll(path string, perm fs.FileMode) error {
	return perform(opMkdir, path, func() error { return mkdirAll(path, perm) })
}

func mkdir(path string, perm fs.FileMode) error {
	if err := os.Mkdir(path, perm); err != nil {
		return err
	}
	return Inherit(path)
}

func mkdirAll(path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := mkdirAll(filepath.Dir(path), perm); err != nil {
		return err
	}
	if err := mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Link is os.Link: to becomes a second name of from, and fails with fs.ErrExist
// when it is there.
func Link(from, to string) error {
	return perform(opLink, from+" -> "+to, func() error { return os.Link(from, to) })
}

// Chmod is os.Chmod.
func Chmod(path string, perm fs.FileMode) error {
	return perform(opChmod, path, func() error { return os.Chmod(path, perm) })
}

// Truncate is os.Truncate; size is in bytes.
func Truncate(path string, size int64) error {
	return perform(opTruncate, path, func() error { return os.Truncate(path, size) })
}

// SyncDir makes the names in a directory durable: a rename or a new file is not
// safe against power loss before its directory is synced.
func SyncDir(path string) error {
	return perform(opSyncDir, path, func() error {
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		return closeAfter(dir, dir.Sync())
	})
}

// Commit performs the COMMIT of a database transaction; label names it in a trace.
func Commit(label string, commit func() error) error {
	return perform(opCommit, label, commit)
}

// FSType returns the type statfs(2) gives the file system of an existing path
// (0x6969 is NFS, 0xef53 is ext4, 0x01021994 is tmpfs).
func FSType(path string) (uint64, error) {
	if faked, ok := fakeFSType(); ok {
		return faked, nil
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return uint64(stat.Type), nil
}

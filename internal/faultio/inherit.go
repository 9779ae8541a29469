package faultio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Inherit gives a file or folder that this process has just made the access that its
// folder grants, as far as this process may: made by root it belongs to whoever owns
// the folder; in a folder that its group, or anybody, may write in, they may also work
// with what is made there. Otherwise several people who work on one Goal would lock
// each other out of it, and its owner first. In a folder that only its owner may write
// in, and in one where names are guarded (sticky), nothing is opened up.
//
// OpenFile and Mkdir do this as part of their effect. It is for files that something
// else made, a database driver for one. What somebody else made stays as it is.
func Inherit(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return closeAfter(file, inherit(file))
}

// Born makes an empty file for its owner alone, with the access that its folder grants, for a
// driver that would make it for everybody to read. One that is there stays as it is. It is
// no effect that is counted: the driver makes the file in its next call, and a
// kill in between leaves what a kill within the driver leaves.
func Born(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return closeAfter(file, inherit(file))
}

// inherit works on a descriptor, since in a shared folder a name may have become
// another file's meanwhile.
func inherit(file *os.File) error {
	made, err := file.Stat()
	if err != nil {
		return err
	}
	folder, err := os.Stat(filepath.Dir(file.Name()))
	if err != nil {
		return err
	}
	mine, ok := made.Sys().(*syscall.Stat_t)
	theirs, known := folder.Sys().(*syscall.Stat_t)
	if !ok || !known || int(mine.Uid) != os.Geteuid() {
		return nil // it was there before
	}
	inGroup, err := hand(file, mine, theirs, folder.Mode())
	if err != nil {
		return err
	}
	mode := shared(made.Mode(), folder.Mode(), inGroup)
	if mode == made.Mode() {
		return nil
	}
	return file.Chmod(mode &^ fs.ModeDir)
}

// hand gives the file to the folder's owner and group where that is called for and
// permitted, and reports whether it has the folder's group.
func hand(file *os.File, mine, theirs *syscall.Stat_t, folder fs.FileMode) (inGroup bool, err error) {
	uid, gid := -1, -1
	if os.Geteuid() == 0 && theirs.Uid != 0 && folder&fs.ModeSticky == 0 {
		uid, gid = int(theirs.Uid), int(theirs.Gid)
	} else if folder&0o020 != 0 && folder&fs.ModeSticky == 0 && mine.Gid != theirs.Gid {
		gid = int(theirs.Gid)
	}
	if uid < 0 && gid < 0 {
		return mine.Gid == theirs.Gid, nil
	}
	err = file.Chown(uid, gid)
	if errors.Is(err, fs.ErrPermission) && uid < 0 {
		return false, nil // not a member of that group: then the group gets no access by it
	}
	return err == nil, err
}

// shared is a mode with the owner's rights given to those who may write in the folder.
func shared(made, folder fs.FileMode, inGroup bool) fs.FileMode {
	if folder&fs.ModeSticky != 0 {
		return made
	}
	owner := made & 0o700
	if folder&0o020 != 0 && inGroup {
		made |= owner >> 3
	}
	if folder&0o002 != 0 {
		made |= owner >> 6
	}
	return made
}

// Package atomicfile changes files so that a reader, a crash or a power loss
// meets the old content or the new, never a part of either.
//
// A new content is written to a temporary file beside its destination, named
// PATH.tmp-PID-UUID as LoopX names its own, synced, moved into place, and its
// directory synced. An error removes the temporary file. A killed process may
// leave it behind; LoopX's readers and ours ignore such leftovers, and a later
// call is not disturbed by them.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// ErrUnsettled marks an error that came after the change was visible: it may or
// may not survive a power loss, so the caller must neither report success nor
// assume that nothing happened. Any other error of this package means that the
// destination is as it was.
var ErrUnsettled = errors.New("the change is in place but not known to be durable")

// bufferSize bounds the memory of ReplaceFrom and keeps its writes few.
const bufferSize = 256 << 10

// Replace puts data at path, whether or not something is there. The umask applies
// to perm; the permission of a file that was there is not kept.
func Replace(path string, perm fs.FileMode, data []byte) error {
	return replace(path, perm, func(file *faultio.File) error {
		_, err := file.Write(data)
		return err
	})
}

// ReplaceFrom is Replace of what write writes. An error of write is returned
// wrapped and leaves path as it was.
func ReplaceFrom(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return replace(path, perm, func(file *faultio.File) error {
		buffer := bufio.NewWriterSize(file, bufferSize)
		if err := write(buffer); err != nil {
			return err
		}
		return buffer.Flush()
	})
}

func replace(path string, perm fs.FileMode, fill func(*faultio.File) error) error {
	temp, err := writeTemp(path, perm, fill)
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := faultio.Rename(temp, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, errors.Join(err, discard(temp)))
	}
	return settle("replace", path)
}

// Create puts data at path, where nothing may be: fs.ErrExist otherwise, with what
// is there untouched. Of several processes exactly one succeeds.
func Create(path string, perm fs.FileMode, data []byte) error {
	temp, err := writeTemp(path, perm, func(file *faultio.File) error {
		_, err := file.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if err := faultio.Link(temp, path); err != nil {
		return fmt.Errorf("create %s: %w", path, errors.Join(err, discard(temp)))
	}
	if err := faultio.Remove(temp); err != nil {
		// The second name is only litter, but the caller was promised that none is
		// left after an error: once more, then say both.
		return fmt.Errorf("create %s: %w: %w", path, ErrUnsettled, errors.Join(err, discard(temp)))
	}
	return settle("create", path)
}

// writeTemp returns the path of a synced temporary file beside path. There is none
// after an error.
func writeTemp(path string, perm fs.FileMode, fill func(*faultio.File) error) (string, error) {
	temp := fmt.Sprintf("%s.tmp-%d-%s", path, os.Getpid(), uuid.NewString())
	file, err := faultio.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", err
	}
	err = fill(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, discard(temp))
	}
	return temp, nil
}

func discard(temp string) error {
	err := faultio.Remove(temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// settle syncs the directory of a change that is visible already.
func settle(act, path string) error {
	if err := faultio.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s %s: %w: %w", act, path, ErrUnsettled, err)
	}
	return nil
}

// Move renames a file or directory within one file system and syncs both
// directories. It never overwrites: when to is there it fails with fs.ErrExist.
func Move(from, to string) error {
	if err := faultio.RenameNoReplace(from, to); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	// The destination first: after a power loss in between, two names are better than none.
	if err := settle("move to", to); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return settle("move from", from)
}

// MkdirAll makes path and the directories above it that are missing, and syncs the
// parent of each new one, outermost first. What is there already is left alone.
func MkdirAll(path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("make directory: %w", &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist})
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("make directory: %w", err)
	}
	if err := MkdirAll(filepath.Dir(path), perm); err != nil {
		return err
	}
	// Another process may have been quicker; its directory is as good as ours, and
	// syncing its name once more does no harm.
	if err := faultio.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	return settle("make directory", path)
}

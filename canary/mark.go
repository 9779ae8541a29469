package canary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// MarkName is the file in a runtime root that makes a Goal disposable. It holds the Goal
// id and a line feed, so that a copied root does not mark another Goal.
const MarkName = ".loopx-migrate-disposable"

// ErrNotDisposable refuses a Goal without its mark.
var ErrNotDisposable = errors.New("the goal is not marked disposable")

// Mark marks a Goal disposable.
func Mark(root, goal string) error {
	file, err := faultio.OpenFile(filepath.Join(root, MarkName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write([]byte(goal + "\n"))
	return errors.Join(err, file.Close())
}

// CheckMark returns ErrNotDisposable unless the mark names exactly this Goal.
func CheckMark(root, goal string) error {
	path := filepath.Join(root, MarkName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotDisposable
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: its mark is no file", ErrNotDisposable)
	}
	text, err := os.ReadFile(path)
	if err == nil && string(text) != goal+"\n" {
		return fmt.Errorf("%w: its mark names another", ErrNotDisposable)
	}
	return err
}

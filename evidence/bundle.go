package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

// File is one file of a bundle.
type File struct {
	Name    string // relative, with slashes
	Content []byte
}

// NotEmptyError refuses to write into a folder that holds anything.
type NotEmptyError struct{ Found string }

// Error names what was found.
func (e *NotEmptyError) Error() string {
	return "the folder is not empty: it holds " + e.Found + "; nothing was written"
}

// Write writes a bundle into a folder that is empty or not there, and checks it there. No
// file is written unless none of them holds anything private. The index comes last:
// what a crash leaves is no bundle.
func Write(dir, goal string, at time.Time, files []File, private Private) (Index, error) {
	for _, f := range files {
		if err := private.Scan(f.Name, f.Content); err != nil {
			return Index{}, err
		}
	}
	if err := vacant(dir); err != nil {
		return Index{}, err
	}
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	index, err := newIndex(goal, at, files)
	if err != nil {
		return index, err
	}
	text, err := index.encode()
	if err != nil {
		return index, err
	}
	for _, f := range append(files, File{indexName, text}) {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return index, err
		}
		if err := atomicfile.Create(path, 0o600, f.Content); err != nil {
			return index, err
		}
	}
	checked, err := Verify(dir)
	return checked.Index, err
}

func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if len(entries) > 0 {
		return &NotEmptyError{entries[0].Name()}
	}
	return err
}

// Checked is what checking a bundle has shown.
type Checked struct {
	Index Index
	Bytes int64
	// Steps counts the steps of the manifests whose chains were recomputed.
	Steps int
	// Rehearsal is the result of the rehearsal in the bundle, empty without one.
	Rehearsal Result
}

// Verify checks a bundle by nothing but its own files: every byte of every file, what is
// missing, what is there too much, the chains of steps, that what was drawn from the
// manifest is what the manifest says, and that nothing private is in it. What stands
// against it is a *BundleError or a *PrivateError.
func Verify(dir string) (Checked, error) {
	text, err := os.ReadFile(filepath.Join(dir, indexName))
	if errors.Is(err, fs.ErrNotExist) {
		return Checked{}, &BundleError{indexName, "it is missing"}
	}
	if err != nil {
		return Checked{}, err
	}
	index, err := readIndex(text)
	if err != nil {
		return Checked{}, err
	}
	checked := Checked{Index: index}
	there, err := walk(dir)
	if err != nil {
		return checked, err
	}
	var files []File
	for _, entry := range index.Entries {
		if !there[entry.Name] {
			return checked, &BundleError{entry.Name, "it is missing"}
		}
		delete(there, entry.Name)
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(entry.Name)))
		if err != nil {
			return checked, err
		}
		if int64(len(content)) != entry.Size || authority.DigestOf(content) != entry.SHA256 {
			return checked, &BundleError{entry.Name, "its bytes are not those of the index"}
		}
		files = append(files, File{entry.Name, content})
		checked.Bytes += entry.Size
	}
	for name := range there {
		return checked, &BundleError{name, "the index does not list it"}
	}
	for _, f := range append(files, File{indexName, text}) {
		if err := (Private{}).Scan(f.Name, f.Content); err != nil {
			return checked, err
		}
	}
	return checked, checked.means(files)
}

// walk lists the files below a folder, without the index. What is no plain file is refused.
func walk(dir string) (map[string]bool, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !entry.Type().IsRegular() {
			return &BundleError{name, "it is no plain file"}
		}
		if name != indexName {
			found[name] = true
		}
		return nil
	})
	return found, err
}

package evidence

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := atomicfile.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return index, err
		}
		if err := atomicfile.Create(to, 0o600, f.Content); err != nil {
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
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // a link to a bundle is that bundle; what is not there shows below
	}
	text, index, err := indexIn(dir)
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
		if !there[entry.Name] || strings.HasSuffix(entry.Name, "/") {
			return checked, &BundleError{entry.Name, "it is missing"}
		}
		for name := entry.Name; name != "./"; name = path.Dir(strings.TrimSuffix(name, "/")) + "/" {
			delete(there, name) // and the folders that it is in
		}
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
	if len(there) > 0 { // the deepest of a folder and what is in it tells most
		return checked, &BundleError{slices.Max(slices.Collect(maps.Keys(there))), "the index does not list it"}
	}
	for _, f := range append(files, File{indexName, text}) {
		if err := (Private{}).Scan(f.Name, f.Content); err != nil {
			return checked, err
		}
	}
	return checked, checked.means(files)
}

// indexIn reads the index of a bundle.
func indexIn(dir string) (text []byte, index Index, err error) {
	text, err = os.ReadFile(filepath.Join(dir, indexName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = &BundleError{indexName, "it is missing"}
	case errors.Is(err, syscall.ENOTDIR):
		err = &BundleError{indexName, "it is missing: a file was named where a bundle is a folder"}
	}
	if err == nil {
		index, err = readIndex(text)
	}
	return text, index, err
}

// walk lists the files below a folder, without the index, and the folders, with a slash at
// the end. What is no plain file is refused.
func walk(dir string) (map[string]bool, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir():
			found[name+"/"] = true
		case !entry.Type().IsRegular():
			return &BundleError{name, "it is no plain file"}
		case name != indexName:
			found[name] = true
		}
		return nil
	})
	return found, err
}

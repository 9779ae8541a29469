package store

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

// Location is a store as a URL names it, before the Goal is known.
type Location struct {
	Kind authority.Kind
	// Path is absolute, empty for LoopX's own place.
	Path string
}

// Own reports whether LoopX's own place is meant.
func (l Location) Own() bool { return l.Path == "" }

// Parse reads a URL. Relative paths start at the working folder. All its errors are
// *cutover.Refusal: KindUsage with store_url_invalid, or KindRefused with
// store_kind_not_supported. A refused URL is never repeated, since it may hold a
// password.
func Parse(url string) (Location, error) {
	scheme, path, found := strings.Cut(url, ":")
	if !found {
		return Location{}, invalid("a store is named by a URL such as sqlite: or file:DIR; this has no scheme")
	}
	var kind authority.Kind
	switch strings.ToLower(scheme) {
	case "file":
		kind = authority.KindFile
	case "sqlite":
		kind = authority.KindSQLite
	case "postgres", "postgresql":
		return Location{}, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "store_kind_not_supported",
			Sentence: "PostgreSQL stores are not in this build, which opens file: and sqlite: stores; nothing was connected to or changed"}
	default:
		return Location{}, invalid("the scheme of a store is file or sqlite")
	}
	if path == "" {
		return Location{Kind: kind}, nil
	}
	if strings.HasPrefix(path, "//") {
		path = "/" + strings.TrimLeft(path, "/")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Location{}, err
	}
	if strings.HasSuffix(path, "/") {
		abs += "/" // it is meant as a folder even before it exists
	}
	return Location{Kind: kind, Path: abs}, nil
}

func invalid(sentence string) error {
	return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "store_url_invalid", Sentence: sentence}
}

// Ref names the Goal's store at a location. Place is needed for LoopX's own place
// only, and is nil where no runtime root is known (KindUsage, runtime_root_required).
func (l Location) Ref(goal string, place *authority.Place) (cutover.Ref, error) {
	ref := cutover.Ref{Kind: l.Kind, Goal: goal}
	if l.Own() {
		if place == nil {
			return ref, &cutover.Refusal{Kind: cutover.KindUsage, Reason: "runtime_root_required",
				Sentence: "LoopX's own place is meant, and neither --runtime-root nor --registry says where that is"}
		}
		if l.Kind == authority.KindFile {
			ref.Path, ref.IdentityFile = place.Journal(), place.StoreIdentity()
		} else {
			ref.Path = place.Database()
		}
		return ref, nil
	}
	path := filepath.Clean(l.Path)
	folder := strings.HasSuffix(l.Path, "/") || isFolder(path)
	switch {
	case l.Kind == authority.KindSQLite && folder:
		path = filepath.Join(path, sqlitestore.DatabaseName(goal))
	case l.Kind == authority.KindFile && folder:
		path = filestore.DocumentPath(path, goal)
	}
	ref.Path = path
	if l.Kind == authority.KindFile {
		ref.IdentityFile = filestore.IdentityPath(filepath.Dir(path))
	}
	return ref, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

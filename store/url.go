package store

import (
	"net/url"
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
	// Server is the URL of a database server, without a password.
	Server string
}

// Own reports whether LoopX's own place is meant.
func (l Location) Own() bool { return l.Path == "" && l.Server == "" }

// Parse reads a URL. Relative paths start at the working folder. All its errors are
// *cutover.Refusal: KindUsage with store_url_invalid or password_on_command_line. A refused URL is never repeated, since it may hold a
// password.
func Parse(text string) (Location, error) {
	scheme, path, found := strings.Cut(text, ":")
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
		return server(text)
	default:
		return Location{}, invalid("the scheme of a store is file, sqlite or postgres")
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

// server takes a server's URL, which may not hold a password: a command line is seen by
// every process of the machine. PGPASSFILE, a service file and the environment may.
func server(text string) (Location, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return Location{}, invalid("a PostgreSQL server is named as postgres://HOST/DATABASE")
	}
	_, held := u.User.Password()
	if held || u.Query().Has("password") {
		return Location{}, &cutover.Refusal{Kind: cutover.KindUsage, Reason: "password_on_command_line",
			Sentence: "the URL holds a password, and a command line is no place for one: use PGPASSFILE, a service file or PGPASSWORD; nothing was connected to"}
	}
	return Location{Kind: authority.KindPostgreSQL, Server: text}, nil
}

func invalid(sentence string) error {
	return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "store_url_invalid", Sentence: sentence}
}

// Ref names the Goal's store at a location. Place is needed for LoopX's own place
// only, and is nil where no runtime root is known (KindUsage, runtime_root_required).
func (l Location) Ref(goal string, place *authority.Place) (cutover.Ref, error) {
	ref := cutover.Ref{Kind: l.Kind, Goal: goal, Server: l.Server}
	if l.Server != "" {
		return ref, nil
	}
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

package rehearsal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
)

// part is a file of a Goal and where it stands in a copy.
type part struct {
	from string // in the source
	rel  string // in a copy, with slashes
}

// linkError refuses a source with a link in it: a copy of a link would lead back.
type linkError struct{ rel string }

// Error names the link, relative to the folder that was copied.
func (e *linkError) Error() string {
	return "the goal's files hold a link or something that is no plain file: " + e.rel
}

// stateRel is where a copy keeps the state file, and logsRel the event logs.
const (
	runtimeRel = "runtime"
	stateRel   = "project/ACTIVE_GOAL_STATE.md"
	logsRel    = "project/event-logs"
)

// left are files that a copy must not have: locks of living processes, memory of open
// databases, and what this tool remembers of the host (paths, servers, grants, outcomes).
func left(rel string) bool {
	base := filepath.Base(rel)
	if strings.HasSuffix(base, ".ts-effect.lock") || strings.HasSuffix(base, "-shm") {
		return true
	}
	if _, inside, found := strings.Cut(rel, "authority-transition/loopx-migrate/"); found {
		_, own, _ := strings.Cut(inside, "/")
		for _, name := range []string{"host.json", "grants.json", "operator", "outcomes/", "quarantine/", "staging/"} {
			if strings.HasPrefix(own, name) {
				return true
			}
		}
	}
	return false
}

// parts lists every file that belongs to the Goal, in order of its place in a copy.
func parts(place authority.Place, registration fence.Registration) ([]part, error) {
	var all []part
	add := func(path, rel string) error {
		found, err := below(path, rel)
		all = append(all, found...)
		return err
	}
	roots := []string{place.Selector(), place.Journal(), place.StoreIdentity(), place.Database(), place.Database() + "-wal", place.WriterFence(),
		place.ShadowManagement(), place.ShadowOutbox(), place.LocalProvider(), filepath.Join(place.Root(), "goals", place.GoalID()), place.Migration()}
	for _, path := range roots {
		if err := add(path, runtimeRel+"/"+place.Rel(path)); err != nil {
			return nil, err
		}
	}
	if registration.StateFile != "" {
		for _, suffix := range []string{"", ".lock"} {
			if err := add(registration.StateFile+suffix, stateRel+suffix); err != nil {
				return nil, err
			}
		}
	}
	for key, path := range registration.EventLogs {
		if err := add(path, logsRel+"/"+key); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.rel, b.rel) })
	return slices.CompactFunc(all, func(a, b part) bool { return a.rel == b.rel }), nil
}

// below lists the plain files at or below a path that may not be there.
func below(path, rel string) ([]part, error) {
	var found []part
	err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			if at == path && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		inside, err := filepath.Rel(path, at)
		if err != nil {
			return err
		}
		name := rel
		if inside != "." {
			name += "/" + filepath.ToSlash(inside)
		}
		switch {
		case entry.IsDir() || left(name):
			return nil
		case !entry.Type().IsRegular():
			return &linkError{name}
		}
		found = append(found, part{at, name})
		return nil
	})
	return found, err
}

// Tree is a digest over names, modes and bytes of everything that belongs to a Goal, and
// how many bytes that is. Locks of living processes and what this tool remembers of its
// host do not enter. Two equal digests are the same files.
func Tree(place authority.Place, registration fence.Registration) (authority.Digest, int64, error) {
	all, err := parts(place, registration)
	if err != nil {
		return authority.Digest{}, 0, err
	}
	sum := sha256.New()
	var bytes int64
	for _, p := range all {
		digest, mode, size, err := describe(p.from)
		if err != nil {
			return authority.Digest{}, 0, err
		}
		bytes += size
		fmt.Fprintf(sum, "%s %o %s\n", p.rel, mode.Perm(), digest)
	}
	var tree authority.Digest
	sum.Sum(tree[:0])
	return tree, bytes, nil
}

func describe(path string) (digest authority.Digest, mode fs.FileMode, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return digest, 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return digest, 0, 0, err
	}
	sum := sha256.New()
	if size, err = io.Copy(sum, file); err != nil {
		return digest, 0, 0, err
	}
	sum.Sum(digest[:0])
	return digest, info.Mode(), size, nil
}

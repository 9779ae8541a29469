package legacy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Files is everything that legacy writers of one Goal keep, as bytes. A freeze keeps
// exactly this; what comes back is made from it.
type Files struct {
	Goal         string
	State        []byte
	StateMissing bool
	Leases       []LeaseEntry // everything in the lease folder, by name
	// LifecycleFences are the receipts in task-leases/.lifecycle-fences.
	LifecycleFences []LeaseEntry
	// Validations are the private declarations of todo-validation-declarations and of the
	// blobs below it.
	Validations []LeaseEntry
	// EventLogs are the candidates for a Todo event log that exist.
	EventLogs []EventLog
	// LockHolder is what the state file's kernel lock file holds, nil when there is none.
	LockHolder []byte
}

// LeaseEntry is one thing in a folder. Bytes are those of a plain file.
type LeaseEntry struct {
	Name    string
	Regular bool
	Folder  bool
	Bytes   []byte
}

// EventLog is a file that overrides the Markdown when it is not empty.
type EventLog struct {
	Name string // the registry key that names it, or events.jsonl
	Size int64
}

// Load reads the files of a Goal. The state file is the one the registry names; logs
// are paths from the registry by key (see Registered). It reads twice and compares, so
// that a writer at work is an error and not half an answer.
func Load(place authority.Place, stateFile string, logs map[string]string) (Files, error) {
	first, err := loadOnce(place, stateFile, logs)
	if err != nil {
		return Files{}, err
	}
	second, err := loadOnce(place, stateFile, logs)
	if err != nil {
		return Files{}, err
	}
	if first.Digest() != second.Digest() {
		return Files{}, ErrMoving
	}
	return second, nil
}

// ErrMoving: the files changed while they were read.
var ErrMoving = errors.New("the legacy files are being written")

func loadOnce(place authority.Place, stateFile string, logs map[string]string) (Files, error) {
	f := Files{Goal: place.GoalID()}
	var err error
	f.State, err = os.ReadFile(stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		f.StateMissing, err = true, nil
	}
	if err != nil {
		return f, err
	}
	if f.LockHolder, err = optional(stateFile + ".lock"); err != nil {
		return f, err
	}
	if f.Leases, err = folder(place.LeaseDir()); err != nil {
		return f, err
	}
	if f.LifecycleFences, err = folder(filepath.Join(place.LeaseDir(), ".lifecycle-fences")); err != nil {
		return f, err
	}
	declarations := filepath.Join(place.Root(), "goals", place.GoalID(), "todo-validation-declarations")
	for _, dir := range []string{declarations, filepath.Join(declarations, "blobs")} {
		found, err := folder(dir)
		if err != nil {
			return f, err
		}
		f.Validations = append(f.Validations, found...)
	}
	f.EventLogs, err = eventLogs(stateFile, logs)
	return f, err
}

func eventLogs(stateFile string, logs map[string]string) ([]EventLog, error) {
	candidates := map[string]string{"events.jsonl": filepath.Join(filepath.Dir(stateFile), "events.jsonl")}
	for key, path := range logs {
		candidates[key] = path
	}
	var found []EventLog
	for name, path := range candidates {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, EventLog{Name: name, Size: info.Size()})
	}
	slices.SortFunc(found, func(a, b EventLog) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

func optional(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// folder reads a folder by name. Links are not followed, also not when one is put in
// the place of a file between the look and the read.
func folder(dir string) ([]LeaseEntry, error) {
	listed, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []LeaseEntry
	for _, l := range listed {
		e := LeaseEntry{Name: l.Name(), Regular: l.Type().IsRegular(), Folder: l.IsDir()}
		if e.Regular {
			e.Bytes, err = readPlain(filepath.Join(dir, e.Name))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, ErrMoving // a writer put its temporary file into place meanwhile
			}
			if err != nil {
				return nil, err
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func readPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// Digest is a SHA-256 over what writers keep in these files: the state file, the lease
// records and their lifecycle fences. Lock files and residue do not enter. A freeze
// compares it before and after it fences.
func (f Files) Digest() authority.Digest {
	m := map[string][]byte{"state": literal(authority.DigestOf(f.State).String()), "state_missing": boolean(f.StateMissing)}
	leases := map[string][]byte{}
	for _, e := range f.Leases {
		if code, _, _ := judgeEntry(e); code != CodeLeaseResidue && code != CodeLeaseStranger {
			leases[e.Name] = literal(authority.DigestOf(e.Bytes).String())
		}
	}
	m["leases"] = object(leases)
	fences := map[string][]byte{}
	for _, e := range f.LifecycleFences {
		fences[e.Name] = literal(authority.DigestOf(e.Bytes).String())
	}
	m["lifecycle_fences"] = object(fences)
	for _, log := range f.EventLogs {
		m["event_log:"+log.Name] = []byte(decimal(int(log.Size)))
	}
	return authority.DigestOf(object(m))
}

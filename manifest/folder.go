package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

// ErrStale refuses to replace a manifest that changed since it was read.
var ErrStale = errors.New("the manifest changed since it was read")

// Folder is the tool's own folder for one Goal.
type Folder struct {
	dir  string
	goal string
}

// Open names the folder of a Goal; nothing is made before the first write.
func Open(place authority.Place) *Folder {
	return &Folder{dir: place.Migration(), goal: place.GoalID()}
}

// Dir is the folder itself.
func (f *Folder) Dir() string { return f.dir }

// OperatorLock is the lock target of commands of this tool.
func (f *Folder) OperatorLock() string { return filepath.Join(f.dir, "operator") }

// Staging is where the candidate of a migration is built.
func (f *Folder) Staging(migration string) string { return filepath.Join(f.dir, "staging", migration) }

// Retired is where a promotion puts the journal it takes out of LoopX's place.
func (f *Folder) Retired(migration string) string { return filepath.Join(f.dir, "retired", migration) }

// Frozen is where the legacy files of a migration are kept as they were at the freeze.
func (f *Folder) Frozen(migration string) string { return filepath.Join(f.dir, "frozen", migration) }

// Retained is the archive of a history that went back, up to a cursor, to legacy files.
func (f *Folder) Retained(migration string, through authority.Cursor) string {
	return filepath.Join(f.dir, "retained", migration, through.String()+".archive.jsonl")
}

// Quarantine is where stores taken out of use are kept.
func (f *Folder) Quarantine(migration string) string {
	return filepath.Join(f.dir, "quarantine", migration)
}

// TranslationFile lists the old provider revision of every cursor.
func (f *Folder) TranslationFile(migration string) string {
	return filepath.Join(f.dir, "translation", migration+".jsonl")
}

// Snapshot is a manifest as it was read, with what is needed to replace it.
// A Goal that was never migrated has a nil Manifest.
type Snapshot struct {
	Manifest *Manifest
	Digest   authority.Digest
}

// Phase is the phase of the manifest, PhaseNone without one.
func (s Snapshot) Phase() Phase {
	if s.Manifest == nil {
		return PhaseNone
	}
	return s.Manifest.Phase
}

// Load reads and proves the current manifest.
func (f *Folder) Load() (Snapshot, error) {
	return f.load(filepath.Join(f.dir, "manifest.json"))
}

// LoadClosed reads and proves the manifest of an earlier migration.
func (f *Folder) LoadClosed(migration string) (Snapshot, error) {
	return f.load(filepath.Join(f.dir, "closed", migration+".json"))
}

// Closed lists the ids of earlier migrations.
func (f *Folder) Closed() ([]string, error) {
	names, err := f.documents("closed")
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".json")
	}
	return names, err
}

// documents are the names of the documents in a folder of the folder, sorted. One that is
// not there holds none; one that cannot be read is an error, and not an empty one.
func (f *Folder) documents(sub string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, sub))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (f *Folder) load(path string) (Snapshot, error) {
	var m Manifest
	digest, err := openSealed(path, &m)
	if errors.Is(err, fs.ErrNotExist) {
		return Snapshot{}, nil
	}
	if err != nil {
		return Snapshot{}, err
	}
	if m.SchemaVersion != SchemaVersion {
		return Snapshot{}, &TamperedError{File: filepath.Base(path), Detail: fmt.Sprintf("its schema %q is unknown", m.SchemaVersion)}
	}
	if m.GoalID != f.goal {
		return Snapshot{}, &TamperedError{File: filepath.Base(path), Detail: "it belongs to another goal"}
	}
	return Snapshot{Manifest: &m, Digest: digest}, m.VerifySteps()
}

// Save replaces the manifest that was read as old by m, durably, and returns it as
// read back. The caller holds the operator lock; the digest catches a stranger.
func (f *Folder) Save(old Snapshot, m *Manifest) (Snapshot, error) {
	now, err := f.Load()
	if err != nil {
		return now, err
	}
	if now.Digest != old.Digest {
		return now, ErrStale
	}
	if now.Manifest != nil && now.Manifest.MigrationID != m.MigrationID {
		if err := write(filepath.Join(f.dir, "closed", now.Manifest.MigrationID+".json"), now.Manifest); err != nil {
			return now, err
		}
	}
	if err := write(filepath.Join(f.dir, "manifest.json"), m); err != nil {
		return now, err
	}
	return f.Load()
}

// Host holds what must not leave this host.
type Host struct {
	SchemaVersion string            `json:"schema_version"` // loopx_migrate_host_v1
	RuntimeRoot   string            `json:"runtime_root"`
	Registry      string            `json:"registry,omitempty"`
	StateFile     string            `json:"state_file,omitempty"` // of a migration of legacy files
	Targets       map[string]string `json:"targets,omitempty"`    // migration id to a store elsewhere
	Postgres      string            `json:"postgres,omitempty"`   // URL of the server, without a password
}

// LoadHost reads host.json; a Goal that was never migrated has an empty one.
func (f *Folder) LoadHost() (Host, error) {
	var h Host
	_, err := openSealed(filepath.Join(f.dir, "host.json"), &h)
	if errors.Is(err, fs.ErrNotExist) {
		return Host{SchemaVersion: "loopx_migrate_host_v1"}, nil
	}
	return h, err
}

// SaveHost replaces host.json when it changes.
func (f *Folder) SaveHost(h Host) error {
	return write(filepath.Join(f.dir, "host.json"), h)
}

// WriteTranslation stores the list of old revisions; the same list again is no write.
func (f *Folder) WriteTranslation(migration string, list []byte) error {
	path := f.TranslationFile(migration)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(list) {
		return nil
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(path, 0o600, list)
}

// Verify reads every document of the folder, not only those a command needs: earlier
// manifests, outcomes, grants.json, host.json. It returns how many there are, and every
// one that is not as it was written.
func (f *Folder) Verify() (documents int, err error) {
	readers := map[string]func(path string) error{
		"host.json":   func(path string) error { _, err := openSealed(path, new(Host)); return err },
		"grants.json": func(string) error { _, _, err := f.LoadGrants(); return err },
		"closed":      func(path string) error { _, err := openSealed(path, new(Manifest)); return err },
		"outcomes":    func(path string) error { _, err := f.outcomeAt(path); return err },
	}
	var errs []error
	for _, sub := range []string{"", "closed", "outcomes"} {
		names, err := f.documents(sub)
		errs = append(errs, err)
		for _, name := range names {
			read := readers[sub]
			if sub == "" {
				read = readers[name]
			}
			if read == nil {
				continue // the manifest of the open migration, which every command reads
			}
			documents++
			errs = append(errs, read(filepath.Join(f.dir, sub, name)))
		}
	}
	return documents, errors.Join(errs...)
}

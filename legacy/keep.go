package legacy

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// KeptSchema is the schema_version of a document of kept files.
const KeptSchema = "loopx_migrate_kept_files_v1"

// Kept are the legacy files of a Goal as they were at one moment, in one document
// (JSON, bytes in base64), so that they appear under their name all at once or not at all.
type Kept struct {
	Files Files
	// OperationID and Plan name the import that they were kept for.
	OperationID string
	Plan        authority.Digest
	// Over is the digest of the files that these are to replace, and Changed are the
	// lease files that differ; empty for files that replace none.
	Over    authority.Digest
	Changed []string
}

// keptDocument is the spelling of Kept.
type keptDocument struct {
	Schema          string           `json:"schema_version"`
	Goal            string           `json:"goal_id"`
	OperationID     string           `json:"operation_id"`
	Plan            authority.Digest `json:"plan_sha256"`
	Over            authority.Digest `json:"over"`
	Changed         []string         `json:"changed,omitempty"`
	State           []byte           `json:"state_base64"`
	StateMissing    bool             `json:"state_missing,omitempty"`
	Leases          []keptEntry      `json:"leases,omitempty"`
	LifecycleFences []keptEntry      `json:"lifecycle_fences,omitempty"`
	Validations     []keptEntry      `json:"validations,omitempty"`
	EventLogs       []EventLog       `json:"event_logs,omitempty"`
}

type keptEntry struct {
	Name    string `json:"name"`
	Regular bool   `json:"regular"`
	Folder  bool   `json:"folder,omitempty"`
	Bytes   []byte `json:"bytes_base64,omitempty"`
}

// Encode spells the document. The holder of a lock is of the moment and not kept.
func (k Kept) Encode() ([]byte, error) {
	doc := keptDocument{Schema: KeptSchema, Goal: k.Files.Goal, OperationID: k.OperationID, Plan: k.Plan, Over: k.Over, Changed: k.Changed,
		State: k.Files.State, StateMissing: k.Files.StateMissing, EventLogs: k.Files.EventLogs,
		Leases: keepEntries(k.Files.Leases), LifecycleFences: keepEntries(k.Files.LifecycleFences), Validations: keepEntries(k.Files.Validations)}
	text, err := json.MarshalIndent(doc, "", " ")
	return append(text, '\n'), err
}

func keepEntries(entries []LeaseEntry) []keptEntry {
	var kept []keptEntry
	for _, e := range entries {
		kept = append(kept, keptEntry(e))
	}
	return kept
}

// ErrKept refuses a document that holds no kept files.
var ErrKept = errors.New("no document of kept files")

// DecodeKept reads a document that Encode spelled.
func DecodeKept(text []byte) (Kept, error) {
	var doc keptDocument
	if err := canonical.DecodeStrict(text, &doc); err != nil {
		return Kept{}, errors.Join(ErrKept, err)
	}
	if doc.Schema != KeptSchema || doc.Goal == "" {
		return Kept{}, ErrKept
	}
	return Kept{OperationID: doc.OperationID, Plan: doc.Plan, Over: doc.Over, Changed: doc.Changed,
		Files: Files{Goal: doc.Goal, State: doc.State, StateMissing: doc.StateMissing, EventLogs: doc.EventLogs,
			Leases: entriesOf(doc.Leases), LifecycleFences: entriesOf(doc.LifecycleFences), Validations: entriesOf(doc.Validations)}}, nil
}

func entriesOf(kept []keptEntry) []LeaseEntry {
	var entries []LeaseEntry
	for _, e := range kept {
		entries = append(entries, LeaseEntry(e))
	}
	return entries
}

// With are the files after a way back was laid over them.
func (f Files) With(r Returned) Files {
	f.State, f.StateMissing = r.State, false
	f.Leases = overlay(f.Leases, r.Leases)
	return f
}

// Lease returns the file of that name in the lease folder.
func (f Files) Lease(name string) (LeaseEntry, bool) {
	for _, e := range f.Leases {
		if e.Name == name {
			return e, true
		}
	}
	return LeaseEntry{}, false
}

// KeepsOutside reports whether every line of rows that no head has, as they stand in
// kept, stands in live too; false for files that cannot be read.
func KeepsOutside(kept, live []byte) bool {
	before, after := Parse(kept), Parse(live)
	old, err := before.Read(Later)
	if err != nil {
		return false
	}
	if _, err := after.Read(Later); err != nil {
		return false
	}
	have := map[string]int{}
	for i := range after.lines {
		have[after.text(i)]++
	}
	for i := range old.Rows {
		for _, p := range old.Rows[i].parts {
			if old.Rows[i].enters() {
				continue
			}
			line := before.text(p.line)
			if have[line]--; have[line] < 0 {
				return false
			}
		}
	}
	return true
}

// SameNarrative reports whether two state files differ in nothing but Todos, what marks
// their sections, and blank lines; false for files that cannot be read.
func SameNarrative(a, b []byte) bool {
	x, okX := Parse(a).told()
	y, okY := Parse(b).told()
	return okX && okY && bytes.Equal(x, y)
}

// told are the lines that are neither of a Todo nor made by a display nor blank.
func (d *Document) told() ([]byte, bool) {
	listing, err := d.Read(Later)
	if err != nil {
		return nil, false
	}
	machine := map[int]bool{}
	for i := range listing.Rows {
		for _, p := range listing.Rows[i].parts {
			machine[p.line] = true
		}
	}
	var told []byte
	for i := range d.lines {
		line := d.text(i)
		shown := d.visible(Later, i) && (hasPrefix(line, watermarkPrefix) || hasPrefix(line, regionPrefix) ||
			line == "## "+HeadingUser || line == "## "+HeadingAgent || line == "## "+HeadingArchive)
		if !machine[i] && !shown && strip(line) != "" {
			told = append(append(told, line...), '\n')
		}
	}
	return told, true
}

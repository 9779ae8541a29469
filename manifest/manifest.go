package manifest

import (
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// SchemaVersion of the manifest document.
const SchemaVersion = "loopx_migration_manifest_v1"

// Phase is how far a migration has come. The legal moves are in package cutover.
type Phase string

// The phases of docs/operations.md, in the order they happen.
const (
	PhaseNone         Phase = "none" // no migration is open
	PhasePlanned      Phase = "planned"
	PhaseFrozen       Phase = "frozen"
	PhaseImported     Phase = "imported"
	PhaseVerified     Phase = "verified"
	PhasePromoted     Phase = "promoted"
	PhaseTargetFenced Phase = "target_fenced"
	PhaseExported     Phase = "exported"
	PhaseRolledBack   Phase = "rolled_back"
	PhaseAborted      Phase = "aborted"
)

// Closed reports whether a migration in this phase is over, so that another may
// begin. A promoted one is over too, as far as a new migration is concerned; it
// stays the current one until then, since only it can be rolled back.
func (p Phase) Closed() bool {
	return p == PhaseNone || p == PhaseRolledBack || p == PhaseAborted
}

// Manifest is the record of one migration.
type Manifest struct {
	SchemaVersion string `json:"schema_version"`
	MigrationID   string `json:"migration_id"`
	GoalID        string `json:"goal_id"`
	Phase         Phase  `json:"phase"`
	// Previous is the promoted migration that was current when this one began: it is
	// current again if this one is given up.
	Previous    string        `json:"previous,omitempty"`
	Intent      *Intent       `json:"intent,omitempty"`
	Source      Binding       `json:"source"`
	Target      Binding       `json:"target"`
	Selector    Selector      `json:"original_selector"`
	Kept        *Kept         `json:"kept_files,omitempty"`
	Retained    *Archive      `json:"retained_history,omitempty"`
	Copied      *Copied       `json:"copied_through,omitempty"`
	Verdicts    []Verdict     `json:"verdicts,omitempty"`
	Fence       *Fence        `json:"fence,omitempty"`
	Authority   *Declared     `json:"authority_binding,omitempty"`
	Translation *Revisions    `json:"revision_translation,omitempty"`
	Accepted    []Accepted    `json:"accepted,omitempty"`
	Tripwires   []Tripwire    `json:"tripwires,omitempty"`
	Promotion   *Promotion    `json:"promotion,omitempty"`
	Rollback    *Rollback     `json:"rollback,omitempty"`
	Steps       []Step        `json:"steps"`
	Incidents   []Incident    `json:"incidents,omitempty"`
	Quarantine  []Quarantined `json:"quarantine,omitempty"`
}

// Binding is one side of a migration, as it stood when it was bound.
type Binding struct {
	Kind          authority.Kind     `json:"kind"`
	Format        authority.Format   `json:"format,omitempty"`
	Identity      authority.Identity `json:"store_identity"`
	Tenant        string             `json:"tenant_id,omitempty"`
	Elsewhere     bool               `json:"elsewhere,omitempty"` // not LoopX's own place; the path is in host.json
	Revision      authority.Revision `json:"revision,omitempty"`
	Cursor        authority.Cursor   `json:"cursor"`
	LogicalDigest authority.Digest   `json:"logical_digest"`
	HeadDigest    authority.Digest   `json:"head_digest"`
	FieldManifest authority.Digest   `json:"field_manifest"` // of the head's contract_fields
	Transactions  uint64             `json:"transactions"`
	Events        uint64             `json:"events"`
	Receipts      uint64             `json:"receipts"`
	Bytes         int64              `json:"bytes,omitempty"`
	End           authority.Bookmark `json:"end"`
}

// Selector is the state of LoopX's selector before a migration touched it.
type Selector struct {
	Present bool   `json:"present"`
	Text    string `json:"text,omitempty"` // byte for byte
}

// Intent is a step that was begun. It stands in the manifest from before the
// step's first effect until its result is recorded.
type Intent struct {
	Command     string           `json:"command"`
	OperationID string           `json:"operation_id"`
	Fingerprint authority.Digest `json:"fingerprint"`
	Principal   string           `json:"principal"`
	PlanDigest  authority.Digest `json:"plan_digest"`
	// MaxStallMillis is the stall budget of a cutover, for whoever resumes it.
	MaxStallMillis int64 `json:"max_stall_ms,omitempty"`
	// Through is the place in a live history that the plan bound: whatever is found
	// behind the fence must pass through it.
	Through authority.Bookmark `json:"through,omitzero"`
	Parity  Parity             `json:"parity,omitzero"`
	At      time.Time          `json:"at"`
}

// Parity is what was asked of a comparison.
type Parity struct {
	MinimumOperations uint64   `json:"minimum_operations,omitempty"`
	RequireEventKinds []string `json:"require_event_kinds,omitempty"`
	PageSizes         []int    `json:"page_sizes,omitempty"`
}

// IsZero reports whether nothing beyond the usual was asked.
func (p Parity) IsZero() bool {
	return p.MinimumOperations == 0 && len(p.RequireEventKinds) == 0 && len(p.PageSizes) == 0
}

// Copied says how far a candidate follows a source that is still live.
type Copied struct {
	Bookmark     authority.Bookmark `json:"bookmark"`      // in the source
	TargetDigest authority.Digest   `json:"target_digest"` // logical digest of the candidate through it
}

// Verdict is the result of a comparison that was recorded.
type Verdict struct {
	Cursor   authority.Cursor   `json:"cursor"`
	Revision authority.Revision `json:"revision"`
	Logical  authority.Digest   `json:"logical_digest"`
	Report   authority.Digest   `json:"report_digest"`
	Passed   bool               `json:"passed"`
	At       time.Time          `json:"at"`
}

// Fence is what keeps writers out, and how that was proved.
type Fence struct {
	ID       string    `json:"fence_id"`
	FrozenAt time.Time `json:"frozen_at"`
	// Import is what the legacy writer fence names, of a migration that engaged one.
	Import *Import `json:"cold_import,omitempty"`
	Probes []Probe `json:"probes,omitempty"`
}

// Import is the operation that brings the legacy files into a store, and its plan.
type Import struct {
	OperationID string           `json:"operation_id"`
	PlanDigest  authority.Digest `json:"plan_digest"`
}

// Kept is where the legacy files are kept as they were at the freeze.
type Kept struct {
	Where  string           `json:"where"` // relative to the runtime root
	SHA256 authority.Digest `json:"sha256"`
	// Files is the digest of what writers keep in the files, State that of the state file.
	Files  authority.Digest `json:"files_digest"`
	State  authority.Digest `json:"state_digest"`
	Leases int              `json:"lease_files"`
}

// Archive is a history that went back to files which cannot hold it: the beginning of
// the history of a later migration.
type Archive struct {
	Where   string           `json:"where"`  // relative to the runtime root
	SHA256  authority.Digest `json:"sha256"` // of its seal, and thereby of every line
	Cursor  authority.Cursor `json:"cursor"`
	Logical authority.Digest `json:"logical_digest"`
}

// Probe is a try to write that had to be refused. By is "loopx" or "model".
type Probe struct {
	By      string    `json:"by"`
	Arm     string    `json:"arm"`
	Refused bool      `json:"refused"`
	Answer  string    `json:"answer"` // the reason code it got
	At      time.Time `json:"at"`
}

// Declared is the authority that a promotion declares.
type Declared struct {
	Profile      string             `json:"provider_profile"` // as in LoopX's labels: sqlite_v0
	Identity     authority.Identity `json:"store_identity"`
	Fields       authority.Digest   `json:"field_manifest"`
	OperationID  string             `json:"promotion_operation_id"`
	At           time.Time          `json:"at"`
	SourceDigest authority.Digest   `json:"source_digest"`
}

// Revisions says how provider revisions of the source translate to the target's.
type Revisions struct {
	Rule   string           `json:"rule"`
	Count  uint64           `json:"count"`
	Digest authority.Digest `json:"digest"` // SHA-256 of the list in translation/<id>.jsonl
}

// Accepted is a hold that was accepted by name.
type Accepted struct {
	Hold   string `json:"hold"`
	Record string `json:"record"`
	Owner  string `json:"owner"`
	Reason string `json:"reason"`
	// OperationID is the command it was accepted for; it holds for no other.
	OperationID string `json:"operation_id,omitempty"`
}

// Tripwire is where a retired store stood, so that a later write on it is seen.
type Tripwire struct {
	Kind     authority.Kind     `json:"kind"`
	Identity authority.Identity `json:"store_identity"`
	Cursor   authority.Cursor   `json:"cursor"`
	Revision authority.Revision `json:"revision"`
	Logical  authority.Digest   `json:"logical_digest"`
	Where    string             `json:"where"` // relative to the runtime root
}

// Promotion is the moment the target became the authority.
type Promotion struct {
	OperationID string    `json:"operation_id"`
	PublishedAt time.Time `json:"published_at"`
	// StallMillis runs from the frozen selector to the published one.
	StallMillis int64 `json:"stall_ms"`
	// FullReread is whether the re-read of both whole histories that follows
	// publication has been done and agreed.
	FullReread bool `json:"full_reread"`
}

// Rollback is the way back after a promotion.
type Rollback struct {
	OperationID    string           `json:"operation_id"`
	FenceID        string           `json:"fence_id"`
	FrozenAt       time.Time        `json:"frozen_at"`
	RolledBackFrom Binding          `json:"rolled_back_from"`
	Exported       uint64           `json:"exported_transactions"`
	Report         authority.Digest `json:"report_digest"`
	Archive        *Archive         `json:"archive,omitempty"` // of a history that the source cannot hold
	RestoredAt     time.Time        `json:"restored_at,omitzero"`
	StallMillis    int64            `json:"stall_ms,omitempty"`
}

// Incident is something that must not happen and did.
type Incident struct {
	Code   string           `json:"code"`
	Cursor authority.Cursor `json:"cursor,omitempty"`
	Detail string           `json:"detail"`
	At     time.Time        `json:"at"`
}

// Quarantined is a store that was taken out of use and kept.
type Quarantined struct {
	Kind     authority.Kind     `json:"kind"`
	Identity authority.Identity `json:"store_identity"`
	// Where is relative to the runtime root; a store in a database server has no path, and
	// kind:id under which the database keeps it.
	Where string `json:"where"`
	// SHA256 and Bytes are those of the file. In a database, where rows stand, SHA256 is the
	// last seal of their chain, zero when there is no row, and Cursor the row it seals.
	SHA256 authority.Digest `json:"sha256"`
	Bytes  int64            `json:"bytes"`
	Cursor authority.Cursor `json:"cursor,omitempty"`
	Why    string           `json:"why"`
	At     time.Time        `json:"at"`
}

// Step is one finished command. Digest covers all other fields and the step before.
type Step struct {
	Seq         int               `json:"seq"`
	Command     string            `json:"command"`
	OperationID string            `json:"operation_id"`
	Fingerprint authority.Digest  `json:"fingerprint"`
	Principal   string            `json:"principal"`             // whose operation it is
	FinishedBy  string            `json:"finished_by,omitempty"` // another principal, who resumed it
	Actor       string            `json:"actor,omitempty"`
	Phase       Phase             `json:"phase"` // after it
	StartedAt   time.Time         `json:"started_at"`
	FinishedAt  time.Time         `json:"finished_at"`
	Facts       map[string]string `json:"facts,omitempty"`
	Evidence    map[string]string `json:"evidence,omitempty"` // name to digest
	Previous    authority.Digest  `json:"previous"`
	Digest      authority.Digest  `json:"digest"`
}

// AddStep chains a step onto the record.
func (m *Manifest) AddStep(s Step) error {
	s.Seq = len(m.Steps) + 1
	if s.Seq > 1 {
		s.Previous = m.Steps[s.Seq-2].Digest
	}
	s.Digest = authority.Digest{}
	digest, err := DigestOf(s)
	if err != nil {
		return err
	}
	s.Digest = digest
	m.Steps = append(m.Steps, s)
	return nil
}

// VerifySteps proves the chain of steps.
func (m *Manifest) VerifySteps() error {
	var previous authority.Digest
	for i, s := range m.Steps {
		claimed := s.Digest
		s.Digest = authority.Digest{}
		digest, err := DigestOf(s)
		if err != nil {
			return err
		}
		if s.Seq != i+1 || s.Previous != previous || digest != claimed {
			return &TamperedError{File: "manifest.json", Detail: fmt.Sprintf("step %d does not follow from the one before", i+1)}
		}
		previous = claimed
	}
	return nil
}

// StepOf returns the finished step of a principal's operation, or nil.
func (m *Manifest) StepOf(principal, operationID string) *Step {
	for i := range m.Steps {
		if m.Steps[i].OperationID == operationID && m.Steps[i].Principal == principal {
			return &m.Steps[i]
		}
	}
	return nil
}

package parity

import "github.com/loopx-project/loopx-migrate/authority"

// ReportSchema names the shape of a Report.
const ReportSchema = "loopx_migrate_parity_v1"

// Verdict is the answer over all checks.
type Verdict string

// The verdicts. Only Qualified is a success.
const (
	// Qualified: every check is equal and the coverage asked for was met.
	Qualified Verdict = "qualified"
	// InsufficientEvidence: every check is equal, but too little was compared.
	InsufficientEvidence Verdict = "insufficient_evidence"
	// Drifted: something differs, or could not be read.
	Drifted Verdict = "drifted"
)

// CheckName names one check.
type CheckName string

// The checks, in the order of a report.
const (
	CheckHead            CheckName = "head"
	CheckReceipts        CheckName = "receipts"
	CheckIdentity        CheckName = "identity"
	CheckScans           CheckName = "scans"
	CheckLineage         CheckName = "lineage"
	CheckConsumers       CheckName = "consumers"
	CheckSourceUntouched CheckName = "source_untouched"
)

var checkOrder = []CheckName{CheckHead, CheckReceipts, CheckIdentity, CheckScans, CheckLineage, CheckConsumers, CheckSourceUntouched}

// Outcome is the answer of one check.
type Outcome string

// The outcomes. A check that could not read an arm is Failed, never Equal.
const (
	Equal       Outcome = "equal"
	Differs     Outcome = "differs"
	Failed      Outcome = "failed"
	NotCompared Outcome = "not_compared"
)

// Difference is one place where arms differ, or where one breaks a rule.
type Difference struct {
	// Code is stable: row_missing, row_differs, receipt_differs and so on.
	Code string `json:"code"`
	// Arm is the arm at fault: the odd one of three, or the one that breaks a rule
	// by itself. Empty when two arms differ and nothing says which is right.
	Arm         string           `json:"arm,omitempty"`
	Cursor      authority.Cursor `json:"cursor,omitempty"`
	OperationID string           `json:"operation_id,omitempty"`
	TodoID      string           `json:"todo_id,omitempty"`
	// Field is the JSON path of the first field that differs. Records are named by
	// their Todo id, keys that are no plain names by the start of their SHA-256.
	Field string `json:"field,omitempty"`
	// Values holds for each arm the SHA-256 of what it has there, "absent", or a
	// short answer such as a count, a cursor or a class and reason.
	Values map[string]string `json:"values,omitempty"`
}

// Check is the verdict of one check.
type Check struct {
	Name    CheckName `json:"check"`
	Outcome Outcome   `json:"outcome"`
	// Compared counts what was compared: rows, receipts, pages, lists and so on.
	Compared uint64 `json:"compared"`
	// Total counts all differences; Differences lists the first of them.
	Total       uint64       `json:"differences_total"`
	Differences []Difference `json:"differences,omitempty"`
	// Notes are remarks that do not change the outcome: what was left out and why.
	Notes []string `json:"notes,omitempty"`
}

// ArmFacts is what a report says of one arm.
type ArmFacts struct {
	Name         string             `json:"arm"`
	Kind         authority.Kind     `json:"kind"`
	Format       authority.Format   `json:"format,omitempty"`
	Identity     authority.Identity `json:"store_identity,omitempty"`
	Cursor       authority.Cursor   `json:"cursor,omitempty"`
	Revision     authority.Revision `json:"provider_revision,omitempty"`
	Transactions uint64             `json:"transactions"`
	Logical      *authority.Digest  `json:"logical_sha256,omitempty"`
	Head         *authority.Digest  `json:"head_sha256,omitempty"`
	// Projection names the compatibility projection a head-only arm went through.
	Projection string `json:"compatibility_projection,omitempty"`
}

// CoverageFacts is what was lived by both sides.
type CoverageFacts struct {
	// Operations counts distinct committed operations that all arms hold alike.
	Operations        uint64            `json:"operations"`
	MinimumOperations uint64            `json:"minimum_operations"`
	EventKinds        map[string]uint64 `json:"event_kinds"`
	MissingEventKinds []string          `json:"missing_event_kinds,omitempty"`
}

// Report is the result of a comparison.
type Report struct {
	SchemaVersion string     `json:"schema_version"`
	Verdict       Verdict    `json:"verdict"`
	Arms          []ArmFacts `json:"arms"`
	// After and Through bound the rows compared; Through 0 means up to the heads.
	After    authority.Cursor `json:"after,omitempty"`
	Through  authority.Cursor `json:"through,omitempty"`
	Checks   []Check          `json:"checks"`
	Coverage CoverageFacts    `json:"coverage"`

	// Readable is a diff of the first differing record, with its text: for the
	// terminal only.
	Readable string `json:"-"`
}

// Check returns the verdict of one check.
func (r Report) Check(name CheckName) Check {
	for _, check := range r.Checks {
		if check.Name == name {
			return check
		}
	}
	return Check{Name: name, Outcome: NotCompared}
}

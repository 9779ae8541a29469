package evidence

import (
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

// RehearsalSchema names the shape of a Rehearsal.
const RehearsalSchema = "loopx_migrate_rehearsal_v1"

// Result is the answer over a whole rehearsal.
type Result string

// The results. Only Passed is a success.
const (
	// Passed: every check is equal or accepted, every planted difference was found,
	// the source was left alone and the way back was proved.
	Passed Result = "passed"
	// Failed: something differs, a planted difference was missed, or the source changed.
	Failed Result = "failed"
	// Incomplete: nothing differs, but the rehearsal did not come to its end.
	Incomplete Result = "incomplete"
)

// Rehearsal is the result of one rehearsal: ids, counts, times and digests. It is
// stored and shared as JSON; times are UTC, durations whole milliseconds.
type Rehearsal struct {
	SchemaVersion string    `json:"schema_version"` // RehearsalSchema
	RehearsalID   string    `json:"rehearsal_id"`
	GoalID        string    `json:"goal_id"`
	StartedAt     time.Time `json:"started_at"`
	FinishedAt    time.Time `json:"finished_at"`
	Result        Result    `json:"result"`
	// Reasons say in a sentence each why the result is not Passed.
	Reasons []string `json:"reasons,omitempty"`
	// OddArm and First name the arm at fault and the first difference, where there is one.
	OddArm string             `json:"odd_arm,omitempty"`
	First  *parity.Difference `json:"first_difference,omitempty"`

	Plan        RehearsedPlan   `json:"plan"`
	Source      RehearsedSource `json:"source"`
	Workload    Workload        `json:"workload"`
	Arms        []RehearsedArm  `json:"arms"`
	Phases      []Phase         `json:"phases"`
	Stalls      []Stall         `json:"write_stalls"`
	WayBack     []WayBack       `json:"way_back"`
	Verdicts    []CheckVerdict  `json:"verdicts"`
	Planted     []Planted       `json:"planted_differences"`
	Probes      []NamedProbe    `json:"probes,omitempty"`
	Rates       []Series        `json:"rates,omitempty"`
	Latencies   []Latency       `json:"latencies,omitempty"`
	Growth      []Series        `json:"history_growth,omitempty"`
	Accepted    []AcceptedUse   `json:"accepted_differences,omitempty"`
	NotChecked  []NotChecked    `json:"not_checked"`
	Environment Environment     `json:"environment"`
}

// RehearsedPlan is what the rehearsal stands for: a promotion of this source to this
// kind of target. A plan that binds anything else was not rehearsed.
type RehearsedPlan struct {
	SourceKind     authority.Kind     `json:"source_kind"`
	SourceIdentity authority.Identity `json:"source_store_identity"`
	Cursor         authority.Cursor   `json:"cursor"`
	Revision       authority.Revision `json:"revision"`
	LogicalDigest  authority.Digest   `json:"logical_digest"`
	Targets        []authority.Kind   `json:"target_kinds"`
	// PlanDigest is the digest of the plan itself, where the flow gave one: sha256:HEX.
	PlanDigest string `json:"plan_digest,omitempty"`
}

// RehearsedSource is the source that was copied, and the proof that it was left alone.
type RehearsedSource struct {
	Format       authority.Format `json:"format,omitempty"`
	Transactions uint64           `json:"transactions"`
	Bytes        int64            `json:"bytes"`
	// TreeBefore and TreeAfter are digests over names, modes and bytes of everything
	// below the source's folder.
	TreeBefore authority.Digest `json:"tree_before"`
	TreeAfter  authority.Digest `json:"tree_after"`
}

// Untouched reports whether the source is what it was.
func (s RehearsedSource) Untouched() bool { return s.TreeBefore == s.TreeAfter }

// Workload is what was driven through every arm.
type Workload struct {
	Name   string           `json:"name"`
	Origin string           `json:"origin"` // built_in, recorded or file
	SHA256 authority.Digest `json:"sha256"` // of the operations in order
	// Operations counts by verb: claim, lease_acquire, complete, archive, replay, conflict ...
	Operations map[string]uint64 `json:"operations"`
	Todos      uint64            `json:"todos,omitempty"`
	Leases     uint64            `json:"leases,omitempty"`
}

// RehearsedArm is one side of the rehearsal, at its end.
type RehearsedArm struct {
	Name string         `json:"arm"`
	Kind authority.Kind `json:"kind"`
	// Driver says who made its operations: "loopx" for LoopX's own command line,
	// "model" for this program's writer. An arm that shares our code cannot contradict it.
	Driver        string `json:"driver"`
	DriverVersion string `json:"driver_version,omitempty"`
	// Projection names the compatibility projection of an arm without a journal.
	Projection    string             `json:"compatibility_projection,omitempty"`
	Format        authority.Format   `json:"format,omitempty"`
	Identity      authority.Identity `json:"store_identity,omitempty"`
	Cursor        authority.Cursor   `json:"cursor,omitempty"`
	Transactions  uint64             `json:"transactions"`
	Events        uint64             `json:"events"`
	Receipts      uint64             `json:"receipts"`
	Bytes         int64              `json:"bytes,omitempty"`
	HeadDigest    authority.Digest   `json:"head_sha256"`
	LogicalDigest authority.Digest   `json:"logical_sha256,omitzero"`
	// ReceiptsCompared and RowsScanned are how many of them the checks met.
	ReceiptsCompared uint64 `json:"receipts_compared"`
	RowsScanned      uint64 `json:"rows_scanned"`
}

// Phase is one step of one arm on the rehearsal's clock.
type Phase struct {
	Arm  string `json:"arm"`
	Name string `json:"phase"` // inspect, freeze, import, compare, promote, work, rollback ...
	// StartMillis counts from the rehearsal's StartedAt.
	StartMillis    int64 `json:"start_ms"`
	DurationMillis int64 `json:"duration_ms"`
	Failed         bool  `json:"failed,omitempty"`
	// Differs says of a failed phase that it ended with a difference that it found itself.
	Differs bool `json:"differs,omitempty"`
}

// Stall is a time in which nobody could write: from the frozen selector to the published one.
type Stall struct {
	Arm string `json:"arm"`
	// Phase is where it happened: cutover, promote or rollback.
	Phase           string `json:"phase"`
	StartMillis     int64  `json:"start_ms"`
	DurationMillis  int64  `json:"duration_ms"`
	PredictedMillis int64  `json:"predicted_ms,omitempty"`
	BudgetMillis    int64  `json:"budget_ms,omitempty"`
}

// WayBack is one rollback that was timed and proved.
type WayBack struct {
	Arm            string `json:"arm"`
	Proved         bool   `json:"proved"`
	DurationMillis int64  `json:"duration_ms"`
	// Exported counts the transactions that only the target had.
	Exported uint64 `json:"exported_transactions"`
}

// CheckVerdict is the verdict of one check over some arms.
type CheckVerdict struct {
	// By is who checked: "parity", "witness" (naive readers of its own) or "rehearsal".
	By       string         `json:"by"`
	Check    string         `json:"check"`
	Arms     []string       `json:"arms"`
	Outcome  parity.Outcome `json:"outcome"`
	Compared uint64         `json:"compared"`
	// Total counts all differences; Differences lists the first of them.
	Total       uint64              `json:"differences_total"`
	Differences []parity.Difference `json:"differences,omitempty"`
	// Accepted counts the differences that an entry of the operator's file covers.
	Accepted uint64   `json:"accepted,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// Planted is a difference that was made on purpose, on a copy.
type Planted struct {
	Name   string           `json:"planted"` // dropped_transaction, swapped_transactions ...
	Arm    string           `json:"arm"`     // whose format the copy had
	Cursor authority.Cursor `json:"cursor,omitempty"`
	Found  bool             `json:"found"`
	// FoundBy and FoundAt are the check that found it and where.
	FoundBy string           `json:"found_by,omitempty"`
	FoundAt authority.Cursor `json:"found_at,omitempty"`
	Field   string           `json:"field,omitempty"`
}

// NamedProbe is a writer's try behind a fence.
type NamedProbe struct {
	Phase string `json:"phase"`
	manifest.Probe
}

// Series is a curve: pairs of what X and Y name.
type Series struct {
	Arm    string       `json:"arm"`
	Name   string       `json:"name"` // import_rate, history_bytes ...
	X      string       `json:"x"`    // with unit: seconds, transactions
	Y      string       `json:"y"`    // with unit: transactions per second, bytes
	Points [][2]float64 `json:"points"`
}

// Latency is how long one kind of operation took on one arm, in microseconds.
type Latency struct {
	Arm       string `json:"arm"`
	Operation string `json:"operation"`
	Count     uint64 `json:"count"`
	P50Micros int64  `json:"p50_us"`
	P95Micros int64  `json:"p95_us"`
	P99Micros int64  `json:"p99_us"`
	MaxMicros int64  `json:"max_us"`
}

// AcceptedUse is an accepted difference and how often it was needed.
type AcceptedUse struct {
	ID    string `json:"id"`
	Owner string `json:"owner"`
	Used  uint64 `json:"used"`
}

// NotChecked is something the rehearsal does not prove, and why.
type NotChecked struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Environment is where it ran, as far as it bears on numbers and formats.
type Environment struct {
	Program    string `json:"program"` // loopx-migrate and its version
	Revision   string `json:"vcs_revision,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"` // linux/amd64
	CPUs       int    `json:"cpus"`
	SQLite     string `json:"sqlite,omitempty"`
	PostgreSQL string `json:"postgresql,omitempty"`
	LoopX      string `json:"loopx,omitempty"`
	FileSystem string `json:"file_system,omitempty"`
}

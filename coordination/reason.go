package coordination

import "fmt"

// Outcome is the class of a command's result.
type Outcome string

// The outcomes, as LoopX names them.
const (
	// Applied: state and receipt were committed together.
	Applied Outcome = "applied"
	// AlreadyApplied: the operation had been applied; its stored receipt is returned.
	AlreadyApplied Outcome = "already_applied"
	// Conflict: the target or a named precondition is stale, or the id means something else. No receipt.
	Conflict Outcome = "conflict"
	// Rejected: identity, eligibility, gate or the command itself was refused. No receipt.
	Rejected Outcome = "rejected"
	// Failed: nothing can be proved, or contention spent the budget.
	Failed Outcome = "failed"
)

// Reason is a stable code within an outcome.
type Reason string

// Reasons of heads.
const (
	// ReasonHeadCorruption: the head contradicts itself or the rules of its shape.
	ReasonHeadCorruption Reason = "head_corruption"
	// ReasonHeadSchema: no head that this package knows.
	ReasonHeadSchema Reason = "head_schema_unknown"
	// ReasonHeadMigration: a head of schema v0, which only UpgradeHead may touch.
	ReasonHeadMigration Reason = "head_schema_migration_required"
	// ReasonHeadCurrent: the head has the newest schema already.
	ReasonHeadCurrent Reason = "head_schema_current"
	// ReasonLineage: the head is bound to another store than the one it came from.
	ReasonLineage Reason = "store_lineage_mismatch"
	// ReasonBoundAlready: the head is bound to that store already.
	ReasonBoundAlready Reason = "store_bound_already"
	// ReasonUnbound: a head of this shape is bound to no store.
	ReasonUnbound Reason = "head_has_no_binding"
)

// Reasons of commands. Each goes with one outcome.
const (
	ReasonIdentity        Reason = "operation_identity_mismatch" // conflict: the id stands for something else
	ReasonGoal            Reason = "goal_mismatch"               // rejected: the envelope names another Goal
	ReasonInvalid         Reason = "command_invalid"             // rejected: the envelope breaks its closed form
	ReasonShape           Reason = "command_not_supported"       // rejected: a head of this shape has no place for it
	ReasonUnknownTodo     Reason = "todo_unknown"                // rejected
	ReasonTodoExists      Reason = "todo_exists"                 // rejected: a create or a successor names a Todo that is there
	ReasonStale           Reason = "todo_revision_stale"         // conflict: the Todo moved on
	ReasonPrecondition    Reason = "precondition_stale"          // conflict: a named precondition moved on
	ReasonTokenReused     Reason = "precondition_token_reused"   // rejected: new content under an old token
	ReasonNotOpen         Reason = "todo_not_open"               // rejected
	ReasonNotDone         Reason = "todo_not_done"               // rejected: only what is done is archived
	ReasonIneligible      Reason = "agent_not_eligible"          // rejected
	ReasonDependencies    Reason = "dependency_closed"           // rejected
	ReasonGate            Reason = "gate_closed"                 // rejected
	ReasonClaimed         Reason = "todo_already_claimed"        // rejected
	ReasonNotClaimed      Reason = "todo_not_claimed"            // rejected
	ReasonScopeOverlap    Reason = "write_scope_overlap"         // rejected: an active lease may write there
	ReasonScopeMissing    Reason = "write_scope_missing"         // rejected: the Todo needs a scope that was not asked for
	ReasonStaleFence      Reason = "stale_lease_fence"           // conflict, terminal: lease id or epoch is not the one that stands
	ReasonNotHolder       Reason = "not_lease_holder"            // rejected
	ReasonNotActive       Reason = "lease_not_active"            // rejected
	ReasonNotReclaimable  Reason = "lease_not_reclaimable"       // rejected: active, or inside the grace window
	ReasonModeForbids     Reason = "handoff_mode_forbids_lease"  // rejected
	ReasonModeNeedsLease  Reason = "handoff_mode_requires_lease" // rejected
	ReasonModeSame        Reason = "handoff_mode_unchanged"      // rejected
	ReasonNotQuiescent    Reason = "handoff_mode_not_quiescent"  // rejected, with offenders
	ReasonNotDelegated    Reason = "actor_not_delegated"         // rejected: only a delegated authority may override
	ReasonBothSet         Reason = "completion_both_set"         // rejected: no_followup beside successors
	ReasonBudget          Reason = "contention_budget_spent"     // failed
	ReasonUnproved        Reason = "provider_outcome_unproved"   // failed
	ReasonMissing         Reason = "authority_missing"           // failed: the store has no transaction
	ReasonUnavailable     Reason = "authority_unavailable"       // failed: the store could not be asked
	ReasonReceiptMalform  Reason = "receipt_malformed"           // failed: what stands under the id is no receipt of ours to read
	ReasonStoreRefused    Reason = "provider_refused"            // failed: the store refused the commit; nothing was written
	ReasonReadbackDiffers Reason = "commit_readback_mismatch"    // failed: applied, and the receipt is not there
)

// Refusal is why a command was not applied. It never holds a value that a person wrote.
type Refusal struct {
	Outcome   Outcome
	Reason    Reason
	Field     string   // the parameter, precondition or member at fault
	Detail    string   // one clause for a person
	Offenders []string // Todo ids in the way, in code-point order
}

// Error is one line.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("%s/%s", r.Outcome, r.Reason)
	if r.Field != "" {
		text += " field " + r.Field
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

func rejected(reason Reason, field, detail string) *Refusal {
	return &Refusal{Outcome: Rejected, Reason: reason, Field: field, Detail: detail}
}

func conflict(reason Reason, field, detail string) *Refusal {
	return &Refusal{Outcome: Conflict, Reason: reason, Field: field, Detail: detail}
}

func failed(reason Reason, detail string) *Refusal {
	return &Refusal{Outcome: Failed, Reason: reason, Detail: detail}
}

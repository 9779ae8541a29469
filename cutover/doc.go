// Package cutover is the flow of a migration, to be read first. A Goal's authority
// moves from a source store to a target store in steps that an operator previews
// and executes one by one:
//
//	         plan           freeze          import          compare         promote
//	source ──────► planned ──────► frozen ──────► imported ──────► verified ──────► promoted
//	    ▲             │               │               │               │                │
//	    │             └──── abort ────┴───────────────┴───────────────┘                │ rollback
//	    │                    (source stays authority, candidate quarantined)           ▼
//	    └─────────────────────── rolled_back ◄──────── exported ◄──────── target_fenced
//
// Every step goes through [Flow.Run] and the same beats: the outcome of the same
// operation is returned if there is one; the plan is made again and must have the
// digest that was previewed; the intent is recorded durably; the effects are done,
// each of them re-enterable; what they left is read back; the result is recorded.
// A step that died is found by its intent, and [Flow.Run] goes on with it.
//
// At every instant at most one store accepts writes: the selector is the only thing
// that moves that right, and it passes through "frozen" on its way.
package cutover

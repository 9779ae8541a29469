// Package coordination is the meaning of LoopX's coordination commands: claim, renew,
// release, reclaim and complete, and what a workload needs beside them.
//
// It decides and never keeps: a [Authority] reads one head from any authority.Store,
// decides from the head and a clock that it was given, and commits state and receipt in
// one step. Three layers stay apart: the decision (pure: a head, a command and a time
// give the next head or a refusal), the execution (load, replay, commit, read back) and
// the observation of the store, whose answers never stand in for a decision.
//
// Two shapes of head exist (spec: docs/coordination.md). The coordination head
// loopx_coordination_head_v1 holds counters and receipts itself and names the store that
// may act on it. The projection head of real stores holds Todo records and leases; its
// authority revision is the cursor, a Todo's revision is the number of transactions that
// touched it since it was created, and receipts live in the transactions.
//
// Three numbers, three domains: the provider revision belongs to a store, the authority
// revision counts a Goal's commits, the lease epoch counts the leases of one Todo. That
// two of them are equal means nothing.
package coordination

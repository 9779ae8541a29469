// Package filestore is LoopX's file journal: one JSON document a Goal, in the
// physical formats loopx_file_authority_store_v0 (the whole projection in every
// transaction) and _v1 (a checkpoint every 64 transactions, deltas between).
//
// Both hold the same logical rows under the same revisions:
//
//	file:<cursor>:<first 24 hex digits of SHA-256 over the canonical
//	    {goal_id, previous_provider_revision, store_identity, transaction}>
//
// so a document proves itself from its first row to its head, given the Goal id
// and the identity that stands in the file beside it.
//
// # How a document is read
//
// A document is never held in memory and never mapped. Its frame is found first
// (frame.go): in LoopX's own spelling the header follows the rows, so it is
// sought from the end; in any other spelling the whole text is framed once, and
// of repeated keys the last one counts. Then the rows go through a pipeline
// (pipeline.go): one goroutine cuts them out and proves their canonical form,
// two hash, and the caller's goroutine checks the chain in order. Whatever is
// wrong only makes that pass give up: the refusal itself comes from a second,
// plain, sequential reading (diagnose.go) that makes LoopX's checks in LoopX's
// order, so that a document with two defects is refused for the same one.
//
// # Where this package differs from LoopX
//
//   - Reading never writes. LoopX mints a missing identity when it reads a
//     document that was not opened existing-only; here Identity is unavailable
//     then, and Load refuses as LoopX does after minting: the lineage cannot match.
//   - A commit mints a missing identity only when it is about to write; LoopX
//     mints before it decides.
//   - A commit that fails before its rename began is ClassFailed, with nothing
//     changed; LoopX calls every failure of the write ambiguous.
//   - A journal that would pass the 536,870,888 characters LoopX can read is
//     refused before it is written (ReasonCapacity); LoopX writes it and can never
//     read it again.
//   - JSON nested deeper than canonical.MaxDepth is refused at a fixed depth;
//     LoopX's limit depends on its stack.
package filestore

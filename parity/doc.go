// Package parity answers whether two or three arms say the same thing.
//
// An arm is one side of a comparison: a verified snapshot of a store
// (authority.View), or, for the legacy files, a head alone. Compare reads the
// arms through the store contract and never writes. It gives one verdict a check
// (see CheckName) and, through the coverage gate, one over all: qualified,
// insufficient_evidence or drifted.
//
// The whole history is walked once, all arms in step, bytes against bytes; the
// other page sizes are tried in windows at the start, the middle and the end.
// What is held in memory is a page an arm, whatever the length.
//
// A Report carries ids, counts, cursors, digests and JSON paths, and no value of
// any record, so that it may be shared. Report.Readable is the exception, for
// the terminal, and does not enter its JSON.
package parity

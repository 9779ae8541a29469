// Package rehearsal runs a whole migration on disposable copies of a Goal: promotion,
// work and the way back, on several arms side by side, and says whether they agree.
//
// The source is only read. It is copied once, the copy is held against it byte by byte,
// and what it holds is hashed before and after ([Tree]); a copy that would be the source
// itself, or anything else in production, under another name is refused ([Guard]). Each
// arm then works on a copy of that copy:
//
//   - the control is of the source's own kind. It is never migrated; it only gets the work;
//   - a migrated arm goes through the real flow (package cutover): cutover, the same
//     work on the target, rollback.
//
// The work is a [Workload]: the same operations for every arm, decided by each from its own
// head. Provider arms are compared exactly, a legacy arm through legacy.Compatible. What
// comes out is an evidence.Rehearsal.
package rehearsal

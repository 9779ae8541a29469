// Package legacy reads and writes what a Goal was before it had a store: the
// Markdown file ACTIVE_GOAL_STATE.md and the task-lease JSON files.
//
// A state file is kept whole. [Parse] cuts it into spans (front matter, headings,
// prose, fences, comments, Todo lines, metadata, region markers) that joined again
// are the file, byte for byte; whatever is not a Todo is never touched.
//
// LoopX has read that file in two ways: release 0.5.1 knows no code fences and no
// regions, later releases do. [Document.Read] gives either [Reading]; where they
// differ, [Inspect] says so, since one of them may have written what the other
// cannot see. [Goal.Projection] is the head that a store gets: the record contract
// of LoopX's releases, by code point, archived rows included when they have an
// identity and a role. [Return] is the way back: a head becomes a state file and
// lease files again, proved by reading them. [Display] renders what LoopX shows of
// a promoted Goal.
//
// Nothing here decides where files are or when they are written; [Load] only reads.
// Sources of the grammar: LoopX 0.5.1 (its recorded answers), LoopX 2.1.1 (run and read);
// docs/legacy.md lists where this package and they differ.
package legacy

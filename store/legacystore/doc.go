// Package legacystore shows the legacy files of a Goal as a store that can be read: a
// history of one transaction, whose projection is what the files say and whose event
// and receipt have the form that LoopX's own import gives them. Where the Goal was in
// a store before and came back, the history that was retained then comes first.
//
// The files are those kept at a freeze, in one document; while nothing is frozen they
// are read where they are. Nothing is ever written: the legacy files take no commit.
package legacystore

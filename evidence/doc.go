// Package evidence is what a third person checks offline: the result of a rehearsal,
// and a bundle of files about one migration.
//
// A bundle is a folder. Its index.json lists every other file with size and SHA-256,
// each entry chained to the one before, so that a byte that changed in any file, a file
// that is missing and one that was added are refused with the file named. Checking it
// needs neither a database nor the Goal.
//
// Nothing here holds a record's text, an absolute path or a credential: payloads are
// replaced by digests, and what is about to be written is searched for them once more.
package evidence

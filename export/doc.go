// Package export writes a Goal's history out of its store and proves what was
// written: LoopX's portable archive, loopx_authority_archive_v0, in both
// directions.
//
// An archive is a text file of one JSON object a line, each line ended by one line
// feed, nothing before, between or behind:
//
//	header        whose history, up to which revision and state
//	transaction   one a cursor from 1 on: receipts and events as committed, and the
//	              delta from the state before (the empty object for the first)
//	seal          the state that the last transaction must have left
//
// Each line carries the SHA-256 of the canonical form of everything else in it, and
// from the second on the digest of the line before. The digest of the seal names the
// whole archive; LoopX prints it as archive_sha256. There is no time and no chance in
// an archive: the same history of the same store gives the same bytes, LoopX's
// included. The format is described in docs/formats.md.
//
// [WriteArchive] makes one, [OpenArchive] and [VerifyArchive] prove one. They prove
// more than LoopX's own verify does: provider revisions are recomputed where the kind
// of store allows it, the identity must be of that kind, and every line must be
// spelled exactly as LoopX writes it. Thus no byte of an archive can change unnoticed
// by a reader that remembers the digest of its seal; without it, digests detect
// damage and not intent, since whoever rewrites every line can sign every line.
package export

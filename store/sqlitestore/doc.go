// Package sqlitestore reads, writes, proves, bulk-loads and fences LoopX's SQLite
// authority store, version 2, to the byte. No code of LoopX is in it; the format
// is described in docs/formats.md.
//
// # The file
//
// One database per Goal, `authority-<SHA-256 of the Goal id>.sqlite`
// ([DatabaseName]), in WAL mode, user_version 2. The table commits holds a row per
// transaction with a delta to the state before it, checkpoints the whole state at
// cursors 1, 65, 129, ..., head the newest state, metadata the Goal and the identity.
//
// # Three ways in
//
// A [Store] answers LoopX's verbs with LoopX's classes, reasons and sentences. It
// can also prove a whole history ([Store.Audit]) and keep a proved snapshot at hand
// ([Store.View]). A [Candidate] is a database that is not yet anybody's authority:
// it is loaded in batches, can be taken up again after a crash, and is sealed into
// one file that may be moved. The fence ([Store.EngageFence]) makes every writer's
// transaction fail inside the database while reads go on.
//
// # How a store is opened
//
// [Mode] says what the store may do and what it may leave behind. The zero Mode,
// [Untouched], changes no byte and leaves no -wal or -shm: as long as no -wal or
// -journal with content stands beside the database it is opened immutable, otherwise
// the database and its log are copied to a private folder and read there. An
// immutable database must not change while it is read, so size, times and inode
// of all three files are taken before and again after every answer; when they
// differ the answer is thrown away and found again. [Live] is an ordinary read-only
// connection, which sees every commit at once and, like LoopX's own reads, leaves
// -wal and -shm behind.
//
// # What a read proves
//
// Load, Receipt, Scan and Commit look exactly as far as LoopX looks: the ends of the
// history, and the rows from the covering checkpoint to the row asked for. That the
// cursors run from 1 without a gap is counted once a connection and again only when
// another connection has committed (PRAGMA data_version), so that no answer takes
// longer because the history is longer. Audit looks at everything.
package sqlitestore

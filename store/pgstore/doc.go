// Package pgstore reads, writes, proves, bulk-loads and fences LoopX's PostgreSQL
// authority store, as the schema loopx_postgresql_authority_store_v0 has it, and installs
// and examines that schema. No code of LoopX is in it; the format is described in
// docs/formats.md.
//
// # Whose rows
//
// One database holds the Goals of many tenants. LoopX's row-level security shows a
// transaction the rows of the tenant in its setting loopx.tenant_id, and nothing at all
// without one, and no error either. So a [Store] is opened for a tenant, sets it in each
// transaction and reads it back, and names tenant and Goal in each statement besides. An
// arm without a tenant cannot be opened; it never looks empty.
//
// # What stands beside LoopX's tables
//
// LoopX keeps no digest of anything in PostgreSQL: an edited row answers as before. The
// objects of sql/migrate.sql, all named loopx_migrate_, make up for it.
//
// A seal a cursor: when LoopX (or anybody) moves the head to a cursor, a trigger hashes that
// cursor's rows and chains the hash to the seal before. [Store.Audit] recomputes all of it
// from what the server prints. It names every row that was edited, added, removed, swapped
// or never sealed. A superuser can rewrite rows and seals alike. That is found only from
// outside: an audit from a [authority.Bookmark], whose Position holds the last seal, or a
// comparison with a logical digest that a manifest holds.
//
// A fence row a Goal, which triggers on every table read FOR SHARE with every write: open,
// fenced, or candidate. It is turned by an update under the head row's lock, so a writer in
// flight either committed before or fails, under READ COMMITTED and REPEATABLE READ alike.
// Only a role that may update fences passes a candidate, and only by naming it.
//
// A quarantine, a copy of every table: [Store.SetAside] and [Store.BringBack] move a Goal
// there and back in one transaction.
//
// # Roles
//
// The installing role owns everything. Runtime roles, LoopX's own, read and insert, move
// heads, and can change neither fences nor seals nor metadata nor a row that is committed.
// Operator roles, this tool's, may turn fences and move Goals to quarantine. [Doctor]
// looks whether all that still holds.
//
// # A COMMIT without an answer
//
// Once COMMIT is on its way the caller's context no longer ends the wait for it. If no
// answer comes, a new connection takes the head row's lock, which waits for the transaction
// in question to end, and looks for the receipt. A broken connection is never used again.
//
// # What is never told
//
// Errors of the driver and the server are reduced to SQLSTATE, names of objects and the
// kind of failure: their texts may hold passwords, addresses and values of rows.
package pgstore

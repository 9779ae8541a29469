// Package witness reads histories a second time, to contradict the rest of this
// program where it is wrong. It has a parser and printer of LoopX's canonical JSON, and
// readers of the file journal (v0 and v1), the SQLite and the PostgreSQL store, the
// portable archive and the legacy files that are its own: plain, slow, from the
// description in docs/formats.md, and without one line of the code that imports. From
// package authority it takes type names alone, which a test holds it to.
//
// [Read] proves one history by its own chain. [Compare] holds two against each other.
// [Prove] then plants known differences on a copy and demands that each is found: a
// verifier that finds nothing in a spoilt copy proves nothing about a good one.
// [ReadFiles], [CompareFiles] and [ProveFiles] do the same for legacy files, which have
// no history: what this naive reader of their grammar does not know it names and leaves out.
package witness

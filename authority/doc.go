// Package authority holds the nouns of a migration and the contract of a store.
//
// A Goal's coordination state is a history of transactions. Each transaction
// has a cursor (1, 2, 3, ... without gaps), the operation id its caller chose,
// the events and receipts it carried and the whole projection that was valid
// after it. The newest projection is the head. A store keeps one such history
// per Goal; its identity names the incarnation of that store, so that a copy or
// a restore is never mistaken for the original, and it hands out opaque provider
// revisions for compare-and-set.
//
// Everything above the stores (plans, fences, parity, cutover) speaks in these
// nouns only. JSON values travel as [Canonical] text: LoopX's canonical form,
// byte for byte, so that equality of values is equality of bytes. The form itself
// is in the package authority/canonical.
//
// The result classes and reason codes are LoopX's own; see [Error].
package authority

// Package canary proves a promoted Goal by using it. TEST ONLY: it works on Goals that
// are marked disposable, and on no other.
//
// Two agents, each a process of its own, take Todos, perform effects, renew while they
// work and complete. One of them oversleeps its first lease; the other takes the Todo
// over. Every effect is written to a ledger beside the store, with the fence that its
// agent held. Afterwards a judge, who was not there, holds ledger and history against each
// other: no effect without a lease in force, none of an older fence after a newer one,
// none twice, none left out, and every acknowledged operation with its one receipt.
package canary

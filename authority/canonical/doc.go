// Package canonical is LoopX's canonical JSON form, on bytes.
package canonical

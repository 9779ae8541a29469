// Package store opens stores: by the URL an operator types ([Parse]) and by the
// reference the flow works with ([Opener]). It is the one place that knows which
// package reads which kind; only the command line imports it.
//
// # URLs
//
//	file:              the journal at LoopX's own place
//	file:DIR           the Goal's journal in a folder laid out as LoopX's file-v0
//	file:FILE.json     one journal; its store-identity stands beside it
//	sqlite:            the database at LoopX's own place
//	sqlite:DIR         the Goal's database in a folder, under LoopX's name
//	sqlite:FILE        one database
//	postgres://...     recognised, and refused: this build has no driver for it
//
// A path is what stands after the colon, as it is: nothing in it is decoded.
package store

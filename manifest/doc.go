// Package manifest is the record of one migration of one Goal: what was bound,
// done and proved, step by step, and what each executed command answered.
//
// Everything lies in one folder below the runtime root (see [authority.Place]):
//
//	manifest.json            the current migration, or the last one
//	closed/<id>.json         migrations before it
//	host.json                absolute paths of this host; never shared
//	outcomes/<key>.json      what executed commands answered
//	staging/<id>/            the candidate while it is built
//	retired/<id>/            the journal that a promotion took out of LoopX's place
//	quarantine/<id>/         what an abort or a rollback took out of use
//	translation/<id>.jsonl   old provider revision of every cursor
//
// Each document is a sealed envelope {"body": ..., "sha256": ...} in canonical
// form, replaced only by write, sync, rename and sync of the folder. A byte that
// changed anywhere in it is a refusal that names the file.
package manifest

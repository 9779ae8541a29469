// Package fence decides and enforces who may write to a Goal: the source, nobody,
// or the target.
//
// Two documents of LoopX say who the authority is: the legacy writer fence and the
// provider selector. [Observe] reads them and [Observation.Authority] applies one
// table to what it saw; nothing else in this module decides that question.
//
// A frozen selector is the fence of a file journal: a document of this tool's own
// schema at the selector's place. LoopX cannot take it for a selection and refuses
// reads and writes alike (local_authority_selector_invalid), and never falls back.
package fence

package canonical

import (
	"bytes"
	"slices"
)

// parseBuilt reads a delta whose text is laid out as AppendBuilt lays it out, down to
// canonical values, which nearly every text is that SQLite holds. It says false for
// any other, legal or not: parseAny then has the word.
func parseBuilt(text []byte) (Delta, bool) {
	r := laidOut{rest: text}
	if !r.skip(`{"schema_version":` + deltaSchema + `,"operations":[`) {
		return Delta{}, false
	}
	r.rest = bytes.Clone(r.rest) // the delta refers to it
	var d Delta
	for !r.skip("]}") {
		if len(d.operations) > 0 && !r.skip(",") {
			return Delta{}, false
		}
		op, ok := r.operation()
		if !ok {
			return Delta{}, false
		}
		d.operations = append(d.operations, op)
	}
	return d, len(r.rest) == 0
}

// laidOut reads text that is expected to be laid out in one way only.
type laidOut struct{ rest []byte }

func (r *laidOut) skip(text string) bool {
	rest, found := bytes.CutPrefix(r.rest, []byte(text))
	r.rest = rest
	return found
}

// value takes a canonical value, nil when there is none.
func (r *laidOut) value() []byte {
	n := Skip(r.rest)
	value := r.rest[:n:n]
	// In the delta's own text the value stands deeper, and is refused a little earlier.
	const around = 8
	if n == 0 || bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) > MaxDepth-around || !scanCanonical(value).ok {
		return nil
	}
	r.rest = r.rest[n:]
	return value
}

func (r *laidOut) operation() (op operation, ok bool) {
	if !r.skip(`{"op":`) {
		return op, false
	}
	kind := slices.IndexFunc(names[:], func(name string) bool { return r.skip(name + `,"path":`) })
	path := r.value()
	if kind < 0 || Kind(path) != Array || op.parsePath(path) != "" {
		return op, false
	}
	switch op.kind = opKind(kind); op.kind {
	case opSet:
		ok = r.skip(`,"value":`)
		op.value = r.value()
	case opSplice:
		ok = r.splice(&op)
	case opRemove:
		return op, r.skip("}")
	}
	return op, ok && op.value != nil && r.skip("}")
}

func (r *laidOut) splice(op *operation) bool {
	if !r.skip(`,"index":`) {
		return false
	}
	index := r.value()
	if !r.skip(`,"remove":`) {
		return false
	}
	remove := r.value()
	if !r.skip(`,"insert":`) {
		return false
	}
	op.value = r.value()
	return index != nil && remove != nil && op.parseBounds(index, remove) == ""
}

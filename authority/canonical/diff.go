package canonical

import (
	"bytes"
	"slices"
)

// Diff returns the delta from prev to next, both canonical objects, by LoopX's
// rule: objects are compared key by key in code-point order, arrays get at most
// one splice between their longest common prefix and suffix, anything else that
// differs is set whole. The delta refers to both texts. The error is a
// *DeltaError for a text that is no object; canonical form is not checked.
func Diff(prev, next []byte) (Delta, error) {
	if Kind(prev) != Object || Kind(next) != Object {
		return Delta{}, deltaFault("needs two objects")
	}
	if bytes.Equal(prev, next) {
		return Delta{}, nil
	}
	var d differ
	d.objects(prev, next)
	return Delta{operations: d.operations}, nil
}

// differ collects operations. path is that of the objects being compared.
type differ struct {
	operations []operation
	path       [][]byte
}

func (d *differ) add(kind opKind, key, value []byte) *operation {
	path := append(slices.Clip(slices.Clone(d.path)), key)
	d.operations = append(d.operations, operation{kind: kind, path: path, value: value})
	return &d.operations[len(d.operations)-1]
}

// objects compares two objects that differ.
func (d *differ) objects(prev, next []byte) {
	if hasIndexKeys(prev) || hasIndexKeys(next) {
		d.merge(sortedCursor(prev), sortedCursor(next))
		return
	}
	d.merge(&memberCursor{rest: prev[1:]}, &memberCursor{rest: next[1:]})
}

// hasIndexKeys reports whether printed order and code-point order may differ.
func hasIndexKeys(obj []byte) bool { return len(obj) > 2 && isDigit(obj[2]) }

// memberCursor walks members in code-point order.
type memberCursor struct {
	rest   []byte
	sorted []rawMember // used instead of rest when there are index keys
	member rawMember
	ok     bool
}

func sortedCursor(obj []byte) *memberCursor {
	c := &memberCursor{}
	c.sorted = slices.Collect(rawMembers(obj))
	slices.SortFunc(c.sorted, func(a, b rawMember) int { return compareLiterals(a.key, b.key) })
	return c
}

func (c *memberCursor) advance() {
	if c.rest != nil {
		c.member, c.rest, c.ok = nextMember(c.rest)
		return
	}
	if c.ok = len(c.sorted) > 0; c.ok {
		c.member, c.sorted = c.sorted[0], c.sorted[1:]
	}
}

// compareLiterals orders two canonical string literals by code point.
func compareLiterals(a, b []byte) int { return compareRaw(a[1:len(a)-1], b[1:len(b)-1]) }

func (d *differ) merge(prev, next *memberCursor) {
	prev.advance()
	next.advance()
	for prev.ok || next.ok {
		order := 0
		switch {
		case !next.ok:
			order = -1
		case !prev.ok:
			order = 1
		case !bytes.Equal(prev.member.key, next.member.key):
			order = compareLiterals(prev.member.key, next.member.key)
		}
		switch {
		case order < 0:
			d.add(opRemove, prev.member.key, nil)
			prev.advance()
		case order > 0:
			d.add(opSet, next.member.key, next.member.value)
			next.advance()
		default:
			d.values(next.member.key, prev.member.value, next.member.value)
			prev.advance()
			next.advance()
		}
	}
}

// values compares the values of one key.
func (d *differ) values(key, prev, next []byte) {
	if bytes.Equal(prev, next) {
		return
	}
	kind := Kind(next)
	switch {
	case kind == Object && Kind(prev) == Object:
		d.path = append(d.path, key)
		d.objects(prev, next)
		d.path = d.path[:len(d.path)-1]
	case kind == Array && Kind(prev) == Array:
		d.arrays(key, prev, next)
	default:
		d.add(opSet, key, next)
	}
}

// arrays adds the splice between two arrays that differ.
func (d *differ) arrays(key, prev, next []byte) {
	before, after := slices.Collect(Elements(prev)), slices.Collect(Elements(next))
	head := 0
	for head < len(before) && head < len(after) && bytes.Equal(before[head], after[head]) {
		head++
	}
	before, after = before[head:], after[head:]
	for len(before) > 0 && len(after) > 0 && bytes.Equal(before[len(before)-1], after[len(after)-1]) {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	op := d.add(opSplice, key, appendArray(nil, after))
	op.index, op.remove = head, len(before)
}

func appendArray(dst []byte, elements [][]byte) []byte {
	dst = append(dst, '[')
	for i, element := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, element...)
	}
	return append(dst, ']')
}

package canonical

import (
	"bytes"
	"slices"
)

// Diff returns the delta from prev to next, both canonical objects, by LoopX's
// rule: objects are compared key by key in code-point order, arrays get at most
// one splice between their longest common prefix and suffix, anything else that
// differs is set whole. The delta refers to both texts. The error is a
// *DeltaError for a text that is no object; canonical form is the caller's
// promise and is not checked.
func Diff(prev, next []byte) (Delta, error) {
	if Kind(prev) != Object || Kind(next) != Object {
		return Delta{}, deltaFault("needs two objects")
	}
	return Delta{operations: diffValues(nil, nil, prev, next)}, nil
}

// diffValues appends the operations between two values under a path.
func diffValues(operations []operation, path [][]byte, prev, next []byte) []operation {
	d := differ{prev: prev, next: next, operations: operations, path: path}
	d.behind = len(next) - len(prev)
	if !bytes.Equal(prev, next) {
		d.tail = len(next) - commonSuffix(prev, next)
		d.value()
	}
	return d.operations
}

// differ walks two texts in step, at p in prev and n in next. Both places have
// the same path at all times. It never looks at what the texts have in common at
// their end, and at what they have in common elsewhere in one of them only.
type differ struct {
	prev, next []byte
	p, n       int
	agreed     int // up to where in next the texts agree, seen from p and n...
	shift      int // ...as long as n-p is this
	open       []level
	behind     int // n-p in the common suffix
	tail       int // where in next the common suffix starts
	path       [][]byte
	operations []operation
}

// finished reports whether all that is left is the common suffix. It must be
// asked between values only, where the same rest has the same meaning.
func (d *differ) finished() bool { return d.n-d.p == d.behind && d.n >= d.tail }

// agreement is how many bytes the texts have in common from here.
func (d *differ) agreement() int {
	if d.n-d.p != d.shift || d.n >= d.agreed {
		d.shift = d.n - d.p
		d.agreed = d.n + commonPrefix(d.prev[d.p:], d.next[d.n:])
	}
	return d.agreed - d.n
}

func (d *differ) add(op operation) {
	op.path = slices.Clone(d.path)
	d.operations = append(d.operations, op)
}

// value compares two values at p and n, whose path is d.path, and passes over
// both. done means that nothing further differs in the whole text.
func (d *differ) value() (done bool) {
	kind := Kind(d.next[d.n:])
	if Kind(d.prev[d.p:]) != kind || kind != Object && kind != Array {
		return d.scalar()
	}
	if len(d.open) == 0 || d.open[0].start != d.n {
		if size, ended := d.walk(d.n + d.agreement()); ended {
			d.p, d.n = d.p+size, d.n+size
			return false
		}
	}
	if kind == Object && (hasIndexKeys(d.prev[d.p:]) || hasIndexKeys(d.next[d.n:])) {
		d.indexed()
		return false
	}
	agreed := d.open[0]
	d.open = d.open[1:]
	d.p, d.n = d.p+agreed.last-d.n, agreed.last
	if kind == Array {
		return d.array(agreed.index)
	}
	return d.object()
}

// level is a container that begins within the agreement and does not end there.
type level struct {
	start int // of the container
	last  int // of the newest member or element that begins in the agreement
	index int // how many there are in front of that one
}

// walk passes over the container at n as far as the texts agree. If it does not
// end there, what is open at the limit is in d.open, outermost first.
func (d *differ) walk(limit int) (size int, ended bool) {
	d.open = d.open[:0]
	text := d.next[:limit]
	for i := d.n; i < limit; i++ {
		switch text[i] {
		case '"':
			i += skipString(text[i:]) - 1
		case ',':
			top := &d.open[len(d.open)-1]
			top.last, top.index = i+1, top.index+1
		case '{', '[':
			d.open = append(d.open, level{start: i, last: i + 1})
		case '}', ']':
			if d.open = d.open[:len(d.open)-1]; len(d.open) == 0 {
				return i + 1 - d.n, true
			}
		}
	}
	return 0, false
}

// hasIndexKeys reports whether an object may have keys that are printed out of
// code-point order.
func hasIndexKeys(obj []byte) bool { return len(obj) > 2 && isDigit(obj[2]) }

func (d *differ) scalar() (done bool) {
	before := d.prev[d.p:][:Skip(d.prev[d.p:])]
	after := d.next[d.n:][:Skip(d.next[d.n:])]
	if !bytes.Equal(before, after) {
		d.add(operation{kind: opSet, value: after})
	}
	d.p, d.n = d.p+len(before), d.n+len(after)
	return false
}

// object compares the members of two objects from p and n on, where a member
// starts or the closing bracket stands.
func (d *differ) object() (done bool) {
	for {
		before, more := keyAt(d.prev, d.p)
		after, evenMore := keyAt(d.next, d.n)
		if !more && !evenMore {
			d.p, d.n = d.p+1, d.n+1
			return false
		}
		order := 0
		switch {
		case !evenMore:
			order = -1
		case !more:
			order = 1
		case !bytes.Equal(before, after):
			order = compareLiterals(before, after)
		}
		if d.member(before, after, order) {
			return true
		}
		d.p, d.n = behindComma(d.prev, d.p), behindComma(d.next, d.n)
	}
}

// member handles the member that comes first in order, or both if they have the
// same key.
func (d *differ) member(before, after []byte, order int) (done bool) {
	if order < 0 {
		d.path = append(d.path, before)
		d.add(operation{kind: opRemove})
		d.p += len(before) + 1
		d.p += Skip(d.prev[d.p:])
	}
	if order > 0 {
		d.path = append(d.path, after)
		d.n += len(after) + 1
		size := Skip(d.next[d.n:])
		d.add(operation{kind: opSet, value: d.next[d.n : d.n+size : d.n+size]})
		d.n += size
	}
	if order == 0 {
		d.path = append(d.path, after)
		d.p, d.n = d.p+len(before)+1, d.n+len(after)+1
		done = d.value() || d.finished()
	}
	d.path = d.path[:len(d.path)-1]
	return done
}

// keyAt returns the key literal at i, if one is there.
func keyAt(text []byte, i int) (key []byte, found bool) {
	if i >= len(text) || text[i] != '"' {
		return nil, false
	}
	size := skipString(text[i:])
	return text[i : i+size : i+size], true
}

func behindComma(text []byte, i int) int {
	if i < len(text) && text[i] == ',' {
		return i + 1
	}
	return i
}

// compareLiterals orders two canonical string literals by code point.
func compareLiterals(a, b []byte) int { return compareRaw(a[1:len(a)-1], b[1:len(b)-1]) }

// array adds the splice between two arrays that differ, of which p and n stand at
// the element with that index and all in front of it agree.
func (d *differ) array(index int) (done bool) {
	for {
		a, b := elementAt(d.prev, d.p), elementAt(d.next, d.n)
		if len(a) == 0 || !bytes.Equal(a, b) {
			break
		}
		d.p, d.n = behindComma(d.prev, d.p+len(a)), behindComma(d.next, d.n+len(b))
		index++
	}
	before, after, done := d.middles()
	for len(before) > 0 && len(after) > 0 && bytes.Equal(before[len(before)-1], after[len(after)-1]) {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	d.add(operation{kind: opSplice, index: index, remove: len(before), value: appendArray(nil, after)})
	return done
}

// middles collects the elements from p and n on, up to where the common suffix
// begins on both sides or both arrays end.
func (d *differ) middles() (before, after [][]byte, done bool) {
	for !d.finished() {
		a, b := elementAt(d.prev, d.p), elementAt(d.next, d.n)
		switch {
		case len(a) == 0 && len(b) == 0:
			d.p, d.n = d.p+1, d.n+1
			return before, after, false
		case len(b) == 0, len(a) > 0 && d.n-d.p > d.behind:
			before = append(before, a)
			d.p = behindComma(d.prev, d.p+len(a))
		default:
			after = append(after, b)
			d.n = behindComma(d.next, d.n+len(b))
		}
	}
	return before, after, true
}

// elementAt returns the value at i, empty at a closing bracket.
func elementAt(text []byte, i int) []byte {
	if i >= len(text) {
		return nil
	}
	size := Skip(text[i:])
	return text[i : i+size : i+size]
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

// indexed compares two objects of which one may have keys that are printed out
// of code-point order, and passes over both.
func (d *differ) indexed() {
	prev, next := elementAt(d.prev, d.p), elementAt(d.next, d.n)
	d.p, d.n = d.p+len(prev), d.n+len(next)
	before, after := membersInCodePointOrder(prev), membersInCodePointOrder(next)
	for len(before) > 0 || len(after) > 0 {
		switch order := orderOfFirst(before, after); {
		case order < 0:
			d.path = append(d.path, before[0].key)
			d.add(operation{kind: opRemove})
			before = before[1:]
		case order > 0:
			d.path = append(d.path, after[0].key)
			d.add(operation{kind: opSet, value: after[0].value})
			after = after[1:]
		default:
			d.path = append(d.path, after[0].key)
			d.operations = diffValues(d.operations, d.path, before[0].value, after[0].value)
			before, after = before[1:], after[1:]
		}
		d.path = d.path[:len(d.path)-1]
	}
}

func membersInCodePointOrder(obj []byte) []rawMember {
	members := slices.Collect(rawMembers(obj))
	slices.SortFunc(members, func(a, b rawMember) int { return compareLiterals(a.key, b.key) })
	return members
}

// orderOfFirst compares the first keys of two lists, an empty list coming last.
func orderOfFirst(before, after []rawMember) int {
	switch {
	case len(after) == 0:
		return -1
	case len(before) == 0:
		return 1
	}
	return compareLiterals(before[0].key, after[0].key)
}

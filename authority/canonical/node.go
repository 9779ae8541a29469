package canonical

import "slices"

// Faults of operations that do not fit, in LoopX's words.
const (
	faultPath  = "path leaves the previous state"
	faultRange = "splice is out of range"
)

// node is a value of a state. It stays text until an operation reaches into it.
type node struct {
	raw      []byte // nil once the node is opened
	kind     ValueKind
	members  []*memberNode // of an open object, in printed order
	elements [][]byte      // of an open array, as far as it was opened
	rest     []byte        // of an open array: what was not, up to the closing bracket
}

type memberNode struct {
	key   []byte
	value node
}

func (n *node) apply(op *operation) (fault string) {
	last := len(op.path) - 1
	for _, key := range op.path[:last] {
		m, _ := n.member(key)
		if m == nil {
			return faultPath
		}
		n = &m.value
	}
	m, at := n.member(op.path[last])
	switch {
	case n.kind != Object, m == nil && op.kind != opSet:
		return faultPath
	case op.kind == opRemove:
		n.members = slices.Delete(n.members, at, at+1)
	case op.kind == opSplice:
		return m.value.splice(op)
	case m != nil:
		m.value = node{raw: op.value}
	default:
		n.members = slices.Insert(n.members, at, &memberNode{key: op.path[last], value: node{raw: op.value}})
	}
	return ""
}

// member finds a member of an object, nil if there is none; at is where it
// stands or would stand.
func (n *node) member(key []byte) (m *memberNode, at int) {
	n.open()
	at, found := slices.BinarySearchFunc(n.members, key, func(m *memberNode, key []byte) int {
		return comparePrinted(m.key[1:len(m.key)-1], key[1:len(key)-1])
	})
	if !found {
		return nil, at
	}
	return n.members[at], at
}

// open takes a container apart, one level deep.
func (n *node) open() {
	if n.raw == nil {
		return
	}
	raw := n.raw
	n.kind = Kind(raw)
	switch n.kind {
	case Object:
		block := make([]memberNode, 0, 16) // one allocation for most objects
		for m := range rawMembers(raw) {
			if len(block) == cap(block) {
				block = make([]memberNode, 0, 2*cap(block))
			}
			block = append(block, memberNode{key: m.key, value: node{raw: m.value}})
			n.members = append(n.members, &block[len(block)-1])
		}
		n.raw = nil
	case Array:
		n.rest, n.raw = raw[1:len(raw)-1], nil
	}
}

func (n *node) splice(op *operation) (fault string) {
	n.open()
	if n.kind != Array {
		return faultPath
	}
	end := op.index + op.remove
	for len(n.elements) < end && len(n.rest) > 0 {
		n.openElement()
	}
	if end > len(n.elements) {
		return faultRange
	}
	n.elements = slices.Replace(n.elements, op.index, end, slices.Collect(Elements(op.value))...)
	return ""
}

func (n *node) openElement() {
	if n.rest[0] == ',' {
		n.rest = n.rest[1:]
	}
	size := Skip(n.rest)
	n.elements = append(n.elements, n.rest[:size:size])
	n.rest = n.rest[size:]
}

func (n *node) appendTo(dst []byte) []byte {
	switch {
	case n.raw != nil:
		return append(dst, n.raw...)
	case n.kind == Array:
		return n.appendElements(dst)
	}
	dst = append(dst, '{')
	for i, m := range n.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.key...)
		dst = append(dst, ':')
		dst = m.value.appendTo(dst)
	}
	return append(dst, '}')
}

func (n *node) appendElements(dst []byte) []byte {
	dst = append(dst, '[')
	rest := n.rest
	if len(rest) > 0 && rest[0] == ',' {
		rest = rest[1:]
	}
	for i, element := range n.elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, element...)
	}
	if len(n.elements) > 0 && len(rest) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, rest...)
	return append(dst, ']')
}

package parity

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// compareHeads compares the newest states. Where they differ it lists Todo by
// Todo and lease by lease which fields do.
func (c *comparison) compareHeads(context.Context) {
	if c.broken {
		c.skip(CheckHead, "not every arm has a head that can be read")
		return
	}
	c.checks[CheckHead].Compared++
	values := make([][]byte, len(c.sides))
	for i, s := range c.sides {
		values[i] = s.head.Projection
		if !s.journal() {
			c.note(CheckHead, fmt.Sprintf("arm %s has no journal; it is compared through %s", s.Name, s.Projection))
		}
	}
	left, right := apart(values)
	if left < 0 {
		return
	}
	h := headPair{comparison: c, left: c.sides[left], right: c.sides[right], odd: oddOf(c.sides, values)}
	h.compare(values[left], values[right])
	c.show(h.left.Name, h.right.Name, firstDifference(values[left], values[right]))
}

// headPair is two heads that differ.
type headPair struct {
	*comparison
	left, right *side
	odd         string
}

func (h headPair) add(code, todo, field string, left, right []byte) {
	h.differs(CheckHead, Difference{Code: code, Arm: h.odd, Cursor: h.left.head.Cursor, TodoID: todo, Field: field,
		Values: map[string]string{h.left.Name: valueOf(left), h.right.Name: valueOf(right)}})
}

func (h headPair) compare(left, right []byte) {
	for _, key := range unionOfKeys(left, right) {
		l, r := member(left, key), member(right, key)
		switch {
		case bytes.Equal(l, r) && (l == nil) == (r == nil):
		case key == "todos" || key == "leases":
			h.records(key, l, r)
		default:
			h.first(key, l, r)
		}
	}
}

// first reports the first difference below a key.
func (h headPair) first(key string, left, right []byte) {
	if left == nil || right == nil {
		h.add("field_differs", "", segment(key), left, right)
		return
	}
	where := firstDifference(left, right)
	h.add("field_differs", where.todo, joined(segment(key), where.path), where.left, where.right)
}

// records compares two lists of Todos or leases by Todo id.
func (h headPair) records(key string, left, right []byte) {
	l, lOrder := byTodo(left)
	r, rOrder := byTodo(right)
	if l == nil || r == nil {
		h.first(key, left, right)
		return
	}
	for _, id := range lOrder {
		name := key + "[" + segment(id) + "]"
		switch other, there := r[id]; {
		case !there:
			h.add("record_missing", id, name, l[id], nil)
		case !bytes.Equal(l[id], other):
			h.fields(name, id, l[id], other)
		}
	}
	for _, id := range rOrder {
		if _, there := l[id]; !there {
			h.add("record_missing", id, key+"["+segment(id)+"]", nil, r[id])
		}
	}
	if len(lOrder) == len(rOrder) && !slices.Equal(lOrder, rOrder) {
		h.order(key, lOrder, rOrder)
	}
}

// fields lists every field in which two records of one Todo differ.
func (h headPair) fields(name, id string, left, right []byte) {
	for _, key := range unionOfKeys(left, right) {
		l, r := member(left, key), member(right, key)
		if bytes.Equal(l, r) && (l == nil) == (r == nil) {
			continue
		}
		h.add("record_differs", id, name+"."+segment(key), l, r)
	}
}

func (h headPair) order(key string, left, right []string) {
	for i := range left {
		if left[i] != right[i] {
			h.add("order_differs", left[i], fmt.Sprintf("%s[%d].todo_id", key, i), []byte(left[i]), []byte(right[i]))
			return
		}
	}
}

// byTodo indexes a list of records by Todo id; nil when an element has none or
// an id stands twice.
func byTodo(list []byte) (records map[string][]byte, order []string) {
	if canonical.Kind(list) != canonical.Array {
		return nil, nil
	}
	records = map[string][]byte{}
	for record := range canonical.Elements(list) {
		id := todoID(record)
		if _, twice := records[id]; id == "" || twice {
			return nil, nil
		}
		records[id] = record
		order = append(order, id)
	}
	return records, order
}

func unionOfKeys(left, right []byte) []string {
	var keys []string
	known := map[string]bool{}
	for _, object := range [][]byte{left, right} {
		for key := range canonical.Members(object) {
			if !known[key] {
				known[key] = true
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, canonical.CompareKeys)
	return keys
}

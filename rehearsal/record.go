package rehearsal

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// record is an object of a head, each value as the head spells it. What an operation
// does not touch keeps its bytes.
type record map[string][]byte

func recordOf(object []byte) record {
	r := record{}
	for key, value := range canonical.Members(object) {
		r[key] = value
	}
	return r
}

func (r record) bytes() []byte {
	out := []byte{'{'}
	for i, key := range slices.SortedFunc(maps.Keys(r), canonical.CompareKeys) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(canonical.AppendString(out, key), ':'), r[key]...)
	}
	return append(out, '}')
}

func (r record) text(key string) string {
	value := r[key]
	if canonical.Kind(value) != canonical.String {
		return ""
	}
	text, err := canonical.ParseString(value)
	if err != nil {
		return ""
	}
	return text
}

func (r record) number(key string) int64 {
	n, err := strconv.ParseInt(string(r[key]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (r record) set(key, text string)            { r[key] = canonical.AppendString(nil, text) }
func (r record) setNumber(key string, n int64)   { r[key] = strconv.AppendInt(nil, n, 10) }
func (r record) setTexts(key string, l []string) { r[key] = list(literals(l)) }

func literals(texts []string) [][]byte {
	var all [][]byte
	for _, text := range texts {
		all = append(all, canonical.AppendString(nil, text))
	}
	return all
}

func list(elements [][]byte) []byte {
	out := []byte{'['}
	for i, element := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']')
}

// rows are the Todos or the leases of a head, by Todo id.
type rows struct {
	ids  []string // in the head's order
	text map[string][]byte
}

func rowsOf(array []byte) rows {
	r := rows{text: map[string][]byte{}}
	for element := range canonical.Elements(array) {
		id := recordOf(element).text("todo_id")
		r.ids = append(r.ids, id)
		r.text[id] = element
	}
	return r
}

// put replaces a row, or adds it where its id stands in code-point order.
func (r *rows) put(id string, text []byte) {
	if _, there := r.text[id]; !there {
		at, _ := slices.BinarySearchFunc(r.ids, id, canonical.CompareKeys)
		r.ids = slices.Insert(r.ids, at, id)
	}
	r.text[id] = text
}

func (r rows) bytes() []byte {
	all := make([][]byte, len(r.ids))
	for i, id := range r.ids {
		all[i] = r.text[id]
	}
	return list(all)
}

// head is a projection taken apart as far as the work touches it.
type head struct {
	top    record
	todos  rows
	leases rows
}

func headOf(projection authority.Canonical) head {
	top := recordOf(projection)
	return head{top, rowsOf(top["todos"]), rowsOf(top["leases"])}
}

// canonical puts the head together again, with a read model that is right.
func (h head) canonical() (authority.Canonical, error) {
	todos := h.todos.bytes()
	top := maps.Clone(h.top)
	top["todos"], top["leases"] = todos, h.leases.bytes()
	if model := recordOf(top["todo_read_model"]); len(model) > 0 {
		model.setNumber("todo_count", int64(len(h.todos.ids)))
		model.set("records_sha256", authority.DigestOf(todos).String())
		top["todo_read_model"] = model.bytes()
	}
	text, err := canonical.Append(nil, top.bytes())
	if err != nil {
		return nil, fmt.Errorf("a head after an operation of the workload: %w", err)
	}
	return text, nil
}

// native reports whether the head's records were born in a store.
func (h head) native() bool {
	return recordOf(h.top["todo_read_model"]).text("schema_version") == "loopx_todo_domain_read_record_v0"
}

package filestore

import (
	"bytes"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// readModelFault compares todo_read_model with the records beside it and returns
// the member that differs, "" when none does. A projection without one has none.
func readModelFault(projection []byte) string {
	var model, todos []byte
	for key, value := range canonical.Members(projection) {
		switch key {
		case "todo_read_model":
			model = value
		case "todos":
			todos = value
		}
	}
	if canonical.Kind(model) != canonical.Object || canonical.Kind(todos) != canonical.Array {
		return ""
	}
	count := 0
	for range canonical.Elements(todos) {
		count++
	}
	digest := `"` + authority.DigestOf(todos).String() + `"`
	for key, value := range canonical.Members(model) {
		switch {
		case key == "records_sha256" && string(value) != digest:
			return key
		case key == "todo_count" && string(value) != fmt.Sprint(count):
			return key
		}
	}
	return ""
}

// modelCheck looks at the read models of consecutive rows. It takes a short way
// where a projection is laid out as LoopX lays it out, todo_read_model and todos
// being its last two members: the same text as in the row before needs no second
// look, and records are counted anew only when the count, or the length of their
// text by the least that a record can have, is another one. Wherever the short way
// does not end in agreement, readModelFault decides. The head is always given to it.
type modelCheck struct {
	proved []byte // model and todos of the newest row that was right, as they stand there
	at     int    // and where they stood
	count  string
	length int // of the text of its todos
	sum    prefixSum
}

// leastRecord is less than the text of any record of LoopX, which has an id, a
// schema_version, a role, a status and a text.
const leastRecord = 64

// fault returns the member of todo_read_model that is wrong, "" when none is.
func (m *modelCheck) fault(projection []byte) string {
	at := indexNear(projection, []byte(`,"todo_read_model":{`), m.at)
	if at < 0 {
		return readModelFault(projection)
	}
	end := projection[at:]
	if bytes.Equal(end, m.proved) {
		return ""
	}
	if !m.holds(end) {
		if fault := readModelFault(projection); fault != "" {
			return fault
		}
	}
	m.at, m.proved = at, append(m.proved[:0], end...)
	return ""
}

// holds reports whether the end of a projection, from its todo_read_model on, is
// in LoopX's layout and agrees with itself.
func (m *modelCheck) holds(end []byte) bool {
	const todosName, digestName, countName = `},"todos":[`, `"records_sha256":"`, `"todo_count":`
	at := bytes.Index(end, []byte(todosName))
	if at < 0 || !bytes.HasSuffix(end, []byte("]}")) {
		return false
	}
	model, todos := end[:at], end[at+len(todosName)-1:len(end)-1]
	digest := bytes.Index(model, []byte(digestName))
	if digest < 0 || !bytes.HasPrefix(model[digest+len(digestName):], []byte(m.sum.digest(todos).String()+`"`)) {
		return false
	}
	place := bytes.LastIndex(model, []byte(countName))
	if place < 0 {
		return false
	}
	count, grown := string(model[place+len(countName):]), len(todos)-m.length
	known := count == m.count && -leastRecord < grown && grown < leastRecord
	m.count, m.length = count, len(todos)
	return known
}

// indexNear is bytes.Index of a mark that is expected near a place, which is
// looked at first. Where the mark is there several times, it may find another.
func indexNear(text, mark []byte, place int) int {
	const around = 4 << 10
	from := max(0, place-around)
	if to := min(len(text), place+around); from < to {
		if i := bytes.Index(text[from:to], mark); i >= 0 {
			return from + i
		}
	}
	return bytes.Index(text, mark)
}

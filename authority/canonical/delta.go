package canonical

import (
	"fmt"
	"math"
	"strconv"
)

// deltaSchema is the schema_version of every delta.
const deltaSchema = `"authority_state_delta_v0"`

// opKind is what an operation does.
type opKind byte

const (
	opSet opKind = iota
	opRemove
	opSplice
)

// names are the operations' names as canonical literals.
var names = [...]string{opSet: `"set"`, opRemove: `"remove"`, opSplice: `"splice"`}

// operation is one change. Keys and values are canonical text.
type operation struct {
	kind   opKind
	path   [][]byte // key literals, quotes included; never empty
	value  []byte   // with set: the value; with splice: the array to insert
	index  int      // with splice
	remove int      // with splice
}

// Delta is the step from one state to the next, LoopX's
// authority_state_delta_v0: a list of operations (set, remove, splice) on paths.
// It refers to the texts it was made from, which must not change while it is
// in use. The zero Delta changes nothing.
type Delta struct {
	operations []operation
}

// Len is the number of operations.
func (d Delta) Len() int { return len(d.operations) }

// AppendBuilt appends the delta with its keys in the order LoopX builds them,
// which is how SQLite stores it.
func (d Delta) AppendBuilt(dst []byte) []byte {
	dst = append(dst, `{"schema_version":`+deltaSchema+`,"operations":[`...)
	for i := range d.operations {
		op := &d.operations[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"op":`...)
		dst = append(dst, names[op.kind]...)
		dst = op.appendPath(append(dst, ','))
		switch op.kind {
		case opSet:
			dst = append(dst, `,"value":`...)
			dst = append(dst, op.value...)
		case opSplice:
			dst = op.appendBounds(dst, `,"index":`, op.index)
			dst = op.appendBounds(dst, `,"remove":`, op.remove)
			dst = append(dst, `,"insert":`...)
			dst = append(dst, op.value...)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// AppendSorted appends the delta in canonical form, which is how the file
// store's v1 document holds it.
func (d Delta) AppendSorted(dst []byte) []byte {
	dst = append(dst, `{"operations":[`...)
	for i := range d.operations {
		op := &d.operations[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		if op.kind == opSplice {
			dst = op.appendBounds(dst, `"index":`, op.index)
			dst = append(dst, `,"insert":`...)
			dst = append(dst, op.value...)
			dst = append(dst, ',')
		}
		dst = append(dst, `"op":`...)
		dst = append(dst, names[op.kind]...)
		dst = op.appendPath(append(dst, ','))
		switch op.kind {
		case opSet:
			dst = append(dst, `,"value":`...)
			dst = append(dst, op.value...)
		case opSplice:
			dst = op.appendBounds(dst, `,"remove":`, op.remove)
		}
		dst = append(dst, '}')
	}
	return append(dst, `],"schema_version":`+deltaSchema+`}`...)
}

func (op *operation) appendPath(dst []byte) []byte {
	dst = append(dst, `"path":[`...)
	for i, key := range op.path {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, key...)
	}
	return append(dst, ']')
}

func (op *operation) appendBounds(dst []byte, name string, n int) []byte {
	return strconv.AppendInt(append(dst, name...), int64(n), 10)
}

// ParseDelta reads a delta in any legal spelling. Beside the errors of Append
// it gives *DeltaError for what LoopX refuses before it replays anything.
func ParseDelta(text []byte) (Delta, error) {
	if d, ok := parseBuilt(text); ok {
		return d, nil
	}
	return parseAny(text)
}

func parseAny(text []byte) (Delta, error) {
	canonical, err := Append(nil, text)
	if err != nil {
		return Delta{}, err
	}
	if Kind(canonical) != Object {
		return Delta{}, deltaFault("must be an object")
	}
	fields, exact := takeFields(canonical, `"operations"`, `"schema_version"`)
	if !exact {
		return Delta{}, deltaFault("has unexpected fields")
	}
	if string(fields[1]) != deltaSchema {
		return Delta{}, deltaFault("schema mismatch")
	}
	if Kind(fields[0]) != Array {
		return Delta{}, deltaFault("operations must be an array")
	}
	var d Delta
	for element := range Elements(fields[0]) {
		op, fault := parseOperation(element)
		if fault != "" {
			i := len(d.operations)
			return Delta{}, &DeltaError{Operation: i, Reason: fmt.Sprintf("authority state delta operation %d %s", i, fault)}
		}
		d.operations = append(d.operations, op)
	}
	return d, nil
}

func deltaFault(reason string) error {
	return &DeltaError{Operation: -1, Reason: "authority state delta " + reason}
}

// takeFields returns the values of a canonical object that must have exactly
// these keys, given as literals in printed order.
func takeFields(obj []byte, keys ...string) (values [][]byte, exact bool) {
	for m := range rawMembers(obj) {
		if len(values) == len(keys) || string(m.key) != keys[len(values)] {
			return nil, false
		}
		values = append(values, m.value)
	}
	return values, len(values) == len(keys)
}

// parseOperation reads one canonical operation; fault completes a sentence.
func parseOperation(element []byte) (op operation, fault string) {
	if Kind(element) != Object {
		return op, "must be an object"
	}
	var path []byte
	switch name := operationName(element); name {
	case names[opSet]:
		fields, exact := takeFields(element, `"op"`, `"path"`, `"value"`)
		if !exact {
			return op, "has unexpected fields"
		}
		op.kind, path, op.value = opSet, fields[1], fields[2]
	case names[opRemove]:
		fields, exact := takeFields(element, `"op"`, `"path"`)
		if !exact {
			return op, "has unexpected fields"
		}
		op.kind, path = opRemove, fields[1]
	case names[opSplice]:
		fields, exact := takeFields(element, `"index"`, `"insert"`, `"op"`, `"path"`, `"remove"`)
		if !exact {
			return op, "has unexpected fields"
		}
		op.kind, path, op.value = opSplice, fields[3], fields[1]
		if fault := op.parseBounds(fields[0], fields[4]); fault != "" {
			return op, fault
		}
	default:
		return op, "is not supported"
	}
	return op, op.parsePath(path)
}

func operationName(element []byte) string {
	for m := range rawMembers(element) {
		if string(m.key) == `"op"` {
			return string(m.value)
		}
	}
	return ""
}

func (op *operation) parsePath(path []byte) (fault string) {
	for key := range Elements(path) {
		if Kind(key) != String {
			return "path is invalid"
		}
		op.path = append(op.path, key)
	}
	if len(op.path) == 0 {
		return "path is invalid"
	}
	return ""
}

func (op *operation) parseBounds(index, remove []byte) (fault string) {
	var fits [2]bool
	op.index, fits[0] = safeInteger(index)
	op.remove, fits[1] = safeInteger(remove)
	if !fits[0] || !fits[1] {
		return "splice bounds are invalid"
	}
	if Kind(op.value) != Array {
		return "splice insertion is invalid"
	}
	return ""
}

// safeInteger reads a canonical number that is an integer of 0 to 2^53-1.
func safeInteger(number []byte) (int, bool) {
	if Kind(number) != Number {
		return 0, false
	}
	f := parseNumber(number)
	if f < 0 || f > 1<<53-1 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

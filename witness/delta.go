package witness

import (
	"errors"
	"fmt"
	"strconv"
)

// deltaSchema of a state delta, in a file journal of format v1, a SQLite store and an archive.
const deltaSchema = "authority_state_delta_v0"

// apply replays a delta on a state, which stays as it is.
func apply(state, delta *value) (*value, error) {
	if !delta.only("schema_version", "operations") || delta.string("schema_version") != deltaSchema || delta.member("operations").kind != list {
		return nil, errors.New("it is no " + deltaSchema)
	}
	for i, operation := range delta.elements("operations") {
		next, err := applyOne(state, operation, operation.elements("path"))
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		state = next
	}
	return state, nil
}

// applyOne goes down the path and makes each object on it anew.
func applyOne(at, operation *value, path []*value) (*value, error) {
	if len(path) == 0 || path[0].kind != text {
		return nil, errors.New("it has no path of strings")
	}
	key := path[0].str
	if at.kind != object {
		return nil, errors.New("its path leads through what is no object")
	}
	old := at.members[key]
	if len(path) == 1 {
		return operate(at, operation, key)
	}
	if old == nil {
		return nil, errors.New("its path leads nowhere")
	}
	next, err := applyOne(old, operation, path[1:])
	if err != nil {
		return nil, err
	}
	return at.with(key, next), nil
}

func operate(at, operation *value, key string) (*value, error) {
	old := at.members[key]
	switch op := operation.string("op"); {
	case op == "set" && operation.only("op", "path", "value"):
		return at.with(key, operation.member("value")), nil
	case op == "remove" && operation.only("op", "path") && old != nil:
		return at.with(key, nil), nil
	case op == "splice" && operation.only("op", "path", "index", "remove", "insert") && old != nil && old.kind == list:
		from, err := strconv.Atoi(operation.member("index").canonical())
		gone, err2 := strconv.Atoi(operation.member("remove").canonical())
		if errors.Join(err, err2) != nil || from < 0 || gone < 0 || from+gone > len(old.list) || operation.member("insert").kind != list {
			return nil, errors.New("its splice does not fit")
		}
		var elements []*value
		elements = append(elements, old.list[:from]...)
		elements = append(elements, operation.elements("insert")...)
		elements = append(elements, old.list[from+gone:]...)
		return at.with(key, newList(elements)), nil
	}
	return nil, errors.New("it is none of set, remove and splice that fit")
}

// difference is a delta from one state to the next that enters no member: longer than
// LoopX's, and as valid.
func difference(before, after *value) *value {
	var operations []*value
	for _, key := range after.keys() {
		old, now := before.members[key], after.members[key]
		if old == nil || old.canonical() != now.canonical() {
			operations = append(operations, change(newList([]*value{newText(key)}), old, now))
		}
	}
	for _, key := range before.keys() {
		if after.members[key] == nil {
			operations = append(operations, pairs("op", newText("remove"), "path", newList([]*value{newText(key)})))
		}
	}
	return pairs("schema_version", newText(deltaSchema), "operations", newList(operations))
}

// change is one step: of two lists, what lies between what they have in common.
func change(path, old, now *value) *value {
	if old == nil || old.kind != list || now.kind != list {
		return pairs("op", newText("set"), "path", path, "value", now)
	}
	from, a, b := 0, len(old.list), len(now.list)
	for from < min(a, b) && old.list[from].canonical() == now.list[from].canonical() {
		from++
	}
	for a > from && b > from && old.list[a-1].canonical() == now.list[b-1].canonical() {
		a, b = a-1, b-1
	}
	count := func(n int) *value { return &value{kind: number, printed: strconv.Itoa(n)} }
	return pairs("op", newText("splice"), "path", path, "index", count(from), "remove", count(a-from), "insert", newList(now.list[from:b]))
}

package canonical

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// naiveDiff gives the delta from prev to next as LoopX builds it, keys in built order.
func naiveDiff(prev, next any) string {
	var operations []string
	naiveDiffAt(&operations, nil, prev, next)
	return `{"schema_version":"authority_state_delta_v0","operations":[` + strings.Join(operations, ",") + `]}`
}

func naiveDiffAt(operations *[]string, path []any, prev, next any) {
	if naiveEqual(prev, next) {
		return
	}
	pathText := naivePrint(nil, path)
	a, aIsObject := prev.(map[utf32]any)
	b, bIsObject := next.(map[utf32]any)
	if aIsObject && bIsObject {
		naiveDiffObjects(operations, path, a, b)
		return
	}
	x, xIsArray := prev.([]any)
	y, yIsArray := next.([]any)
	if !xIsArray || !yIsArray {
		*operations = append(*operations, fmt.Sprintf(`{"op":"set","path":%s,"value":%s}`, pathText, naivePrint(nil, next)))
		return
	}
	head, tail := 0, 0
	for head < min(len(x), len(y)) && naiveEqual(x[head], y[head]) {
		head++
	}
	for tail < min(len(x), len(y))-head && naiveEqual(x[len(x)-1-tail], y[len(y)-1-tail]) {
		tail++
	}
	*operations = append(*operations, fmt.Sprintf(`{"op":"splice","path":%s,"index":%d,"remove":%d,"insert":%s}`,
		pathText, head, len(x)-head-tail, naivePrint(nil, y[head:len(y)-tail])))
}

func naiveDiffObjects(operations *[]string, path []any, a, b map[utf32]any) {
	union := map[utf32]any{}
	for key := range a {
		union[key] = nil
	}
	for key := range b {
		union[key] = nil
	}
	for _, key := range naiveSorted(union) {
		before, was := a[key]
		after, is := b[key]
		here := append(slices.Clone(path), key)
		switch {
		case !is:
			*operations = append(*operations, fmt.Sprintf(`{"op":"remove","path":%s}`, naivePrint(nil, here)))
		case !was:
			*operations = append(*operations, fmt.Sprintf(`{"op":"set","path":%s,"value":%s}`,
				naivePrint(nil, here), naivePrint(nil, after)))
		default:
			naiveDiffAt(operations, here, before, after)
		}
	}
}

func naiveEqual(a, b any) bool { return reflect.DeepEqual(a, b) }

// naiveApply replays a parsed delta on a parsed state; false means that an
// operation does not fit. Both may be changed.
func naiveApply(state, delta any) bool {
	for _, element := range naiveMember(delta, "operations").([]any) {
		path := naiveMember(element, "path").([]any)
		at := state
		for _, segment := range path[:len(path)-1] {
			members, isObject := at.(map[utf32]any)
			if !isObject || !naiveHas(members, segment) {
				return false
			}
			at = members[segment.(utf32)]
		}
		members, isObject := at.(map[utf32]any)
		if !isObject || !naiveOperate(members, path[len(path)-1].(utf32), element) {
			return false
		}
	}
	return true
}

func naiveHas(members map[utf32]any, key any) bool {
	_, has := members[key.(utf32)]
	return has
}

func naiveOperate(members map[utf32]any, key utf32, operation any) bool {
	switch name := naiveMember(operation, "op").(utf32).wtf8(); {
	case name == "set":
		members[key] = naiveMember(operation, "value")
		return true
	case !naiveHas(members, key):
		return false
	case name == "remove":
		delete(members, key)
		return true
	}
	list, isArray := members[key].([]any)
	index, remove := naiveMember(operation, "index").(float64), naiveMember(operation, "remove").(float64)
	if !isArray || index+remove > float64(len(list)) {
		return false
	}
	members[key] = slices.Concat(list[:int(index)], naiveMember(operation, "insert").([]any), list[int(index+remove):])
	return true
}

package legacy

import (
	"slices"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// object spells an object from canonical values.
func object(m map[string][]byte) []byte {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, canonical.CompareKeys)
	out := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(canonical.AppendString(out, key), ':')
		out = append(out, m[key]...)
	}
	return append(out, '}')
}

// array spells a list of canonical values.
func array(values [][]byte) []byte {
	out := []byte{'['}
	for i, value := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return append(out, ']')
}

// members gives the members of a canonical object by key.
func members(object []byte) map[string][]byte {
	m := map[string][]byte{}
	for key, value := range canonical.Members(object) {
		m[key] = value
	}
	return m
}

// elements gives the elements of a canonical list.
func elements(list []byte) [][]byte {
	var all [][]byte
	for element := range canonical.Elements(list) {
		all = append(all, element)
	}
	return all
}

// absent: LoopX leaves out a null, and takes an empty list for none.
func absent(value []byte) bool {
	return len(value) == 0 || string(value) == "null" || string(value) == "[]"
}

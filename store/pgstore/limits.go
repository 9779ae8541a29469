package pgstore

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Codes of findings about values that PostgreSQL cannot hold.
const (
	// FindingNUL: U+0000 in a key, a string or an id.
	FindingNUL = "nul_character"
	// FindingSurrogate: a lone surrogate in a key, a string or an id.
	FindingSurrogate = "lone_surrogate"
	// FindingSize: a commit over Capacity bytes.
	FindingSize = "commit_too_large"
	// FindingKey: ids too long for the index over them.
	FindingKey = "id_too_long"
	// FindingDepth: JSON nested deeper than LoopX reads back.
	FindingDepth = "nesting_too_deep"
)

// Capacity is the largest commit LoopX's PostgreSQL store takes, in bytes of the canonical
// object {events, next_projection, operation_id, receipts}. Other than in SQLite the
// expected revision is not counted.
const Capacity = 16 << 20

// indexBytes is how long tenant, Goal and operation id may be together. An entry of
// PostgreSQL's B-tree has 2,704 bytes; some go to its header and alignment.
const indexBytes = 2600

// CheckRow names everything in a row that PostgreSQL cannot hold exactly, each with its
// column and path: what a preflight must report before any fence. Columns must be
// canonical. No finding means that the row can be loaded.
func CheckRow(tenant, goal string, row authority.Row) authority.Findings {
	var found authority.Findings
	note := func(code, field, detail string) {
		found = append(found, authority.Finding{Code: code, Cursor: row.Cursor, OperationID: row.OperationID, Field: field, Detail: detail})
	}
	for _, id := range []struct{ name, text string }{{"tenant_id", tenant}, {"goal_id", goal}, {"operation_id", row.OperationID}} {
		if code := unholdable(id.text); code != "" {
			note(code, id.name, "")
		}
	}
	if n := len(tenant) + len(goal) + len(row.OperationID); n > indexBytes {
		note(FindingKey, "operation_id", fmt.Sprintf("tenant, goal and operation id have %d bytes together, more than %d", n, indexBytes))
	}
	for _, column := range []struct {
		name string
		text []byte
	}{{"events", row.Events}, {"projection", row.Projection}, {"receipts", row.Receipts}} {
		if suspicious(column.text) {
			walk(column.name, column.text, note)
		}
	}
	if n := sizeOf(row.OperationID, row.Events, row.Projection, row.Receipts); n > Capacity {
		note(FindingSize, "", fmt.Sprintf("the canonical commit has %d bytes, more than %d", n, Capacity))
	}
	return found
}

func hasNUL(text string) bool { return strings.IndexByte(text, 0) >= 0 }

// unholdable says what is wrong with a text (WTF-8) for PostgreSQL, empty when nothing is.
func unholdable(text string) string {
	switch {
	case hasNUL(text):
		return FindingNUL
	case !utf8.ValidString(text):
		return FindingSurrogate
	}
	return ""
}

// suspicious reports whether canonical text has an escape that jsonb refuses: \u0000 or
// \udxxx. A backslash in a string is itself escaped, so pairs are stepped over.
func suspicious(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return false
		}
		if text[i+1] == 'u' && (text[i+2] == 'd' || bytes.HasPrefix(text[i+2:], []byte("0000"))) {
			return true
		}
		text = text[i+2:]
	}
}

// walk notes the path of every string and key that cannot be held.
func walk(path string, text []byte, note func(code, field, detail string)) {
	if !suspicious(text) {
		return
	}
	switch canonical.Kind(text) {
	case canonical.String:
		value, err := canonical.ParseString(text)
		if code := unholdable(value); err == nil && code != "" {
			note(code, path, "")
		}
	case canonical.Array:
		i := 0
		for element := range canonical.Elements(text) {
			walk(path+"["+strconv.Itoa(i)+"]", element, note)
			i++
		}
	case canonical.Object:
		for key, value := range canonical.Members(text) {
			at := path + "." + key
			if code := unholdable(key); code != "" {
				at = path + "[" + string(canonical.AppendString(nil, key)) + "]"
				note(code, at, "the key itself")
			}
			walk(at, value, note)
		}
	}
}

// sizeOf is the length of the canonical commit.
func sizeOf(operation string, events, projection, receipts []byte) int {
	const frame = len(`{"events":,"next_projection":,"operation_id":,"receipts":}`)
	return frame + len(events) + len(projection) + len(canonical.AppendString(nil, operation)) + len(receipts)
}

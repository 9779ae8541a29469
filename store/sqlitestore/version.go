package sqlitestore

import (
	"strconv"
	"strings"

	lib "modernc.org/sqlite/lib"
)

// Linked is the SQLite that this program carries.
type Linked struct {
	Version  string `json:"version"`   // "3.54.1"
	SourceID string `json:"source_id"` // check-in time and hash
}

// Version is that of the driver's translation of SQLite.
func Version() Linked { return Linked{Version: lib.SQLITE_VERSION, SourceID: lib.SQLITE_SOURCE_ID} }

// AdmittedByLoopX reports whether LoopX agrees to open databases with that SQLite.
// Older ones have a fault in resetting the write-ahead log: from 3.51.3 on, and in
// the lines 3.50 from 3.50.7 and 3.44 from 3.44.6, it is repaired.
func AdmittedByLoopX(version string) bool {
	part := strings.Split(version, ".")
	if len(part) != 3 {
		return false
	}
	var n [3]int
	for i, text := range part {
		value, err := strconv.Atoi(text)
		if err != nil || value < 0 {
			return false
		}
		n[i] = value
	}
	major, minor, patch := n[0], n[1], n[2]
	switch {
	case major != 3:
		return major > 3
	case minor == 44:
		return patch >= 6
	case minor == 50:
		return patch >= 7
	case minor == 51:
		return patch >= 3
	default:
		return minor > 51
	}
}

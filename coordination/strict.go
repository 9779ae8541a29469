package coordination

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// HeadError refuses a head that breaks the rules of its shape. Nothing of it is guessed.
type HeadError struct {
	Reason Reason // head_corruption, head_schema_unknown, head_schema_migration_required
	Path   string // the member at fault, keys joined by "/"
	Detail string // one clause, without a value of the head
}

// Error names reason, place and cause.
func (e *HeadError) Error() string { return fmt.Sprintf("%s at %s: %s", e.Reason, e.Path, e.Detail) }

// fields reads a closed set of members. The first fault is kept, later reads give zero
// values, and close names a key that nobody asked for.
type fields struct {
	path    string
	members object
	known   []string
	fault   *HeadError
}

// openFields begins to read an object; anything else is a fault.
func openFields(path string, value []byte) *fields {
	f := &fields{path: path, members: takeApart(value)}
	if canonical.Kind(value) != canonical.Object {
		f.blame("", "not an object")
	}
	return f
}

func (f *fields) at(key string) string {
	return strings.TrimPrefix(strings.TrimSuffix(f.path+"/"+key, "/"), "/")
}

func (f *fields) blame(key, detail string) {
	if f.fault == nil {
		f.fault = &HeadError{Reason: ReasonHeadCorruption, Path: f.at(key), Detail: detail}
	}
}

// take returns a member and notes that it is known.
func (f *fields) take(key string) []byte {
	f.known = append(f.known, key)
	return f.members[key]
}

func (f *fields) has(key string) bool { return f.members[key] != nil }

// text reads a required non-empty string that ok accepts.
func (f *fields) text(key string, ok func(string) bool) string {
	s := textOf(f.take(key))
	if s == "" || !canonical.ValidID(s) || !ok(s) {
		f.blame(key, "missing or malformed")
	}
	return s
}

// optional reads a string that may be absent.
func (f *fields) optional(key string, ok func(string) bool) string {
	if !f.has(key) {
		f.take(key)
		return ""
	}
	return f.text(key, ok)
}

// oneOf reads a required string out of a few.
func (f *fields) oneOf(key string, words ...string) string {
	return f.text(key, func(s string) bool { return slices.Contains(words, s) })
}

// integer reads a required integer of at least least.
func (f *fields) integer(key string, least int64) int64 {
	n, ok := integerOf(f.take(key))
	if !ok || n < least {
		f.blame(key, fmt.Sprintf("not an integer of at least %d", least))
	}
	return n
}

// flag reads a required boolean.
func (f *fields) flag(key string) bool {
	switch string(f.take(key)) {
	case "true":
		return true
	case "false":
	default:
		f.blame(key, "not a boolean")
	}
	return false
}

// instant reads a required time in UTC.
func (f *fields) instant(key string) Instant {
	i := Instant(textOf(f.take(key)))
	if _, ok := i.Time(); !ok {
		f.blame(key, "not a time in UTC with its zone")
	}
	return i
}

// texts reads a required list of distinct strings that ok accepts.
func (f *fields) texts(key string, ok func(string) bool) []string {
	value := f.take(key)
	if canonical.Kind(value) != canonical.Array {
		f.blame(key, "not a list")
	}
	all := textsOf(value)
	for i, s := range all {
		if s == "" || !ok(s) || slices.Contains(all[:i], s) {
			f.blame(fmt.Sprintf("%s/%d", key, i), "malformed or twice")
		}
	}
	return all
}

// nested reads a required object by its own rules.
func (f *fields) nested(key string, read func(*fields)) {
	inner := openFields(f.at(key), f.take(key))
	read(inner)
	f.adopt(inner.close())
}

func (f *fields) adopt(fault *HeadError) {
	if f.fault == nil {
		f.fault = fault
	}
}

// close ends the reading: an unknown key is a fault too.
func (f *fields) close() *HeadError {
	for key := range f.members {
		if !slices.Contains(f.known, key) {
			f.blame(key, "unknown key")
		}
	}
	return f.fault
}

func anyText(string) bool { return true }

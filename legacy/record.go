package legacy

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Record is the row as a head keeps it: the fields of LegacyContract that it has, none
// of them null. The text is whole. What only a view knows (a class guessed from the
// text, resume_ready, links to files) is left out. An archived row of unknown role has
// no record; see RoleKnown.
func (r *Row) Record() authority.Canonical {
	role, _ := r.RoleKnown()
	state := "active"
	if r.Archived {
		state = "archive"
	}
	m := map[string][]byte{
		"schema_version": literal(ItemLegacy), "todo_id": literal(r.TodoID), "role": literal(string(role)),
		"status": literal(r.Status), "done": boolean(r.Done), "text": literal(r.Text),
		"archive_state": literal(state), "source_section": literal(r.Section), "index": []byte(decimal(r.Index)),
	}
	if priority, title := Priority(Later, r.Text); priority != "" {
		m["priority"], m["title"] = literal(priority), literal(title)
	}
	for key, value := range r.Fields {
		if _, set := m[key]; !set && !fieldOf(Later, key).private {
			m[key] = value
		}
	}
	if digest := r.Validation().Digest(); digest != "" {
		m["completion_validation_required"] = boolean(true)
		m["completion_validation_sha256"] = literal(digest)
		m["completion_validation_revision"] = []byte("0")
		m["completion_validation_revision_history"] = []byte("[]")
	}
	return object(m)
}

func boolean(b bool) []byte { return strconv.AppendBool(nil, b) }

// The label in brackets that gives a Todo its priority. LoopX 0.5.1 let anything
// follow the digit; later releases want a blank or a hyphen.
var (
	priority051   = pattern(`(?is)^\[(P[0-4][^\]]*)\](.+)$`)
	priorityLater = pattern(`(?is)^\[(P[0-4](?:[-\s\x{1c}-\x{1f}\x{85}\p{Z}][^\]]*)?)\](.+)$`)
)

// Priority splits a text into priority (in capitals) and title; priority is "" when
// the text begins with no label that the reading knows.
func Priority(reading Reading, text string) (priority, title string) {
	pattern := priorityLater
	if reading == Release051 {
		pattern = priority051
	}
	m := pattern.FindStringSubmatch(stripLeft(text))
	if m == nil {
		return "", ""
	}
	return strings.ToUpper(m[1]), strip(m[2])
}

// Validation is what a Todo asks to be run before it counts as complete. It stays on
// its host: a record carries its digest only. The values are as decoded, "" for none.
type Validation struct {
	Command, Argv, Label, TimeoutSeconds string
}

// Validation returns the row's own, empty when it has none.
func (r *Row) Validation() Validation {
	return Validation{Command: text(r.Fields["validation_command"]), Argv: text(r.Fields["validation_command_argv"]),
		Label: text(r.Fields["validation_label"]), TimeoutSeconds: text(r.Fields["validation_timeout_seconds"])}
}

var secondsPattern = pattern(`^0*([0-9]{1,15})$`)

// Digest is the SHA-256 of LoopX's canonical form of the declaration, "" when there is
// none: the argument list as a list, the time limit as a number, null for what is not set.
func (v Validation) Digest() string {
	if v == (Validation{}) {
		return ""
	}
	m := map[string][]byte{"validation_command": orNull(strip(v.Command)), "validation_label": orNull(v.Label),
		"validation_command_argv": orNull(strip(v.Argv)), "validation_timeout_seconds": orNull(v.TimeoutSeconds)}
	if argv, err := canonical.Append(nil, []byte(v.Argv)); err == nil {
		m["validation_command_argv"] = argv
	}
	if seconds := secondsPattern.FindStringSubmatch(strip(v.TimeoutSeconds)); seconds != nil {
		m["validation_timeout_seconds"] = readGeneration(seconds[1])
	}
	sum := sha256.Sum256(object(m))
	return hex.EncodeToString(sum[:])
}

// spelled is the declaration as LoopX's projection spells it: the argument list without
// blanks and escapes, the time limit without leading zeros.
func (v Validation) spelled() Validation {
	if argv, err := canonical.Append(nil, []byte(v.Argv)); err == nil && canonical.Kind(argv) == canonical.Array {
		v.Argv = string(argv)
	}
	if seconds := secondsPattern.FindStringSubmatch(strip(v.TimeoutSeconds)); seconds != nil {
		v.TimeoutSeconds = string(readGeneration(seconds[1]))
	}
	return v
}

func orNull(s string) []byte {
	if s == "" {
		return []byte("null")
	}
	return literal(s)
}

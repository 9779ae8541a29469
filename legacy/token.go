package legacy

import (
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// skipped are the fields of a record that no metadata key carries and that need none:
// they follow from place and text, or LoopX derives them when it reads.
var skipped = map[string]bool{
	"schema_version": true, "index": true, "source_section": true, "done": true, "text": true, "archive_state": true,
	"priority": true, "title": true, "resume_condition": true, "resume_ready": true,
	"completion_validation_required": true, "completion_validation_sha256": true,
	"completion_validation_revision": true, "completion_validation_revision_history": true,
}

// unheld are the fields that Markdown has no place for: LoopX's own projection leaves
// them out, so a way back loses them unless the operator accepts it.
var unheld = map[string]bool{"created_by": true, "completion_result": true, "handoff_note": true}

// lines renders a record as its Todo line and its metadata line, without line ends.
// extra tokens, verbatim, follow behind. A field that cannot be written so that it
// reads back the same is a *RenderError.
func lines(record []byte, private Validation, extra []Token) ([]string, error) {
	m := members(record)
	id, body := text(m["todo_id"]), text(m["text"])
	if body == "" || body != compact(body) {
		return nil, &RenderError{Reason: "text_not_expressible", TodoID: id, Field: "text"}
	}
	metadata, err := metadataLine(m, private, extra)
	if err != nil {
		return nil, err
	}
	return []string{"- [" + marker(text(m["status"])) + "] " + body, metadata}, nil
}

func marker(status string) string {
	switch status {
	case "done":
		return "x"
	case "deferred":
		return "-"
	}
	return " "
}

func metadataLine(m map[string][]byte, private Validation, extra []Token) (string, error) {
	id := text(m["todo_id"])
	out := []string{"  <!-- loopx:todo"}
	for i := range fields {
		f := &fields[i]
		value, key := m[f.key], f.key
		if f.private {
			value = orNull(private.field(f.key))
		}
		if f.key == "continuation_policy" && absent(value) && !absent(m["removed_continuation_policy"]) {
			value = m["removed_continuation_policy"]
			f = fieldOf(Later, "removed_continuation_policy")
		} else if f.key == "removed_continuation_policy" {
			continue // its value stands under continuation_policy, where both readings find it
		}
		if absent(value) || f.key == "role" && text(m["archive_state"]) != "archive" {
			continue
		}
		token, ok := f.token(value)
		if !ok {
			return "", &RenderError{Reason: "field_not_expressible", TodoID: id, Field: f.key}
		}
		out = append(out, key+"="+quote(token))
	}
	for name := range m {
		if f := fieldOf(Later, name); (f == nil || f.private) && !skipped[name] && !unheld[name] && !absent(m[name]) {
			return "", &RenderError{Reason: "field_not_expressible", TodoID: id, Field: name}
		}
	}
	for _, t := range extra {
		out = append(out, t.Key+"="+t.Raw)
	}
	return strings.Join(out, " ") + " -->", nil
}

func (v Validation) field(key string) string {
	switch key {
	case "validation_command":
		return v.Command
	case "validation_command_argv":
		return v.Argv
	case "validation_label":
		return v.Label
	}
	return v.TimeoutSeconds
}

// RenderError refuses to write a head into Markdown, before anything is written.
type RenderError struct {
	// Reason is text_not_expressible, field_not_expressible, validation_missing,
	// section_missing, section_repeated, revision_invalid, role_unknown,
	// parity_mismatch, prose_changed.
	Reason string
	TodoID string
	Field  string
}

// Error names Todo and field.
func (e *RenderError) Error() string {
	out := "cannot be written into Markdown: " + e.Reason
	if e.TodoID != "" {
		out += " " + e.TodoID
	}
	if e.Field != "" {
		out += " field " + e.Field
	}
	return out
}

// declaration finds the private declaration that a record's digest stands for.
func declaration(m map[string][]byte, known []Validation) (Validation, error) {
	if string(m["completion_validation_required"]) != "true" {
		return Validation{}, nil
	}
	digest := text(m["completion_validation_sha256"])
	for _, v := range known {
		if digest != "" && v.Digest() == digest {
			return v, nil
		}
	}
	return Validation{}, &RenderError{Reason: "validation_missing", TodoID: text(m["todo_id"]), Field: "completion_validation_sha256"}
}

// Compatible is a head as legacy files can show it, for comparing an arm that has no
// journal. Todos keep the fields that Markdown carries: nulls, empty lists, place,
// schema, authorship, derived conditions, results and revision receipts are left out,
// priority and title are those of the text where the record has none. Leases and
// handoff mode stay whole, but for leases of archived Todos: files keep them outside of
// any head, as LoopX's import leaves them there. CompatibleName names this projection in a
// report.
func Compatible(head []byte) []byte {
	h := members(head)
	var todos, leases [][]byte
	archived := map[string]bool{}
	for _, record := range elements(h["todos"]) {
		todos = append(todos, carried(record))
		m := members(record)
		archived[text(m["todo_id"])] = text(m["archive_state"]) == "archive"
	}
	for _, lease := range elements(h["leases"]) {
		if !archived[text(members(lease)["todo_id"])] {
			leases = append(leases, lease)
		}
	}
	return object(map[string][]byte{"goal_id": h["goal_id"], "handoff_mode": h["handoff_mode"], "leases": array(leases), "todos": array(todos)})
}

// CompatibleName is the name of the projection that Compatible makes.
const CompatibleName = "loopx_migrate_legacy_v1"

func carried(record []byte) []byte {
	m := map[string][]byte{}
	for key, value := range canonical.Members(record) {
		if !absent(value) && !unheld[key] && !placed[key] {
			m[key] = value
		}
	}
	if priority, title := Priority(Later, text(m["text"])); priority != "" {
		setDefault(m, "priority", priority)
		setDefault(m, "title", title)
	}
	return object(m)
}

func setDefault(m map[string][]byte, key, value string) {
	if m[key] == nil {
		m[key] = literal(value)
	}
}

// placed are the fields that say where a record stands or what was derived of it.
var placed = map[string]bool{"index": true, "source_section": true, "schema_version": true, "resume_condition": true, "resume_ready": true,
	"completion_validation_revision": true, "completion_validation_revision_history": true}

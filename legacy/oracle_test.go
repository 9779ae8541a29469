package legacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// lines of a file of answers that LoopX 2.1.1 gave.
func answers[T any](t *testing.T, name string) []T {
	t.Helper()
	var all []T
	for text := range bytes.Lines(readFile(t, fixtures+"legacy-2.1.1/"+name)) {
		var answer T
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatal(err)
		}
		all = append(all, answer)
	}
	return all
}

// numeric are the counts that LoopX's reader keeps as text until it makes a record.
var numeric = map[string]bool{"material_change_generation": true}

// TestMetadataIsLoopXs holds the reading of metadata lines against LoopX 2.1.1. A count
// that is no number is dropped here and text there, until LoopX makes a record of it.
func TestMetadataIsLoopXs(t *testing.T) {
	for _, a := range answers[struct {
		Line   string
		Values record
	}](t, "metadata.jsonl") {
		values, _, ok := parseMetadata(Later, a.Line)
		if !ok {
			values = nil
		}
		ours := asRecord(t, object(values))
		for _, field := range differences(ours, a.Values) {
			if numeric[field] {
				continue
			}
			t.Errorf("%q %s: %v, LoopX's %v", a.Line, field, ours[field], a.Values[field])
		}
	}
}

// TestPriorityIsLoopXs: but for capitals of other scripts, which are a hold
// (priority_label_not_ascii).
func TestPriorityIsLoopXs(t *testing.T) {
	for _, a := range answers[struct{ Text, Priority, Title string }](t, "priority.jsonl") {
		if priority, title := Priority(Later, a.Text); !strings.Contains(priority, "ß") && priority != a.Priority || title != a.Title {
			t.Errorf("%q: %q %q, LoopX's %q %q", a.Text, priority, title, a.Priority, a.Title)
		}
	}
}

var reasons = map[string]string{
	"nested, mismatched, or malformed Todo region marker": "region_mismatched",
	"non-generated content inside marked Todo region":     "region_foreign_content",
	"orphan or malformed Todo region marker":              "region_orphan",
	"unterminated Todo region":                            "region_unterminated",
	"unterminated Goal frontmatter":                       "front_matter_unterminated",
}

// TestDocumentsAreLoopXs holds the reading of whole files, as random as they come,
// against LoopX 2.1.1: rows in order, or the same error.
func TestDocumentsAreLoopXs(t *testing.T) {
	for _, a := range answers[struct {
		Text  string
		Rows  [][]any
		Error string
	}](t, "documents.jsonl") {
		l, err := Parse([]byte(a.Text)).Read(Later)
		var broken *SyntaxError
		if a.Error != "" {
			if !errors.As(err, &broken) || broken.Reason != reasons[a.Error] {
				t.Errorf("%q: %v, LoopX says %s", a.Text, err, a.Error)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", a.Text, err)
			continue
		}
		got, _ := json.Marshal(rowsAsLoopX(l))
		want, _ := json.Marshal(a.Rows)
		if !bytes.Equal(got, want) {
			t.Errorf("%q:\n got %s\nwant %s", a.Text, got, want)
		}
	}
}

// rowsAsLoopX lists rows as the answers have them: users', agents', archived.
func rowsAsLoopX(l *Listing) [][]any {
	rows := [][]any{}
	for _, want := range []Role{RoleUser, RoleAgent, RoleArchive} {
		for _, r := range l.Rows {
			if r.Archived != (want == RoleArchive) || !r.Archived && r.Role != want {
				continue
			}
			var id, role any = text(r.Fields["todo_id"]), string(r.Role)
			if id == "" {
				id = nil
			}
			if role == "" {
				role = nil
			}
			row := []any{role, r.Index, r.Text, r.Status, id, r.Section}
			if r.Archived {
				row = append(row, "archive")
			}
			rows = append(rows, row)
		}
	}
	return rows
}

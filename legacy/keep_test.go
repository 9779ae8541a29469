package legacy

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// What is kept is what is read back, whatever its bytes; a holder of a lock is not kept.
func TestKeptFiles(t *testing.T) {
	files := Files{Goal: "g", State: []byte("\xff\x00 prose\r\n"), Leases: []LeaseEntry{{Name: "todo_a.json", Regular: true, Bytes: []byte("{")}, {Name: ".lifecycle-fences", Folder: true}},
		Validations: []LeaseEntry{{Name: "todo_a.json", Regular: true, Bytes: []byte("{}")}}, EventLogs: []EventLog{{Name: "events.jsonl", Size: 3}}}
	want := Kept{Files: files, OperationID: "op", Plan: authority.DigestOf([]byte("p")), Over: authority.DigestOf([]byte("o")), Changed: []string{"todo_a.json"}}
	held := want
	held.Files.LockHolder = []byte(`{"pid":1}`)
	text, err := held.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeKept(text)
	if err != nil || !reflect.DeepEqual(got, want) || got.Files.Digest() != files.Digest() {
		t.Errorf("%+v, %v", got, err)
	}
	for _, broken := range []string{"", "{}", strings.Replace(string(text), KeptSchema, "other", 1), strings.Replace(string(text), `"over"`, `"above"`, 1), string(text) + "}"} {
		if _, err := DecodeKept([]byte(broken)); !errors.Is(err, ErrKept) {
			t.Errorf("%.40q: %v", broken, err)
		}
	}
}

// Rows that no head has are kept by a file that has all their lines; a narrative is the
// same when only Todos, marks of sections and blank lines differ.
func TestNarrativeAndOutside(t *testing.T) {
	const prose = "# T\n\nProse.\n\n## Agent Todo\n\n- [ ] One\n  <!-- loopx:todo todo_id=todo_one -->\n\n## Completed Work Archive\n\n- [x] Nobody's\n\n## Next Action\n\n- x\n"
	shown := strings.Replace(prose, "- [x] Nobody's\n", "", 1)
	changed := strings.Replace(prose, "- [ ] One", "- [x] Other", 1)
	for _, c := range []struct {
		live          string
		outside, same bool
	}{
		{prose, true, true}, {shown, false, true}, {changed, true, true},
		{strings.Replace(prose, "Prose.", "Prose!", 1), true, false}, {"", false, false},
		{strings.Replace(prose, "## Agent Todo\n", "## Agent Todo\n<!-- loopx:todo-region-v0 role=agent begin -->\n", 1), false, false}, // a region without an end
	} {
		if got := KeepsOutside([]byte(prose), []byte(c.live)); got != c.outside {
			t.Errorf("KeepsOutside of\n%s: %t", c.live, got)
		}
		if got := SameNarrative([]byte(prose), []byte(c.live)); got != c.same {
			t.Errorf("SameNarrative of\n%s: %t", c.live, got)
		}
	}
}

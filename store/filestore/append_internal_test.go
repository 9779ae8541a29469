package filestore

import (
	"errors"
	"io"
	"testing"
	"unicode/utf16"

	"github.com/loopx-project/loopx-migrate/authority"
)

// LoopX reads a journal into one JavaScript string, whose length counts UTF-16
// units and ends at 2^29-24.
func TestUnitsAreThoseOfUTF16(t *testing.T) {
	for _, text := range []string{"", "plain", "é", "漢字", "😀", "a😀\u2028é\x7f"} {
		u := &unitWriter{out: io.Discard}
		if _, err := io.WriteString(u, text); err != nil {
			t.Fatal(err)
		}
		if want := len(utf16.Encode([]rune(text))); int(u.units) != want {
			t.Errorf("%q has %d units, want %d", text, u.units, want)
		}
	}
}

func TestJournalsEndWhereLoopXCannotRead(t *testing.T) {
	u := &unitWriter{out: io.Discard, units: 536870888 - 3}
	if _, err := io.WriteString(u, "a😀"); err != nil {
		t.Errorf("the longest journal: %v", err)
	}
	_, err := io.WriteString(u, "a")
	var r *refusal
	if !errors.As(err, &r) || r.Reason != authority.ReasonCapacity || r.Class != authority.ClassFailed {
		t.Errorf("one unit more: %v", err)
	}
}

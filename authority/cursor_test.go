package authority

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"testing"
)

// TestLoopXCursors holds ParseCursor against LoopX's answers. LoopX's cursors
// are unbounded; what it accepts beyond 2^64-1 must be ErrCursorRange here.
func TestLoopXCursors(t *testing.T) {
	text, err := os.ReadFile("../testdata/fixtures/canonical/cursors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	limit := new(big.Int).Lsh(big.NewInt(1), 64)
	for line := range bytes.Lines(text) {
		var answer struct {
			Cursor *string
			Value  string
			Error  string
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Cursor == nil {
			continue // null stands for "before the first" and is not text
		}
		got, err := ParseCursor(*answer.Cursor)
		value, isNumber := new(big.Int).SetString(answer.Value, 10)
		switch {
		case answer.Error != "":
			if !errors.Is(err, ErrCursorInvalid) {
				t.Errorf("%q: got %v, want ErrCursorInvalid", *answer.Cursor, err)
			}
		case isNumber && value.Cmp(limit) >= 0:
			if !errors.Is(err, ErrCursorRange) {
				t.Errorf("%q: got %v, want ErrCursorRange", *answer.Cursor, err)
			}
		case err != nil || got.String() != answer.Value:
			t.Errorf("%q: got %s, %v, want %s", *answer.Cursor, got, err, answer.Value)
		}
	}
}

func TestParseCursorRange(t *testing.T) {
	if got, err := ParseCursor("18446744073709551615"); err != nil || got != 1<<64-1 {
		t.Errorf("2^64-1: got %s, %v", got, err)
	}
	if _, err := ParseCursor("18446744073709551616"); !errors.Is(err, ErrCursorRange) {
		t.Errorf("2^64: got %v, want ErrCursorRange", err)
	}
}

package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// fixture is one line of LoopX's answers, read by the naive parser, since
// encoding/json loses lone surrogates.
type fixture struct{ value any }

func fixtures(t testing.TB, name string) []fixture {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../testdata/fixtures/canonical", name))
	if err != nil {
		t.Fatal(err)
	}
	var lines []fixture
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		value, err := naiveParse(line)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines = append(lines, fixture{value})
	}
	if len(lines) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return lines
}

// text returns a member that is a string, as WTF-8.
func (f fixture) text(key string) string {
	s, _ := naiveMember(f.value, key).(utf32)
	return s.wtf8()
}

func (f fixture) has(key string) bool { return naiveMember(f.value, key) != nil }

func (f fixture) texts(key string) []string {
	var list []string
	for _, element := range naiveMember(f.value, key).([]any) {
		list = append(list, element.(utf32).wtf8())
	}
	return list
}

func TestLoopXDocuments(t *testing.T) {
	for _, name := range []string{"documents.jsonl", "numbers.jsonl", "strings.jsonl"} {
		for i, line := range fixtures(t, name) {
			input := []byte(line.text("input"))
			got, err := Append(nil, input)
			var syntax *SyntaxError
			switch {
			case line.has("parse_error"):
				if !errors.As(err, &syntax) {
					t.Errorf("%s:%d: %q: got %q, %v, want a SyntaxError", name, i+1, input, got, err)
				}
				continue
			case line.has("error"):
				if !errors.Is(err, ErrNumberRange) {
					t.Errorf("%s:%d: %q: got %v, want ErrNumberRange", name, i+1, input, err)
				}
				continue
			}
			want := line.text("canonical")
			if err != nil || string(got) != want {
				t.Errorf("%s:%d: got %q, %v\nwant %q", name, i+1, got, err, want)
			}
			checkAnswer(t, input, []byte(want))
			if digest := sha256.Sum256(got); hex.EncodeToString(digest[:]) != line.text("sha256") {
				t.Errorf("%s:%d: digest differs", name, i+1)
			}
		}
	}
}

// checkAnswer holds Check, Inspect and the naive reference against LoopX's answer.
func checkAnswer(t *testing.T, input, want []byte) {
	t.Helper()
	if err := Check(want); err != nil {
		t.Errorf("Check of LoopX's own text %q: %v", want, err)
	}
	same := bytes.Equal(input, want)
	if err := Check(input); same != (err == nil) || !same && !errors.Is(err, ErrNotCanonical) {
		t.Errorf("Check(%q) = %v", input, err)
	}
	if odd, err := Inspect(input); err != nil || odd.Respelled == same {
		t.Errorf("Inspect(%q) = %+v, %v", input, odd, err)
	}
	if naive, err := naiveCanonical(input); err != nil || !bytes.Equal(naive, want) {
		t.Errorf("the naive reference disagrees with LoopX: %q, %v", naive, err)
	}
}

func TestLoopXNode24Deviations(t *testing.T) {
	for i, line := range fixtures(t, "node24_deviations.jsonl") {
		got, err := Append(nil, []byte(line.text("input")))
		if err != nil || string(got) != line.text("correct") {
			t.Errorf("line %d: got %q, %v", i+1, got, err)
		}
	}
}

func TestLoopXKeyOrder(t *testing.T) {
	for _, line := range fixtures(t, "key_order.jsonl") {
		keys := line.texts("keys")
		if got := slices.SortedFunc(slices.Values(keys), CompareKeys); !slices.Equal(got, line.texts("sorted")) {
			t.Errorf("CompareKeys gives %q", got)
		}
		printed := slices.SortedFunc(slices.Values(keys), func(a, b string) int {
			if Less(a, b) {
				return -1
			}
			return 1
		})
		if !slices.Equal(printed, line.texts("object_order")) {
			t.Errorf("Less gives %q", printed)
		}
		document := []byte{'{'}
		for _, key := range keys {
			document = append(AppendString(document, key), ":0,"...)
		}
		document[len(document)-1] = '}'
		canonical, err := Append(nil, document)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for key := range Members(canonical) {
			got = append(got, key)
		}
		if !slices.Equal(got, line.texts("object_order")) {
			t.Errorf("Append gives %q", got)
		}
	}
}

// Every pair of LoopX's awkward keys, in both orders: Check, Less and the naive
// reference must agree on which one comes first.
func TestKeyPairs(t *testing.T) {
	var keys []utf32
	for _, element := range naiveMember(fixtures(t, "key_order.jsonl")[0].value, "keys").([]any) {
		keys = append(keys, element.(utf32))
	}
	keys = append(keys, historyKeys...)
	for _, a := range keys {
		for _, b := range keys {
			if a == b {
				continue
			}
			want := naiveKeys(map[utf32]any{a: nil, b: nil})[0] == a
			text := append(naiveQuote([]byte{'{'}, a), ":0,"...)
			text = append(naiveQuote(text, b), ":0}"...)
			if got := Check(text) == nil; got != want {
				t.Errorf("Check(%s) accepts: %v", text, got)
			}
			if got := Less(a.wtf8(), b.wtf8()); got != want {
				t.Errorf("Less(%q, %q) = %v", a.wtf8(), b.wtf8(), got)
			}
		}
	}
}

func TestLoopXIDs(t *testing.T) {
	for i, line := range fixtures(t, "ids.jsonl") {
		want := naiveMember(line.value, "valid_id").(bool)
		if got := ValidID(line.text("value")); got != want {
			t.Errorf("line %d: ValidID(%q) = %v", i+1, line.text("value"), got)
		}
	}
	if ValidID("") {
		t.Error("the empty string is no id")
	}
}

func TestLoopXDeltas(t *testing.T) {
	for i, line := range fixtures(t, "deltas.jsonl") {
		prev, next := []byte(line.text("previous")), []byte(line.text("next"))
		prev, err := Append(nil, prev)
		if err != nil {
			t.Fatal(err)
		}
		if next, err = Append(nil, next); err != nil {
			t.Fatal(err)
		}
		d, err := Diff(prev, next)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(d.AppendBuilt(nil)); got != line.text("delta") {
			t.Errorf("line %d: Diff(%s, %s)\n got %s\nwant %s", i+1, prev, next, got, line.text("delta"))
		}
		parsed, err := ParseDelta([]byte(line.text("delta")))
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
			continue
		}
		got, err := parsed.Apply([]byte("x"), prev)
		if err != nil || string(got) != "x"+string(next) {
			t.Errorf("line %d: Apply gives %s, %v\nwant %s", i+1, got, err, next)
		}
		if digest := sha256.Sum256(got[1:]); hex.EncodeToString(digest[:]) != line.text("state_digest") {
			t.Errorf("line %d: digest differs", i+1)
		}
		sorted, err := Append(nil, d.AppendBuilt(nil))
		if err != nil || !bytes.Equal(sorted, d.AppendSorted(nil)) {
			t.Errorf("line %d: AppendSorted gives %s", i+1, d.AppendSorted(nil))
		}
	}
}

// TestLoopXDeltaRefusals replays LoopX's damaged histories up to the delta that
// LoopX refused, which must be refused here in the same words.
func TestLoopXDeltaRefusals(t *testing.T) {
	folder := "../../testdata/fixtures/malformed"
	for _, name := range []string{"delta-extra-key", "delta-path-missing-target", "delta-splice-fraction"} {
		stores, err := filepath.Glob(filepath.Join(folder, "file-v1--"+name, "store", "authority-store-*.json"))
		if err != nil || len(stores) != 1 {
			t.Fatalf("%s: %v, %v", name, stores, err)
		}
		document, err := os.ReadFile(stores[0])
		if err != nil {
			t.Fatal(err)
		}
		answers, err := os.ReadFile(filepath.Join(folder, "file-v1--"+name, "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		expected, err := naiveParse(answers)
		if err != nil {
			t.Fatal(err)
		}
		load := naiveMember(naiveMember(naiveMember(expected, "variants"), "default"), "load")
		err = replayV1(document)
		if err == nil || err.Error() != naiveMember(load, "reason").(utf32).wtf8() {
			t.Errorf("%s: got %v, LoopX says %s", name, err, naiveMember(load, "reason").(utf32).wtf8())
		}
	}
}

// replayV1 replays the states of a v1 document.
func replayV1(document []byte) error {
	document, err := Append(nil, document)
	if err != nil {
		return err
	}
	var state []byte
	for entry := range Elements(memberOf(document, "committed")) {
		step := memberOf(entry, "state")
		if delta := memberOf(step, "delta"); delta != nil {
			d, err := ParseDelta(delta)
			if err != nil {
				return err
			}
			if state, err = d.Apply(nil, state); err != nil {
				return err
			}
			continue
		}
		state = memberOf(step, "projection")
	}
	return nil
}

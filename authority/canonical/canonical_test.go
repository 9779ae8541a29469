package canonical

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestDepth(t *testing.T) {
	for _, brackets := range []string{"[]", `{"a":}`} {
		opening, closing := brackets[:len(brackets)-1], brackets[len(brackets)-1:]
		nest := func(levels int) []byte {
			// The innermost container is an empty array or an object with a null.
			inner := map[byte]string{'[': "", '{': "null"}[opening[0]]
			return []byte(strings.Repeat(opening, levels) + inner + strings.Repeat(closing, levels))
		}
		if err := Check(nest(MaxDepth)); err != nil {
			t.Errorf("%s: %v at the limit", brackets, err)
		}
		tooDeep := nest(MaxDepth + 1)
		_, appendErr := Append(nil, tooDeep)
		var depth *DepthError
		for _, err := range []error{Check(tooDeep), appendErr, new(Tracker).Check(tooDeep)} {
			if !errors.As(err, &depth) || depth.Offset != MaxDepth*len(opening) {
				t.Errorf("%s: got %v beyond the limit", brackets, err)
			}
		}
		// A hostile text is refused without walking down it.
		if err := Check([]byte(strings.Repeat(opening, 1<<20))); !errors.As(err, &depth) {
			t.Errorf("%s: got %v for a million levels", brackets, err)
		}
	}
}

// The rule: a member that a later one displaces was never there.
func TestOverflowInDisplacedMember(t *testing.T) {
	for input, want := range map[string]string{`{"a":1e400,"a":1}`: `{"a":1}`, `[{"b":[-1e999],"b":[]}]`: `[{"b":[]}]`} {
		got, err := Append(nil, []byte(input))
		if err != nil || string(got) != want {
			t.Errorf("Append(%s) = %s, %v", input, got, err)
		}
	}
	if _, err := Append(nil, []byte(`{"a":1,"a":1e400}`)); !errors.Is(err, ErrNumberRange) {
		t.Errorf("got %v", err)
	}
	var syntax *SyntaxError
	if _, err := Append(nil, []byte(`[1e400`)); !errors.As(err, &syntax) {
		t.Errorf("JSON.parse fails first, but got %v", err)
	}
}

// Expected counts of U+FFFD are those of the table "U+FFFD for Ill-Formed
// Sequences" in the Unicode Standard, section 3.9.
func TestIllFormedUTF8(t *testing.T) {
	for input, want := range map[string]int{
		"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82": 8,
		"\xed\xa0\x80\xed\xbf\xbf\xed\xaf": 8,
		"\xf4\x91\x92\x93\xff\x80\xbf":     7,
		"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf": 4,
	} {
		literal := `"` + input + `A"`
		value, err := ParseString([]byte(literal))
		if err != nil || value != strings.Repeat("\ufffd", want)+"A" {
			t.Errorf("%q: got %q, %v, want %d replacements", input, value, err, want)
		}
	}
}

func TestStringsAreWTF8(t *testing.T) {
	for literal, value := range map[string]string{
		`"\ud800"`: "\xed\xa0\x80", `"\uDFFF."`: "\xed\xbf\xbf.", `"\ud83d\ude00"`: "\U0001f600",
		`"\ude00\ud83d"`: "\xed\xb8\x80\xed\xa0\xbd", `"\u00e9\/\u0000"`: "\u00e9/\x00",
	} {
		got, err := ParseString([]byte(literal))
		if err != nil || got != value {
			t.Errorf("ParseString(%s) = %q, %v", literal, got, err)
		}
		canonical, _ := Append(nil, []byte(literal))
		if printed := AppendString([]byte("x"), value); string(printed) != "x"+string(canonical) {
			t.Errorf("AppendString(%q) = %s", value, printed)
		}
	}
	if got := AppendString(nil, "\xed\xa0\xbd\xed\xb8\x80\xe2\x82"); string(got) != "\"\U0001f600\ufffd\"" {
		t.Errorf("joined surrogates and a broken end: %s", got)
	}
	for _, bad := range []string{``, `a`, `"`, `"a`, `"a"b`, `"\x"`, `"\u12"`, "\"\n\"", `'a'`} {
		var syntax *SyntaxError
		if _, err := ParseString([]byte(bad)); !errors.As(err, &syntax) {
			t.Errorf("ParseString(%q): %v", bad, err)
		}
	}
}

// The reasons are LoopX's own, from fixtures/malformed, where they are marked.
func TestDeltaFaults(t *testing.T) {
	const schema = `{"schema_version":"authority_state_delta_v0","operations":`
	for _, c := range []struct {
		delta  string
		at     int
		reason string
	}{
		{`[]`, -1, "authority state delta must be an object"},
		{`{"schema_version":"authority_state_delta_v0"}`, -1, "authority state delta has unexpected fields"},
		{schema + `[],"extra":1}`, -1, "authority state delta has unexpected fields"},            // LoopX
		{`{"schema_version":"v1","operations":[]}`, -1, "authority state delta schema mismatch"}, // LoopX
		{schema + `{}}`, -1, "authority state delta operations must be an array"},
		{schema + `[null]}`, 0, "authority state delta operation 0 must be an object"},
		{schema + `[{"op":"remove","path":["a"]},{"op":"move","path":["a"]}]}`, 1, "authority state delta operation 1 is not supported"},
		{schema + `[{"op":"set","path":["a"]}]}`, 0, "authority state delta operation 0 has unexpected fields"},
		{schema + `[{"op":"remove","path":[]}]}`, 0, "authority state delta operation 0 path is invalid"},
		{schema + `[{"op":"remove","path":[1]}]}`, 0, "authority state delta operation 0 path is invalid"},
		{schema + `[{"op":"splice","path":["l"],"index":0.5,"remove":0,"insert":[]}]}`, 0,
			"authority state delta operation 0 splice bounds are invalid"}, // LoopX
		{schema + `[{"op":"splice","path":["l"],"index":0,"remove":9007199254740992,"insert":[]}]}`, 0,
			"authority state delta operation 0 splice bounds are invalid"},
		{schema + `[{"op":"splice","path":["l"],"index":0,"remove":0,"insert":{}}]}`, 0,
			"authority state delta operation 0 splice insertion is invalid"},
		{schema + `[{"op":"splice","path":["l"],"index":2,"remove":1,"insert":[]}]}`, 0,
			"authority state delta splice is out of range"}, // LoopX
		{schema + `[{"op":"remove","path":["l"]},{"op":"set","path":["x","a"],"value":1}]}`, 1,
			"authority state delta path leaves the previous state"}, // LoopX
		{schema + `[{"op":"set","path":["l","0"],"value":1}]}`, 0, "authority state delta path leaves the previous state"},
		{schema + `[{"op":"remove","path":["x"]}]}`, 0, "authority state delta path leaves the previous state"},
		{schema + `[{"op":"splice","path":["s"],"index":0,"remove":0,"insert":[]}]}`, 0,
			"authority state delta path leaves the previous state"},
	} {
		d, err := ParseDelta([]byte(c.delta))
		var dst []byte
		if err == nil {
			dst, err = d.Apply([]byte("kept"), []byte(`{"l":[1,2],"s":"text"}`))
			if string(dst) != "kept" {
				t.Errorf("%s: dst came back as %q", c.delta, dst)
			}
		}
		var fault *DeltaError
		if !errors.As(err, &fault) || fault.Operation != c.at || fault.Reason != c.reason {
			t.Errorf("%s: got %v, want %q", c.delta, err, c.reason)
		}
	}
	for _, text := range []string{`[]`, `1`, ``} {
		if _, err := Diff([]byte(text), []byte(`{}`)); err == nil {
			t.Errorf("Diff takes %q", text)
		}
		if _, err := NewState([]byte(text)); err == nil {
			t.Errorf("NewState takes %q", text)
		}
	}
}

// Bounds are numbers, in whatever spelling.
func TestDeltaBoundsSpelledOtherwise(t *testing.T) {
	d, err := ParseDelta([]byte(`{"operations": [{"insert":[], "op":"spl\u0069ce","path":["l"],"index":-0,"remove":10e-1}],
		"schema_version":"authority_state_delta_v0"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Apply(nil, []byte(`{"l":[1,2]}`)); err != nil || string(got) != `{"l":[2]}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestInspect(t *testing.T) {
	for input, want := range map[string]Oddities{
		`{"a":1}`:                      {},
		`{"a":1, "a":1}`:               {Respelled: true, DuplicateKey: true},
		`[{"b":{"a":1,"\u0061":2}}]`:   {Respelled: true, DuplicateKey: true},
		`9007199254740992`:             {},
		`9007199254740993`:             {Respelled: true, InexactInteger: true},
		`[-12345678901234567000]`:      {InexactInteger: true},
		`[1e+21,1.5,9007199254740991]`: {},
		` 1`:                           {Respelled: true},
	} {
		if got, err := Inspect([]byte(input)); err != nil || got != want {
			t.Errorf("Inspect(%s) = %+v, %v", input, got, err)
		}
	}
}

func TestWalk(t *testing.T) {
	var elements []string
	for element := range Elements([]byte(`[1,"a]\"",[2,[3]],{"b":[4]},null]`)) {
		elements = append(elements, string(element))
	}
	if want := []string{`1`, `"a]\""`, `[2,[3]]`, `{"b":[4]}`, `null`}; !slices.Equal(elements, want) {
		t.Errorf("got %q", elements)
	}
	var members []string
	for key, value := range Members([]byte(`{"1":true,"\ud800":"}","a":{"b":{}}}`)) {
		members = append(members, key, string(value))
	}
	if want := []string{"1", `true`, "\xed\xa0\x80", `"}"`, "a", `{"b":{}}`}; !slices.Equal(members, want) {
		t.Errorf("got %q", members)
	}
	if n := Skip([]byte(`{"a":["\\",1]},2`)); n != 14 {
		t.Errorf("Skip gives %d", n)
	}
	for text, want := range map[string]ValueKind{"{": Object, "[": Array, `"`: String, "-1": Number, "7": Number,
		"true": Bool, "false": Bool, "null": Null, "": Invalid, "x": Invalid} {
		if got := Kind([]byte(text)); got != want {
			t.Errorf("Kind(%q) = %d", text, got)
		}
	}
	// Truncated text must not be read beyond its end, whatever it yields.
	whole := []byte(`{"a":["\\",{"b":-1}],"c":"\ud800"}`)
	for n := range whole {
		Skip(whole[:n:n])
		for range Members(whole[:n:n]) {
		}
	}
}

// A tracker that scanned everything would be correct too; this holds it to its
// purpose. A fault planted in the same place of the old and the new text goes
// unnoticed exactly where the tracker does not scan.
func TestTrackerScansLittle(t *testing.T) {
	prev, next := projections(t, 128<<10)
	const places = 100
	tail := commonSuffix(prev, next)
	noticed := 0
	for i := range places {
		var tracker Tracker
		if err := tracker.Check(prev); err != nil {
			t.Fatal(err)
		}
		old := len(prev) * i / places
		at := old
		if old >= len(prev)-tail {
			at += len(next) - len(prev)
		}
		text := bytes.Clone(next)
		text[at], tracker.text[old] = 0, 0
		if tracker.Check(text) != nil {
			noticed++
		}
	}
	if noticed > places/20 {
		t.Errorf("%d of %d planted faults were scanned", noticed, places)
	}
}

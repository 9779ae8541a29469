package canonical

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// addSeeds feeds a fuzz target with LoopX's documents and the odd spellings
// that shaped the rules.
func addSeeds(f *testing.F) {
	for i, line := range fixtures(f, "documents.jsonl") {
		if i%10 == 0 {
			f.Add([]byte(line.text("input")))
		}
	}
	for _, seed := range []string{
		`{"a":1e400,"a":1}`, `[1e400`, `{"a":1,"a":1e999}`, "[\"\xe2\x82\",\"\xed\xa0\x80\",\"\xf0\x9f\x98\"]",
		`"\ud83d\ud83d\ude00"`, `{"\n":1,"\u0001":2,"\"":3}`, `{"\u0001":1,"\n":2}`, `{"10":1,"9":2,"a":3}`,
		`{"4294967294":1,"4294967295":2,"":3}`, `[-0,0,1.5,1e21,1e-7,123456789012345678]`, " [ 1 , 2 ] ", `[[[[[[1,2],3],4],5],6],7]`,
		`{"a":{"b":{"c":[1,2,{"d":"\ud800"}]}},"z":"` + "\u2028" + `"}`, "\ufeff{}", `["` + "\x7f" + `"]`,
	} {
		f.Add([]byte(seed))
	}
}

// rebuild is Append without its short cut for text that is canonical already.
func rebuild(src []byte) ([]byte, error) {
	b := builder{src: src}
	err := b.document()
	return b.dst, err
}

func FuzzAppend(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := Append([]byte("x"), src)
		if got[0] != 'x' || err != nil && len(got) != 1 {
			t.Fatalf("dst came back as %q, %v", got, err)
		}
		got = got[1:]
		want, naiveErr := naiveCanonical(src)
		var syntax *SyntaxError
		var depth *DepthError
		switch {
		case naiveErr == errNaiveSyntax:
			if !errors.As(err, &syntax) && !errors.As(err, &depth) {
				t.Fatalf("got %v, want a SyntaxError", err)
			}
		case naiveErr == errNaiveDepth:
			if !errors.As(err, &depth) {
				t.Fatalf("got %v, want a DepthError", err)
			}
		case naiveErr == errNaiveInfinite:
			if !errors.Is(err, ErrNumberRange) {
				t.Fatalf("got %v, want ErrNumberRange", err)
			}
		case err != nil || !bytes.Equal(got, want):
			t.Fatalf("got %q, %v\nwant %q", got, err, want)
		}
		valid := jsontext.Value(src).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if refusedSyntax := errors.As(err, &syntax); valid == refusedSyntax && depth == nil {
			t.Fatalf("jsontext says valid=%v, Append says %v", valid, err)
		}
		if err != nil {
			return
		}
		again, err := rebuild(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("not idempotent: %q becomes %q, %v", got, again, err)
		}
	})
}

func FuzzCheck(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		checkAgainstRebuild(t, src)
		if canonical, err := rebuild(src); err == nil {
			checkAgainstRebuild(t, canonical)
		}
	})
}

// checkAgainstRebuild holds Check against its definition.
func checkAgainstRebuild(t *testing.T, src []byte) {
	t.Helper()
	rebuilt, rebuildErr := rebuild(src)
	err := Check(src)
	switch {
	case rebuildErr != nil:
		if err == nil || err.Error() != rebuildErr.Error() {
			t.Fatalf("Check(%q) = %v, Append says %v", src, err, rebuildErr)
		}
	case bytes.Equal(rebuilt, src):
		if err != nil {
			t.Fatalf("Check(%q) = %v, but it is its own canonical form", src, err)
		}
	case !errors.Is(err, ErrNotCanonical):
		t.Fatalf("Check(%q) = %v, but its canonical form is %q", src, err, rebuilt)
	}
	if odd, err := Inspect(src); rebuildErr == nil && (err != nil || odd.Respelled == bytes.Equal(rebuilt, src)) {
		t.Fatalf("Inspect(%q) = %+v, %v", src, odd, err)
	}
}

// sameVerdict shows each text to the tracker and compares it with Check.
func sameVerdict(t *testing.T, tracker *Tracker, texts ...[]byte) {
	t.Helper()
	for i, text := range texts {
		want, got := Check(text), tracker.Check(text)
		if want == nil && got == nil {
			continue
		}
		if want == nil || got == nil || want.Error() != got.Error() {
			t.Fatalf("text %d: %q: tracker says %v, Check says %v", i, text, got, want)
		}
	}
}

func FuzzTracker(f *testing.F) {
	lines := fixtures(f, "deltas.jsonl")
	for i := 0; i < len(lines); i += 10 {
		f.Add([]byte(lines[i].text("previous")), []byte(lines[i].text("next")), uint64(i), byte(i))
	}
	f.Add([]byte(`{"a":[1,2,3],"b":{"c":1,"d":2},"e":4}`), []byte(`{"a":[1,3],"b":{"c":1,"d":2},"e":4}`), uint64(0), byte(1))
	f.Fuzz(func(t *testing.T, a, b []byte, seed uint64, stride byte) {
		if canonical, err := rebuild(a); err == nil {
			a = canonical
		}
		if canonical, err := rebuild(b); err == nil && seed%4 != 0 {
			b = canonical
		}
		tracker := &Tracker{stride: 1 + int(stride%32)}
		random := rand.New(rand.NewPCG(seed, uint64(stride)))
		sameVerdict(t, tracker, a, b, a)
		for range 8 {
			sameVerdict(t, tracker, mutate(random, a, b), mutate(random, b, a))
		}
		sameVerdict(t, tracker, b, a, b)
	})
}

// mutate replaces a stretch of a by a stretch of b, or copies one of a's own.
func mutate(random *rand.Rand, a, b []byte) []byte {
	if random.IntN(2) == 0 {
		b = a
	}
	from := random.IntN(len(a) + 1)
	to := min(len(a), from+random.IntN(24))
	start := random.IntN(len(b) + 1)
	end := min(len(b), start+random.IntN(24))
	text := append(bytes.Clone(a[:from]), b[start:end]...)
	text = append(text, a[to:]...)
	if canonical, err := rebuild(text); err == nil && random.IntN(4) > 0 {
		return canonical
	}
	return text
}

func FuzzDelta(f *testing.F) {
	lines := fixtures(f, "deltas.jsonl")
	for i := 0; i < len(lines); i += 10 {
		f.Add([]byte(lines[i].text("previous")), []byte(lines[i].text("next")))
	}
	f.Add([]byte(`{"1":1,"10":{"2":[1,1]},"a":1}`), []byte(`{"2":1,"10":{"2":[1]},"\n":1}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		prev, err := rebuild(a)
		if err != nil || prev[0] != '{' {
			return
		}
		next, err := rebuild(b)
		if err != nil || next[0] != '{' {
			return
		}
		checkDelta(t, prev, next)
		checkDelta(t, next, prev)
		checkDelta(t, []byte(`{}`), next)
	})
}

// checkDelta holds Diff against the naive rule and replays what it gives.
func checkDelta(t *testing.T, prev, next []byte) {
	t.Helper()
	d, err := Diff(prev, next)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := naiveParse(prev)
	after, _ := naiveParse(next)
	built := d.AppendBuilt(nil)
	if want := naiveDiff(before, after); string(built) != want {
		t.Fatalf("Diff(%s, %s)\n got %s\nwant %s", prev, next, built, want)
	}
	sorted := d.AppendSorted(nil)
	if err := Check(sorted); err != nil {
		t.Fatalf("AppendSorted gives %s: %v", sorted, err)
	}
	for _, text := range [][]byte{built, sorted} {
		parsed, err := ParseDelta(text)
		if err != nil {
			t.Fatalf("ParseDelta(%s): %v", text, err)
		}
		got, err := parsed.Apply(nil, prev)
		if err != nil || !bytes.Equal(got, next) {
			t.Fatalf("Apply(%s) on %s gives %s, %v", text, prev, got, err)
		}
	}
}

// FuzzReplay offers deltas that no Diff would make, twice in a row.
func FuzzReplay(f *testing.F) {
	lines := fixtures(f, "deltas.jsonl")
	for i := 0; i < len(lines); i += 10 {
		f.Add([]byte(lines[i].text("previous")), []byte(lines[i].text("delta")))
	}
	f.Add([]byte(`{"a":[1,[2],3],"b":{"c":{}}}`), []byte(`{"schema_version":"authority_state_delta_v0","operations":[
		{"op":"splice","path":["a"],"index":1,"remove":1,"insert":[4,5]},{"op":"splice","path":["a"],"index":4,"remove":0,"insert":[6]},
		{"op":"set","path":["b","c","d"],"value":[]},{"op":"splice","path":["b","c","d"],"index":0,"remove":0,"insert":[{}]},
		{"op":"set","path":["b","1"],"value":{"z":1}},{"op":"remove","path":["b","1","z"]},{"op":"remove","path":["a"]}]}`))
	f.Fuzz(func(t *testing.T, text, deltaText []byte) {
		prev, err := rebuild(text)
		if err != nil || prev[0] != '{' {
			return
		}
		d, err := ParseDelta(deltaText)
		if err != nil {
			return
		}
		state, err := NewState(prev)
		if err != nil {
			t.Fatal(err)
		}
		naive, _ := naiveParse(prev)
		for range 2 {
			naiveDelta, _ := naiveParse(deltaText)
			fits, err := naiveApply(naive, naiveDelta), state.Apply(d)
			if fits != (err == nil) {
				t.Fatalf("Apply(%s) on %s gives %v, the naive replay says fits=%v", deltaText, prev, err, fits)
			}
			if err != nil {
				return
			}
			if got, want := state.AppendTo(nil), naivePrint(nil, naive); !bytes.Equal(got, want) {
				t.Fatalf("Apply(%s) on %s\n got %s\nwant %s", deltaText, prev, got, want)
			}
		}
	})
}

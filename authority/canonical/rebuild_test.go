package canonical

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// spelled prints a value with blanks anywhere and the members of objects in any order.
func (g grower) spelled(b []byte, value any) []byte {
	blank := func() { b = append(b, strings.Repeat(" ", g.IntN(2))+strings.Repeat("\n", g.IntN(8)/7)...) }
	switch v := value.(type) {
	case map[utf32]any:
		b = append(b, '{')
		first := true
		for key, member := range v {
			if !first {
				b = append(b, ',')
			}
			first = false
			blank()
			b = naivePrint(b, key)
			blank()
			b = append(b, ':')
			blank()
			b = g.spelled(b, member)
			blank()
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, element := range v {
			if i > 0 {
				b = append(b, ',')
			}
			blank()
			b = g.spelled(b, element)
		}
		blank()
		return append(b, ']')
	}
	return naivePrint(b, value)
}

// What is put together from the object before is what the naive reference prints.
func TestRebuilder(t *testing.T) {
	for seed := range uint64(60) {
		g := grower{rand.New(rand.NewPCG(seed, 2))}
		var root any = g.object(5)
		b := NewRebuilder()
		for range 25 {
			if next := g.changed(root, 5); g.IntN(6) > 0 { // now and then the same again
				root = next
			}
			if _, isObject := root.(map[utf32]any); !isObject {
				root = g.object(5)
			}
			want, text := naivePrint(nil, root), g.spelled(nil, root)
			kept := []byte("kept")
			var odd Oddities
			got, n, ok := b.Object(append(text, "  rest"...), &kept, &odd)
			switch {
			case !ok:
				t.Fatalf("seed %d: %s was left to the slow way", seed, text)
			case n != len(text) || !bytes.Equal(got, want) || string(kept) != "kept"+string(want):
				t.Fatalf("seed %d: %s became %s, want %s", seed, text, got, want)
			}
		}
	}
}

func TestRebuilderLeavesToTheSlowWay(t *testing.T) {
	b := NewRebuilder()
	var odd Oddities
	for _, text := range []string{``, `{`, `[1]`, `{"a":1`, `{"a":1,"a":1}`, `{"a" 1}`, `{"a":1e999}`, `{"a":"\ud83d\ude00"`, `{"a":nul}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{a:1}`} {
		kept := []byte("kept")
		if _, _, ok := b.Object([]byte(text), &kept, &odd); ok || string(kept) != "kept" {
			t.Errorf("%s: %t, %s", text, ok, kept)
		}
	}
	kept := []byte{}
	if got, _, ok := b.Object([]byte(`{"b": [1, {"d": 1.0}], "a": "\u0061"}`), &kept, &odd); !ok || string(got) != `{"a":"a","b":[1,{"d":1}]}` {
		t.Errorf("after refusals: %t, %s", ok, got)
	}
}

func FuzzRebuilder(f *testing.F) {
	addSeeds(f)
	b := NewRebuilder()
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, input := range [][]byte{text, append([]byte(`{"x": [1, 2], "y": `), append(bytes.Clone(text), '}')...), text} {
			var odd Oddities
			var made []byte
			got, n, ok := b.Object(input, &made, &odd)
			if !ok {
				continue
			}
			want, err := rebuild(input[:n])
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q became %q, want %q, %v", input[:n], got, want, err)
			}
		}
	})
}

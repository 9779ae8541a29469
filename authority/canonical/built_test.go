package canonical

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// builtDeltas are deltas as SQLite holds them, between documents that LoopX made.
func builtDeltas(t testing.TB) [][]byte {
	var built [][]byte
	for _, line := range fixtures(t, "deltas.jsonl") {
		prev, err := Append(nil, []byte(line.text("previous")))
		if err != nil {
			t.Fatal(err)
		}
		next, err := Append(nil, []byte(line.text("next")))
		if err != nil {
			t.Fatal(err)
		}
		d, err := Diff(prev, next)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, d.AppendBuilt(nil))
	}
	return built
}

// The short way is taken for what SQLite holds, and agrees with the long one there
// and for everything near it.
func TestParseBuilt(t *testing.T) {
	built := builtDeltas(t)
	for _, text := range built {
		if _, ok := parseBuilt(text); !ok {
			t.Fatalf("%s is not read the short way", text)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		text := built[random.IntN(len(built))]
		agreeOn(t, mutate(random, text, built[random.IntN(len(built))]))
	}
}

func agreeOn(t *testing.T, text []byte) {
	t.Helper()
	before := bytes.Clone(text)
	short, ok := parseBuilt(text)
	if !ok {
		return
	}
	long, err := parseAny(text)
	if err != nil {
		t.Fatalf("the short way reads what the long one refuses with %v: %s", err, text)
	}
	clear(text) // the delta has a copy
	if got, want := short.AppendSorted(nil), long.AppendSorted(nil); !bytes.Equal(got, want) || !bytes.Equal(short.AppendBuilt(nil), before) {
		t.Fatalf("%s\n the short way reads %s\n the long one %s", before, got, want)
	}
}

func TestParseBuiltDepth(t *testing.T) {
	for depth := MaxDepth - 20; depth <= MaxDepth; depth++ {
		value := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		text := []byte(`{"schema_version":"authority_state_delta_v0","operations":[{"op":"set","path":["a"],"value":` + value + `}]}`)
		_, long := parseAny(text)
		if _, got := ParseDelta(text); (got == nil) != (long == nil) {
			t.Errorf("%d levels: %v, and the long way says %v", depth, got, long)
		}
	}
}

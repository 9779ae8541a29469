package canonical

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// grower makes random states and changes them, as naive values.
type grower struct{ *rand.Rand }

// Few keys, so that members come, go and come back; among them index keys, the
// border of index keys, escapes, prefixes of others and lone surrogates.
var historyKeys = []utf32{
	ascii("a"), ascii("aa"), ascii("b"), ascii("B"), ascii("10"), ascii("9"), ascii("4294967295"), ascii(""),
	ascii("\n"), ascii("\""), ascii("\\"), ascii("\x01"), utf32("\x00\x00\xd8\x00"), utf32("\x00\x01\xf6\x00"), utf32("\x00\x00\xff\x5e"),
}

func ascii(s string) utf32 {
	var units []uint16
	for _, c := range []byte(s) {
		units = append(units, uint16(c))
	}
	return naiveText(units)
}

func (g grower) key() utf32 {
	if g.IntN(4) == 0 { // objects without index keys are worth having too
		return historyKeys[g.IntN(len(historyKeys))]
	}
	return historyKeys[g.IntN(4)]
}

func (g grower) value(depth int) any {
	switch kind := g.IntN(8); {
	case depth == 0 || kind < 3:
		scalars := []any{nil, true, false, float64(g.IntN(3)), 1e21, 1.5, ascii("x"), ascii(`"],{`), historyKeys[12], ascii("text of some length")}
		return scalars[g.IntN(len(scalars))]
	case kind < 5:
		list := []any{}
		for range g.IntN(5) {
			list = append(list, g.value(depth-1))
		}
		return list
	}
	return g.object(depth)
}

func (g grower) object(depth int) map[utf32]any {
	members := map[utf32]any{}
	for range g.IntN(6) {
		members[g.key()] = g.value(depth - 1)
	}
	return members
}

// changed returns the value with one change somewhere in it.
func (g grower) changed(value any, depth int) any {
	if members, isObject := value.(map[utf32]any); isObject && depth > 0 {
		copied := map[utf32]any{}
		for key, member := range members {
			copied[key] = member
		}
		key := g.key()
		if g.IntN(5) == 0 {
			delete(copied, key)
			return copied
		}
		copied[key] = g.changed(copied[key], depth-1)
		return copied
	}
	list, isArray := value.([]any)
	if !isArray || len(list) == 0 || g.IntN(8) == 0 {
		return g.value(depth)
	}
	at := g.IntN(len(list))
	switch g.IntN(4) {
	case 0:
		return slices.Concat(list[:at], list[at+1:])
	case 1:
		return slices.Concat(list[:at], []any{g.value(depth)}, list[at:])
	case 2:
		return slices.Concat(list[:at], []any{list[at]}, list[at:])
	}
	return slices.Concat(list[:at], []any{g.changed(list[at], depth)}, list[at+1:])
}

// TestRandomHistories walks histories whose every state is printed by the naive
// reference, and holds everything that works on sequences against it.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(60) {
		g := grower{rand.New(rand.NewPCG(seed, 1))}
		var root any = g.object(5)
		text := naivePrint(nil, root)
		tracker := Tracker{stride: 1 << g.IntN(8)}
		sameVerdict(t, &tracker, text)
		state, err := NewState(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 25 {
			next := g.changed(root, 5)
			for range g.IntN(3) {
				next = g.changed(next, 5)
			}
			if _, isObject := next.(map[utf32]any); !isObject {
				continue
			}
			nextText := naivePrint(nil, next)
			checkHistoryStep(t, g, &tracker, text, nextText)
			d, err := Diff(text, nextText)
			if err != nil {
				t.Fatal(err)
			}
			if err := state.Apply(d); err != nil || !bytes.Equal(state.AppendTo(nil), nextText) {
				t.Fatalf("seed %d: %v: state is %s, want %s", seed, err, state.AppendTo(nil), nextText)
			}
			root, text = next, nextText
		}
	}
}

func checkHistoryStep(t *testing.T, g grower, tracker *Tracker, prev, next []byte) {
	t.Helper()
	if err := Check(next); err != nil {
		t.Fatalf("Check(%s): %v", next, err)
	}
	checkDelta(t, prev, next)
	for range 3 {
		sameVerdict(t, tracker, mutate(g.Rand, next, prev))
	}
	broken := bytes.Clone(next)
	broken[g.IntN(len(broken))] = `{}[],:"\a0 `[g.IntN(11)]
	sameVerdict(t, tracker, broken, prev, next)
}

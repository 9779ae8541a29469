package filestore

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// rebuilder brings the entries of a v0 document in any spelling into canonical
// form. Consecutive projections share most of their text, so it takes a
// projection apart into its members and the elements of its lists, and looks up
// what became of the same bytes in the row before; only other bytes are given to
// canonical.Append. What is put together so is proved canonical as a whole.
type rebuilder struct {
	seed    maphash.Seed
	tracker canonical.Tracker
	old     generation // of the row before
	young   generation // of this row; becomes old
	next    int        // place in old of the value that is expected next
	members []member
	parts   []byte // canonical values of members, back to back
}

// generation is what was made of the values of one projection, in order.
type generation struct {
	made  []made
	index map[uint64]int // by the hash of the raw text
	text  []byte
}

// made is raw text and its canonical form, as places in a generation's text.
type made struct {
	raw, built [2]int
	hash       uint64
	odd        canonical.Oddities
}

// member is a member of an object: its key, and its value's place in parts.
type member struct {
	key   string
	value [2]int
}

func newRebuilder() *rebuilder {
	return &rebuilder{
		seed:  maphash.MakeSeed(),
		old:   generation{index: map[uint64]int{}},
		young: generation{index: map[uint64]int{}},
	}
}

// entry makes an entry of the element at the start of text, its own text held by
// arena, and returns the element's length. False when text ends too early, or
// when the element has to be taken the slow way, if only to say what is wrong.
func (b *rebuilder) entry(text []byte, arena *[]byte, odd *canonical.Oddities) (e entry, length int, ok bool) {
	b.young.clear()
	b.next = 0
	*odd = canonical.Oddities{}
	length, ok = objectIn(text, func(key string, rest []byte) (n int, ok bool) {
		place := e.member(key)
		if place == nil || *place != nil {
			return 0, false
		}
		if key == "projection" && canonical.Kind(rest) == canonical.Object {
			*place, n, ok = b.projection(rest, arena, odd)
			return n, ok
		}
		if n = valueIn(rest); n == 0 {
			return 0, false
		}
		found, err := canonical.Inspect(rest[:n])
		if err != nil {
			return 0, false
		}
		note(odd, found)
		built := len(*arena)
		if *arena, err = canonical.Append(*arena, rest[:n]); err != nil {
			return 0, false
		}
		*place = (*arena)[built:len(*arena):len(*arena)]
		return n, true
	})
	if ok {
		b.old, b.young = b.young, b.old
		odd.Respelled = !e.isSpelled(text[:length])
	}
	return e, length, ok
}

// isSpelled reports whether text is the canonical form of a v0 entry.
func (e *entry) isSpelled(text []byte) bool {
	for _, piece := range [][]byte{
		[]byte(`{"cursor":`), e.cursor, []byte(`,"events":`), e.events, []byte(`,"operation_id":`), e.operation,
		[]byte(`,"projection":`), e.projection, []byte(`,"provider_revision":`), e.revision,
		[]byte(`,"receipts":`), e.receipts, []byte("}"),
	} {
		var found bool
		if text, found = bytes.CutPrefix(text, piece); !found {
			return false
		}
	}
	return len(text) == 0
}

func note(odd *canonical.Oddities, found canonical.Oddities) {
	odd.DuplicateKey = odd.DuplicateKey || found.DuplicateKey
	odd.InexactInteger = odd.InexactInteger || found.InexactInteger
}

// projection puts an object together of its members' canonical forms.
func (b *rebuilder) projection(text []byte, arena *[]byte, odd *canonical.Oddities) (projection []byte, length int, ok bool) {
	b.members, b.parts = b.members[:0], b.parts[:0]
	length, ok = objectIn(text, func(key string, rest []byte) (n int, ok bool) {
		start := len(b.parts)
		if canonical.Kind(rest) == canonical.Array {
			n, ok = b.list(rest, odd)
		} else {
			n, ok = b.part(rest, odd)
		}
		b.members = append(b.members, member{key: key, value: [2]int{start, len(b.parts)}})
		return n, ok
	})
	if !ok || !b.sort() {
		return nil, 0, false
	}
	built := len(*arena)
	out := append(*arena, '{')
	for i, m := range b.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(canonical.AppendString(out, m.key), ':')
		out = append(out, b.parts[m.value[0]:m.value[1]]...)
	}
	out = append(out, '}')
	*arena = out
	projection = out[built:len(out):len(out)]
	return projection, length, b.tracker.Check(projection) == nil
}

// sort brings the members into printed order; false when a key is there twice.
func (b *rebuilder) sort() bool {
	slices.SortFunc(b.members, func(x, y member) int {
		switch {
		case canonical.Less(x.key, y.key):
			return -1
		case canonical.Less(y.key, x.key):
			return 1
		}
		return 0
	})
	for i := 1; i < len(b.members); i++ {
		if b.members[i-1].key == b.members[i].key {
			return false
		}
	}
	return true
}

// list appends the canonical form of a list to parts.
func (b *rebuilder) list(text []byte, odd *canonical.Oddities) (length int, ok bool) {
	b.parts = append(b.parts, '[')
	first := true
	length, ok = itemsIn(text, '[', ']', func(rest []byte) (int, bool) {
		if !first {
			b.parts = append(b.parts, ',')
		}
		first = false
		return b.part(rest, odd)
	})
	b.parts = append(b.parts, ']')
	return length, ok
}

// part appends the canonical form of the value at the start of text to parts, and
// remembers it.
func (b *rebuilder) part(text []byte, odd *canonical.Oddities) (length int, ok bool) {
	length, at := b.known(text)
	if length == 0 {
		return 0, false
	}
	raw, made := text[:length], made{}
	start := len(b.parts)
	if at >= 0 {
		made = b.old.made[at]
		b.next = at + 1
		b.parts = append(b.parts, b.old.text[made.built[0]:made.built[1]]...)
	} else {
		b.next++ // most likely one value was changed in its place
		var err error
		if made.odd, err = canonical.Inspect(raw); err != nil {
			return 0, false
		}
		if b.parts, err = canonical.Append(b.parts, raw); err != nil {
			return 0, false
		}
		made.hash = maphash.Bytes(b.seed, raw)
	}
	note(odd, made.odd)
	b.young.remember(made, raw, b.parts[start:])
	return length, true
}

// known finds the value at the start of text among those of the row before, the
// likeliest first: its length, 0 when text ends too early, and its place, -1 when
// it is not among them.
func (b *rebuilder) known(text []byte) (length, at int) {
	if b.next < len(b.old.made) && nested(text) {
		// A value that ends with its own closing mark is whole wherever it begins.
		raw := b.old.raw(b.next)
		if len(raw) < len(text) && bytes.HasPrefix(text, raw) && nested(raw) {
			return len(raw), b.next
		}
	}
	length = valueIn(text)
	at, found := b.old.index[maphash.Bytes(b.seed, text[:length])]
	if found && bytes.Equal(b.old.raw(at), text[:length]) {
		return length, at
	}
	return length, -1
}

func (g *generation) raw(at int) []byte { return g.text[g.made[at].raw[0]:g.made[at].raw[1]] }

func (g *generation) remember(m made, raw, built []byte) {
	kept := append(g.text, raw...)
	m.raw = [2]int{len(g.text), len(kept)}
	g.text = append(kept, built...)
	m.built = [2]int{len(kept), len(g.text)}
	g.index[m.hash] = len(g.made)
	g.made = append(g.made, m)
}

func (g *generation) clear() {
	clear(g.index)
	g.made, g.text = g.made[:0], g.text[:0]
}

// objectIn walks over the object at the start of text, in any spelling, and
// returns its length; see is given the text from a value on and returns the
// value's length. It is strict about what stands between keys and values and
// leaves what they are to the canonical package. False when something is odd,
// text ends too early, or see says so.
func objectIn(text []byte, see func(key string, rest []byte) (int, bool)) (int, bool) {
	return itemsIn(text, '{', '}', func(rest []byte) (int, bool) {
		n := valueIn(rest)
		if canonical.Kind(rest) != canonical.String || n == 0 {
			return 0, false
		}
		key, err := canonical.ParseString(rest[:n])
		n += blanksIn(rest[n:])
		if err != nil || n == len(rest) || rest[n] != ':' {
			return 0, false
		}
		n++
		n += blanksIn(rest[n:])
		length, ok := see(key, rest[n:])
		return n + length, ok && length > 0
	})
}

// itemsIn walks over what is separated by commas between two brackets; take
// returns the length of the item at the start of its text.
func itemsIn(text []byte, opens, closes byte, take func(rest []byte) (int, bool)) (length int, ok bool) {
	if len(text) == 0 || text[0] != opens {
		return 0, false
	}
	i := 1 + blanksIn(text[1:])
	if i < len(text) && text[i] == closes {
		return i + 1, true
	}
	for {
		n, ok := take(text[i:])
		if !ok {
			return 0, false
		}
		i += n
		i += blanksIn(text[i:])
		switch {
		case i == len(text):
			return 0, false
		case text[i] == closes:
			return i + 1, true
		case text[i] != ',':
			return 0, false
		}
		i++
		i += blanksIn(text[i:])
	}
}

func blanksIn(text []byte) int {
	for i, c := range text {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return i
		}
	}
	return len(text)
}

// valueIn is the length of the value at the start of text, 0 when text ends too
// early to tell: something must follow.
func valueIn(text []byte) int {
	var n int
	if nested(text) {
		n = canonical.Skip(text)
	} else {
		var f framer
		n, _ = f.feed(text)
	}
	if n == len(text) {
		return 0
	}
	return n
}

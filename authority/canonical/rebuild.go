package canonical

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// Rebuilder brings objects in any spelling into canonical form, of which consecutive ones
// share most of their text. It takes an object apart into its members and the elements of
// its lists, and looks up what became of the same bytes in the object before; only other
// bytes are given to [Append]. What is put together so is proved canonical as a whole.
type Rebuilder struct {
	seed    maphash.Seed
	tracker Tracker
	old     generation // of the object before
	young   generation // of this one; becomes old
	next    int        // place in old of the value that is expected next
	members []built
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
	odd        Oddities
}

// built is a member of an object: its key, and its value's place in parts.
type built struct {
	key   string
	value [2]int
}

// NewRebuilder returns a Rebuilder that has met nothing.
func NewRebuilder() *Rebuilder {
	return &Rebuilder{
		seed:  maphash.MakeSeed(),
		old:   generation{index: map[uint64]int{}},
		young: generation{index: map[uint64]int{}},
	}
}

// Object appends the canonical form of the object at the start of text to dst, and returns
// it and its length in text. False, and dst as it was, when it has to be taken the slow
// way, if only to say what is wrong: a key that stands twice, a value that is not JSON,
// text that ends with the object. odd gets what its values have of oddities, Respelled aside.
func (b *Rebuilder) Object(text []byte, dst *[]byte, odd *Oddities) (object []byte, length int, ok bool) {
	b.young.clear()
	b.next = 0
	before := len(*dst)
	if object, length, ok = b.object(text, dst, odd); ok {
		b.old, b.young = b.young, b.old
		return object, length, true
	}
	*dst = (*dst)[:before]
	return nil, 0, false
}

// object puts an object together of its members' canonical forms.
func (b *Rebuilder) object(text []byte, dst *[]byte, odd *Oddities) (object []byte, length int, ok bool) {
	b.members, b.parts = b.members[:0], b.parts[:0]
	length, ok = EachMember(text, func(key string, rest []byte) (n int, ok bool) {
		start := len(b.parts)
		if Kind(rest) == Array {
			n, ok = b.list(rest, odd)
		} else {
			n, ok = b.part(rest, odd)
		}
		b.members = append(b.members, built{key: key, value: [2]int{start, len(b.parts)}})
		return n, ok
	})
	if !ok || !b.sort() {
		return nil, 0, false
	}
	start := len(*dst)
	out := append(*dst, '{')
	for i, m := range b.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(AppendString(out, m.key), ':')
		out = append(out, b.parts[m.value[0]:m.value[1]]...)
	}
	out = append(out, '}')
	*dst = out
	object = out[start:len(out):len(out)]
	return object, length, b.tracker.Check(object) == nil
}

// sort brings the members into printed order; false when a key is there twice.
func (b *Rebuilder) sort() bool {
	slices.SortFunc(b.members, func(x, y built) int {
		switch {
		case Less(x.key, y.key):
			return -1
		case Less(y.key, x.key):
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
func (b *Rebuilder) list(text []byte, odd *Oddities) (length int, ok bool) {
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
func (b *Rebuilder) part(text []byte, odd *Oddities) (length int, ok bool) {
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
		if made.odd, err = Inspect(raw); err != nil {
			return 0, false
		}
		if b.parts, err = Append(b.parts, raw); err != nil {
			return 0, false
		}
		made.hash = maphash.Bytes(b.seed, raw)
	}
	odd.Note(made.odd)
	b.young.remember(made, raw, b.parts[start:])
	return length, true
}

// known finds the value at the start of text among those of the row before, the
// likeliest first: its length, 0 when text ends too early, and its place, -1 when
// it is not among them.
func (b *Rebuilder) known(text []byte) (length, at int) {
	if b.next < len(b.old.made) && endsItself(text) {
		// A value that ends with its own closing mark is whole wherever it begins.
		raw := b.old.raw(b.next)
		if len(raw) < len(text) && bytes.HasPrefix(text, raw) && endsItself(raw) {
			return len(raw), b.next
		}
	}
	length = ValueLength(text)
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

// EachMember walks over the object at the start of text, in any spelling, and
// returns its length; see is given the text from a value on and returns the
// value's length. It is strict about what stands between keys and values and
// proves nothing of what they are. False when something is odd,
// text ends too early, or see says so.
func EachMember(text []byte, see func(key string, rest []byte) (int, bool)) (int, bool) {
	return itemsIn(text, '{', '}', func(rest []byte) (int, bool) {
		n := ValueLength(rest)
		if Kind(rest) != String || n == 0 {
			return 0, false
		}
		key, err := ParseString(rest[:n])
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

// ValueLength is the length of the value at the start of text, found by quotes and brackets
// alone; 0 when text ends too early to tell: something must follow.
func ValueLength(text []byte) int {
	n := bytes.IndexAny(text, " \t\r\n,:]}")
	if endsItself(text) {
		n = Skip(text)
	}
	if n < 0 || n == len(text) {
		return 0
	}
	return n
}

// endsItself reports whether a value ends with its own closing mark.
func endsItself(text []byte) bool {
	kind := Kind(text)
	return kind == Object || kind == Array || kind == String
}

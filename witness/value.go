package witness

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Value kinds.
const (
	null   = 'n'
	truth  = 'b'
	number = '0'
	text   = 's'
	list   = 'a'
	object = 'o'
)

// value is a JSON value that is never changed once made: states share what they have in
// common, and each prints itself once.
type value struct {
	kind    byte
	printed string
	str     string // of a text, lone surrogates in their three-byte form
	list    []*value
	members map[string]*value
}

func newText(s string) *value          { return &value{kind: text, str: s, printed: quote(s)} }
func newList(elements []*value) *value { return &value{kind: list, list: elements} }
func newObject(members map[string]*value) *value {
	return &value{kind: object, members: members}
}

// pairs makes an object of names and values.
func pairs(namesAndValues ...any) *value {
	members := map[string]*value{}
	for i := 0; i < len(namesAndValues); i += 2 {
		members[namesAndValues[i].(string)] = namesAndValues[i+1].(*value)
	}
	return newObject(members)
}

// textOrNull is how LoopX writes "none".
func textOrNull(s string) *value {
	if s == "" {
		return &value{kind: null, printed: "null"}
	}
	return newText(s)
}

// canonical prints the value in LoopX's canonical form.
func (v *value) canonical() string {
	if v.printed != "" {
		return v.printed
	}
	var b strings.Builder
	b.Grow(v.length())
	if v.kind == list {
		b.WriteByte('[')
		for i, element := range v.list {
			comma(&b, i)
			b.WriteString(element.canonical())
		}
		b.WriteByte(']')
	} else {
		b.WriteByte('{')
		for i, key := range v.keys() {
			comma(&b, i)
			b.WriteString(quote(key))
			b.WriteByte(':')
			b.WriteString(v.members[key].canonical())
		}
		b.WriteByte('}')
	}
	v.printed = b.String()
	return v.printed
}

// length is at least that of the parts' printed forms.
func (v *value) length() int {
	n := len("[]")
	for _, element := range v.list {
		n += len(element.canonical()) + len(",")
	}
	for key, member := range v.members {
		n += len(key) + len(member.canonical()) + len(`"":,`)
	}
	return n
}

func comma(b *strings.Builder, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// keys are in code-point order, but keys that look like array indexes come first, by number.
func (v *value) keys() []string {
	var keys []string
	for key := range v.members {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(index(a), index(b)), cmp.Compare(a, b))
	})
	return keys
}

// notIndex is more than every index key.
const notIndex = 1<<32 - 1

// index is the number of a key that JavaScript takes for an array index.
func index(key string) uint64 {
	if key == "" || key[0] < '0' || key[0] > '9' {
		return notIndex
	}
	n, err := strconv.ParseUint(key, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != key || n >= notIndex {
		return notIndex
	}
	return n
}

// quote prints a string: few escapes, lone surrogates in lower-case hexadecimal.
func quote(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' || r >= 0x7f }) < 0 {
		return `"` + s + `"`
	}
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 {
		if unit := surrogate(s); unit != 0 {
			b.WriteString(`\u` + strconv.FormatUint(uint64(unit), 16))
			s = s[3:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		if short := strings.IndexRune("\"\\\b\f\n\r\t", r); short >= 0 {
			b.WriteString(`\` + `"\bfnrt`[short:short+1])
		} else if r < 0x20 {
			b.WriteString(`\u00` + hex.EncodeToString([]byte{byte(r)}))
		} else {
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	b.WriteByte('"')
	return b.String()
}

// surrogate is the lone surrogate that a string begins with in its three-byte form, or 0.
func surrogate(s string) uint16 {
	if len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 {
		return 0
	}
	return 0xd000 | uint16(s[1]&0x3f)<<6 | uint16(s[2]&0x3f)
}

// printNumber prints a double as ECMAScript does, which encoding/json follows.
func printNumber(f float64) string {
	if f == 0 {
		return "0" // a minus zero loses its sign
	}
	printed, err := json.Marshal(f)
	if err != nil {
		return "" // infinite: the parser has refused it
	}
	return string(printed)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (v *value) member(name string) *value {
	if v == nil || v.kind != object {
		return nil
	}
	return v.members[name]
}

// string is the text of a member, or empty.
func (v *value) string(name string) string {
	m := v.member(name)
	if m == nil || m.kind != text {
		return ""
	}
	return m.str
}

// elements are those of a member that is a list.
func (v *value) elements(name string) []*value {
	m := v.member(name)
	if m == nil || m.kind != list {
		return nil
	}
	return m.list
}

// only reports whether an object has exactly these members.
func (v *value) only(names ...string) bool {
	if v == nil || v.kind != object || len(v.members) != len(names) {
		return false
	}
	for _, name := range names {
		if v.members[name] == nil {
			return false
		}
	}
	return true
}

// with is the object with one member replaced; nil removes it.
func (v *value) with(name string, member *value) *value {
	members := map[string]*value{}
	for key, old := range v.members {
		members[key] = old
	}
	members[name] = member
	if member == nil {
		delete(members, name)
	}
	return newObject(members)
}

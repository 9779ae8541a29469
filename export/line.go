package export

import (
	"bytes"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// line is a line of an archive whose digest is right. Its values are canonical and
// belong to the line. The readers of members note the first fault and go on.
type line struct {
	source []byte // without the line feed
	keys   []string
	values [][]byte
	digest authority.Digest
	fault  error
}

// parseLine reads one line and proves its digest, which covers the values whatever
// their spelling.
func parseLine(source []byte) (*line, error) {
	text, err := canonical.Append(nil, source)
	if err != nil {
		return nil, ofJSON("", err)
	}
	if canonical.Kind(text) != canonical.Object {
		return nil, violation("", "the line is no object")
	}
	l := &line{source: source}
	body := newSignature()
	for key, value := range canonical.Members(text) {
		l.keys, l.values = append(l.keys, key), append(l.values, value)
		if key != "sha256" {
			body.json(key, value)
		}
	}
	l.digest = l.sha256("sha256")
	if l.fault == nil && l.digest != body.digest() {
		return nil, violation("sha256", "the digest is not that of the line")
	}
	return l, l.fault
}

// value is a member's canonical text, nil when there is none.
func (l *line) value(key string) []byte {
	for i := range l.keys {
		if l.keys[i] == key {
			return l.values[i]
		}
	}
	return nil
}

// exactly refuses another kind of line, and a missing or unknown member.
func (l *line) exactly(kind string) error {
	if l.text("kind") != kind {
		return violation("kind", "the line is no "+kind)
	}
	for _, key := range members[kind] {
		if l.value(key) == nil {
			return violation(key, "the member is missing")
		}
	}
	if unknown := len(l.keys) - len(members[kind]) - 1; unknown != 0 {
		return violation("", fmt.Sprintf("%d unknown members", unknown))
	}
	return nil
}

func (l *line) note(fault error) {
	if l.fault == nil {
		l.fault = fault
	}
}

func (l *line) text(key string) string {
	value := l.value(key)
	if canonical.Kind(value) != canonical.String {
		l.note(violation(key, "not a string"))
		return ""
	}
	text, err := canonical.ParseString(value)
	if err != nil {
		l.note(ofJSON(key, err))
	}
	return text
}

// id is a non-empty string without blanks around it.
func (l *line) id(key string) string {
	text := l.text(key)
	if !canonical.ValidID(text) {
		l.note(violation(key, "not a trimmed, non-empty string"))
	}
	return text
}

func (l *line) cursor() authority.Cursor {
	cursor, err := authority.ParseCursor(l.text("cursor"))
	if err != nil {
		l.note(violation("cursor", "not a cursor").because(err))
	}
	return cursor
}

func (l *line) sha256(key string) authority.Digest {
	digest, err := authority.ParseDigest(l.text(key))
	if err != nil {
		l.note(violation(key, "not a digest").because(err))
	}
	return digest
}

// objects is a list of objects.
func (l *line) objects(key string) authority.Canonical {
	list := l.value(key)
	if canonical.Kind(list) != canonical.Array {
		l.note(violation(key, "not a list"))
	}
	i := 0
	for element := range canonical.Elements(list) {
		if canonical.Kind(element) != canonical.Object {
			l.note(violation(fmt.Sprintf("%s[%d]", key, i), "not an object"))
		}
		i++
	}
	return list
}

// spelled refuses a line that has the right values in another spelling than LoopX's,
// which is given with its line feed.
func (l *line) spelled(want []byte) error {
	want = want[:len(want)-1]
	if bytes.Equal(l.source, want) {
		return nil
	}
	same := 0
	for same < len(want) && same < len(l.source) && l.source[same] == want[same] {
		same++
	}
	return violation("", fmt.Sprintf("spelled otherwise than LoopX spells it, from byte %d on", same))
}

// count is the number of elements of a canonical list.
func count(list authority.Canonical) (n uint64) {
	for range canonical.Elements(list) {
		n++
	}
	return n
}

// belongsTo reports whether a state names the Goal. LoopX takes no other into an archive.
func belongsTo(projection authority.Canonical, goal string) bool {
	for key, value := range canonical.Members(projection) {
		if key == "goal_id" {
			return bytes.Equal(value, canonical.AppendString(nil, goal))
		}
	}
	return false
}

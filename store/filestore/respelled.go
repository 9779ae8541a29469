package filestore

import (
	"bytes"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// rebuilder brings the entries of a v0 document in any spelling into canonical
// form, their projections by what the one before was.
type rebuilder struct {
	projections *canonical.Rebuilder
}

func newRebuilder() *rebuilder { return &rebuilder{canonical.NewRebuilder()} }

// entry makes an entry of the element at the start of text, its own text held by
// arena, and returns the element's length. False when text ends too early, or
// when the element has to be taken the slow way, if only to say what is wrong.
func (b *rebuilder) entry(text []byte, arena *[]byte, odd *canonical.Oddities) (e entry, length int, ok bool) {
	*odd = canonical.Oddities{}
	length, ok = canonical.EachMember(text, func(key string, rest []byte) (n int, ok bool) {
		place := e.member(key)
		if place == nil || *place != nil {
			return 0, false
		}
		if key == "projection" && canonical.Kind(rest) == canonical.Object {
			*place, n, ok = b.projections.Object(rest, arena, odd)
			return n, ok
		}
		if n = canonical.ValueLength(rest); n == 0 {
			return 0, false
		}
		found, err := canonical.Inspect(rest[:n])
		if err != nil {
			return 0, false
		}
		odd.Note(found)
		built := len(*arena)
		if *arena, err = canonical.Append(*arena, rest[:n]); err != nil {
			return 0, false
		}
		*place = (*arena)[built:len(*arena):len(*arena)]
		return n, true
	})
	if ok {
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

package filestore

import (
	"context"
	"math"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// excerpt is a row without its events and its projection.
type excerpt struct {
	operation string
	revision  string
	receipts  authority.Canonical
}

// What follows the projection of a v0 row in LoopX's own spelling.
const (
	revisionName = `,"provider_revision":`
	receiptsName = `,"receipts":`
)

// tail is the length of what follows the projection, for a row in that spelling.
func (r *row) tail() uint32 {
	n := len(revisionName) + len(r.revision) + len(receiptsName) + len(r.entry.receipts) + len("}")
	return uint32(min(n, math.MaxUint32)) // a journal that LoopX can read is shorter
}

// excerpt cuts what it wants out of a row that was proved. Where the spelling
// allows it, the row's beginning and its tail are all that is read: in format v1
// the receipts stand before the state, in v0 behind the projection.
func (v *view) excerpt(i int) (excerpt, error) {
	var found excerpt
	if v.document.respelled {
		err := v.respelledExcerpt(i, &found)
		return found, err
	}
	last := v.document.header.format == authority.FormatFileV0
	err := v.beginning(i, func(s *splitter) {
		found.operationOf(s)
		if !last {
			found.outcomeOf(s)
		}
	})
	if err == nil && last {
		err = v.ending(i, found.outcomeOf)
	}
	return found, err
}

// operationOf reads the beginning of a row of either format.
func (e *excerpt) operationOf(s *splitter) {
	s.expect(`{"cursor":`)
	s.value()
	s.expect(`,"events":`)
	s.value()
	s.expect(`,"operation_id":`)
	e.operation = s.identifier()
}

func (e *excerpt) outcomeOf(s *splitter) {
	s.expect(revisionName)
	e.revision = s.identifier()
	s.expect(receiptsName)
	at := s.value()
	e.receipts = s.text[at[0]:at[1]:at[1]]
}

// identifier takes a value that must be an identifier.
func (s *splitter) identifier() string {
	at := s.value()
	if s.stuck() {
		return ""
	}
	text, ok := identifier(s.text[at[0]:at[1]])
	s.odd = !ok
	return text
}

// prefixSize is how much of a row is read at first to find what stands at its beginning.
const prefixSize = 4 << 10

// beginning reads as much of a row as take needs.
func (v *view) beginning(i int, take func(*splitter)) error {
	length := v.end(i) - v.at[i]
	for size := int64(prefixSize); ; size *= 8 {
		s, err := v.part(v.at[i], min(size, length))
		if err != nil {
			return err
		}
		if take(s); !s.stuck() {
			return nil
		}
		if size >= length {
			return v.moved()
		}
	}
}

// ending reads what follows the projection of a v0 row.
func (v *view) ending(i int, take func(*splitter)) error {
	s, err := v.part(v.end(i)-int64(v.tails[i]), int64(v.tails[i]))
	if err != nil {
		return err
	}
	if take(s); s.stuck() || string(s.text[s.pos:]) != "}" {
		return v.moved()
	}
	return nil
}

func (v *view) part(at, length int64) (*splitter, error) {
	if at < v.document.rows.start {
		return nil, v.moved()
	}
	text := make([]byte, length)
	if _, err := v.document.file.ReadAt(text, at); err != nil {
		return nil, v.moved().because(err)
	}
	return &splitter{text: text}, nil
}

// end is where a row ends that is spelled as LoopX spells it: a comma is between
// two rows and nothing behind the last.
func (v *view) end(i int) int64 {
	if i+1 < len(v.at) {
		return v.at[i+1] - 1
	}
	return v.document.rows.end
}

// respelledExcerpt reads a row in any spelling. Of a repeated key the last one counts.
func (v *view) respelledExcerpt(i int, found *excerpt) error {
	s, err := v.part(v.at[i], v.end(i)-v.at[i])
	if err != nil {
		return err
	}
	var operation, revision, receipts []byte
	_, ok := canonical.EachMember(s.text, func(key string, rest []byte) (int, bool) {
		n := canonical.ValueLength(rest)
		switch key {
		case "operation_id":
			operation = rest[:n]
		case "provider_revision":
			revision = rest[:n]
		case "receipts":
			receipts = rest[:n]
		}
		return n, true
	})
	var knownOperation, knownRevision bool
	found.operation, knownOperation = identifier(operation)
	found.revision, knownRevision = identifier(revision)
	if found.receipts, err = canonical.Append(nil, receipts); err != nil || !ok || !knownOperation || !knownRevision {
		return v.moved().because(err)
	}
	return nil
}

// Operations reads the beginning of each row. Its cursor, events and operation id
// come first in both formats, so that projections are not read.
func (v *view) Operations(ctx context.Context) ([]string, error) {
	operations := make([]string, 0, len(v.at))
	if v.document == nil {
		return operations, nil
	}
	if err := v.unchanged(); err != nil {
		return nil, v.store.refuse("audit", err)
	}
	for i := range v.at {
		var found excerpt
		err := ctx.Err()
		switch {
		case err != nil:
		case v.document.respelled:
			err = v.respelledExcerpt(i, &found)
		default:
			err = v.beginning(i, found.operationOf)
		}
		if err != nil {
			return nil, v.store.refuse("audit", err)
		}
		operations = append(operations, found.operation)
	}
	return operations, nil
}

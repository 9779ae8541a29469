package filestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// entry is one element of `committed`, as canonical text of its members. Nil
// stands for a member that is not there.
type entry struct {
	cursor, events, operation, projection, revision, receipts []byte
	state                                                     []byte // v1 in place of the projection
	strange                                                   bool   // not an object, or with a key of none of these names
}

// member returns the place for a key's value, nil for a key that none has.
func (e *entry) member(key string) *[]byte {
	switch key {
	case "cursor":
		return &e.cursor
	case "events":
		return &e.events
	case "operation_id":
		return &e.operation
	case "projection":
		return &e.projection
	case "provider_revision":
		return &e.revision
	case "receipts":
		return &e.receipts
	case "state":
		return &e.state
	}
	return nil
}

// parseEntry takes an element apart, which must be canonical text.
func parseEntry(element []byte) entry {
	var e entry
	if canonical.Kind(element) != canonical.Object {
		e.strange = true
		return e
	}
	for key, value := range canonical.Members(element) {
		place := e.member(key)
		if place == nil {
			e.strange = true
			continue
		}
		*place = value
	}
	return e
}

// row is an entry at its place in the history.
type row struct {
	entry
	place    authority.Cursor // by count, 1 for the first
	span     span             // of the element in the document
	previous string           // the revision that the row before claims; "" for the first
	compared bool             // the projection's form was proved by comparison, and not inspected
	unproved bool             // the row before was not read, so that the revision cannot be recomputed

	// What check and seal find out.
	operationID string
	claimed     string
	digest      authority.Digest // of the projection
	key         operationKey
	events      uint64
	receipts    uint64
	odd         canonical.Oddities
	model       string // member of todo_read_model that is wrong
	covering    int64  // format v1: where the covering checkpoint stands
	err         error
}

// operationKey stands for an operation id in sets: 128 bits of its SHA-256.
type operationKey [16]byte

func keyOf(operation string) operationKey {
	sum := sha256.Sum256([]byte(operation))
	return operationKey(sum[:16])
}

// at names a member of this row in a refusal.
func (r *row) at(refusal *refusal, field string) *refusal {
	name := fmt.Sprintf("committed[%d]", r.place-1)
	if field != "" {
		name += "." + field
	}
	refusal.OperationID = r.operationID
	return refusal.at(r.place, name)
}

// check makes the checks of one entry by itself, in LoopX's order.
func (r *row) check() error {
	for _, part := range [][]byte{r.cursor, r.entry.events, r.operation, r.projection, r.revision, r.entry.receipts} {
		if part == nil || r.strange {
			return r.at(violation("committed transaction is invalid"), "")
		}
	}
	cursor, ok := identifier(r.cursor)
	if !ok {
		return r.at(violation("transaction cursor must be a non-empty trimmed string"), "cursor")
	}
	if !isCursor(cursor) {
		return r.at(violation("provider cursor is invalid"), "cursor")
	}
	if r.claimed, ok = identifier(r.revision); !ok {
		return r.at(violation("transaction provider revision must be a non-empty trimmed string"), "provider_revision")
	}
	if r.operationID, ok = identifier(r.operation); !ok {
		return r.at(violation("operation id must be a non-empty trimmed string"), "operation_id")
	}
	var err error
	if r.events, err = r.list("events", r.entry.events); err != nil {
		return err
	}
	if canonical.Kind(r.projection) != canonical.Object {
		return r.at(violation("transaction projection must be an object"), "projection")
	}
	r.receipts, err = r.list("receipts", r.entry.receipts)
	return err
}

// list counts the elements of a list of objects.
func (r *row) list(name string, text []byte) (uint64, error) {
	if canonical.Kind(text) != canonical.Array {
		return 0, r.at(violation("transaction "+name+" must be an array"), name)
	}
	n := uint64(0)
	for element := range canonical.Elements(text) {
		if canonical.Kind(element) != canonical.Object {
			field := fmt.Sprintf("%s[%d]", name, n)
			return 0, r.at(violation("transaction "+field+" must be an object"), field)
		}
		n++
	}
	return n, nil
}

// identifier reads a string that is equal to its own trim.
func identifier(literal []byte) (string, bool) {
	if canonical.Kind(literal) != canonical.String {
		return "", false
	}
	text, err := canonical.ParseString(literal)
	return text, err == nil && canonical.ValidID(text)
}

// isCursor reports whether text is ^[1-9][0-9]*$, of any length.
func isCursor(text string) bool {
	return text != "" && text[0] != '0' && len(bytes.Trim([]byte(text), "0123456789")) == 0
}

// inOrder compares the cursor with the count.
func (r *row) inOrder() error {
	if string(r.cursor) != `"`+r.place.String()+`"` {
		return r.at(violation("file authority store cursor lineage is invalid"), "cursor")
	}
	return nil
}

// sealed recomputes the revision.
func (r *row) sealed(seal *sealer) error {
	if r.unproved || r.claimed == seal.revision(r) {
		return nil
	}
	return r.at(violation("file authority store revision lineage is invalid"), "provider_revision")
}

// sealer computes revisions. One is for one goroutine.
type sealer struct {
	goal, identity []byte // canonical literals
	sum            hash.Hash
	text           []byte
}

func newSealer(goal string, identity authority.Identity) *sealer {
	return &sealer{
		goal:     canonical.AppendString(nil, goal),
		identity: canonical.AppendString(nil, string(identity)),
		sum:      sha256.New(),
	}
}

// revision is `file:<cursor>:` and 24 digits of the SHA-256 over the canonical
// {goal_id, previous_provider_revision, store_identity, transaction}. The parts
// are canonical already and their keys stand in order here, so that the text is
// put together and the projection hashed where it lies.
func (s *sealer) revision(r *row) string {
	b := append(s.text[:0], `{"goal_id":`...)
	b = append(b, s.goal...)
	b = append(b, `,"previous_provider_revision":`...)
	if r.previous == "" {
		b = append(b, "null"...)
	} else {
		b = canonical.AppendString(b, r.previous)
	}
	b = append(b, `,"store_identity":`...)
	b = append(b, s.identity...)
	b = append(b, `,"transaction":{"cursor":"`...)
	b = strconv.AppendUint(b, uint64(r.place), 10)
	b = append(b, `","events":`...)
	b = append(b, r.entry.events...)
	b = append(b, `,"operation_id":`...)
	b = append(b, r.operation...)
	b = append(b, `,"projection":`...)
	s.sum.Reset()
	s.sum.Write(b)
	s.sum.Write(r.projection)
	b = append(b[:0], `,"receipts":`...)
	b = append(b, r.entry.receipts...)
	b = append(b, "}}"...)
	s.sum.Write(b)
	b = s.sum.Sum(b[:0])
	digits := hex.EncodeToString(b[:12])
	s.text = b
	return "file:" + r.place.String() + ":" + digits
}

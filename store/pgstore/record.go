package pgstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// record is a row of authority_commits with its events and receipts, as the server
// printed them: jsonb text, which is legal JSON in another order and spelling.
type record struct {
	cursor     int64
	revision   int64
	operation  string
	projection []byte
	events     [][]byte
	receipts   [][]byte
}

// recordColumns are what a record is read from; c is authority_commits.
const recordColumns = `c.cursor, c.provider_revision, c.operation_id, c.projection::text,
	ARRAY(SELECT e.event::text FROM loopx_control_plane.authority_events AS e
		WHERE e.tenant_id = c.tenant_id AND e.goal_id = c.goal_id AND e.cursor = c.cursor ORDER BY e.event_index),
	ARRAY(SELECT r.receipt::text FROM loopx_control_plane.authority_receipts AS r
		WHERE r.tenant_id = c.tenant_id AND r.goal_id = c.goal_id AND r.cursor = c.cursor ORDER BY r.receipt_index)`

var errWire = errors.New("the server sent a value in an unexpected form")

// scan reads the binary values of recordColumns. Its slices are the driver's and live
// until the next row.
func (r *record) scan(raw [][]byte) (err error) {
	if len(raw) < 6 || len(raw[0]) != 8 || len(raw[1]) != 8 {
		return errWire
	}
	r.cursor, r.revision = int64(binary.BigEndian.Uint64(raw[0])), int64(binary.BigEndian.Uint64(raw[1]))
	r.operation, r.projection = string(raw[2]), raw[3]
	if r.events, err = arrayOf(raw[4]); err != nil {
		return err
	}
	r.receipts, err = arrayOf(raw[5])
	return err
}

// arrayOf reads PostgreSQL's binary form of a one-dimensional array without nulls.
func arrayOf(raw []byte) ([][]byte, error) {
	if len(raw) < 12 {
		return nil, errWire
	}
	if binary.BigEndian.Uint32(raw) == 0 { // no dimension: an empty array
		return nil, nil
	}
	if len(raw) < 20 || binary.BigEndian.Uint32(raw) != 1 {
		return nil, errWire
	}
	elements := make([][]byte, binary.BigEndian.Uint32(raw[12:]))
	raw = raw[20:]
	for i := range elements {
		if len(raw) < 4 {
			return nil, errWire
		}
		n := int32(binary.BigEndian.Uint32(raw))
		if n < 0 || len(raw) < 4+int(n) {
			return nil, errWire
		}
		elements[i], raw = raw[4:4+n], raw[4+n:]
	}
	return elements, nil
}

func revisionOf(id authority.Identity, n int64) authority.Revision {
	return authority.Revision(string(id) + ":" + strconv.FormatInt(n, 10))
}

// projections brings the projections of consecutive rows into canonical form: most of what
// the server prints is what it printed for the row before.
type projections struct {
	rebuilder *canonical.Rebuilder // made for the first row
	length    int                  // of the newest one
}

func (p *projections) of(text []byte) (authority.Canonical, error) {
	if p.rebuilder == nil {
		p.rebuilder = canonical.NewRebuilder()
	}
	made := make([]byte, 0, p.length+p.length/16)
	var odd canonical.Oddities
	if object, n, ok := p.rebuilder.Object(text, &made, &odd); ok && n == len(text) {
		p.length = len(object)
		return object, nil
	}
	return objectOf("authority_commits.projection", "transaction projection must be an object", text)
}

// transaction brings a record into canonical form, in LoopX's order of checks.
func (r *record) transaction(id authority.Identity, states *projections) (authority.Transaction, error) {
	var t authority.Transaction
	if !canonical.ValidID(r.operation) {
		return t, violation(sentenceOperation).Field("authority_commits.operation_id").At(uint64(r.cursor)).Operation(r.operation)
	}
	t = authority.Transaction{Cursor: authority.Cursor(r.cursor), Revision: revisionOf(id, r.revision), OperationID: r.operation}
	var err error
	if t.Events, err = listOf("events", "authority_events.event", r.events); err == nil {
		t.Projection, err = states.of(r.projection)
	}
	if err == nil {
		t.Receipts, err = listOf("receipts", "authority_receipts.receipt", r.receipts)
	}
	return t, placed(err, r.cursor, r.operation)
}

func placed(err error, cursor int64, operation string) error {
	var said *refusal
	if errors.As(err, &said) {
		said.Made.Cursor, said.Made.OperationID = authority.Cursor(cursor), operation
	}
	return err
}

// listOf prints the canonical list of values that are one row each.
func listOf(name, column string, values [][]byte) (authority.Canonical, error) {
	list := []byte{'['}
	for i, value := range values {
		if i > 0 {
			list = append(list, ',')
		}
		from := len(list)
		var err error
		if list, err = canonical.Append(list, value); err != nil {
			return nil, notJSON(column, err)
		}
		if canonical.Kind(list[from:]) != canonical.Object {
			return nil, violation(fmt.Sprintf("transaction %s[%d] must be an object", name, i)).Field(column + "[" + strconv.Itoa(i) + "]")
		}
	}
	return append(list, ']'), nil
}

func objectOf(column, sentence string, text []byte) (authority.Canonical, error) {
	made, err := canonical.Append(nil, text)
	if err != nil {
		return nil, notJSON(column, err)
	}
	if canonical.Kind(made) != canonical.Object {
		return nil, violation(sentence).Field(column)
	}
	return made, nil
}

// notJSON is jsonb that is no value to LoopX: a number beyond a double, or text nested so
// deep that its stack ends, which LoopX reports as a store that cannot be read.
func notJSON(column string, err error) *refusal {
	var depth *canonical.DepthError
	if errors.As(err, &depth) {
		return refuse(authority.ClassUnavailable, authority.ReasonReadUnavailable, sentenceUnavailable).Field(column).Because(err)
	}
	return violation("PostgreSQL " + column + " is not JSON that LoopX can hold").Field(column).Because(err)
}

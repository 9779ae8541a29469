package sqlitestore

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// checkpointInterval is how many cursors share a checkpoint: 1..64, 65..128, ...
const checkpointInterval = 64

// covering is the cursor of the checkpoint that covers a cursor, itself from 1 on.
func covering(cursor uint64) uint64 { return (cursor-1)/checkpointInterval*checkpointInterval + 1 }

const commitColumns = `cursor, operation_id, commit_digest, state_digest, parent_state_digest, delta, events, receipts`

// record is a row of commits, decoded. Text points into what the driver handed out,
// which is never written again.
type record struct {
	cursor      uint64
	operationID string
	commit      string // digests as stored: 64 lower-case hexadecimal digits
	state       string
	parent      string // empty for NULL
	delta       []byte // as stored
	events      []byte // canonical
	receipts    []byte // canonical
	respelled   string // the columns that were not in canonical form, a space between
}

// scanRecord decodes the row that rows stands on.
func scanRecord(rows *sql.Rows) (record, error) {
	var column [8]any
	dest := make([]any, len(column))
	for i := range column {
		dest[i] = &column[i]
	}
	if err := rows.Scan(dest...); err != nil {
		return record{}, err
	}
	return decodeRecord(column)
}

func decodeRecord(column [8]any) (record, error) {
	cursor, isInteger := column[0].(int64)
	if !isInteger || cursor < 1 {
		return record{}, violation(notContiguous).Field("commits.cursor")
	}
	r := record{cursor: uint64(cursor)}
	fault := func(err error) (record, error) {
		var said *refusal
		if errors.As(err, &said) {
			said.Made.Cursor, said.Made.OperationID = authority.Cursor(r.cursor), r.operationID
		}
		return record{}, err
	}
	id, isText := column[1].(string)
	if !isText || !canonical.ValidID(id) {
		return fault(violation("SQLite operation id is invalid").Field("commits.operation_id"))
	}
	if !utf8.ValidString(id) {
		// LoopX reads each bad byte as U+FFFD, so that its digest cannot agree.
		return fault(violation(rowDigest).Field("commits.operation_id"))
	}
	r.operationID = id
	err := r.digests(column[2], column[3], column[4])
	if err != nil {
		return fault(err)
	}
	if r.delta, err = textColumn("commits.delta", column[5]); err != nil {
		return fault(err)
	}
	if r.events, err = r.list("events", column[6]); err != nil {
		return fault(err)
	}
	if r.receipts, err = r.list("receipts", column[7]); err != nil {
		return fault(err)
	}
	return r, nil
}

// digests decodes the three digest columns; only the parent's may be NULL.
func (r *record) digests(commit, state, parent any) (err error) {
	if r.commit, err = digestColumn("commits.commit_digest", commit); err != nil {
		return err
	}
	if r.state, err = digestColumn("commits.state_digest", state); err != nil || parent == nil {
		return err
	}
	r.parent, err = digestColumn("commits.parent_state_digest", parent)
	return err
}

// list decodes a column that holds a list of objects.
func (r *record) list(name string, from any) ([]byte, error) {
	text, respelled, err := jsonColumn("commits."+name, from)
	if err != nil {
		return nil, err
	}
	if respelled {
		r.note(name)
	}
	if !isList(text) {
		return nil, violation("SQLite committed " + name + " must be a list of objects").Field("commits." + name)
	}
	return text, nil
}

// respelledColumns are the columns that were stored in another spelling.
func (r *record) respelledColumns() []string { return strings.Fields(r.respelled) }

func (r *record) note(column string) {
	if r.respelled != "" {
		r.respelled += " "
	}
	r.respelled += column
}

// isList reports whether canonical text is a list of objects.
func isList(text []byte) bool {
	if canonical.Kind(text) != canonical.Array {
		return false
	}
	for element := range canonical.Elements(text) {
		if canonical.Kind(element) != canonical.Object {
			return false
		}
	}
	return true
}

// textColumn takes a TEXT value; a BLOB of the same bytes is refused, as by LoopX.
func textColumn(name string, from any) ([]byte, error) {
	text, isText := from.(string)
	if !isText {
		return nil, violation("SQLite " + spoken(name) + " is not retained JSON").Field(name)
	}
	return bytesOf(text), nil
}

// spoken is how LoopX's sentences name a column: "head projection".
func spoken(column string) string {
	name := []byte(column)
	for i, c := range name {
		if c == '.' || c == '_' {
			name[i] = ' '
		}
	}
	return string(name)
}

// jsonColumn takes a TEXT value and returns it in canonical form.
func jsonColumn(name string, from any) (text []byte, respelled bool, err error) {
	if text, err = textColumn(name, from); err != nil {
		return nil, false, err
	}
	switch err = canonical.Check(text); {
	case err == nil:
		return text, false, nil
	case !errors.Is(err, canonical.ErrNotCanonical):
		return nil, false, notJSON(spoken(name), err).Field(name)
	}
	if text, err = canonical.Append(nil, text); err != nil {
		return nil, false, notJSON(spoken(name), err).Field(name)
	}
	return text, true, nil
}

func digestColumn(name string, from any) (string, error) {
	text, _ := from.(string)
	if _, err := authority.ParseDigest(text); err != nil {
		detail := "SQLite " + spoken(name) + " is invalid"
		if name == "head.state_digest" {
			detail = headDigestInvalid
		}
		return "", violation(detail).Field(name)
	}
	return text, nil
}

// bytesOf is the bytes of a text that the driver made for us; nobody may write them.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// textOf is a text without a copy, for bytes that will not change while it is used.
func textOf(bytes []byte) string { return unsafe.String(unsafe.SliceData(bytes), len(bytes)) }

// equals compares a digest with its stored form.
func equals(d authority.Digest, stored string) bool {
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], d[:])
	return string(text[:]) == stored
}

// revision is `<identity>:<cursor>`: SQLite revisions count and prove nothing.
func revision(id authority.Identity, cursor uint64) authority.Revision {
	return authority.Revision(string(id) + ":" + strconv.FormatUint(cursor, 10))
}

// request is what a commit digest is made of: the canonical object
// {events, expected_provider_revision, next_projection, operation_id, receipts}.
type request struct {
	identity   authority.Identity
	cursor     uint64 // the place the commit takes; its expected revision is the one before
	operation  string
	events     []byte
	projection []byte
	receipts   []byte
}

// pieces are the texts whose sequence is the canonical form.
func (q request) pieces() [9][]byte {
	expected := []byte("null")
	if q.cursor > 1 {
		expected = append(append([]byte{'"'}, revision(q.identity, q.cursor-1)...), '"')
	}
	return [9][]byte{
		[]byte(`{"events":`), q.events,
		[]byte(`,"expected_provider_revision":`), expected,
		[]byte(`,"next_projection":`), q.projection,
		canonical.AppendString([]byte(`,"operation_id":`), q.operation),
		append([]byte(`,"receipts":`), q.receipts...), []byte(`}`),
	}
}

func (q request) digest() (d authority.Digest) {
	sum := sha256.New()
	for _, piece := range q.pieces() {
		sum.Write(piece)
	}
	sum.Sum(d[:0])
	return d
}

// size is the length of the canonical form in bytes.
func (q request) size() (n int) {
	for _, piece := range q.pieces() {
		n += len(piece)
	}
	return n
}

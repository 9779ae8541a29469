package authority

import (
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"fmt"
	"hash"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// LogicalHash computes the logical digest of a history: SHA-256 over one line a
// row, in cursor order, each the canonical list
//
//	[cursor, events, operation_id, receipts, state_digest]
//
// and a line feed. The projection enters by its SHA-256, so that a projection is
// hashed once and the digest is the same whatever store or physical format holds
// the history. Provider revisions do not enter: they belong to one store.
type LogicalHash struct {
	sum  hash.Hash
	line []byte
}

// LogicalState is a LogicalHash put down in the middle of its work.
type LogicalState []byte

// NewLogicalHash begins at the start of a history.
func NewLogicalHash() *LogicalHash { return &LogicalHash{sum: sha256.New()} }

// ResumeLogicalHash takes up work that State put down. An empty state is the beginning.
func ResumeLogicalHash(state LogicalState) (*LogicalHash, error) {
	h := NewLogicalHash()
	if len(state) == 0 {
		return h, nil
	}
	if err := h.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		return nil, fmt.Errorf("state of a logical digest: %w", err)
	}
	return h, nil
}

// Add takes the next row.
func (h *LogicalHash) Add(row Row) {
	b := append(h.line[:0], `["`...)
	b = strconv.AppendUint(b, uint64(row.Cursor), 10)
	b = append(b, `",`...)
	b = append(b, row.Events...)
	b = append(b, ',')
	b = canonical.AppendString(b, row.OperationID)
	b = append(b, ',')
	b = append(b, row.Receipts...)
	b = append(b, `,"`...)
	b = append(b, row.StateDigest.String()...)
	b = append(b, "\"]\n"...)
	h.sum.Write(b)
	h.line = b
}

// State puts the work down.
func (h *LogicalHash) State() LogicalState {
	state, err := h.sum.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic("authority: sha256 state cannot be marshaled: " + err.Error()) // crypto/sha256 documents that it can
	}
	return state
}

// Digest returns the digest of the rows so far; Add may go on.
func (h *LogicalHash) Digest() Digest {
	var d Digest
	h.sum.Sum(d[:0])
	return d
}

// MarshalJSON writes base64.
func (s LogicalState) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(s)) }

// UnmarshalJSON reads base64.
func (s *LogicalState) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, (*[]byte)(s)) }

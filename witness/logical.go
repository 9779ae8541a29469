package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
)

// logical is the logical digest: SHA-256 over a line a row,
// [cursor, events, operation_id, receipts, state_digest].
type logical struct{ sum hash.Hash }

func newLogical() logical { return logical{sha256.New()} }

func (l logical) add(t *row, state string) {
	line := newList([]*value{newText(strconv.FormatUint(t.cursor, 10)), t.events, newText(t.operation), t.receipts, newText(state)})
	l.sum.Write([]byte(line.canonical() + "\n"))
}

func (l logical) digest() string { return hex.EncodeToString(l.sum.Sum(nil)) }

package authority

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind names a family of stores. Its spelling is LoopX's, as in a selector.
type Kind string

// The kinds of store that can be the authority of a Goal, and the files that
// precede all of them.
const (
	KindLegacy     Kind = "legacy"
	KindFile       Kind = "file"
	KindSQLite     Kind = "sqlite"
	KindPostgreSQL Kind = "postgresql"
)

// Format names the physical format a store was found in.
type Format string

// The physical formats this tool reads. LoopX numbers them per provider.
const (
	FormatFileV0   Format = "file-v0"
	FormatFileV1   Format = "file-v1"
	FormatSQLiteV2 Format = "sqlite-v2"
	// FormatLegacy are the legacy files, read as a history of one transaction.
	FormatLegacy Format = "legacy-files"
)

// Identity is the incarnation of a store: the kind, a colon and 32 lower-case
// hexadecimal digits.
type Identity string

// Valid reports whether the identity belongs to a store of that kind and is well formed.
func (id Identity) Valid(kind Kind) bool {
	digits, found := strings.CutPrefix(string(id), string(kind)+":")
	return found && len(digits) == 32 && isLowerHex(digits)
}

// Revision is a provider revision: an opaque token of one store. Tokens of two
// stores are never compared. The empty revision stands for "no transaction yet".
type Revision string

// Cursor is the place of a transaction in its history, counted from 1.
// Zero stands for "before the first", which LoopX writes as null.
type Cursor uint64

// String returns the decimal LoopX writes, or "0" for the place before the first.
func (c Cursor) String() string { return strconv.FormatUint(uint64(c), 10) }

// Errors of ParseCursor.
var (
	// ErrCursorInvalid: the text is not a positive decimal without leading zero.
	ErrCursorInvalid = errors.New("provider cursor is invalid")
	// ErrCursorRange: well formed, but beyond what any history here can reach
	// (LoopX's cursors are unbounded, ours end at 2^64-1).
	ErrCursorRange = errors.New("provider cursor is beyond 2^64-1")
)

// ParseCursor reads a cursor as LoopX spells it: ^[1-9][0-9]*$.
func ParseCursor(text string) (Cursor, error) {
	if text == "" || text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%w: %q", ErrCursorInvalid, text)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", ErrCursorRange, text)
	}
	return Cursor(n), nil
}

// Canonical is JSON text in LoopX's canonical form. Holders never change its bytes.
type Canonical []byte

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// DigestOf hashes text.
func DigestOf(text []byte) Digest { return sha256.Sum256(text) }

// String returns 64 lower-case hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether the digest was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the hexadecimal form.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads exactly 64 lower-case hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	parsed, err := ParseDigest(string(text))
	*d = parsed
	return err
}

// ParseDigest reads exactly 64 lower-case hexadecimal digits.
func ParseDigest(text string) (Digest, error) {
	var d Digest
	if len(text) != 2*sha256.Size || !isLowerHex(text) {
		return d, fmt.Errorf("digest is not %d lower-case hexadecimal digits", 2*sha256.Size)
	}
	_, err := hex.Decode(d[:], []byte(text))
	return d, err
}

// Transaction is one committed step of a history. OperationID may hold lone
// surrogates; they are kept as their three-byte (WTF-8) form.
type Transaction struct {
	Cursor      Cursor
	Revision    Revision
	OperationID string
	Events      Canonical // a list of objects
	Projection  Canonical // an object: the whole state after this step
	Receipts    Canonical // a list of objects
}

// Head is the newest state of a history.
type Head struct {
	Cursor     Cursor
	Revision   Revision
	Projection Canonical
}

// Receipt is what a caller got for its operation: returned unchanged for the life of the Goal.
type Receipt struct {
	Cursor   Cursor
	Revision Revision
	Receipts Canonical
}

// Page is a run of transactions. Next is the cursor of the last one, or the
// cursor asked for when the page is empty.
type Page struct {
	Transactions []Transaction
	Next         Cursor
	HasMore      bool
}

// CommitRequest is one step offered to a store. Expected is the revision of the
// head the caller saw, empty for the first step. The JSON values may be spelled
// in any way; the store brings them into canonical form.
type CommitRequest struct {
	Expected    Revision
	OperationID string
	Events      []byte
	Projection  []byte
	Receipts    []byte
}

// Applied is the place and revision a commit got.
type Applied struct {
	Cursor   Cursor
	Revision Revision
}

// GoalHash is the SHA-256 of a Goal id, in hexadecimal, as LoopX names files by
// it. A lone surrogate is hashed as U+FFFD, since LoopX hashes UTF-8.
func GoalHash(goal string) string {
	sum := sha256.Sum256([]byte(replaceSurrogates(goal)))
	return hex.EncodeToString(sum[:])
}

// GoalHash16 is the first 16 digits of GoalHash, which most of LoopX's file names use.
func GoalHash16(goal string) string { return GoalHash(goal)[:16] }

func replaceSurrogates(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 && isSurrogate(text) {
			size = 3
		}
		b.WriteRune(r)
		text = text[size:]
	}
	return b.String()
}

// isSurrogate reports whether text starts with the three-byte form of a lone surrogate.
func isSurrogate(text string) bool {
	return len(text) >= 3 && text[0] == 0xED && text[1] >= 0xA0 && text[1] <= 0xBF && text[2]&0xC0 == 0x80
}

func isLowerHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

package export

import (
	"crypto/sha256"
	"fmt"
	"hash"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

const (
	archiveSchema = "loopx_authority_archive_v0"
	// maxLine is the longest line LoopX takes, in bytes. Its reader counts without the
	// line feed, its writer with it.
	maxLine = 64 << 20
)

// Header says whose history an archive holds and how far.
type Header struct {
	Goal       string
	Kind       authority.Kind     // of the store the history was read from
	Identity   authority.Identity // of that store
	Cursor     authority.Cursor   // of the last transaction, at least 1
	Revision   authority.Revision // of the last transaction
	Projection authority.Digest   // of the last state
}

// Seal is what the last line of a proved archive stands for.
type Seal struct {
	Header
	// SHA256 is the digest of the seal and thereby of every line before it; LoopX
	// calls it archive_sha256.
	SHA256 authority.Digest
	// Lineage is what was proved on the way to the seal.
	Lineage authority.Lineage
}

// members are the keys of each kind of line, in the order LoopX writes them, without
// sha256, which is always last.
var members = map[string][]string{
	"header": {"kind", "schema_version", "goal_id", "source_provider", "store_identity", "cursor", "provider_revision", "projection_sha256"},
	"transaction": {
		"kind", "cursor", "provider_revision", "operation_id", "events", "receipts", "delta", "projection_sha256", "previous_sha256",
	},
	"seal": {"kind", "cursor", "projection_sha256", "previous_sha256"},
}

// A record is one line about to be written. Its members are given in LoopX's order,
// each as JSON text; the text is built on the way.
type record struct{ text []byte }

func (r *record) begin(kind string) {
	r.text = append(r.text[:0], `{"kind":"`...)
	r.text = append(append(r.text, kind...), '"')
}

func (r *record) json(key string, value []byte) {
	r.text = append(append(append(r.text, `,"`...), key...), `":`...)
	r.text = append(r.text, value...)
}

func (r *record) string(key, value string) {
	r.json(key, nil)
	r.text = canonical.AppendString(r.text, value)
}

// end adds the digest and the line feed.
func (r *record) end(digest authority.Digest) {
	r.string("sha256", digest.String())
	r.text = append(r.text, '}', '\n')
}

// signature computes the digest of a line: SHA-256 of its members in canonical order.
// They must be given in that order.
type signature struct {
	sum   hash.Hash
	after bool
}

func newSignature() *signature { return &signature{sum: sha256.New()} }

func (s *signature) json(key string, value []byte) {
	opening := byte('{')
	if s.after {
		opening = ','
	}
	s.after = true
	s.sum.Write(canonical.AppendString([]byte{opening}, key))
	s.sum.Write([]byte{':'})
	s.sum.Write(value)
}

func (s *signature) string(key, value string) { s.json(key, canonical.AppendString(nil, value)) }

func (s *signature) digest() (d authority.Digest) {
	if !s.after {
		s.sum.Write([]byte{'{'})
	}
	s.sum.Write([]byte{'}'})
	s.sum.Sum(d[:0])
	return d
}

// header writes the first line.
func (r *record) header(h Header) authority.Digest {
	s := newSignature()
	s.string("cursor", h.Cursor.String())
	s.string("goal_id", h.Goal)
	s.string("kind", "header")
	s.string("projection_sha256", h.Projection.String())
	s.string("provider_revision", string(h.Revision))
	s.string("schema_version", archiveSchema)
	s.string("source_provider", string(h.Kind))
	s.string("store_identity", string(h.Identity))
	digest := s.digest()
	r.begin("header")
	r.string("schema_version", archiveSchema)
	r.string("goal_id", h.Goal)
	r.string("source_provider", string(h.Kind))
	r.string("store_identity", string(h.Identity))
	r.string("cursor", h.Cursor.String())
	r.string("provider_revision", string(h.Revision))
	r.string("projection_sha256", h.Projection.String())
	r.end(digest)
	return digest
}

// transaction writes one row, whose projection it takes as the delta from the row before.
func (r *record) transaction(row authority.Row, delta canonical.Delta, previous authority.Digest) authority.Digest {
	s := newSignature()
	s.string("cursor", row.Cursor.String())
	s.json("delta", delta.AppendSorted(nil))
	s.json("events", row.Events)
	s.string("kind", "transaction")
	s.string("operation_id", row.OperationID)
	s.string("previous_sha256", previous.String())
	s.string("projection_sha256", row.StateDigest.String())
	s.string("provider_revision", string(row.Revision))
	s.json("receipts", row.Receipts)
	digest := s.digest()
	r.begin("transaction")
	r.string("cursor", row.Cursor.String())
	r.string("provider_revision", string(row.Revision))
	r.string("operation_id", row.OperationID)
	r.json("events", row.Events)
	r.json("receipts", row.Receipts)
	r.json("delta", nil)
	r.text = delta.AppendBuilt(r.text)
	r.string("projection_sha256", row.StateDigest.String())
	r.string("previous_sha256", previous.String())
	r.end(digest)
	return digest
}

// seal writes the last line.
func (r *record) seal(h Header, previous authority.Digest) authority.Digest {
	s := newSignature()
	s.string("cursor", h.Cursor.String())
	s.string("kind", "seal")
	s.string("previous_sha256", previous.String())
	s.string("projection_sha256", h.Projection.String())
	digest := s.digest()
	r.begin("seal")
	r.string("cursor", h.Cursor.String())
	r.string("projection_sha256", h.Projection.String())
	r.string("previous_sha256", previous.String())
	r.end(digest)
	return digest
}

// revisionFault says why a row cannot have the revision it claims, "" when it can.
// Which part of a revision is determined depends on the kind of store: a file store's
// is a digest of the row and of the revision before, SQLite's counts, and PostgreSQL's
// counts in a column of its own that a rotation of the identity leaves alone.
func revisionFault(h Header, previous authority.Revision, t authority.Transaction) string {
	switch h.Kind {
	case authority.KindFile:
		if t.Revision != fileRevision(h, previous, t) {
			return "the provider revision is not that of this row"
		}
	case authority.KindSQLite:
		if string(t.Revision) != string(h.Identity)+":"+t.Cursor.String() {
			return "the provider revision is not that of this store and cursor"
		}
	case authority.KindPostgreSQL:
		prefix := string(h.Identity) + ":"
		if len(t.Revision) <= len(prefix) || string(t.Revision[:len(prefix)]) != prefix {
			return "the provider revision is not of this store"
		}
		if _, err := authority.ParseCursor(string(t.Revision[len(prefix):])); err != nil {
			return "the provider revision has no count"
		}
	}
	return ""
}

// fileRevision is file:CURSOR: and the first 24 digits of SHA-256 over the canonical
// {goal_id, previous_provider_revision, store_identity, transaction}.
func fileRevision(h Header, previous authority.Revision, t authority.Transaction) authority.Revision {
	before := []byte("null")
	if previous != "" {
		before = canonical.AppendString(nil, string(previous))
	}
	s := newSignature()
	s.string("goal_id", h.Goal)
	s.json("previous_provider_revision", before)
	s.string("store_identity", string(h.Identity))
	row := &signature{sum: s.sum}
	s.json("transaction", nil)
	row.string("cursor", t.Cursor.String())
	row.json("events", t.Events)
	row.string("operation_id", t.OperationID)
	row.json("projection", t.Projection)
	row.json("receipts", t.Receipts)
	s.sum.Write([]byte{'}'})
	return authority.Revision(fmt.Sprintf("file:%s:%s", t.Cursor, s.digest().String()[:24]))
}

package legacystore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// Schemas of the one transaction's event and receipt (docs/formats.md).
const (
	EventSchema   = "loopx_cold_source_import_event_v0"
	ReceiptSchema = "loopx_cold_source_import_receipt_v0"
)

// Retained is the history of a store the Goal was in before, as an archive.
type Retained interface {
	authority.Auditor
	io.Closer
}

// Options name the files.
type Options struct {
	GoalID string
	// Kept is the path of a document of kept files. Without it Live reads the files.
	Kept string
	Live func() (legacy.Files, error)
	// Retained is what the history begins with, nil for nothing.
	Retained Retained
}

// Store is read only. It reads the files once, when it is first asked.
type Store struct {
	options Options
	kept    func() (legacy.Kept, error)
}

// Open names the files; nothing is looked up yet.
func Open(options Options) *Store {
	return &Store{options: options, kept: sync.OnceValues(func() (legacy.Kept, error) { return read(options) })}
}

func read(options Options) (legacy.Kept, error) {
	if options.Kept == "" {
		files, err := options.Live()
		return legacy.Kept{Files: files, OperationID: "unplanned"}, err
	}
	text, err := os.ReadFile(options.Kept)
	if err != nil {
		return legacy.Kept{}, err
	}
	kept, err := legacy.DecodeKept(text)
	if err == nil && kept.Files.Goal != options.GoalID {
		err = legacy.ErrKept
	}
	return kept, err
}

// Identity of a Goal's legacy files: a name and no more, since files have no incarnation.
func Identity(goal string) authority.Identity {
	sum := authority.DigestOf([]byte("loopx-migrate legacy files\n" + strconv.Itoa(len(goal)) + ":" + goal))
	return authority.Identity(string(authority.KindLegacy) + ":" + sum.String()[:32])
}

// Kind is authority.KindLegacy.
func (s *Store) Kind() authority.Kind { return authority.KindLegacy }

// GoalID is the Goal of the files.
func (s *Store) GoalID() string { return s.options.GoalID }

// Identity is the same for every reading of this Goal's files.
func (s *Store) Identity(context.Context) (authority.Identity, error) {
	return Identity(s.options.GoalID), nil
}

// Close gives the retained history back.
func (s *Store) Close() error {
	if s.options.Retained == nil {
		return nil
	}
	return s.options.Retained.Close()
}

// refusal is every error of this store.
func (s *Store) refusal(verb string, class authority.Class, reason authority.Reason, detail string, err error) *authority.Error {
	return &authority.Error{Verb: verb, Kind: authority.KindLegacy, Goal: s.options.GoalID, Class: class, Reason: reason, Detail: detail, Err: err}
}

// unread sorts what kept the files from being read. Of a path only the cause is told.
func (s *Store) unread(verb string, err error) error {
	var path *fs.PathError
	var held *legacy.HoldError
	switch {
	case errors.As(err, &held):
		return s.refusal(verb, authority.ClassFailed, authority.ReasonDefect, held.Error(), nil)
	case errors.Is(err, fs.ErrNotExist):
		return s.refusal(verb, authority.ClassMissing, authority.ReasonNone, "the files are not there", nil)
	case errors.As(err, &path):
		return s.refusal(verb, authority.ClassUnavailable, authority.ReasonReadUnavailable, path.Err.Error(), nil)
	case errors.Is(err, legacy.ErrKept):
		return s.refusal(verb, authority.ClassFailed, authority.ReasonDefect, "the kept files are not what was written", nil)
	}
	return s.refusal(verb, authority.ClassUnavailable, authority.ReasonReadUnavailable, "", err)
}

// transaction is what the files say, as the row after a cursor.
func (s *Store) transaction(after authority.Cursor) (authority.Row, error) {
	kept, err := s.kept()
	if err != nil {
		return authority.Row{}, err
	}
	head, err := legacy.Inspect(kept.Files, time.Time{}).Projection() // the clock judges leases, which no head depends on
	if err != nil {
		return authority.Row{}, err
	}
	tx := authority.Transaction{Cursor: after + 1, OperationID: kept.OperationID, Projection: head,
		Events: s.mark(EventSchema, kept, head), Receipts: s.mark(ReceiptSchema, kept, head)}
	sum := authority.DigestOf([]byte(tx.OperationID + "\n" + string(tx.Events) + "\n" + authority.DigestOf(head).String()))
	tx.Revision = authority.Revision(string(authority.KindLegacy) + ":" + sum.String()[:32] + ":" + tx.Cursor.String())
	return authority.Row{Transaction: tx, StateDigest: authority.DigestOf(head)}, nil
}

// mark is a list of one event or receipt, keys by code point.
func (s *Store) mark(schema string, kept legacy.Kept, head authority.Canonical) authority.Canonical {
	b := []byte("[{")
	for i, field := range [][2]string{{"goal_id", s.options.GoalID}, {"import_plan_sha256", kept.Plan.String()}, {"operation_id", kept.OperationID},
		{"schema_version", schema}, {"source_projection_sha256", authority.DigestOf(head).String()}} {
		if i > 0 {
			b = append(b, ',')
		}
		b = canonical.AppendString(append(canonical.AppendString(b, field[0]), ':'), field[1])
	}
	return append(b, "}]"...)
}

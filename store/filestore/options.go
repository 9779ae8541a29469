package filestore

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Existence says whether a commit may begin a journal.
type Existence int

// LoopX opens stores in both ways.
const (
	// MayCreate: the first commit mints the identity and writes the document.
	MayCreate Existence = iota
	// ExistingOnly: identity and document must be there.
	ExistingOnly
)

// Access says whether commits are taken at all.
type Access int

// What a handle may do.
const (
	ReadWrite Access = iota
	// ReadOnly refuses every commit before it looks at anything.
	ReadOnly
)

// DefaultLockWait is how long LoopX waits for a document's lock.
const DefaultLockWait = 5 * time.Second

// Options names a journal and how it is used.
type Options struct {
	Dir       string // the folder of the document and its store-identity
	GoalID    string
	Existence Existence
	Access    Access
	LockWait  time.Duration // zero means DefaultLockWait
	// NewFormat is the format of a document that a commit begins: FormatFileV1
	// when empty, which LoopX 2.1.1 writes, or FormatFileV0. A document that is
	// there keeps its format.
	NewFormat authority.Format
	// Proofs is shared with other stores of the process; nil means one of its own.
	Proofs *Proofs
}

// Store is one Goal's journal. It holds no descriptor between calls and may be
// used by several goroutines. Each call reads the whole document, and proves it unless
// its bytes were proved or written before, by their SHA-256 ([Proofs]).
type Store struct {
	path         string
	identityPath string
	options      Options
	proofs       *Proofs
}

var (
	_ authority.Store   = (*Store)(nil)
	_ authority.Auditor = (*Store)(nil)
	_ authority.Viewer  = (*Store)(nil)
)

// DocumentPath is the place of a Goal's journal in a folder.
func DocumentPath(dir, goal string) string {
	return filepath.Join(dir, "authority-store-"+authority.GoalHash16(goal)+".json")
}

// IdentityPath is the place of the identity that all journals of a folder share.
func IdentityPath(dir string) string { return filepath.Join(dir, "store-identity") }

// Open names a journal at LoopX's place. Nothing is looked up: a store that is
// not there answers ClassMissing when it is asked.
func Open(options Options) (*Store, error) {
	return OpenDocument(DocumentPath(options.Dir, options.GoalID), IdentityPath(options.Dir), options)
}

// OpenDocument names a journal that was moved elsewhere, with its identity file;
// options.Dir is not used.
func OpenDocument(path, identityPath string, options Options) (*Store, error) {
	if options.LockWait == 0 {
		options.LockWait = DefaultLockWait
	}
	if options.NewFormat == "" {
		options.NewFormat = authority.FormatFileV1
	}
	if options.Proofs == nil {
		options.Proofs = &Proofs{}
	}
	s := &Store{path: path, identityPath: identityPath, options: options, proofs: options.Proofs}
	switch {
	case !canonical.ValidID(options.GoalID):
		return nil, s.refuse("open", failed(authority.ReasonNone, "goal id must be a non-empty trimmed string"))
	case options.NewFormat != authority.FormatFileV0 && options.NewFormat != authority.FormatFileV1:
		return nil, s.refuse("open", failed(authority.ReasonFormatUnsupported, "a journal is written as file-v0 or file-v1"))
	}
	return s, nil
}

// Kind is KindFile.
func (s *Store) Kind() authority.Kind { return authority.KindFile }

// GoalID returns the Goal the store was opened for.
func (s *Store) GoalID() string { return s.options.GoalID }

// Path is the place of the document.
func (s *Store) Path() string { return s.path }

// Close does nothing: a Store holds nothing between calls.
func (s *Store) Close() error { return nil }

// open returns the document and the identity beside it. Absent is ClassMissing,
// and then the identity is not looked at, as in LoopX.
func (s *Store) open() (*document, error) {
	file, err := os.Open(s.path)
	if os.IsNotExist(err) {
		return nil, missing()
	}
	if err != nil {
		return nil, unreadable(err)
	}
	d := &document{file: file, goal: s.options.GoalID}
	if err := s.lookAt(d); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (s *Store) lookAt(d *document) error {
	info, err := d.file.Stat()
	if err != nil {
		return unreadable(err)
	}
	d.size, d.modified = info.Size(), info.ModTime()
	// A directory opens without complaint; LoopX meets it when it reads.
	if _, err := d.file.ReadAt(make([]byte, 1), 0); err != nil && d.size > 0 {
		return unreadable(err)
	}
	if d.identity, err = readIdentity(s.identityPath); err != nil {
		return s.withoutIdentity(err)
	}
	return nil
}

// withoutIdentity is what reading a document without a usable identity comes to.
func (s *Store) withoutIdentity(err error) error {
	if !isMissing(err) {
		return err
	}
	if s.options.Existence == ExistingOnly {
		return identityMissing(authority.ReasonReadUnavailable)
	}
	// LoopX mints an identity here, which can only differ from the document's.
	return violation("file authority store lineage mismatch").at(0, "store_identity")
}

// verify opens and proves the document for one of LoopX's reads.
func (s *Store) verify(ctx context.Context, w *walk) (*document, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	if err := d.prove(ctx, w); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

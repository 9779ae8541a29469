package sqlitestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// CandidateOptions says where a candidate stands and what it will be.
type CandidateOptions struct {
	Path     string
	GoalID   string
	Identity authority.Identity
	// BusyWait is as in Options.
	BusyWait time.Duration
	// Scratch is as in Options.
	Scratch string
	// BatchRows is how many rows share a transaction; zero is 512. A batch also ends at
	// 16 MiB of text.
	BatchRows int
}

const (
	defaultBatchRows = 512
	batchBytes       = 16 << 20
)

// Candidate is a database under construction, which nobody takes for an authority yet.
// It is used by one goroutine at a time. After an error of Append, Flush or Seal only
// Close is of use; what was durable stays so, and OpenCandidate goes on from there.
type Candidate struct {
	options CandidateOptions
	session *session
	durable newest // the last row that is durable
	taken   uint64 // the last row that was appended
	line    *line  // the goroutines that load, nil before the first row
	sealed  bool
}

// newest is a row as far as its successor needs it.
type newest struct {
	cursor     uint64
	projection []byte
	sum        authority.Digest
}

// CreateCandidate makes a database with LoopX's schema and the identity, and nothing in
// it. The path must be free: no file, an empty file, or a database without any content.
// Anything else stays byte for byte as it is and is refused: ReasonForeignStore for
// what is no database, somebody else's, another Goal's or this Goal's already,
// ReasonFormatUnsupported for LoopX's version 1, ReasonFileSystem before a file is made
// on a network file system.
func CreateCandidate(ctx context.Context, o CandidateOptions) (*Candidate, error) {
	c, err := createCandidate(ctx, o)
	if err != nil {
		return nil, answerAs(verbLoad, o.GoalID, err, unwritten)
	}
	return c, nil
}

const verbLoad = "bulk_load"

func (o *CandidateOptions) check() (Options, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return Options{}, err
	}
	o.Path = path
	if !canonical.ValidID(o.GoalID) || !utf8.ValidString(o.GoalID) {
		return Options{}, violation("Goal id is invalid").Field("goal_id")
	}
	if !o.Identity.Valid(authority.KindSQLite) {
		return Options{}, violation(metadataInvalid).Field("store_identity")
	}
	if o.BatchRows <= 0 {
		o.BatchRows = defaultBatchRows
	}
	if o.BusyWait <= 0 {
		o.BusyWait = DefaultBusyWait
	}
	return Options{Path: path, GoalID: o.GoalID, ExpectedIdentity: o.Identity, Mode: ReadWrite,
		BusyWait: o.BusyWait, Scratch: o.Scratch}, nil
}

func createCandidate(ctx context.Context, o CandidateOptions) (*Candidate, error) {
	store, err := o.check()
	if err != nil {
		return nil, err
	}
	if err := checkFileSystem(filepath.Dir(o.Path)); err != nil {
		return nil, err
	}
	who, _, err := tenantOf(ctx, store)
	if err != nil {
		return nil, err
	}
	if who != nobody {
		return nil, foreign("an authority of this Goal stands there already")
	}
	if err := faultio.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, err
	}
	return startCandidate(ctx, o, store, accessCreate)
}

// startCandidate opens the database, with its schema installed, where its history ends.
func startCandidate(ctx context.Context, o CandidateOptions, store Options, how access) (*Candidate, error) {
	in, err := openWriter(ctx, how == accessCreate, how, store)
	if err != nil {
		return nil, err
	}
	c := &Candidate{options: o, session: in}
	if err := in.reading(ctx, c.resume); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return c, nil
}

// OpenCandidate takes a candidate up again, at the row Head tells. ClassMissing when
// there is none yet, also when making it was interrupted; CreateCandidate can then be used.
// The ends of the history are proved as for a commit, the rest is for an audit.
func OpenCandidate(ctx context.Context, o CandidateOptions) (*Candidate, error) {
	c, err := openCandidate(ctx, o)
	if err != nil {
		return nil, answerAs(verbLoad, o.GoalID, err, unreadable)
	}
	return c, nil
}

func openCandidate(ctx context.Context, o CandidateOptions) (*Candidate, error) {
	store, err := o.check()
	if err != nil {
		return nil, err
	}
	who, id, err := tenantOf(ctx, store)
	if err != nil {
		return nil, err
	}
	if who == nobody {
		return nil, missing()
	}
	if id != o.Identity {
		return nil, foreign("the database is another incarnation of this Goal's authority")
	}
	return startCandidate(ctx, o, store, accessWrite)
}

func (c *Candidate) resume() error {
	e, err := c.session.ending()
	if err != nil || e.cursor == 0 {
		return err
	}
	c.taken = e.cursor
	c.durable = newest{cursor: e.cursor, projection: e.projection, sum: authority.DigestOf(e.projection)}
	return nil
}

// Head returns the newest durable row and the digest of its state, zero values when
// there is none. Rows appended since the last Flush may be durable already.
func (c *Candidate) Head(context.Context) (authority.Cursor, authority.Digest, error) {
	return authority.Cursor(c.durable.cursor), c.durable.sum, nil
}

// Append takes the next row. Its bytes must be canonical, as authority.Row promises, and
// are copied; a StateDigest that is set is believed, since whoever loads a candidate
// proves it by an audit afterwards. A row out of turn, or one this store cannot hold, is
// ReasonInvalidCommit or ReasonCapacity; an operation id that was there before is
// ClassConflict, maybe only at a later call.
func (c *Candidate) Append(ctx context.Context, row authority.Row) error {
	return answerAs(verbLoad, c.options.GoalID, c.append(ctx, row), unwritten)
}

func (c *Candidate) append(ctx context.Context, row authority.Row) error {
	if c.session == nil {
		return fs.ErrClosed
	}
	if uint64(row.Cursor) != c.taken+1 {
		return invalid("cursor", "rows must be loaded in cursor order").At(uint64(row.Cursor)).Operation(row.OperationID)
	}
	if err := writableID(row.OperationID); err != nil {
		return placed(err, uint64(row.Cursor))
	}
	if c.line == nil {
		var err error
		if c.line, err = startLine(c.session, c.durable, c.options.BatchRows); err != nil {
			return err
		}
	}
	parcel := c.line.blank()
	parcel.take(c.session.identity, row)
	if err := fits(parcel.size(), row.OperationID); err != nil {
		return placed(err, uint64(row.Cursor))
	}
	if err := c.line.send(ctx, parcel); err != nil {
		return err
	}
	c.taken++
	return nil
}

// Flush makes every appended row durable. A COMMIT that fails is ClassAmbiguous: only
// OpenCandidate can tell what it left.
func (c *Candidate) Flush(ctx context.Context) error {
	return answerAs(verbLoad, c.options.GoalID, c.flush(ctx), unwritten)
}

func (c *Candidate) flush(ctx context.Context) error {
	if c.session == nil {
		return fs.ErrClosed
	}
	if c.line == nil {
		return nil
	}
	durable, err := c.line.flush(ctx)
	if err == nil {
		c.durable = durable
	}
	return err
}

// Seal flushes, empties the log into the database, closes it and makes file and name
// durable: afterwards nothing stands beside the file, and it may be moved. Sealing again
// does nothing. When somebody else has the database open it is ReasonWriteUnavailable.
func (c *Candidate) Seal(ctx context.Context) error {
	return answerAs(verbLoad, c.options.GoalID, c.seal(ctx), unwritten)
}

func (c *Candidate) seal(ctx context.Context) error {
	if c.sealed {
		return nil
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	c.stop()
	err := faultio.Commit("candidate checkpoint", c.session.emptyLog)
	err = errors.Join(err, c.session.close())
	c.session = nil
	if err != nil {
		return err
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		_, err := os.Lstat(c.options.Path + suffix)
		if err == nil {
			return stillOpen("a " + suffix + " stands beside the closed candidate")
		}
		if err := unlessAbsent(err); err != nil {
			return err
		}
	}
	if err := syncFile(c.options.Path); err != nil {
		return err
	}
	c.sealed = true
	return nil
}

func stillOpen(detail string) *refusal {
	return refuse(authority.ClassFailed, authority.ReasonWriteUnavailable, detail+"; somebody else has it open")
}

// emptyLog moves the whole log into the database and cuts it to nothing.
func (s *session) emptyLog() error {
	var busy, frames, moved int64
	if err := s.row([]any{&busy, &frames, &moved}, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	if busy != 0 {
		return stillOpen("the log of the candidate cannot be emptied")
	}
	return nil
}

func syncFile(path string) error {
	file, err := faultio.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return faultio.SyncDir(filepath.Dir(path))
}

// Close gives up what was not flushed. After Seal there is nothing left to do.
func (c *Candidate) Close() error {
	c.stop()
	if c.session == nil {
		return nil
	}
	err := c.session.close()
	c.session = nil
	return err
}

func (c *Candidate) stop() {
	if c.line != nil {
		c.line.stop()
		c.line = nil
	}
}

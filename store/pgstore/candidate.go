package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/loopx-project/loopx-migrate/authority"
)

// CandidateOptions says where a candidate stands and how it is loaded.
type CandidateOptions struct {
	Server
	Tenant string
	GoalID string
	// Identity, when not empty, is the only identity of the database accepted.
	Identity authority.Identity
	// CandidateID names the candidate; it has the shape of a fence id.
	CandidateID string
	// BatchRows is how many rows share a transaction; zero is 256. A batch also ends at
	// 8 MiB of text.
	BatchRows int
}

const (
	defaultBatchRows = 256
	batchBytes       = 8 << 20
	verbLoad         = "bulk_load"
)

// Candidate is a Goal under construction, in its place under fence state candidate: LoopX
// can read it and cannot write it, and nobody takes it for an authority before it is
// released. It is used by one goroutine at a time. After an error of Append, Flush or Seal
// only Close is of use; what was durable stays so, and OpenCandidate goes on from there.
type Candidate struct {
	options CandidateOptions
	link    *link
	durable newest // the last row that is durable
	taken   int64  // the last row that was appended
	loader  *loader
	closed  bool
}

// newest is a row as far as its successor needs it.
type newest struct {
	cursor int64
	sum    authority.Digest // of the projection
}

// CreateCandidate takes the Goal's place for a candidate. It must be empty: no row, or a
// head row without a head. A place whose Goal was set aside under its fence counts as
// empty, whatever fence that was. The same candidate, still empty, is left as it is.
// Refused: ReasonForeignStore where transactions stand, ReasonFenceHeld under another
// fence or candidate, ReasonNotInstalled without this tool's objects.
func CreateCandidate(ctx context.Context, o CandidateOptions) (*Candidate, error) {
	c, err := newCandidate(o)
	if err == nil {
		err = c.claim(ctx)
	}
	if err != nil {
		return nil, c.give(err, unwritten)
	}
	return c, nil
}

// OpenCandidate takes a candidate up again, at the row Head tells. ClassMissing when there
// is none yet. The rest of it is for an audit.
func OpenCandidate(ctx context.Context, o CandidateOptions) (*Candidate, error) {
	c, err := newCandidate(o)
	if err == nil {
		err = c.link.reading(ctx, snapshot, func(in *session) error { return c.resume(ctx, in) })
	}
	if err != nil {
		return nil, c.give(err, unreadable)
	}
	return c, nil
}

func newCandidate(o CandidateOptions) (*Candidate, error) {
	o.Server.fill()
	if o.BatchRows <= 0 {
		o.BatchRows = defaultBatchRows
	}
	c := &Candidate{options: o}
	if err := checkNames(o.Tenant, o.GoalID, o.Identity); err != nil {
		return c, err
	}
	if err := checkFenceID(o.CandidateID); err != nil {
		return c, err
	}
	var err error
	if c.link, err = newLink(o.Server); err != nil {
		return c, err
	}
	c.link.tenant, c.link.goal, c.link.expected = o.Tenant, o.GoalID, o.Identity
	return c, nil
}

// give closes a candidate that could not be opened and says why.
func (c *Candidate) give(err error, otherwise authority.Error) error {
	if c.link != nil {
		c.link.close()
	}
	return c.answer(err, otherwise)
}

func (c *Candidate) answer(err error, otherwise authority.Error) error {
	return answerAs(verbLoad, c.options.GoalID, uncertainLoad(err), otherwise)
}

// uncertainLoad says what a COMMIT without an answer comes to.
func uncertainLoad(err error) error {
	var unknown *uncertain
	if !errors.As(err, &unknown) {
		return err
	}
	return refuse(authority.ClassAmbiguous, authority.ReasonOutcomeUnknown,
		"PostgreSQL COMMIT outcome is unknown; open the candidate again to see what is there").Because(unknown)
}

func (c *Candidate) stance() stance {
	how := change
	how.pass = c.options.CandidateID
	return how
}

func (c *Candidate) claim(ctx context.Context) error {
	return c.link.writing(ctx, c.stance(), "claim candidate", func(ctx context.Context, in *session) error {
		if err := in.requireTriggers(ctx); err != nil {
			return err
		}
		if err := in.vacate(ctx); err != nil {
			return err
		}
		if _, err := in.conn.Exec(ctx, emptyHead, in.tenant, in.goal); err != nil {
			return err
		}
		h, err := in.place(ctx, "NULL::text", " FOR UPDATE")
		if err != nil {
			return err
		}
		if h.cursor != 0 {
			return refuse(authority.ClassFailed, authority.ReasonForeignStore,
				"an authority of this Goal stands there already").Field("authority_heads").At(uint64(h.cursor))
		}
		now, err := in.standing(ctx, " FOR UPDATE")
		want := Standing{FenceCandidate, c.options.CandidateID}
		if err != nil || now == want {
			return err
		}
		if now.State != FenceOpen {
			return fenceHeld(now)
		}
		return in.setStanding(ctx, want)
	})
}

// vacate opens the fence of a Goal that was set aside under it: nothing is behind it.
func (s *session) vacate(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, `UPDATE loopx_control_plane.loopx_migrate_fences AS f SET state = 'open', fence_id = '', changed_at = transaction_timestamp()
		WHERE f.tenant_id = $1 AND f.goal_id = $2 AND f.state = 'fenced'
			AND NOT EXISTS (SELECT 1 FROM loopx_control_plane.authority_heads AS h WHERE h.tenant_id = $1 AND h.goal_id = $2)
			AND EXISTS (SELECT 1 FROM loopx_control_plane.loopx_migrate_quarantine AS q
				WHERE q.tenant_id = $1 AND q.goal_id = $2 AND q.fence_id = f.fence_id AND q.restored_at IS NULL)`, s.tenant, s.goal)
	return err
}

// resume finds where the candidate stands.
func (c *Candidate) resume(ctx context.Context, in *session) error {
	now, err := in.standing(ctx, "")
	if err != nil {
		return err
	}
	h, err := in.head(ctx)
	switch {
	case err != nil:
		return err
	case now.State == FenceOpen && h.cursor == 0:
		return missing()
	case now.State == FenceOpen:
		return refuse(authority.ClassFailed, authority.ReasonForeignStore,
			"an authority of this Goal stands there already").Field("authority_heads").At(uint64(h.cursor))
	case now != Standing{FenceCandidate, c.options.CandidateID}:
		return fenceHeld(now)
	}
	c.taken = h.cursor
	if h.cursor != 0 {
		c.durable = newest{cursor: h.cursor, sum: authority.DigestOf(h.projection)}
	}
	return nil
}

// Head returns the newest durable row and the digest of its state, zero values when
// there is none. Rows appended since the last Flush may be durable already.
func (c *Candidate) Head(context.Context) (authority.Cursor, authority.Digest, error) {
	return authority.Cursor(c.durable.cursor), c.durable.sum, nil
}

// Append takes the next row. Its bytes must be canonical, as authority.Row promises, and
// are copied; a StateDigest that is set is believed. A row out of turn is
// ReasonInvalidCommit; one that PostgreSQL cannot hold is refused with the first finding
// of CheckRow; an operation id that was there before is ClassConflict, maybe only at a
// later call.
func (c *Candidate) Append(ctx context.Context, row authority.Row) error {
	return c.answer(c.append(ctx, row), unwritten)
}

func (c *Candidate) append(ctx context.Context, row authority.Row) error {
	if c.closed {
		return fs.ErrClosed
	}
	if uint64(row.Cursor) != uint64(c.taken)+1 {
		return invalid("cursor", "rows must be loaded in cursor order").At(uint64(row.Cursor)).Operation(row.OperationID)
	}
	if found := CheckRow(c.options.Tenant, c.options.GoalID, row); len(found) > 0 {
		reason := authority.ReasonInvalidCommit
		if found[0].Code == FindingSize {
			reason = authority.ReasonCapacity
		}
		return refuse(authority.ClassFailed, reason, fmt.Sprintf("PostgreSQL cannot hold the row: %s", found[0].Code)).
			Field(found[0].Field).At(uint64(row.Cursor)).Operation(row.OperationID)
	}
	if c.loader == nil {
		c.loader = startLoader(c)
	}
	if err := c.loader.take(ctx, row); err != nil {
		return err
	}
	c.taken++
	return nil
}

// Flush makes every appended row durable. A COMMIT without an answer is ClassAmbiguous:
// only OpenCandidate can tell what it left.
func (c *Candidate) Flush(ctx context.Context) error {
	return c.answer(c.flush(ctx), unwritten)
}

func (c *Candidate) flush(ctx context.Context) error {
	if c.closed {
		return fs.ErrClosed
	}
	if c.loader == nil {
		return nil
	}
	durable, err := c.loader.flush(ctx)
	if err == nil {
		c.durable = durable
	}
	return err
}

// Seal flushes. The candidate stays one, in its place, until Store.ReleaseCandidate.
func (c *Candidate) Seal(ctx context.Context) error { return c.Flush(ctx) }

// Close gives up what was not flushed.
func (c *Candidate) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	if c.loader != nil {
		c.loader.stop()
	}
	c.link.close()
	return nil
}

// repeated tells the unique index's refusal from other errors.
func repeated(err error) error {
	if codeOf(err) != codeUniqueViolation {
		return err
	}
	return refuse(authority.ClassConflict, authority.ReasonOperationExists, "an operation id stands twice in the history").
		Field("authority_commits.operation_id").Because(err)
}

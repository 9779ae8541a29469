package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// scrutiny is whether rows are proved or were proved before.
type scrutiny int

const (
	proving  scrutiny = iota
	trusting          // an audit has proved the same snapshot: replay, hash nothing
)

// replayer rebuilds states row by row and proves each row against the one before.
type replayer struct {
	scrutiny scrutiny
	identity authority.Identity
	cursor   uint64           // of the last row
	state    []byte           // canonical projection after it
	digest   string           // its digest, as stored
	tree     *canonical.State // the same projection, taken apart
	spare    []byte           // a buffer for the next projection
	delta    canonical.Delta  // of the last row that was followed
}

// stand puts the replayer behind a row with that state. The text is copied.
func (p *replayer) stand(cursor uint64, digest string, state []byte) (err error) {
	p.cursor, p.digest = cursor, digest
	p.state = append([]byte(nil), state...)
	p.tree, err = canonical.NewState(p.state)
	return err
}

// seal starts from a checkpoint: the row's digest must be the checkpoint's and its
// commit digest must come out. Its own delta and parent are not looked at, as in LoopX.
func (p *replayer) seal(r record, checkpoint []byte, digest string) error {
	sum := authority.DigestOf(checkpoint)
	if !equals(sum, digest) || digest != r.state {
		return violation(checkpointDigest).Field("checkpoints.projection_digest").At(r.cursor)
	}
	if err := p.prove(r, checkpoint); err != nil {
		return err
	}
	return p.stand(r.cursor, digest, checkpoint)
}

// step proves the next row: cursor, parent, replayed state and commit digest.
func (p *replayer) step(r record) error {
	next, err := p.follow(r)
	if err != nil {
		return err
	}
	if p.scrutiny == proving {
		if !equals(authority.DigestOf(next), r.state) {
			return wrongState(r)
		}
		if err := p.prove(r, next); err != nil {
			return err
		}
	}
	p.advance(r, next)
	p.spare = next // shown until the next row only
	return nil
}

func wrongState(r record) *refusal {
	return violation(rowState).Field("commits.state_digest").At(r.cursor).Operation(r.operationID)
}

// follow checks cursor and parent and returns the state the row's delta makes.
func (p *replayer) follow(r record) ([]byte, error) {
	if r.cursor != p.cursor+1 {
		return nil, violation(notContiguous).Field("commits.cursor").At(r.cursor)
	}
	if r.parent != p.digest {
		return nil, violation(rowParent).Field("commits.parent_state_digest").At(r.cursor).Operation(r.operationID)
	}
	delta, err := canonical.ParseDelta(r.delta)
	if err != nil {
		return nil, badDelta(r, err)
	}
	p.delta = delta
	if err := p.tree.Apply(delta); err != nil {
		return nil, badDelta(r, err)
	}
	return p.tree.AppendTo(p.spare[:0]), nil
}

func (p *replayer) advance(r record, next []byte) {
	p.cursor, p.digest, p.state = r.cursor, r.state, next
}

// prove recomputes the commit digest over the state the row leads to.
func (p *replayer) prove(r record, projection []byte) error {
	q := request{p.identity, r.cursor, r.operationID, r.events, projection, r.receipts}
	if !equals(q.digest(), r.commit) {
		return violation(rowDigest).Field("commits.commit_digest").At(r.cursor).Operation(r.operationID)
	}
	return nil
}

func badDelta(r record, err error) error {
	var fault *canonical.DeltaError
	if errors.As(err, &fault) {
		return violation(fault.Reason).Field("commits.delta").At(r.cursor).Operation(r.operationID)
	}
	return notJSON("commits delta", err).Field("commits.delta").At(r.cursor).Operation(r.operationID)
}

// checkpoint reads a checkpoint row.
func (s *session) checkpoint(cursor uint64) (projection []byte, digest string, respelled bool, err error) {
	var column [2]any
	err = s.row([]any{&column[0], &column[1]},
		"SELECT projection, projection_digest FROM checkpoints WHERE cursor = ?", int64(cursor))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", false, violation(checkpointMissing).Field("checkpoints.cursor").At(cursor)
	}
	if err != nil {
		return nil, "", false, err
	}
	if digest, err = digestColumn("checkpoints.projection_digest", column[1]); err != nil {
		return nil, "", false, placed(err, cursor)
	}
	if projection, respelled, err = objectColumn("checkpoints.projection", column[0]); err != nil {
		return nil, "", false, placed(err, cursor)
	}
	return projection, digest, respelled, nil
}

func placed(err error, cursor uint64) error {
	var said *refusal
	if errors.As(err, &said) {
		said.Made.Cursor = authority.Cursor(cursor)
	}
	return err
}

// objectColumn takes a TEXT value that must be a JSON object.
func objectColumn(name string, from any) ([]byte, bool, error) {
	text, respelled, err := jsonColumn(name, from)
	if err != nil {
		return nil, false, err
	}
	if canonical.Kind(text) != canonical.Object {
		return nil, false, violation("SQLite " + spoken(name) + " must be an object").Field(name)
	}
	return text, respelled, nil
}

// window proves the rows from the checkpoint that covers the first wanted one to the
// last, and shows the wanted ones. What visit is shown is valid until it returns.
func (s *session) window(ctx context.Context, first, last uint64, visit func(record, []byte) error) (err error) {
	start := covering(first)
	projection, digest, _, err := s.checkpoint(start)
	if err != nil {
		return err
	}
	p := replayer{identity: s.identity, cursor: start - 1}
	err = s.records(ctx, start, last, func(r record) error {
		if r.cursor == start {
			err = p.seal(r, projection, digest)
		} else {
			err = p.step(r)
		}
		if err == nil && r.cursor >= first {
			err = visit(r, p.state)
		}
		return err
	})
	if err == nil && p.cursor != last {
		err = violation(notContiguous).Field("commits.cursor").At(p.cursor + 1)
	}
	return err
}

// records decodes the rows first to last, as far as they are there.
func (s *session) records(ctx context.Context, first, last uint64, visit func(record) error) (err error) {
	rows, err := s.query("SELECT "+commitColumns+
		" FROM commits WHERE cursor BETWEEN ? AND ? ORDER BY cursor", int64(first), int64(last))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := scanRecord(rows)
		if err == nil {
			err = visit(r)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

package sqlitestore

import (
	"context"
	"errors"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/loopx-project/loopx-migrate/authority"
)

// line loads rows with two goroutines behind the caller's: one computes deltas and
// commit digests, the other writes. Rows stay in order all the way.
type line struct {
	raw, made chan *parcel
	free      chan *parcel
	broken    chan struct{} // closed with the first fault
	fault     error
	once      sync.Once
	running   sync.WaitGroup
	ended     bool
}

// parcel is a row on its way, or a question when all before it will be durable.
type parcel struct {
	newCommit
	durable chan<- newest // set for the question
}

// inLine is how many rows wait between two stages; it bounds the memory.
const inLine = 2

func startLine(s *session, from newest, batchRows int) (*line, error) {
	digest := ""
	if from.cursor != 0 {
		digest = from.sum.String()
	}
	d, err := newDeriver(from.projection, digest)
	if err != nil {
		return nil, err
	}
	l := &line{
		raw: make(chan *parcel, inLine), made: make(chan *parcel, inLine),
		free: make(chan *parcel, 3*inLine), broken: make(chan struct{}),
	}
	l.running.Add(2)
	go func() {
		defer l.running.Done()
		defer close(l.made)
		l.derive(d)
	}()
	go func() {
		defer l.running.Done()
		w := &batch{session: s, limit: batchRows, last: from}
		l.write(w)
		w.abandon()
	}()
	return l, nil
}

// breaks ends the line with its first fault.
func (l *line) breaks(err error) {
	l.once.Do(func() {
		l.fault = err
		close(l.broken)
	})
}

// blank is a parcel to fill, with the buffers of one that has arrived.
func (l *line) blank() *parcel {
	select {
	case p := <-l.free:
		return p
	default:
		return &parcel{}
	}
}

// take copies the row into the parcel's buffers.
func (p *parcel) take(id authority.Identity, row authority.Row) {
	p.request = request{
		identity: id, cursor: uint64(row.Cursor), operation: row.OperationID,
		events:     append(p.events[:0], row.Events...),
		projection: append(p.projection[:0], row.Projection...),
		receipts:   append(p.receipts[:0], row.Receipts...),
	}
	p.stateDigest, p.durable = row.StateDigest, nil
}

func (l *line) send(ctx context.Context, p *parcel) error {
	select {
	case l.raw <- p:
		return nil
	case <-l.broken:
		return l.fault
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flush waits until everything sent before is durable.
func (l *line) flush(ctx context.Context) (newest, error) {
	answer := make(chan newest, 1)
	if err := l.send(ctx, &parcel{durable: answer}); err != nil {
		return newest{}, err
	}
	select {
	case durable := <-answer:
		return durable, nil
	case <-l.broken:
		return newest{}, l.fault
	case <-ctx.Done():
		return newest{}, ctx.Err()
	}
}

// stop ends the goroutines; rows that are not durable are given up.
func (l *line) stop() {
	if !l.ended {
		l.ended = true
		close(l.raw)
		l.running.Wait()
	}
}

// derive is the first stage. A row is compared with the one before, whose buffers the
// second stage leaves alone until this row has reached it.
func (l *line) derive(d *deriver) {
	for p := range l.raw {
		if p.durable == nil {
			if err := d.derive(&p.newCommit); err != nil {
				l.breaks(err)
				return
			}
		}
		select {
		case l.made <- p:
		case <-l.broken:
			return
		}
	}
}

// write is the second stage.
func (l *line) write(w *batch) {
	var before *parcel
	for p := range l.made {
		if p.durable != nil {
			if err := w.commit(); err != nil {
				l.breaks(err)
				return
			}
			p.durable <- w.last
			continue
		}
		if before != nil {
			select {
			case l.free <- before:
			default:
			}
		}
		before = p
		if err := w.add(&p.newCommit); err != nil {
			l.breaks(err)
			return
		}
	}
}

// batch writes rows, many to a transaction. The head moves once a transaction.
type batch struct {
	session *session
	limit   int
	open    bool
	rows    int
	bytes   int
	newest  *newCommit // in this transaction
	last    newest     // that is durable
}

func (w *batch) add(n *newCommit) error {
	if !w.open {
		if err := w.session.exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		w.open = true
	}
	if err := w.session.insert(n); err != nil {
		return repeated(err, n)
	}
	w.rows, w.bytes, w.newest = w.rows+1, w.bytes+len(n.delta)+len(n.events)+len(n.receipts), n
	if covering(n.cursor) == n.cursor {
		w.bytes += len(n.projection)
	}
	if w.rows < w.limit && w.bytes < batchBytes {
		return nil
	}
	return w.commit()
}

func (w *batch) commit() error {
	if !w.open {
		return nil
	}
	if err := w.session.moveHead(w.newest); err != nil {
		return err
	}
	w.open = false
	if err := w.session.commit("candidate batch"); err != nil {
		return err
	}
	n := w.newest
	w.last = newest{cursor: n.cursor, projection: append([]byte(nil), n.projection...), sum: n.stateDigest}
	w.rows, w.bytes = 0, 0
	return nil
}

// abandon rolls back what is not committed.
func (w *batch) abandon() {
	if w.open {
		// Nothing hangs on it: closing the connection rolls back as well.
		_ = w.session.exec("ROLLBACK")
	}
}

// repeated tells the unique index's refusal from other errors.
func repeated(err error, n *newCommit) error {
	var said *sqlite.Error
	if errors.As(err, &said) && said.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		r := refuse(authority.ClassConflict, authority.ReasonOperationExists, "").
			At(n.cursor).Operation(n.operation).Field("operation_id")
		return r.Because(err)
	}
	return err
}

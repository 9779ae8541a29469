package pgstore

import (
	"bytes"
	"context"
	"strconv"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// batch is rows that share a transaction, in the text form of COPY.
type batch struct {
	first, last  int64 // cursors
	rows         int
	commits      bytes.Buffer
	events       bytes.Buffer
	receipts     bytes.Buffer
	head         []byte // projection of the last row
	sum          authority.Digest
	durable      chan<- newest // set for a question: answered when all before is durable
	tenant, goal []byte        // escaped
}

// loader sends batches with a goroutine of its own, so that one is filled while the one
// before is on its way.
type loader struct {
	c       *Candidate
	now     *batch
	full    chan *batch
	broken  chan struct{} // closed with the first fault
	fault   error
	ending  context.CancelFunc
	running sync.WaitGroup
}

func startLoader(c *Candidate) *loader {
	ctx, cancel := context.WithCancel(context.Background())
	l := &loader{c: c, now: c.blank(), full: make(chan *batch), broken: make(chan struct{}), ending: cancel}
	l.running.Go(func() { l.run(ctx, c.durable) })
	return l
}

func (c *Candidate) blank() *batch {
	return &batch{tenant: escape(nil, []byte(c.options.Tenant)), goal: escape(nil, []byte(c.options.GoalID))}
}

func (l *loader) run(ctx context.Context, last newest) {
	for b := range l.full {
		if b.durable != nil {
			b.durable <- last
			continue
		}
		if err := l.c.send(ctx, b); err != nil {
			l.fault = err
			close(l.broken)
			return
		}
		last = newest{cursor: b.last, sum: b.sum}
	}
}

func (l *loader) take(ctx context.Context, row authority.Row) error {
	l.now.add(row)
	if l.now.rows < l.c.options.BatchRows && l.now.commits.Len()+l.now.events.Len()+l.now.receipts.Len() < batchBytes {
		return nil
	}
	return l.hand(ctx)
}

// hand passes the batch on when the one before is done.
func (l *loader) hand(ctx context.Context) error {
	if l.now.rows == 0 {
		return nil
	}
	err := l.pass(ctx, l.now)
	l.now = l.c.blank()
	return err
}

func (l *loader) pass(ctx context.Context, b *batch) error {
	select {
	case l.full <- b:
		return nil
	case <-l.broken:
		return l.fault
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *loader) flush(ctx context.Context) (newest, error) {
	if err := l.hand(ctx); err != nil {
		return newest{}, err
	}
	answer := make(chan newest, 1)
	if err := l.pass(ctx, &batch{durable: answer}); err != nil {
		return newest{}, err
	}
	return <-answer, nil
}

func (l *loader) stop() {
	l.ending()
	close(l.full)
	l.running.Wait()
}

// add appends a row to the texts.
func (b *batch) add(row authority.Row) {
	b.last = int64(row.Cursor)
	if b.rows == 0 {
		b.first = b.last
	}
	b.rows++
	cursor := row.Cursor.String()
	line := b.key(nil, cursor)
	line = append(append(line, cursor...), '\t')
	line = append(escape(line, []byte(row.OperationID)), '\t')
	b.commits.Write(line)
	b.commits.Write(escape(b.commits.AvailableBuffer(), row.Projection))
	b.commits.WriteByte('\n')
	b.list(&b.events, cursor, row.Events)
	b.list(&b.receipts, cursor, row.Receipts)
	b.head = append(b.head[:0], row.Projection...)
	b.sum = row.StateDigest
	if b.sum.IsZero() {
		b.sum = authority.DigestOf(row.Projection)
	}
}

func (b *batch) key(line []byte, cursor string) []byte {
	line = append(append(line, b.tenant...), '\t')
	line = append(append(line, b.goal...), '\t')
	return append(append(line, cursor...), '\t')
}

func (b *batch) list(to *bytes.Buffer, cursor string, list []byte) {
	i := 0
	for element := range canonical.Elements(list) {
		line := b.key(to.AvailableBuffer(), cursor)
		line = append(strconv.AppendInt(line, int64(i), 10), '\t')
		to.Write(append(escape(line, element), '\n'))
		i++
	}
}

// escape appends a value in the text form of COPY. Canonical JSON has no raw control
// characters, so there only backslashes count; ids may hold any.
func escape(line, value []byte) []byte {
	for len(value) > 0 {
		i := bytes.IndexAny(value, "\\\n\r\t")
		if i < 0 {
			return append(line, value...)
		}
		line = append(line, value[:i]...)
		line = append(line, '\\', letterOf(value[i]))
		value = value[i+1:]
	}
	return line
}

func letterOf(c byte) byte {
	switch c {
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return c
}

// copies are the three tables of a batch, parents first, and their columns.
var copies = []struct{ table, columns, types string }{
	{"authority_commits", "tenant_id, goal_id, cursor, provider_revision, operation_id, projection",
		"tenant_id text, goal_id text, cursor bigint, provider_revision bigint, operation_id text, projection jsonb"},
	{"authority_events", "tenant_id, goal_id, cursor, event_index, event",
		"tenant_id text, goal_id text, cursor bigint, event_index integer, event jsonb"},
	{"authority_receipts", "tenant_id, goal_id, cursor, receipt_index, receipt",
		"tenant_id text, goal_id text, cursor bigint, receipt_index integer, receipt jsonb"},
}

// send makes a batch durable, if the head still stands where the batch begins.
func (c *Candidate) send(ctx context.Context, b *batch) error {
	return c.link.writing(ctx, c.stance(), "candidate batch", func(ctx context.Context, in *session) error {
		h, err := in.place(ctx, "NULL::text", " FOR UPDATE")
		if err != nil {
			return err
		}
		if h.cursor != b.first-1 {
			return refuse(authority.ClassFailed, authority.ReasonForeignStore, "somebody else loads this candidate").
				at(uint64(h.cursor)).field("authority_heads.cursor")
		}
		if err := in.copyAll(ctx, b); err != nil {
			return repeated(err)
		}
		_, err = in.conn.Exec(ctx, `UPDATE loopx_control_plane.authority_heads
			SET provider_revision = $3, cursor = $3, head = $4::jsonb, updated_at = transaction_timestamp()
			WHERE tenant_id = $1 AND goal_id = $2`, in.tenant, in.goal, b.last, string(b.head))
		return err
	})
}

// copyAll copies the batch into LoopX's tables. PostgreSQL has no COPY into a table whose
// row-level security holds for the role, so such a role copies into temporary tables and
// inserts from there; the server parses each value once either way.
func (s *session) copyAll(ctx context.Context, b *batch) error {
	var bypass bool
	if err := s.row(ctx, []any{&bypass}, "SELECT NOT row_security_active('loopx_control_plane.authority_commits')"); err != nil {
		return err
	}
	for i, text := range []*bytes.Buffer{&b.commits, &b.events, &b.receipts} {
		if text.Len() == 0 {
			continue
		}
		to := copies[i]
		target := "loopx_control_plane." + to.table
		if !bypass {
			target = "pg_temp.loopx_migrate_" + to.table
			if _, err := s.conn.Exec(ctx, "CREATE TEMPORARY TABLE IF NOT EXISTS loopx_migrate_"+to.table+" ("+to.types+") ON COMMIT DELETE ROWS"); err != nil {
				return err
			}
		}
		if _, err := s.conn.PgConn().CopyFrom(ctx, text, "COPY "+target+" ("+to.columns+") FROM STDIN"); err != nil {
			return err
		}
		if bypass {
			continue
		}
		_, err := s.conn.Exec(ctx, "INSERT INTO loopx_control_plane."+to.table+" ("+to.columns+") SELECT "+to.columns+" FROM "+target)
		if err != nil {
			return err
		}
	}
	return nil
}

package pgstore

import (
	"bytes"
	"context"
	"errors"
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
	tenant, goal []byte // escaped

	before <-chan struct{} // closed when the batch before is durable
	done   chan struct{}   // closed when this one is
}

// loaders is how many batches are on their way at once. The server parses one while it
// seals the one before; they become durable in order.
const loaders = 2

// loader sends batches with goroutines of its own.
type loader struct {
	c       *Candidate
	now     *batch // being filled
	handed  *batch // the last one passed on, nil before the first
	full    chan *batch
	broken  chan struct{} // closed with the first fault
	fault   error
	once    sync.Once
	ending  context.CancelFunc
	running sync.WaitGroup
}

func startLoader(c *Candidate) *loader {
	ctx, cancel := context.WithCancel(context.Background())
	l := &loader{c: c, now: c.blank(), full: make(chan *batch), broken: make(chan struct{}), ending: cancel}
	for range min(loaders, c.options.Connections) {
		l.running.Go(func() { l.run(ctx) })
	}
	return l
}

func (l *loader) run(ctx context.Context) {
	for b := range l.full {
		if err := l.c.send(ctx, b, l.broken); err != nil {
			l.once.Do(func() {
				l.fault = err
				close(l.broken)
			})
			return
		}
		close(b.done)
	}
}

func (c *Candidate) blank() *batch {
	return &batch{tenant: escape(nil, []byte(c.options.Tenant)), goal: escape(nil, []byte(c.options.GoalID))}
}

func (l *loader) take(ctx context.Context, row authority.Row) error {
	l.now.add(row)
	if l.now.rows < l.c.options.BatchRows && l.now.commits.Len()+l.now.events.Len()+l.now.receipts.Len() < batchBytes {
		return nil
	}
	return l.hand(ctx)
}

// hand passes the batch on when somebody is free to send it.
func (l *loader) hand(ctx context.Context) error {
	b := l.now
	if b.rows == 0 {
		return nil
	}
	b.done = make(chan struct{})
	if l.handed != nil {
		b.before = l.handed.done
	} else {
		begun := make(chan struct{})
		close(begun)
		b.before = begun
	}
	select {
	case l.full <- b:
	case <-l.broken:
		return l.fault
	case <-ctx.Done():
		return ctx.Err()
	}
	l.handed, l.now = b, l.c.blank()
	return nil
}

func (l *loader) flush(ctx context.Context) (newest, error) {
	if err := l.hand(ctx); err != nil {
		return newest{}, err
	}
	if l.handed == nil {
		return l.c.durable, nil
	}
	select {
	case <-l.handed.done:
		return newest{cursor: l.handed.last, sum: l.handed.sum}, nil
	case <-l.broken:
		return newest{}, l.fault
	case <-ctx.Done():
		return newest{}, ctx.Err()
	}
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

var errBatchBefore = errors.New("the batch before this one failed")

// send makes a batch durable, when the one before is, and if the head still stands where
// the batch begins.
func (c *Candidate) send(ctx context.Context, b *batch, broken <-chan struct{}) error {
	return c.link.writing(ctx, c.stance(), "candidate batch", func(ctx context.Context, in *session) error {
		if err := in.copyIn(ctx, b); err != nil {
			return err
		}
		select {
		case <-b.before:
		case <-broken:
			return errBatchBefore
		case <-ctx.Done():
			return ctx.Err()
		}
		h, err := in.place(ctx, "NULL::text", " FOR UPDATE")
		if err != nil {
			return err
		}
		if h.cursor != b.first-1 {
			return refuse(authority.ClassFailed, authority.ReasonForeignStore, "somebody else loads this candidate").
				At(uint64(h.cursor)).Field("authority_heads.cursor")
		}
		if err := in.insertCopied(ctx); err != nil {
			return repeated(err)
		}
		_, err = in.conn.Exec(ctx, `UPDATE loopx_control_plane.authority_heads
			SET provider_revision = $3, cursor = $3, head = $4::jsonb, updated_at = transaction_timestamp()
			WHERE tenant_id = $1 AND goal_id = $2`, in.tenant, in.goal, b.last, string(b.head))
		return err
	})
}

// copyIn copies the batch into temporary tables: PostgreSQL has no COPY into a table whose
// row-level security holds for the role. It costs little, since temporary tables are not
// logged and each value is parsed once either way.
func (s *session) copyIn(ctx context.Context, b *batch) error {
	for i, text := range []*bytes.Buffer{&b.commits, &b.events, &b.receipts} {
		to := copies[i]
		name := "loopx_migrate_" + to.table
		if _, err := s.conn.Exec(ctx, "CREATE TEMPORARY TABLE IF NOT EXISTS "+name+" ("+to.types+") ON COMMIT DELETE ROWS"); err != nil {
			return err
		}
		if _, err := s.conn.PgConn().CopyFrom(ctx, text, "COPY pg_temp."+name+" ("+to.columns+") FROM STDIN"); err != nil {
			return err
		}
	}
	return nil
}

// insertCopied moves what was copied into LoopX's tables, parents first.
func (s *session) insertCopied(ctx context.Context) error {
	for _, to := range copies {
		_, err := s.conn.Exec(ctx, "INSERT INTO loopx_control_plane."+to.table+" ("+to.columns+") SELECT "+to.columns+" FROM pg_temp.loopx_migrate_"+to.table)
		if err != nil {
			return err
		}
	}
	return nil
}

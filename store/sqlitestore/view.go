package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// view is a snapshot that was audited once. Over a connection it is a read transaction
// that stays open, which keeps the log from being emptied; in mode Untouched it is the
// file itself, and every answer after the file was written is ReasonReadUnavailable.
type view struct {
	store   *Store
	lineage authority.Lineage
	head    ending

	mu     sync.Mutex
	lens   *lens     // nil when the database was absent
	behind *replayer // the last row of the newest page, from which the next one goes on
	done   bool
}

var errMoved = errors.New("the database was written after the view was made")

// View audits the history and keeps the snapshot it audited. Close it.
func (s *Store) View(ctx context.Context) (authority.View, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, s.answer("audit", auditReason(err), unreadable)
	}
	return v, nil
}

func (s *Store) view(ctx context.Context) (*view, error) {
	deadline := time.Now().Add(s.options.BusyWait)
	for {
		v := &view{store: s}
		a, err := newAudit(nil, nil)
		if err != nil {
			return nil, err
		}
		if v.lens, err = s.aim(ctx); err != nil {
			return nil, err
		}
		if v.lens == nil {
			err = a.absent()
			v.lineage = a.lineage
			return v, err
		}
		err = v.prove(ctx, a)
		steady := v.lens.steady()
		if err == nil && steady {
			return v, nil
		}
		if err = errors.Join(err, v.lens.close()); steady {
			return nil, err
		}
		if err := pause(ctx, settling, deadline); err != nil {
			return nil, err
		}
	}
}

// prove begins the read transaction that lasts as long as the view, and audits in it.
func (v *view) prove(ctx context.Context, a *audit) (err error) {
	if err := v.lens.exec("BEGIN"); err != nil {
		return err
	}
	if err := a.run(ctx, v.lens.session); err != nil {
		return err
	}
	v.lineage = a.lineage
	v.head, err = v.lens.ending()
	return err
}

// Kind is authority.KindSQLite.
func (v *view) Kind() authority.Kind { return authority.KindSQLite }

// GoalID is the Goal of the store.
func (v *view) GoalID() string { return v.store.GoalID() }

// Lineage is what the audit proved.
func (v *view) Lineage() authority.Lineage { return v.lineage }

// Close ends the snapshot.
func (v *view) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return nil
	}
	v.done = true
	return v.lens.close()
}

// read runs work on the snapshot, nil for an absent database.
func (v *view) read(ctx context.Context, work func(*session) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return fs.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if v.lens == nil {
		return work(nil)
	}
	err := work(v.lens.session)
	if !v.lens.steady() {
		return errMoved
	}
	return err
}

// Identity is the incarnation that was audited.
func (v *view) Identity(ctx context.Context) (authority.Identity, error) {
	var id authority.Identity
	err := v.read(ctx, func(in *session) error {
		if in == nil {
			return refuse(authority.ClassUnavailable, authority.ReasonIdentityUnavailable, "SQLite authority store is missing")
		}
		id = in.identity
		return nil
	})
	return id, v.store.answer("identity", err, unreadable)
}

// Load is the head that was audited.
func (v *view) Load(ctx context.Context) (authority.Head, error) {
	var head authority.Head
	err := v.read(ctx, func(in *session) error {
		if v.head.cursor == 0 {
			return missing()
		}
		now := v.head.applied(in.identity)
		head = authority.Head{Cursor: now.Cursor, Revision: now.Revision, Projection: v.head.projection}
		return nil
	})
	return head, v.store.answer("load", err, unreadable)
}

// Receipt looks the operation up by its index; its row was proved by the audit.
func (v *view) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	var receipt authority.Receipt
	err := checkOperationID(operationID)
	if err == nil {
		err = v.read(ctx, func(in *session) (err error) {
			receipt, err = in.provedReceipt(operationID)
			return err
		})
	}
	return receipt, v.store.answer("receipt", err, unreadable)
}

func (s *session) provedReceipt(operationID string) (receipt authority.Receipt, err error) {
	if s == nil || !utf8.ValidString(operationID) {
		return receipt, missing()
	}
	var cursor int64
	var receipts any
	err = s.row([]any{&cursor, &receipts}, "SELECT cursor, receipts FROM commits WHERE operation_id = ?", operationID)
	if errors.Is(err, sql.ErrNoRows) {
		return receipt, missing()
	}
	if err != nil {
		return receipt, err
	}
	receipt = authority.Receipt{Cursor: authority.Cursor(cursor), Revision: revision(s.identity, uint64(cursor))}
	receipt.Receipts, _, err = jsonColumn("commits.receipts", receipts)
	return receipt, err
}

// Receipts looks many operations up by the same index in one statement. It answers for
// those that it finds so; about another one Receipt has the word.
func (v *view) Receipts(ctx context.Context, operationIDs []string) (map[string]authority.Receipt, error) {
	found := make(map[string]authority.Receipt, len(operationIDs))
	err := v.read(ctx, func(in *session) error {
		if in == nil {
			return nil
		}
		return in.provedReceipts(operationIDs, found)
	})
	return found, v.store.answer("receipt", err, unreadable)
}

func (s *session) provedReceipts(operationIDs []string, found map[string]authority.Receipt) (err error) {
	asked := []byte{'['}
	for i, id := range operationIDs {
		if i > 0 {
			asked = append(asked, ',')
		}
		asked = canonical.AppendString(asked, id)
	}
	rows, err := s.query("SELECT c.operation_id, c.cursor, c.receipts FROM json_each(?) AS asked CROSS JOIN commits AS c ON c.operation_id = asked.value",
		textOf(append(asked, ']')))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		var cursor int64
		var receipts any
		if err := rows.Scan(&id, &cursor, &receipts); err != nil {
			return err
		}
		text, _, err := jsonColumn("commits.receipts", receipts)
		if err != nil {
			return err
		}
		found[id] = authority.Receipt{Cursor: authority.Cursor(cursor), Revision: revision(s.identity, uint64(cursor)), Receipts: text}
	}
	return rows.Err()
}

// Scan goes on from the page before, or rebuilds from the covering checkpoint. The
// audit proved the rows, and that there are more.
func (v *view) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	var page authority.Page
	err := checkLimit(limit)
	if err == nil {
		err = v.read(ctx, func(in *session) (err error) {
			page, err = v.page(ctx, in, after, limit)
			return err
		})
	}
	return page, v.store.answer("scan", err, unreadable)
}

func (v *view) page(ctx context.Context, in *session, after authority.Cursor, limit int) (authority.Page, error) {
	first, last, err := pageBounds(after, limit, v.head.cursor)
	page := authority.Page{Next: after}
	if err != nil || first > last {
		return page, err
	}
	wanted := min(last, uint64(after)+uint64(limit))
	page.Next, page.HasMore = authority.Cursor(wanted), last > wanted
	p, from, err := v.replayer(in, first)
	if err != nil {
		return authority.Page{}, err
	}
	err = in.records(ctx, from, wanted, func(r record) error {
		if r.cursor != p.cursor { // a replayer on a checkpoint has the row's state already
			if err := p.step(r); err != nil {
				return err
			}
		}
		if r.cursor < first {
			return nil
		}
		page.Transactions = append(page.Transactions, in.transaction(r, p.state))
		// The text is the caller's from here on. The next is hardly longer.
		p.spare = make([]byte, 0, len(p.state)+len(p.state)/16)
		return nil
	})
	if err != nil {
		return authority.Page{}, err
	}
	if p.cursor != wanted {
		return authority.Page{}, violation(notContiguous).Field("commits.cursor").At(p.cursor + 1)
	}
	v.behind = p
	return page, nil
}

// replayer is one that leads to a row, and the row to go on with. It stands on the row
// before, or on the checkpoint that covers it, which is then gone on with. The view forgets
// it meanwhile: one that failed is not used again.
func (v *view) replayer(in *session, to uint64) (p *replayer, from uint64, err error) {
	p = v.behind
	if v.behind = nil; p != nil && p.cursor == to-1 {
		return p, to, nil
	}
	start := covering(to)
	projection, digest, _, err := in.checkpoint(start)
	if err != nil {
		return nil, 0, err
	}
	p = &replayer{scrutiny: trusting, identity: in.identity}
	return p, start, p.stand(start, digest, projection)
}

// Operations lists every operation id in cursor order.
func (v *view) Operations(ctx context.Context) ([]string, error) {
	var ids []string
	err := v.read(ctx, func(in *session) (err error) {
		if in == nil {
			return nil
		}
		ids, err = in.operations(v.head.cursor)
		return err
	})
	return ids, v.store.answer("scan", err, unreadable)
}

func (s *session) operations(count uint64) (ids []string, err error) {
	rows, err := s.query("SELECT operation_id FROM commits ORDER BY cursor")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	ids = make([]string, 0, count)
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

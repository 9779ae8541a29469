package pgstore

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// view is a transaction that stays open on the snapshot that was audited. It holds a
// connection of its own, and keeps the server from cleaning up behind it.
type view struct {
	store   *Store
	lineage authority.Lineage

	mu   sync.Mutex
	conn *pgxpool.Conn
	in   *session
	done bool
}

// View audits the history and keeps the snapshot it audited. Close it.
func (s *Store) View(ctx context.Context) (authority.View, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, s.auditAnswer(err)
	}
	return v, nil
}

func (s *Store) view(ctx context.Context) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a, err := newAudit(nil, nil)
	if err != nil {
		return nil, err
	}
	conn, in, err := s.link.begin(ctx, streaming)
	if err != nil {
		return nil, err
	}
	if err := a.run(ctx, in); err != nil {
		leave(conn)
		return nil, err
	}
	return &view{store: s, lineage: a.lineage, conn: conn, in: in}, nil
}

// Kind is authority.KindPostgreSQL.
func (v *view) Kind() authority.Kind { return authority.KindPostgreSQL }

// GoalID is the Goal of the store.
func (v *view) GoalID() string { return v.store.GoalID() }

// Lineage is what the audit proved.
func (v *view) Lineage() authority.Lineage { return v.lineage }

// Close ends the snapshot.
func (v *view) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.done {
		v.done = true
		leave(v.conn)
	}
	return nil
}

// read runs work on the snapshot. A lost connection has lost the snapshot too.
func (v *view) read(ctx context.Context, work func(*session) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return fs.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return work(v.in)
}

// Identity is the incarnation that was audited.
func (v *view) Identity(ctx context.Context) (authority.Identity, error) {
	err := v.read(ctx, func(*session) error { return nil })
	return v.lineage.Identity, v.store.answer("identity", err, unreadable)
}

// Load is the head that was audited.
func (v *view) Load(ctx context.Context) (authority.Head, error) {
	var head authority.Head
	err := v.read(ctx, func(in *session) error {
		h, err := in.head(ctx)
		if err == nil && h.cursor == 0 {
			err = missing()
		}
		if err == nil {
			head = authority.Head{Cursor: authority.Cursor(h.cursor), Revision: revisionOf(in.identity, h.revision), Projection: h.projection}
		}
		return err
	})
	return head, v.store.answer("load", err, unreadable)
}

// Receipt looks the operation up by its index. The audit proved the row: its projection
// is not read again.
func (v *view) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	err := checkReceiptID(operationID)
	found := map[string]authority.Receipt{}
	if err == nil {
		err = v.read(ctx, func(in *session) error { return in.provedReceipts(ctx, []string{operationID}, found) })
	}
	receipt, there := found[operationID]
	if err == nil && !there {
		err = missing()
	}
	return receipt, v.store.answer("receipt", err, unreadable)
}

// Receipts answers for many operations at once; those that are missing, or that no store
// could hold, are not in the answer.
func (v *view) Receipts(ctx context.Context, operationIDs []string) (map[string]authority.Receipt, error) {
	found := make(map[string]authority.Receipt, len(operationIDs))
	err := v.read(ctx, func(in *session) error { return in.provedReceipts(ctx, operationIDs, found) })
	return found, v.store.answer("receipt", err, unreadable)
}

// provedReceipts reads the receipts of rows that an audit proved in this snapshot.
func (s *session) provedReceipts(ctx context.Context, operationIDs []string, found map[string]authority.Receipt) (err error) {
	asked := []byte{'['}
	for _, id := range operationIDs {
		if checkReceiptID(id) != nil {
			continue
		}
		if len(asked) > 1 {
			asked = append(asked, ',')
		}
		asked = canonical.AppendString(asked, id)
	}
	rows := s.query(ctx, `SELECT c.cursor, c.provider_revision, c.operation_id, ''::text, ARRAY[]::text[],
		ARRAY(SELECT r.receipt::text FROM loopx_control_plane.authority_receipts AS r
			WHERE r.tenant_id = c.tenant_id AND r.goal_id = c.goal_id AND r.cursor = c.cursor ORDER BY r.receipt_index)
		FROM loopx_control_plane.authority_commits AS c
		WHERE c.tenant_id = $1 AND c.goal_id = $2 AND c.operation_id IN (SELECT json_array_elements_text($3::json))`,
		s.tenant, s.goal, string(append(asked, ']')))
	defer func() { err = errors.Join(err, rows.finish()) }()
	for rows.NextRow() {
		var r record
		if err := r.scan(rows.Values()); err != nil {
			return err
		}
		receipts, err := listOf("receipts", "authority_receipts.receipt", r.receipts)
		if err != nil {
			return placed(err, r.cursor, r.operation)
		}
		found[r.operation] = authority.Receipt{Cursor: authority.Cursor(r.cursor), Revision: revisionOf(s.identity, r.revision), Receipts: receipts}
	}
	return nil
}

// Scan reads the rows of the page and no other: the audit proved that they are there, and
// what the head is.
func (v *view) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	page := authority.Page{Next: after}
	err := checkLimit(limit)
	if err == nil {
		err = v.read(ctx, func(in *session) error { return in.provedPage(ctx, &page, v.lineage.End.Cursor, limit) })
	}
	if err != nil {
		page = authority.Page{}
	}
	return page, v.store.answer("scan", err, unreadable)
}

func (s *session) provedPage(ctx context.Context, page *authority.Page, head authority.Cursor, limit int) (err error) {
	after := page.Next
	if after > head {
		return refuse(authority.ClassFailed, authority.ReasonScanRange, sentenceScanAhead).At(uint64(after))
	}
	want := min(uint64(head-after), uint64(limit))
	if want == 0 {
		return nil
	}
	page.Transactions, err = s.records(ctx, " WHERE c.tenant_id = $1 AND c.goal_id = $2 AND c.cursor > $3 ORDER BY c.cursor LIMIT $4",
		s.tenant, s.goal, int64(after), int64(want))
	if err != nil {
		return err
	}
	if uint64(len(page.Transactions)) != want {
		return violation(sentenceScanCover).Field("authority_commits.cursor")
	}
	page.Next = after + authority.Cursor(want)
	page.HasMore = page.Next < head
	return nil
}

// Operations lists every operation id in cursor order.
func (v *view) Operations(ctx context.Context) ([]string, error) {
	var ids []string
	err := v.read(ctx, func(in *session) error {
		rows := in.query(ctx, `SELECT operation_id FROM loopx_control_plane.authority_commits AS c
			WHERE tenant_id = $1 AND goal_id = $2 ORDER BY cursor`, in.tenant, in.goal)
		for rows.NextRow() {
			ids = append(ids, string(rows.Values()[0]))
		}
		return rows.finish()
	})
	return ids, v.store.answer("scan", err, unreadable)
}

package pgstore

import (
	"context"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/loopx-project/loopx-migrate/authority"
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

// Receipt looks the operation up by its index; its rows were proved by the audit.
func (v *view) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	var receipt authority.Receipt
	err := checkReceiptID(operationID)
	if err == nil {
		err = v.read(ctx, func(in *session) (err error) {
			receipt, err = in.receipt(ctx, operationID)
			return err
		})
	}
	return receipt, v.store.answer("receipt", err, unreadable)
}

// Scan reads a page of the snapshot.
func (v *view) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	var page authority.Page
	err := checkLimit(limit)
	if err == nil {
		err = v.read(ctx, func(in *session) (err error) {
			page, err = in.scan(ctx, after, limit)
			return err
		})
	}
	return page, v.store.answer("scan", err, unreadable)
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

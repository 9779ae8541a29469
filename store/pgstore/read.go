package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Identity reads the incarnation of the database. Metadata that is missing, of another
// schema or malformed is ClassFailed/ReasonIdentityInvalid.
func (s *Store) Identity(ctx context.Context) (authority.Identity, error) {
	var id authority.Identity
	err := s.link.reading(ctx, snapshot, func(in *session) error {
		id = in.identity
		return nil
	})
	var said *refusal
	if errors.As(err, &said) && said.Made.Reason == authority.ReasonProtocolViolation {
		said.Made.Reason = authority.ReasonIdentityInvalid
	}
	unavailable := unreadable
	unavailable.Reason = authority.ReasonIdentityUnavailable
	return id, s.answer("identity", err, unavailable)
}

// Load returns the head. A Goal without a head row, or with an empty one, is ClassMissing.
func (s *Store) Load(ctx context.Context) (authority.Head, error) {
	var head authority.Head
	err := s.link.reading(ctx, snapshot, func(in *session) error {
		h, err := in.head(ctx)
		if err == nil && h.cursor == 0 {
			err = missing()
		}
		if err == nil {
			head = authority.Head{Cursor: authority.Cursor(h.cursor), Revision: revisionOf(in.identity, h.revision), Projection: h.projection}
		}
		return err
	})
	return head, s.answer("load", err, unreadable)
}

// headRow is a row of authority_heads; the zero value stands for none.
type headRow struct {
	cursor, revision int64
	text             []byte // jsonb as the server prints it
	projection       authority.Canonical
}

func (h headRow) applied(id authority.Identity) authority.Applied {
	if h.cursor == 0 {
		return authority.Applied{}
	}
	return authority.Applied{Cursor: authority.Cursor(h.cursor), Revision: revisionOf(id, h.revision)}
}

// head reads the head row.
func (s *session) head(ctx context.Context) (headRow, error) {
	h, err := s.place(ctx, "head::text", "")
	if err != nil || h.cursor == 0 {
		return h, err
	}
	h.projection, err = objectOf("authority_heads.head", sentenceHeadObject, h.text)
	return h, placed(err, h.cursor, "")
}

// place reads cursor and revision of the head, and what else column says.
func (s *session) place(ctx context.Context, column, locking string) (headRow, error) {
	var h headRow
	err := s.row(ctx, []any{&h.cursor, &h.revision, &h.text}, placeQuery(column, locking), s.tenant, s.goal)
	if errors.Is(err, pgx.ErrNoRows) {
		return headRow{}, nil
	}
	return h, err
}

func placeQuery(column, locking string) string {
	return "SELECT cursor, provider_revision, " + column + " FROM loopx_control_plane.authority_heads AS h WHERE tenant_id = $1 AND goal_id = $2" + locking
}

// Receipt reads what the operation got, from its own rows alone: no lineage is proved. An
// id that PostgreSQL's text cannot hold is ClassUnavailable, as in LoopX, when it has a
// NUL; one with a lone surrogate is ClassMissing, since LoopX would have kept it as
// another id.
func (s *Store) Receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	var receipt authority.Receipt
	err := checkReceiptID(operationID)
	if err == nil {
		err = s.link.reading(ctx, snapshot, func(in *session) (err error) {
			receipt, err = in.receipt(ctx, operationID)
			return err
		})
	}
	return receipt, s.answer("receipt", err, unreadable)
}

func checkReceiptID(id string) error {
	switch {
	case !canonical.ValidID(id):
		return refuse(authority.ClassFailed, authority.ReasonInvalidOperationID, sentenceReceiptID).Field("operation_id")
	case hasNUL(id):
		return refuse(authority.ClassUnavailable, authority.ReasonReadUnavailable, sentenceUnavailable).Field("operation_id")
	case unholdable(id) != "":
		return missing()
	}
	return nil
}

func (s *session) receipt(ctx context.Context, operationID string) (authority.Receipt, error) {
	found, err := s.records(ctx, " WHERE c.tenant_id = $1 AND c.goal_id = $2 AND c.operation_id = $3", s.tenant, s.goal, operationID)
	if err != nil {
		return authority.Receipt{}, err
	}
	if len(found) == 0 {
		return authority.Receipt{}, missing()
	}
	return authority.Receipt{Cursor: found[0].Cursor, Revision: found[0].Revision, Receipts: found[0].Receipts}, nil
}

// records reads rows and brings them into canonical form.
func (s *session) records(ctx context.Context, where string, args ...any) (found []authority.Transaction, err error) {
	rows := s.query(ctx, "SELECT "+recordColumns+" FROM loopx_control_plane.authority_commits AS c"+where, args...)
	defer func() { err = errors.Join(err, rows.finish()) }()
	for rows.NextRow() {
		var r record
		if err := r.scan(rows.Values()); err != nil {
			return nil, err
		}
		t, err := r.transaction(s.identity, &s.states)
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	return found, nil
}

// Scan reads a page and one row more, and compares the row at the head's cursor with the
// head. Within a page it proves what LoopX proves; an edited row passes. See Audit.
func (s *Store) Scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	var page authority.Page
	err := checkLimit(limit)
	if err == nil {
		err = s.link.reading(ctx, snapshot, func(in *session) (err error) {
			page, err = in.scan(ctx, after, limit)
			return err
		})
	}
	return page, s.answer("scan", err, unreadable)
}

// maxSafeInteger bounds LoopX's limit.
const maxSafeInteger = 1<<53 - 1

func checkLimit(limit int) error {
	if limit < 1 || limit > maxSafeInteger {
		return refuse(authority.ClassFailed, authority.ReasonInvalidScan, sentenceScanLimit).Field("limit")
	}
	return nil
}

func (s *session) scan(ctx context.Context, after authority.Cursor, limit int) (authority.Page, error) {
	page := authority.Page{Next: after}
	h, err := s.head(ctx)
	if err != nil {
		return page, err
	}
	if after > authority.Cursor(h.cursor) {
		return page, refuse(authority.ClassFailed, authority.ReasonScanRange, sentenceScanAhead).At(uint64(after))
	}
	want := min(h.cursor-int64(after), int64(limit)+1)
	if want == 0 {
		return page, nil
	}
	rows, err := s.records(ctx, " WHERE c.tenant_id = $1 AND c.goal_id = $2 AND c.cursor > $3 ORDER BY c.cursor LIMIT $4",
		s.tenant, s.goal, int64(after), int64(limit)+1)
	if err != nil {
		return page, err
	}
	if err := s.lineage(rows, after, want, h); err != nil {
		return page, err
	}
	page.HasMore = len(rows) > limit
	page.Transactions = rows[:min(len(rows), limit)]
	page.Next = page.Transactions[len(page.Transactions)-1].Cursor
	return page, nil
}

// lineage is what LoopX proves of a page.
func (s *session) lineage(rows []authority.Transaction, after authority.Cursor, want int64, h headRow) error {
	if int64(len(rows)) != want {
		return violation(sentenceScanCover).Field("authority_commits.cursor")
	}
	for i, row := range rows {
		if row.Cursor != after+authority.Cursor(i)+1 {
			return violation(sentenceScanCursor).Field("authority_commits.cursor").At(uint64(after) + uint64(i) + 1)
		}
		if row.Cursor != authority.Cursor(h.cursor) {
			continue
		}
		if row.Revision != revisionOf(s.identity, h.revision) {
			return violation(sentenceScanHead).Field("authority_heads.provider_revision").At(uint64(row.Cursor))
		}
		if string(row.Projection) != string(h.projection) {
			return violation(sentenceScanHead).Field("authority_heads.head").At(uint64(row.Cursor))
		}
	}
	return nil
}

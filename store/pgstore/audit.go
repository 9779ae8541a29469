package pgstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Audit proves the history on one snapshot: cursors without a gap, every row and column
// against its seal, every seal against the one before, the head against the last row, and
// that no seal or row stands outside of all that. What only seals show is ReasonDefect, a
// row without one ReasonUnsealed, nesting beyond what LoopX reads back ReasonDepth.
//
// What this proves is that nobody edited a row after it was committed who could not also
// rewrite the seals. Against a superuser, who can, only an anchor outside of the database
// helps: the Bookmark carries the last seal in Position, and an audit from it demands
// that row, state and seal still stand there (else ReasonRewritten).
//
// From a bookmark, Events, Receipts, Bytes and Findings speak of the rows read.
func (s *Store) Audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	a, err := newAudit(from, visit)
	if err == nil {
		err = s.link.reading(ctx, streaming, func(in *session) error { return a.run(ctx, in) })
	}
	return a.lineage, s.auditAnswer(err)
}

func (s *Store) auditAnswer(err error) error {
	var visitors *visitError
	if errors.As(err, &visitors) {
		return visitors.err
	}
	return s.answer("audit", auditReason(err), unreadable)
}

// auditReason gives depth a reason of its own: for LoopX such a store is merely unreadable.
func auditReason(err error) error {
	var depth *canonical.DepthError
	var said *refusal
	if errors.As(err, &depth) && errors.As(err, &said) {
		said.Made.Class, said.Made.Reason = authority.ClassFailed, authority.ReasonDepth
		said.Made.Detail = "nested deeper than LoopX reads back"
	}
	return err
}

// visitError carries an error of the caller's visit through to the caller.
type visitError struct{ err error }

// Error is the caller's.
func (v *visitError) Error() string { return v.err.Error() }

// Codes of findings of this store that change no answer.
const (
	// FindingAdopted: rows were sealed after the fact, as they stood then.
	FindingAdopted = "adopted_seals"
	// FindingBypass: the connection's role passes row-level security.
	FindingBypass = "row_security_bypassed"
)

// audit is one audit and how far it has come.
type audit struct {
	from    *authority.Bookmark // until its row was recognised
	last    authority.Bookmark
	seal    []byte // the last one proved
	text    []byte // SHA-256 of the last projection as the server prints it
	moved   []byte // updated_at of the head when it moved to the last row
	states  projections
	logical *authority.LogicalHash
	visit   func(authority.Row) error
	lineage authority.Lineage
	adopted uint64
}

func newAudit(from *authority.Bookmark, visit func(authority.Row) error) (*audit, error) {
	a := &audit{visit: visit}
	if from != nil && from.Cursor != 0 {
		a.from, a.last = from, *from
	}
	var err error
	if a.logical, err = authority.ResumeLogicalHash(a.last.Logical); err != nil {
		return a, rewritten("the bookmark is not one of this tool").Because(err)
	}
	return a, nil
}

func rewritten(detail string) *refusal {
	return refuse(authority.ClassFailed, authority.ReasonRewritten, detail)
}

func (l *line) defect(field, detail string) *refusal {
	return defect(field, detail).At(uint64(l.cursor)).Operation(l.operation)
}

func defect(field, detail string) *refusal {
	return refuse(authority.ClassFailed, authority.ReasonDefect, detail).Field(field)
}

func unsealed(l *line) *refusal {
	return refuse(authority.ClassFailed, ReasonUnsealed, "the row has no seal, so nothing proves that it is what was committed").
		Field("loopx_migrate_seals").At(uint64(l.cursor)).Operation(l.operation)
}

// run audits what the session shows, from the bookmark to the head.
func (a *audit) run(ctx context.Context, s *session) error {
	a.lineage.Format, a.lineage.Identity = FormatV0, s.identity
	h, err := s.head(ctx)
	if err != nil {
		return err
	}
	if err := a.atStart(s, h); err != nil {
		return err
	}
	if !s.installed {
		return a.bare(ctx, s, h)
	}
	if err := a.stream(ctx, s); err != nil {
		return err
	}
	if a.from != nil {
		return rewritten("the remembered row is gone").At(uint64(a.from.Cursor)).Field("authority_commits.cursor")
	}
	if err := s.noSealBeyond(ctx, int64(a.last.Cursor), h); err != nil {
		return err
	}
	if err := a.meetsHead(ctx, s, h); err != nil {
		return err
	}
	if err := s.noStrays(ctx); err != nil {
		return err
	}
	return a.finish(ctx, s)
}

// atStart refuses a bookmark that cannot stand in this history.
func (a *audit) atStart(s *session, h headRow) error {
	a.seal = firstLink(s.tenant, s.goal)
	if a.from == nil {
		return nil
	}
	if a.from.Cursor > authority.Cursor(h.cursor) {
		return rewritten(fmt.Sprintf("the database was restored or rewound: its head is at cursor %d, it had been seen at cursor %s",
			h.cursor, a.from.Cursor)).At(uint64(a.from.Cursor)).Field("authority_heads.cursor")
	}
	return nil
}

// bare is a database without seals: empty it is fine, else nothing in it is proved.
func (a *audit) bare(ctx context.Context, s *session, h headRow) error {
	if h.cursor != 0 {
		return refuse(authority.ClassFailed, ReasonUnsealed, "the database has no seals; run pg install").Field("loopx_migrate_seals")
	}
	return a.finish(ctx, s)
}

// proved is a line on its way to the visitor.
type proved struct {
	line   *line
	buffer []byte
	err    error
}

// inFlight is how many rows may be on their way; it bounds the memory.
const inFlight = 3

// stream reads and proves the rows. One goroutine reads them off the wire and hashes what
// the server printed, the caller's brings them into canonical form and shows them.
func (a *audit) stream(ctx context.Context, s *session) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	rows, free := make(chan proved, inFlight), make(chan []byte, inFlight+2)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer close(rows)
		if err := s.lines(reading, int64(a.last.Cursor), rows, free); err != nil {
			select {
			case rows <- proved{err: err}:
			case <-reading.Done():
			}
		}
	}()
	err := a.take(rows, free)
	if err != nil {
		stop() // breaks the connection: nobody wants the rest
	}
	<-finished
	if err == nil {
		err = ctx.Err()
	}
	return err
}

func (a *audit) take(rows <-chan proved, free chan<- []byte) error {
	for row := range rows {
		if row.err != nil {
			return row.err
		}
		if err := a.follow(row.line); err != nil {
			return err
		}
		select {
		case free <- row.buffer:
		default:
		}
	}
	return nil
}

// lines sends the rows from a cursor on.
func (s *session) lines(ctx context.Context, from int64, to chan<- proved, free <-chan []byte) (err error) {
	rows := s.query(ctx, lineQuery, s.tenant, s.goal, from)
	defer func() { err = errors.Join(err, rows.finish()) }()
	for rows.NextRow() {
		p := proved{line: &line{}}
		select {
		case p.buffer = <-free:
		default:
		}
		var raw [][]byte
		raw, p.buffer = keep(rows.Values(), p.buffer)
		if err := p.line.scan(raw); err != nil {
			return err
		}
		select {
		case to <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// follow proves one row and shows it. The bookmark's own row comes first and is only
// recognised.
func (a *audit) follow(l *line) error {
	if a.from != nil {
		return a.recognise(l)
	}
	if uint64(l.cursor) != uint64(a.last.Cursor)+1 {
		return gap(uint64(a.last.Cursor) + 1)
	}
	if err := l.prove(a.seal); err != nil {
		return err
	}
	row, err := l.row(a.lineage.Identity, &a.states)
	if err != nil {
		return err
	}
	if a.visit != nil {
		if err := a.visit(row); err != nil {
			return &visitError{err}
		}
	}
	a.logical.Add(row)
	a.last = authority.Bookmark{Cursor: row.Cursor, Revision: row.Revision, StateDigest: row.StateDigest}
	a.remember(l)
	a.lineage.Events += uint64(len(l.events))
	a.lineage.Receipts += uint64(len(l.receipts))
	if l.seal.maker == adopted {
		a.adopted++
	}
	return nil
}

func gap(cursor uint64) *refusal {
	return defect("authority_commits.cursor", "the row is missing").At(cursor)
}

func (a *audit) remember(l *line) {
	a.seal = append(a.seal[:0], l.seal.seal...)
	a.text = append(a.text[:0], l.projectionSum[:]...)
	a.moved = append(a.moved[:0], l.seal.movedAt...)
	a.lineage.Bytes += int64(len(l.projection))
	for _, value := range append(l.events[:len(l.events):len(l.events)], l.receipts...) {
		a.lineage.Bytes += int64(len(value))
	}
}

// row is the row in canonical form.
func (l *line) row(id authority.Identity, states *projections) (authority.Row, error) {
	t, err := l.transaction(id, states)
	return authority.Row{Transaction: t, StateDigest: authority.DigestOf(t.Projection)}, err
}

const (
	adopted    = "adopted"
	sealPrefix = "seal:"
)

// recognise finds the bookmark's row as it was: revision, state, and the seal over all
// that stood before.
func (a *audit) recognise(l *line) error {
	at := func(detail, field string) error {
		return rewritten(detail).At(uint64(l.cursor)).Operation(l.operation).Field(field)
	}
	if uint64(a.from.Cursor) != uint64(l.cursor) {
		return rewritten("the remembered row is gone").At(uint64(a.from.Cursor)).Field("authority_commits.cursor")
	}
	if a.from.Revision != revisionOf(a.lineage.Identity, l.revision) {
		return at("the remembered row does not stand in this history", "authority_commits.provider_revision")
	}
	row, err := l.row(a.lineage.Identity, &a.states)
	if err != nil {
		return err
	}
	if row.StateDigest != a.from.StateDigest {
		return at("the remembered state is not the one that stands there", "authority_commits.projection")
	}
	if !l.seal.there {
		return unsealed(l)
	}
	if anchor, found := strings.CutPrefix(a.from.Position, sealPrefix); found && anchor != hex.EncodeToString(l.seal.seal) {
		return at("the remembered seal is not the one that stands there: rows or seals before it were rewritten", "loopx_migrate_seals.seal")
	}
	a.remember(l)
	a.from = nil
	return nil
}

// noSealBeyond looks for a seal behind the last row: there was a row once.
func (s *session) noSealBeyond(ctx context.Context, last int64, h headRow) error {
	var sealed *int64
	err := s.row(ctx, []any{&sealed}, `SELECT min(s.cursor) FROM loopx_control_plane.loopx_migrate_seals AS s
		WHERE s.tenant_id = $1 AND s.goal_id = $2 AND s.cursor > $3`, s.tenant, s.goal, last)
	switch {
	case err != nil || sealed == nil:
		return err
	case *sealed <= h.cursor:
		return gap(uint64(*sealed))
	}
	return defect("authority_heads.cursor", "the database was restored or rewound: this cursor was sealed once").At(uint64(*sealed))
}

// noStrays looks for rows that belong to no commit.
func (s *session) noStrays(ctx context.Context) error {
	for _, table := range []string{"authority_events", "authority_receipts"} {
		var cursor *int64
		err := s.row(ctx, []any{&cursor}, `SELECT min(x.cursor) FROM loopx_control_plane.`+table+` AS x WHERE x.tenant_id = $1 AND x.goal_id = $2
			AND (SELECT TRUE FROM loopx_control_plane.authority_commits AS c WHERE c.tenant_id = $1 AND c.goal_id = $2 AND c.cursor = x.cursor LIMIT 1) IS NULL`,
			s.tenant, s.goal)
		if err != nil {
			return err
		}
		if cursor != nil {
			return defect(table, "the row belongs to no commit").At(uint64(*cursor))
		}
	}
	return nil
}

// meetsHead holds the head row against the last row.
func (a *audit) meetsHead(ctx context.Context, s *session, h headRow) error {
	last := uint64(a.last.Cursor)
	switch {
	case uint64(h.cursor) > last:
		return gap(last + 1)
	case uint64(h.cursor) < last:
		return defect("authority_heads.cursor", "the head stands before the last row").At(last)
	case h.cursor == 0:
		return nil
	case revisionOf(s.identity, h.revision) != a.last.Revision:
		return defect("authority_heads.provider_revision", "it is not the last row's").At(last)
	}
	if sum := authority.DigestOf(h.text); !bytes.Equal(sum[:], a.text) {
		return defect("authority_heads.head", "it is not the last row's projection").At(last)
	}
	var moved []byte
	err := s.row(ctx, []any{&moved}, `SELECT timestamptz_send(updated_at) FROM loopx_control_plane.authority_heads AS h
		WHERE tenant_id = $1 AND goal_id = $2`, s.tenant, s.goal)
	if errors.Is(err, pgx.ErrNoRows) {
		return gap(last)
	}
	if err == nil && !bytes.Equal(moved, a.moved) {
		return defect("authority_heads.updated_at", "it is not what was sealed when the head moved").At(last)
	}
	return err
}

// finish closes the lineage.
func (a *audit) finish(ctx context.Context, s *session) error {
	a.lineage.Transactions = uint64(a.last.Cursor)
	a.lineage.Logical = a.logical.Digest()
	if a.last.Cursor != 0 {
		a.last.Logical = a.logical.State()
		a.last.Position = sealPrefix + hex.EncodeToString(a.seal)
	}
	a.lineage.End = a.last
	if a.adopted > 0 {
		a.lineage.Findings = append(a.lineage.Findings, authority.Finding{Code: FindingAdopted, Field: "loopx_migrate_seals.made_by",
			Detail: fmt.Sprintf("%d rows were sealed after the fact; nothing proves what they were before", a.adopted)})
	}
	var bypass bool
	err := s.row(ctx, []any{&bypass}, "SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user")
	if err == nil && bypass {
		a.lineage.Findings = append(a.lineage.Findings, authority.Finding{Code: FindingBypass, Field: "pg_roles",
			Detail: "this connection's role passes row-level security; use one that does not"})
	}
	return err
}

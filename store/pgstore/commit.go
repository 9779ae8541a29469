package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// revisionShape is what LoopX's PostgreSQL store takes for a revision at all.
var revisionShape = regexp.MustCompile(`^postgresql:[0-9a-f]{32}:[1-9][0-9]*$`)

// Commit appends one transaction. The order of its refusals is LoopX's: request, size,
// metadata, revision, operation id. A repeated operation id is a conflict, whatever it
// carries. When COMMIT gets no answer, the receipt is looked up on a new connection
// behind the head row's lock, so the answer is still applied or failed as a rule;
// ClassAmbiguous means that this could not be done within SettleWait.
func (s *Store) Commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	applied, err := s.commit(ctx, request)
	return applied, s.answer("commit", err, unwritten)
}

func (s *Store) commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	offered, err := normalize(request)
	if err != nil {
		return authority.Applied{}, err
	}
	if s.options.Mode != ReadWrite {
		return authority.Applied{}, &refusal{Made: readOnly}
	}
	var applied authority.Applied
	err = s.link.writing(ctx, change, "commit", func(ctx context.Context, in *session) (err error) {
		applied, err = in.append(ctx, offered)
		return err
	})
	var unknown *uncertain
	if errors.As(err, &unknown) {
		return s.settle(ctx, offered, applied, unknown)
	}
	if err != nil {
		return authority.Applied{}, err
	}
	return applied, nil
}

// CheckCommit decides as Commit does, reading only and without a lock. Under a fence it
// answers what the write would.
func (s *Store) CheckCommit(ctx context.Context, request authority.CommitRequest) error {
	offered, err := normalize(request)
	if err == nil {
		err = s.link.reading(ctx, snapshot, func(in *session) error {
			if err := in.decide(ctx, offered, forChecking); err != nil {
				return err
			}
			return in.checkFence(ctx)
		})
	}
	return s.answer("commit", err, unwritten)
}

// offer is a commit request in canonical form.
type offer struct {
	expected   authority.Revision
	operation  string
	events     []byte
	projection []byte
	receipts   []byte
	head       headRow // what it was decided on
}

func invalid(name, detail string) *refusal {
	return refuse(authority.ClassFailed, authority.ReasonInvalidCommit, detail).Field(name)
}

// normalize brings a request into canonical form or refuses it, before any I/O.
func normalize(r authority.CommitRequest) (*offer, error) {
	if !canonical.ValidID(r.OperationID) {
		return nil, invalid("operation_id", "must be a non-empty trimmed string").Operation(r.OperationID)
	}
	if r.Expected != "" && !revisionShape.MatchString(string(r.Expected)) {
		return nil, invalid("expected_provider_revision", sentenceExpected).Operation(r.OperationID)
	}
	o := &offer{expected: r.Expected, operation: r.OperationID}
	var err error
	for _, part := range []struct {
		name string
		from []byte
		to   *[]byte
	}{{"events", r.Events, &o.events}, {"next_projection", r.Projection, &o.projection}, {"receipts", r.Receipts, &o.receipts}} {
		if *part.to, err = canonical.Append(nil, part.from); err != nil {
			return nil, invalid(part.name, "is not JSON that LoopX can hold").Operation(r.OperationID).Because(err)
		}
	}
	switch {
	case !isList(o.events):
		return nil, invalid("events", "must be a list of objects").Operation(r.OperationID)
	case canonical.Kind(o.projection) != canonical.Object:
		return nil, invalid("next_projection", "must be an object").Operation(r.OperationID)
	case !isList(o.receipts):
		return nil, invalid("receipts", "must be a list of objects").Operation(r.OperationID)
	}
	return o, o.fits()
}

// fits refuses what PostgreSQL cannot hold. LoopX finds that out from the server, and
// stores a lone surrogate in an operation id silently as another character.
func (o *offer) fits() error {
	if n := sizeOf(o.operation, o.events, o.projection, o.receipts); n > Capacity {
		return refuse(authority.ClassFailed, authority.ReasonCapacity,
			fmt.Sprintf("PostgreSQL authority commit is %d canonical bytes; configured maximum is %d", n, Capacity)).Operation(o.operation)
	}
	found := CheckRow("t", "g", authority.Row{Transaction: authority.Transaction{
		OperationID: o.operation, Events: o.events, Projection: o.projection, Receipts: o.receipts}})
	for _, f := range found {
		if f.Code == FindingNUL || f.Code == FindingSurrogate {
			return refuse(authority.ClassFailed, authority.ReasonTransactionFailed, sentenceTransaction+
				": PostgreSQL cannot hold it ("+f.Code+")").Field(f.Field).Operation(o.operation)
		}
	}
	return nil
}

func isList(text []byte) bool {
	if canonical.Kind(text) != canonical.Array {
		return false
	}
	for element := range canonical.Elements(text) {
		if canonical.Kind(element) != canonical.Object {
			return false
		}
	}
	return true
}

const findQuery = `SELECT cursor FROM loopx_control_plane.authority_commits AS c WHERE tenant_id = $1 AND goal_id = $2 AND operation_id = $3`

// decide compares the offer with the head and the operations that were, in one round
// trip. To decide for writing makes the head row if there is none, and locks it.
func (s *session) decide(ctx context.Context, o *offer, how decision) error {
	batch := &pgx.Batch{}
	if how == forWriting {
		batch.Queue(emptyHead, s.tenant, s.goal)
	}
	batch.Queue(placeQuery("NULL::text", string(how)), s.tenant, s.goal)
	batch.Queue(findQuery, s.tenant, s.goal, o.operation)
	results := s.conn.SendBatch(ctx, batch)
	var err error
	if how == forWriting {
		_, err = results.Exec()
	}
	var known int64
	err = errors.Join(err, scanned(results, &o.head.cursor, &o.head.revision, &o.head.text), scanned(results, &known))
	if err := errors.Join(err, results.Close()); err != nil {
		return err
	}
	now := o.head.applied(s.identity)
	switch {
	case o.expected != now.Revision:
		return conflict(authority.ReasonRevisionMismatch, o, now)
	case known != 0:
		return conflict(authority.ReasonOperationExists, o, now).At(uint64(known))
	}
	return nil
}

// decision is what a decision is for: the locking clause of the head's query.
type decision string

const (
	forChecking decision = ""
	forWriting  decision = " FOR UPDATE"
)

// scanned scans the next result's row, if it has one.
func scanned(results pgx.BatchResults, dest ...any) error {
	err := results.QueryRow().Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

func conflict(reason authority.Reason, o *offer, now authority.Applied) *refusal {
	r := refuse(authority.ClassConflict, reason, "").Operation(o.operation)
	r.Made.Current = now
	return r
}

const emptyHead = `INSERT INTO loopx_control_plane.authority_heads (tenant_id, goal_id, provider_revision, cursor, head)
	VALUES ($1, $2, 0, 0, NULL) ON CONFLICT (tenant_id, goal_id) DO NOTHING`

// append decides under the head row's lock and writes, commit before events and receipts
// before head: the update of the head seals what stands then.
func (s *session) append(ctx context.Context, o *offer) (authority.Applied, error) {
	if err := s.decide(ctx, o, forWriting); err != nil {
		return authority.Applied{}, err
	}
	cursor, revision := o.head.cursor+1, o.head.revision+1
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO loopx_control_plane.authority_commits (tenant_id, goal_id, cursor, provider_revision, operation_id, projection)
		VALUES ($1, $2, $3, $4, $5, $6::jsonb)`, s.tenant, s.goal, cursor, revision, o.operation, string(o.projection))
	s.queueList(batch, "authority_events", "event", cursor, o.events)
	s.queueList(batch, "authority_receipts", "receipt", cursor, o.receipts)
	batch.Queue(`UPDATE loopx_control_plane.authority_heads
		SET provider_revision = $3, cursor = $4, head = $5::jsonb, updated_at = transaction_timestamp()
		WHERE tenant_id = $1 AND goal_id = $2 AND provider_revision = $6`,
		s.tenant, s.goal, revision, cursor, string(o.projection), o.head.revision)
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return authority.Applied{}, err
	}
	return authority.Applied{Cursor: authority.Cursor(cursor), Revision: revisionOf(s.identity, revision)}, nil
}

// queueList queues the insert of a list, one row an element, if there are any.
func (s *session) queueList(batch *pgx.Batch, table, column string, cursor int64, list []byte) {
	var values []string
	for element := range canonical.Elements(list) {
		values = append(values, string(element))
	}
	if len(values) == 0 {
		return
	}
	batch.Queue("INSERT INTO loopx_control_plane."+table+" (tenant_id, goal_id, cursor, "+column+"_index, "+column+`)
		SELECT $1, $2, $3, n - 1, value::jsonb FROM unnest($4::text[]) WITH ORDINALITY AS u (value, n)`,
		s.tenant, s.goal, cursor, values)
}

// settle finds out what a COMMIT without an answer did. The head row's lock makes it wait
// until the transaction in question has ended, whichever way; only then does an absent
// receipt mean that nothing was written.
func (s *Store) settle(ctx context.Context, o *offer, hoped authority.Applied, unknown *uncertain) (authority.Applied, error) {
	deadline := time.Now().Add(s.link.server.SettleWait)
	wait, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	for {
		found, err := s.look(wait, o, hoped)
		if class, _ := authority.DraftReason(err); err == nil || class != "" {
			return found, err
		}
		if lockfile.Pause(wait, settleStep) != nil {
			return authority.Applied{}, refuse(authority.ClassAmbiguous, authority.ReasonOutcomeUnknown, sentenceUnknown).
				Operation(o.operation).Because(errors.Join(unknown, err))
		}
	}
}

const settleStep = 100 * time.Millisecond

// look opens a connection of its own: those of the pool may share the fate of the first.
func (s *Store) look(ctx context.Context, o *offer, hoped authority.Applied) (authority.Applied, error) {
	conn, err := pgx.ConnectConfig(ctx, s.link.config.ConnConfig)
	if err != nil {
		return authority.Applied{}, &connectError{err}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	in, err := s.link.enter(ctx, conn, change)
	if err != nil {
		return authority.Applied{}, err
	}
	if _, err := in.place(ctx, "NULL::text", " FOR UPDATE"); err != nil {
		return authority.Applied{}, err
	}
	rows, err := in.records(ctx, " WHERE c.tenant_id = $1 AND c.goal_id = $2 AND c.operation_id = $3", in.tenant, in.goal, o.operation)
	switch {
	case err != nil:
		return authority.Applied{}, err
	case len(rows) == 0:
		return authority.Applied{}, &refusal{Made: unwritten}
	case rows[0].Cursor == hoped.Cursor && rows[0].Revision == hoped.Revision && o.is(rows[0]):
		return hoped, nil
	}
	h, err := in.place(ctx, "NULL::text", "")
	if err != nil {
		return authority.Applied{}, err
	}
	return authority.Applied{}, conflict(authority.ReasonOperationExists, o, h.applied(in.identity)).At(uint64(rows[0].Cursor))
}

// is reports whether the row holds what was offered.
func (o *offer) is(t authority.Transaction) bool {
	return bytes.Equal(o.events, t.Events) && bytes.Equal(o.projection, t.Projection) && bytes.Equal(o.receipts, t.Receipts)
}

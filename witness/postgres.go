package witness

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
)

// postgresV0 is LoopX's one PostgreSQL format, and its schema.
const (
	postgresV0     = "loopx_postgresql_authority_store_v0"
	postgresSchema = "loopx_control_plane"
)

type postgres struct {
	db           *sql.DB
	tenant, goal string
}

// PostgreSQL is one Goal of one tenant in a database. The format keeps no digests: what
// proves its rows is their order, their numbers and the head, and the comparison.
func PostgreSQL(name string, db *sql.DB, tenant, goal string) *History {
	p := postgres{db, tenant, goal}
	return &History{Name: name, Kind: authority.KindPostgreSQL, read: p.read, plant: p.plant}
}

// read reads in one transaction that sees one state and can change nothing.
func (p postgres) read(ctx context.Context, h *header, visit func(*row) error) error {
	tx, err := p.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	t := postgresTables{tx, postgresSchema, p.tenant, p.goal}
	_, err = tx.ExecContext(ctx, "select set_config('loopx.tenant_id', $1, true)", p.tenant)
	if err == nil {
		err = t.read(ctx, h, visit)
	}
	return errors.Join(err, tx.Rollback())
}

// postgresTables are LoopX's tables in some schema.
type postgresTables struct {
	db                   Database
	schema, tenant, goal string
}

// chunk is how many rows are asked for at a time: who has seen enough waits for no more.
const chunk = 16

func (p postgresTables) read(ctx context.Context, h *header, visit func(*row) error) error {
	if err := p.top(ctx, h); err != nil {
		return err
	}
	states, count := memory{}, uint64(0)
	for {
		before := count
		err := p.rows(ctx, h, before, &states, func(t *row) error {
			if count++; t.cursor != count {
				return t.defect("order", "cursor", "it should be %d", count)
			}
			if t.revision != p.token(h, count) {
				return t.defect("chain", "provider_revision", "it does not go with the cursor")
			}
			return visit(t)
		})
		if err != nil {
			return err
		}
		if count-before < chunk {
			return p.noMore(ctx, count)
		}
	}
}

// noMore demands that there is no other row than those that were read.
func (p postgresTables) noMore(ctx context.Context, read uint64) error {
	var there uint64
	err := p.db.QueryRowContext(ctx, "select count(*) from "+p.schema+".authority_commits where tenant_id = $1 and goal_id = $2", p.tenant, p.goal).Scan(&there)
	if err == nil && there != read {
		err = &Defect{Check: "order", Field: "cursor", Detail: fmt.Sprintf("%d rows stand there and %d cursors run on", there, read)}
	}
	return err
}

// rows reads the next chunk behind a cursor.
func (p postgresTables) rows(ctx context.Context, h *header, after uint64, states *memory, visit func(*row) error) (err error) {
	rows, err := p.db.QueryContext(ctx, fmt.Sprintf(`select c.cursor, c.provider_revision, c.operation_id, c.projection::text,
	  (select coalesce(json_agg(e.event order by e.event_index), '[]')::text from %[1]s.authority_events e
	    where e.tenant_id = c.tenant_id and e.goal_id = c.goal_id and e.cursor = c.cursor),
	  (select coalesce(json_agg(r.receipt order by r.receipt_index), '[]')::text from %[1]s.authority_receipts r
	    where r.tenant_id = c.tenant_id and r.goal_id = c.goal_id and r.cursor = c.cursor)
	  from %[1]s.authority_commits c where c.tenant_id = $1 and c.goal_id = $2 and c.cursor > $3
	  order by c.cursor, c.provider_revision limit $4`, p.schema), p.tenant, p.goal, after, chunk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		t, err := p.scan(rows, h, states)
		if err != nil {
			return err
		}
		if err := visit(t); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (p postgresTables) token(h *header, n uint64) string {
	return h.identity + ":" + strconv.FormatUint(n, 10)
}

func (p postgresTables) scan(rows *sql.Rows, h *header, states *memory) (*row, error) {
	var revision uint64
	var projection, events, receipts string
	t := &row{}
	if err := rows.Scan(&t.cursor, &revision, &t.operation, &projection, &events, &receipts); err != nil {
		return nil, err
	}
	t.revision = p.token(h, revision)
	var errs [3]error
	t.projection, errs[0] = states.parse(projection)
	t.events, errs[1] = parse(events)
	t.receipts, errs[2] = parse(receipts)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, t.defect("format", "", "%v", err)
	}
	return t, nil
}

// top reads metadata and head.
func (p postgresTables) top(ctx context.Context, h *header) error {
	var schema, projection string
	var revision uint64
	err := p.db.QueryRowContext(ctx, fmt.Sprintf(`select m.schema_version, m.store_identity, h.cursor, h.provider_revision, coalesce(h.head::text, 'null')
	  from %[1]s.authority_store_metadata m, %[1]s.authority_heads h where h.tenant_id = $1 and h.goal_id = $2`, p.schema), p.tenant, p.goal).
		Scan(&schema, &h.identity, &h.cursor, &revision, &projection)
	if errors.Is(err, sql.ErrNoRows) {
		return &Defect{Check: "format", Detail: "metadata or head has no row for this tenant and goal"}
	}
	if err != nil {
		return err
	}
	if schema != postgresV0 {
		return &Defect{Check: "format", Field: "schema_version", Detail: "it is " + schema}
	}
	h.format, h.goal, h.revision = "postgresql-v0", p.goal, p.token(h, revision)
	if h.head, err = parse(projection); err != nil {
		return &Defect{Check: "format", Field: "head", Detail: err.Error()}
	}
	return nil
}

// plant writes the rows into temporary tables, which only this connection sees.
func (p postgres) plant(ctx context.Context, h header, rows []*row, edited uint64) (*History, error) {
	if edited > 0 {
		return nil, errNoDigest
	}
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := postgresTables{conn, "pg_temp", p.tenant, p.goal}
	close := func() error { return errors.Join(dropCopies(conn), conn.Close()) }
	if err := t.fill(ctx, h, rows); err != nil {
		return nil, errors.Join(err, close())
	}
	return &History{Name: "copy of " + h.identity, Kind: authority.KindPostgreSQL, read: t.read, close: close}, nil
}

var postgresCopies = []string{"authority_store_metadata", "authority_heads", "authority_commits", "authority_events", "authority_receipts"}

// dropCopies also where the context has ended: the connection goes back to its pool.
func dropCopies(conn *sql.Conn) error {
	for _, table := range postgresCopies {
		if _, err := conn.ExecContext(context.Background(), "drop table if exists pg_temp."+table); err != nil {
			return err
		}
	}
	return nil
}

func (p postgresTables) fill(ctx context.Context, h header, rows []*row) error {
	put := func(statement string, args ...any) error {
		_, err := p.db.ExecContext(ctx, statement, args...)
		return err
	}
	for _, statement := range []string{
		"create temp table authority_store_metadata (schema_version text, store_identity text)",
		"create temp table authority_heads (tenant_id text, goal_id text, provider_revision bigint, cursor bigint, head jsonb)",
		"create temp table authority_commits (tenant_id text, goal_id text, cursor bigint, provider_revision bigint, operation_id text, projection jsonb)",
		"create temp table authority_events (tenant_id text, goal_id text, cursor bigint, event_index integer, event jsonb)",
		"create temp table authority_receipts (tenant_id text, goal_id text, cursor bigint, receipt_index integer, receipt jsonb)",
	} {
		if err := put(statement); err != nil {
			return err
		}
	}
	last := rows[len(rows)-1]
	errs := []error{
		put("insert into pg_temp.authority_store_metadata values ($1, $2)", postgresV0, h.identity),
		put("insert into pg_temp.authority_heads values ($1, $2, $3, $3, $4::text::jsonb)", p.tenant, p.goal, len(rows), last.projection.canonical()),
	}
	for i, t := range rows {
		errs = append(errs, put("insert into pg_temp.authority_commits values ($1, $2, $3, $3, $4, $5::text::jsonb)", p.tenant, p.goal, i+1, t.operation, t.projection.canonical()))
		for n, event := range t.events.list {
			errs = append(errs, put("insert into pg_temp.authority_events values ($1, $2, $3, $4, $5::text::jsonb)", p.tenant, p.goal, i+1, n, event.canonical()))
		}
		for n, receipt := range t.receipts.list {
			errs = append(errs, put("insert into pg_temp.authority_receipts values ($1, $2, $3, $4, $5::text::jsonb)", p.tenant, p.goal, i+1, n, receipt.canonical()))
		}
	}
	return errors.Join(errs...)
}

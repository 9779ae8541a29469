package witness

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Database is what a reader needs of a database: a *sql.DB, *sql.Conn or *sql.Tx that
// shows one state as long as it is read. Who opens it knows the driver; this package
// does not.
type Database interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// sqliteV2 is the one SQLite format that LoopX writes.
const sqliteV2 = "loopx_sqlite_authority_store_v2"

type sqlite struct {
	db Database
	// memory opens an empty database that vanishes when it is closed, for planted copies.
	memory func() (*sql.DB, error)
}

// SQLite is a SQLite store of format v2. memory must open an empty private database.
func SQLite(name string, db Database, memory func() (*sql.DB, error)) *History {
	s := sqlite{db, memory}
	return &History{Name: name, Kind: authority.KindSQLite, read: s.read, plant: s.plant}
}

func (s sqlite) read(ctx context.Context, h *header, visit func(*row) error) (err error) {
	if err := s.top(ctx, h); err != nil {
		return err
	}
	checkpoints, err := s.checkpoints(ctx)
	if err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, "select cursor, operation_id, commit_digest, state_digest, coalesce(parent_state_digest, ''), delta, events, receipts, typeof(delta) || typeof(events) || typeof(receipts) from commits order by cursor")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	w := sqliteWalk{header: h, state: newObject(nil), checkpoints: checkpoints}
	for rows.Next() {
		var c commit
		if err := rows.Scan(&c.cursor, &c.operation, &c.digest, &c.state, &c.parent, &c.delta, &c.events, &c.receipts, &c.stored); err != nil {
			return err
		}
		t, err := w.next(c)
		if err != nil {
			return err
		}
		if err := visit(t); err != nil {
			return err
		}
	}
	return rows.Err()
}

// top reads metadata and head.
func (s sqlite) top(ctx context.Context, h *header) error {
	var schema, projection, state, stored string
	var version int
	if err := s.db.QueryRowContext(ctx, "pragma user_version").Scan(&version); err != nil {
		return err
	}
	if version != 2 {
		return &Defect{Check: "format", Field: "user_version", Detail: "it is " + strconv.Itoa(version) + ", not 2"}
	}
	err := s.db.QueryRowContext(ctx, "select m.schema_version, m.goal_id, m.store_identity, h.cursor, h.projection, h.state_digest, typeof(h.projection) from metadata m, head h").
		Scan(&schema, &h.goal, &h.identity, &h.cursor, &projection, &state, &stored)
	if errors.Is(err, sql.ErrNoRows) {
		return &Defect{Check: "format", Detail: "metadata or head has no row"}
	}
	if err != nil {
		return err
	}
	if schema != sqliteV2 || stored != "text" {
		return &Defect{Check: "format", Field: "schema_version", Detail: "it is " + schema + ", the head's projection is " + stored}
	}
	h.format, h.revision = "sqlite-v2", h.identity+":"+strconv.FormatUint(h.cursor, 10)
	if h.head, err = parse(projection); err != nil {
		return &Defect{Check: "format", Field: "head.projection", Detail: err.Error()}
	}
	if digest(h.head.canonical()) != state {
		return &Defect{Check: "head", Cursor: authority.Cursor(h.cursor), Field: "state_digest", Detail: "it is not that of the head's projection"}
	}
	return nil
}

// checkpoints are the digests that the database claims for its whole states, by cursor,
// each recomputed.
func (s sqlite) checkpoints(ctx context.Context) (_ map[uint64]string, err error) {
	rows, err := s.db.QueryContext(ctx, "select cursor, projection, projection_digest from checkpoints")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found := map[uint64]string{}
	for rows.Next() {
		var cursor uint64
		var projection, claimed string
		if err := rows.Scan(&cursor, &projection, &claimed); err != nil {
			return nil, err
		}
		v, err := parse(projection)
		if (cursor-1)%checkpointEvery == 0 && (err != nil || digest(v.canonical()) != claimed) {
			return nil, &Defect{Check: "chain", Cursor: authority.Cursor(cursor), Field: "checkpoint", Detail: "its digest is not that of its projection"}
		}
		found[cursor] = claimed
	}
	return found, rows.Err()
}

// commit is a row of the table commits.
type commit struct {
	cursor                  uint64
	operation               string
	digest, state, parent   string
	delta, events, receipts string
	stored                  string // the types of these three columns
}

type sqliteWalk struct {
	header      *header
	state       *value
	parent      string
	count       uint64
	checkpoints map[uint64]string
}

func (w *sqliteWalk) next(c commit) (*row, error) {
	w.count++
	t := &row{cursor: c.cursor, operation: c.operation, revision: w.header.identity + ":" + strconv.FormatUint(c.cursor, 10)}
	if c.cursor != w.count {
		return nil, t.defect("order", "cursor", "it should be %d", w.count)
	}
	if c.stored != "texttexttext" {
		return nil, t.defect("format", "delta", "it, events or receipts are not stored as text")
	}
	for _, column := range []struct {
		name, in string
		to       **value
	}{{"events", c.events, &t.events}, {"receipts", c.receipts, &t.receipts}, {"delta", c.delta, &t.projection}} {
		v, err := parse(column.in)
		if err != nil {
			return nil, t.defect("format", column.name, "%v", err)
		}
		*column.to = v
	}
	next, err := apply(w.state, t.projection)
	if err != nil {
		return nil, t.defect("chain", "delta", "%v", err)
	}
	t.projection = next
	return t, w.proved(c, t)
}

// proved recomputes the three digests of a row and looks for its checkpoint.
func (w *sqliteWalk) proved(c commit, t *row) error {
	state := digest(t.projection.canonical())
	checkpoint, there := w.checkpoints[c.cursor]
	switch {
	case c.parent != w.parent:
		return t.defect("chain", "parent_state_digest", "it is not the state digest of the row before")
	case c.state != state:
		return t.defect("chain", "state_digest", "it is not that of the replayed state")
	case c.digest != commitDigest(w.header.identity, t):
		return t.defect("chain", "commit_digest", "it is not that of the row")
	case (c.cursor-1)%checkpointEvery == 0 && (!there || checkpoint != state):
		return t.defect("chain", "checkpoint", "it is missing or of another state")
	}
	w.state, w.parent = t.projection, state
	return nil
}

func commitDigest(identity string, t *row) string {
	expected := ""
	if t.cursor > 1 {
		expected = identity + ":" + strconv.FormatUint(t.cursor-1, 10)
	}
	return digest(pairs("events", t.events, "expected_provider_revision", textOrNull(expected), "next_projection", t.projection,
		"operation_id", newText(t.operation), "receipts", t.receipts).canonical())
}

package witness

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
)

// copyTables are the tables of format v2 without the constraints that would refuse what
// is planted.
var copyTables = []string{
	"create table metadata (singleton integer, schema_version text, goal_id text, store_identity text)",
	"create table commits (cursor integer, operation_id text, commit_digest text, state_digest text, parent_state_digest text, delta text, events text, receipts text)",
	"create table checkpoints (cursor integer, projection text, projection_digest text)",
	"create table head (singleton integer, cursor integer, projection text, state_digest text)",
	"pragma user_version = 2",
}

// plant writes the rows into a private database, every digest right but one.
func (s sqlite) plant(ctx context.Context, h header, rows []*row, edited uint64) (_ *History, err error) {
	db, err := s.memory()
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	if err := fillSQLite(ctx, db, h, rows, edited); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	copied := SQLite("copy of "+h.identity, db, s.memory)
	copied.close = db.Close
	return copied, nil
}

func fillSQLite(ctx context.Context, db Database, h header, rows []*row, edited uint64) error {
	for _, statement := range copyTables {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	state, parent := newObject(nil), sql.NullString{}
	for i, t := range rows {
		placed := *t
		placed.cursor = uint64(i) + 1
		now := sql.NullString{String: digest(t.projection.canonical()), Valid: true}
		if err := putCommit(ctx, db, h, &placed, difference(state, t.projection), now, parent); err != nil {
			return err
		}
		state, parent = t.projection, now
	}
	_, err := db.ExecContext(ctx, "insert into metadata values (1, ?, ?, ?)", sqliteV2, h.goal, h.identity)
	_, err2 := db.ExecContext(ctx, "insert into head values (1, ?, ?, ?)", len(rows), state.canonical(), parent.String)
	if edited > 0 {
		_, err3 := db.ExecContext(ctx, "update commits set commit_digest = substr(commit_digest, 1, 63) || (case substr(commit_digest, 64) when '0' then '1' else '0' end) where cursor = ?", strconv.FormatUint(edited, 10))
		err2 = errors.Join(err2, err3)
	}
	return errors.Join(err, err2)
}

func putCommit(ctx context.Context, db Database, h header, t *row, delta *value, state, parent sql.NullString) error {
	if (t.cursor-1)%checkpointEvery == 0 {
		if _, err := db.ExecContext(ctx, "insert into checkpoints values (?, ?, ?)", t.cursor, t.projection.canonical(), state.String); err != nil {
			return err
		}
	}
	_, err := db.ExecContext(ctx, "insert into commits values (?, ?, ?, ?, ?, ?, ?, ?)", t.cursor, t.operation, commitDigest(h.identity, t),
		state.String, parent, delta.canonical(), t.events.canonical(), t.receipts.canonical())
	return err
}

package sqlitestore

import (
	"database/sql"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
)

// schemaVersion is the schema string of metadata; user_version is 2.
const schemaVersion = "loopx_sqlite_authority_store_v2"

// admit checks that the database is of the version, the Goal and the identity.
func (s *session) admit() error {
	version, err := s.version()
	if err != nil || s.admitted.holds(version) {
		return err
	}
	var user int64
	if err := s.row([]any{&user}, "PRAGMA user_version"); err != nil {
		return err
	}
	switch user {
	case 2:
	case 1:
		return violation(versionOne).Field("user_version")
	default:
		return violation(versionUnsupported).Field("user_version")
	}
	var schema, goal, identity any
	err = s.row([]any{&schema, &goal, &identity},
		"SELECT schema_version, goal_id, store_identity FROM metadata WHERE singleton = 1")
	if errors.Is(err, sql.ErrNoRows) {
		return violation(metadataInvalid).Field("metadata.singleton")
	}
	if err != nil {
		return err
	}
	text, _ := identity.(string)
	id := authority.Identity(text)
	switch {
	case schema != schemaVersion:
		return violation(metadataInvalid).Field("metadata.schema_version")
	case goal != s.goal:
		return violation(metadataInvalid).Field("metadata.goal_id")
	case !id.Valid(authority.KindSQLite), s.expected != "" && id != s.expected:
		return violation(metadataInvalid).Field("metadata.store_identity")
	}
	s.identity, s.admitted = id, memory{true, version}
	return nil
}

// count proves that the cursors run from 1 without a gap and returns the last.
func (s *session) count() (uint64, error) {
	version, err := s.version()
	if err != nil || s.counted.holds(version) {
		return s.rows, err
	}
	var low, high sql.NullInt64
	var n int64
	err = s.row([]any{&low, &high, &n}, "SELECT MIN(cursor), MAX(cursor), COUNT(*) FROM commits")
	if err != nil {
		return 0, err
	}
	if n != 0 && (low.Int64 != 1 || high.Int64 != n) {
		return 0, violation(notContiguous).Field("commits.cursor")
	}
	s.rows, s.counted = uint64(n), memory{true, version}
	return s.rows, nil
}

// ending is what LoopX proves of a history before every answer: its ends.
type ending struct {
	cursor     uint64 // 0: no transaction yet
	projection []byte // canonical
	digest     string // of the projection
	respelled  bool   // the projection was stored in another spelling
	last       record
}

func (e ending) applied(id authority.Identity) authority.Applied {
	if e.cursor == 0 {
		return authority.Applied{}
	}
	return authority.Applied{Cursor: authority.Cursor(e.cursor), Revision: revision(id, e.cursor)}
}

// ending admits the database and proves the head: its digest, its row, that row's
// parent and commit digest, and that the covering checkpoint exists.
func (s *session) ending() (e ending, err error) {
	if err := s.admit(); err != nil {
		return e, err
	}
	n, err := s.count()
	if err != nil {
		return e, err
	}
	var cursor, projection, digest any
	err = s.row([]any{&cursor, &projection, &digest}, "SELECT cursor, projection, state_digest FROM head WHERE singleton = 1")
	if errors.Is(err, sql.ErrNoRows) {
		if n != 0 {
			return e, violation(headMissing).Field("head.singleton")
		}
		return e, nil
	}
	if err != nil {
		return e, err
	}
	if cursor != int64(n) || n == 0 {
		return e, violation(notContiguous).Field("head.cursor")
	}
	if e.digest, err = digestColumn("head.state_digest", digest); err != nil {
		return e, err
	}
	if e.projection, e.respelled, err = objectColumn("head.projection", projection); err != nil {
		return e, err
	}
	if !equals(authority.DigestOf(e.projection), e.digest) {
		return e, violation(headDigestMismatch).Field("head.state_digest").At(n)
	}
	e.cursor = n
	if e.last, err = s.commitAt(n); err != nil {
		return e, err
	}
	return e, s.proveLast(e)
}

func (s *session) proveLast(e ending) error {
	if e.last.state != e.digest {
		return violation(headDigestMismatch).Field("commits.state_digest").At(e.cursor)
	}
	var parent any
	if e.cursor > 1 {
		err := s.row([]any{&parent}, "SELECT state_digest FROM commits WHERE cursor = ?", int64(e.cursor-1))
		if err != nil {
			return err
		}
	}
	if text, _ := parent.(string); text != e.last.parent {
		return violation(headParent).Field("commits.parent_state_digest").At(e.cursor)
	}
	proof := replayer{identity: s.identity}
	if err := proof.prove(e.last, e.projection); err != nil {
		return err
	}
	var there int
	err := s.row([]any{&there}, "SELECT 1 FROM checkpoints WHERE cursor = ?", int64(covering(e.cursor)))
	if errors.Is(err, sql.ErrNoRows) {
		return violation(checkpointMissing).Field("checkpoints.cursor").At(covering(e.cursor))
	}
	return err
}

// commitAt decodes one row of commits.
func (s *session) commitAt(cursor uint64) (r record, err error) {
	rows, err := s.query("SELECT "+commitColumns+" FROM commits WHERE cursor = ?", int64(cursor))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if rows.Next() {
		return scanRecord(rows)
	}
	if err := rows.Err(); err != nil {
		return r, err
	}
	return r, violation(notContiguous).Field("commits.cursor").At(cursor)
}

// find returns the cursor of an operation, 0 when it was never committed.
func (s *session) find(operationID string) (uint64, error) {
	var cursor int64
	err := s.row([]any{&cursor}, "SELECT cursor FROM commits WHERE operation_id = ?", operationID)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return uint64(cursor), err
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// link is a way to the database: a pool that is made with the first use. Unnamed
// statements only, so that it also works through a pooler in transaction mode.
type link struct {
	server   Server
	config   *pgxpool.Config
	tenant   string
	goal     string
	expected authority.Identity
	aside    string // quarantine id, when that is read in the Goal's place

	mu     sync.Mutex
	pool   *pgxpool.Pool
	closed bool
}

func newLink(server Server) (*link, error) {
	config, err := parse(server)
	if err != nil {
		return nil, refuse(authority.ClassFailed, ReasonDSN, "the connection string cannot be understood").Field("dsn")
	}
	return &link{server: server, config: config}, nil
}

func parse(server Server) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(server.DSN)
	if server.Config != nil {
		config, err = pgxpool.ParseConfig("")
	}
	if err != nil {
		return nil, err
	}
	if server.Config != nil {
		config.ConnConfig = server.Config.Copy()
	}
	config.MaxConns, config.MinConns = int32(server.Connections), 0
	c := config.ConnConfig
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	if c.ConnectTimeout == 0 || c.ConnectTimeout > server.ConnectWait {
		c.ConnectTimeout = server.ConnectWait
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "loopx-migrate"
	}
	return config, nil
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.pool != nil {
		l.pool.Close()
		l.pool = nil
	}
}

// acquire takes a connection of the pool. Its errors are *connectError.
func (l *link) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	pool, err := l.open()
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, l.server.ConnectWait)
	defer cancel()
	conn, err := pool.Acquire(wait)
	if err != nil {
		return nil, &connectError{err}
	}
	return conn, nil
}

func (l *link) open() (*pgxpool.Pool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fs.ErrClosed
	}
	if l.pool != nil {
		return l.pool, nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), l.config)
	if err != nil {
		return nil, &connectError{err}
	}
	l.pool = pool
	return pool, nil
}

// session is a transaction with its tenant set, for the length of one piece of work.
type session struct {
	conn     *pgx.Conn
	tenant   string
	goal     string
	identity authority.Identity
	// installed: this tool's tables are in the database.
	installed bool
	// tables names the tables that queries mean by LoopX's names; nil: those.
	tables *strings.Replacer
	states projections // of the rows that were read
}

// stance is how a transaction begins.
type stance struct {
	begin string
	lock  bool   // against a rotation of the identity
	pass  string // the id of a fence or candidate that this transaction may write under
	sort  bool   // false: rows must come by their index, since sorting would print all of them first
}

var (
	snapshot  = stance{begin: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", sort: true}
	streaming = stance{begin: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}
	change    = stance{begin: "BEGIN ISOLATION LEVEL READ COMMITTED", lock: true, sort: true}
)

// begin starts a transaction on a connection of the pool. A connection that lay idle
// may have died with its server, and nobody was told: it is tried once more on another.
func (l *link) begin(ctx context.Context, how stance) (*pgxpool.Conn, *session, error) {
	for attempt := 0; ; attempt++ {
		conn, err := l.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		s, err := l.enter(ctx, conn.Conn(), how)
		if err == nil {
			return conn, s, nil
		}
		stale := conn.Conn().IsClosed() && attempt == 0 && ctx.Err() == nil
		leave(conn)
		if !stale {
			return nil, nil, err
		}
	}
}

// leave gives a connection back. The pool keeps it only if it is alive and outside of
// any transaction, so what is unclear never serves another.
func leave(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		conn.Release()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackWait)
	defer cancel()
	// If it fails the transaction ends with the connection, which Release then drops.
	_, _ = conn.Exec(ctx, "ROLLBACK")
	conn.Release()
}

const rollbackWait = 5 * time.Second

// identityLock is the advisory lock that LoopX's commits share and its rotation of the
// identity takes alone. It belongs to the transaction, so no pooler can strand it.
const identityLock = "SELECT pg_advisory_xact_lock_shared(5522768808912313929)"

const metadataQuery = `SELECT current_setting('loopx.tenant_id', TRUE),
	to_regclass('loopx_control_plane.loopx_migrate_fences') IS NOT NULL AND to_regclass('loopx_control_plane.loopx_migrate_seals') IS NOT NULL,
	m.schema_version, m.store_identity
	FROM (VALUES (TRUE)) AS one (singleton) LEFT JOIN loopx_control_plane.authority_store_metadata AS m ON m.singleton = one.singleton`

// enter begins, sets the tenant, and reads it and the identity back, in one round trip.
func (l *link) enter(ctx context.Context, conn *pgx.Conn, how stance) (*session, error) {
	batch := &pgx.Batch{}
	batch.Queue(how.begin)
	onOff := map[bool]string{true: "on", false: "off"}[how.sort]
	batch.Queue(`SELECT set_config('loopx.tenant_id', $1, TRUE), set_config('lock_timeout', $2, TRUE), set_config('loopx_migrate.pass', $3, TRUE),
		set_config('enable_sort', $4, TRUE), set_config('idle_in_transaction_session_timeout', '0', TRUE)`,
		l.tenant, strconv.FormatInt(l.server.LockWait.Milliseconds(), 10), how.pass, onOff)
	if how.lock {
		batch.Queue(identityLock)
	}
	batch.Queue(metadataQuery)
	results := conn.SendBatch(ctx, batch)
	for range batch.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // it repeats the first error
			return nil, err
		}
	}
	s := &session{conn: conn, tenant: l.tenant, goal: l.goal}
	var tenant, schema, identity *string
	err := results.QueryRow().Scan(&tenant, &s.installed, &schema, &identity)
	if err := errors.Join(err, results.Close()); err != nil {
		return nil, err
	}
	if tenant == nil || *tenant != l.tenant {
		return nil, refuse(authority.ClassFailed, ReasonTenant, "the server did not take the tenant").Field("tenant_id")
	}
	if err := s.admit(schema, identity, l.expected); err != nil || l.aside == "" {
		return s, err
	}
	return s, s.turnTo(ctx, l.aside)
}

const schemaVersion = "loopx_postgresql_authority_store_v0"

func (s *session) admit(schema, identity *string, expected authority.Identity) error {
	if schema == nil || *schema != schemaVersion || identity == nil {
		return violation(sentenceMetadata).Field("authority_store_metadata")
	}
	s.identity = authority.Identity(*identity)
	if !s.identity.Valid(authority.KindPostgreSQL) {
		return violation(sentenceMetadata).Field("authority_store_metadata.store_identity")
	}
	if expected != "" && s.identity != expected {
		return refuse(authority.ClassFailed, ReasonIdentityMismatch,
			"PostgreSQL store identity does not match the expected database incarnation").Field("authority_store_metadata.store_identity")
	}
	return nil
}

// reading runs work on one snapshot and leaves nothing behind.
func (l *link) reading(ctx context.Context, how stance, work func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, s, err := l.begin(ctx, how)
	if err != nil {
		return err
	}
	defer leave(conn)
	return work(s)
}

// uncertain is a COMMIT without a proper answer.
type uncertain struct{ err error }

// Error is the driver's.
func (u *uncertain) Error() string { return u.err.Error() }

// Unwrap returns the driver's error.
func (u *uncertain) Unwrap() error { return u.err }

var errRolledBack = errors.New("the server rolled the transaction back")

// writing runs work in a transaction and commits it. An error before COMMIT means that
// nothing was written; an error of COMMIT is *uncertain. Once COMMIT is on its way the
// caller's context no longer ends the wait for its answer.
func (l *link) writing(ctx context.Context, how stance, label string, work func(context.Context, *session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, s, err := l.begin(ctx, how)
	if err != nil {
		return err
	}
	defer leave(conn)
	if err := work(ctx, s); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.commit(ctx, s.conn, label)
}

func (l *link) commit(ctx context.Context, conn *pgx.Conn, label string) error {
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.server.CommitWait)
	defer cancel()
	err := faultio.Commit(label, func() error {
		tag, err := conn.Exec(wait, "COMMIT")
		if err == nil && tag.String() != "COMMIT" {
			err = errRolledBack
		}
		return err
	})
	if err == nil || errors.Is(err, errRolledBack) {
		return err
	}
	return &uncertain{err}
}

// row scans the only row of a query; pgx.ErrNoRows when there is none.
func (s *session) row(ctx context.Context, dest []any, text string, args ...any) error {
	return s.conn.QueryRow(ctx, s.naming(text), args...).Scan(dest...)
}

// rawRows are the rows of a query in PostgreSQL's binary forms.
type rawRows struct{ *pgconn.ResultReader }

// query runs a query whose rows may be many or large. Its arguments are texts and numbers.
func (s *session) query(ctx context.Context, text string, args ...any) rawRows {
	values := make([][]byte, len(args))
	for i, arg := range args {
		values[i] = fmt.Append(nil, arg)
	}
	return rawRows{s.conn.PgConn().ExecParams(ctx, s.naming(text), values, nil, nil, []int16{pgx.BinaryFormatCode})}
}

// finish ends the query; the rest of its rows is read and thrown away.
func (r rawRows) finish() error {
	_, err := r.Close()
	return err
}

package pgstore

import (
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Mode says what a store may do to its database.
type Mode int

const (
	// ReadOnly reads in READ ONLY transactions and refuses to commit or to fence.
	ReadOnly Mode = iota
	// ReadWrite reads, commits and fences. A Goal that has no row yet gets one with its
	// first commit, as in LoopX; the schema is never installed by the way.
	ReadWrite
)

// How long things may take where Options leave it open.
const (
	// DefaultLockWait is how long a statement waits for another writer's lock.
	DefaultLockWait = 5 * time.Second
	// DefaultConnectWait is how long to wait for a connection, a free one of the pool included.
	DefaultConnectWait = 10 * time.Second
	// DefaultCommitWait is how long to wait for the answer to a COMMIT.
	DefaultCommitWait = 30 * time.Second
	// DefaultSettleWait is how long to look for what a COMMIT without an answer did.
	DefaultSettleWait = 15 * time.Second
	// DefaultConnections is how many connections one store opens at most.
	DefaultConnections = 4
)

// Server says how a database is reached. DSN and Config may hold a password; nothing of
// either is ever part of an error.
type Server struct {
	// DSN is a postgres:// URL or a list of key=value, as libpq takes them; what it
	// leaves out comes from PGHOST, PGPASSFILE and so on.
	DSN string
	// Config is used instead of DSN when it is set. It must come from pgx.ParseConfig.
	Config *pgx.ConnConfig
	// LockWait, ConnectWait, CommitWait and SettleWait: zero is the default of each.
	LockWait, ConnectWait, CommitWait, SettleWait time.Duration
	// Connections is how many connections are opened at most; zero is DefaultConnections.
	Connections int
}

func (s *Server) fill() {
	for _, wait := range []struct {
		to *time.Duration
		by time.Duration
	}{{&s.LockWait, DefaultLockWait}, {&s.ConnectWait, DefaultConnectWait}, {&s.CommitWait, DefaultCommitWait}, {&s.SettleWait, DefaultSettleWait}} {
		if *wait.to <= 0 {
			*wait.to = wait.by
		}
	}
	if s.Connections <= 0 {
		s.Connections = DefaultConnections
	}
}

// Options says which database, whose, and how.
type Options struct {
	Server
	// Tenant is the tenant of the Goal. There is no default: without one every table
	// looks empty.
	Tenant string
	GoalID string
	// ExpectedIdentity, when not empty, is the only identity accepted.
	ExpectedIdentity authority.Identity
	Mode             Mode
	// Quarantine, when not empty, is the id of what was set aside: every verb reads that in
	// place of the Goal. ReadOnly only. One that is not there, or was brought back, is
	// ClassMissing.
	Quarantine string
}

// Reasons that only this store gives, beside those of package authority.
const (
	// ReasonTenant: no tenant was named, or the server did not take it.
	ReasonTenant authority.Reason = "tenant_required"
	// ReasonDSN: the connection string cannot be understood.
	ReasonDSN authority.Reason = "invalid_connection_string"
	// ReasonUnsealed: a row without a seal; nothing proves it.
	ReasonUnsealed authority.Reason = "unsealed"
	// ReasonNotInstalled: the objects of this tool are not in the database, or not whole.
	ReasonNotInstalled authority.Reason = "loopx_migrate_not_installed"
	// ReasonFenceHeld: a fence or candidate of another id stands.
	ReasonFenceHeld authority.Reason = "fence_held"
	// ReasonFenceID: the fence id is not one.
	ReasonFenceID authority.Reason = "invalid_fence_id"
	// ReasonIdentityMismatch: the database is another incarnation than the one expected.
	ReasonIdentityMismatch authority.Reason = "store_identity_mismatch"
)

// FormatV0 is LoopX's one PostgreSQL format.
const FormatV0 authority.Format = "postgresql-v0"

// Store is one Goal's PostgreSQL authority, as one tenant. It is safe for concurrent use.
type Store struct {
	options Options
	link    *link
}

var (
	_ authority.Store   = (*Store)(nil)
	_ authority.Auditor = (*Store)(nil)
	_ authority.Viewer  = (*Store)(nil)
)

// Open names a store. Nothing is looked up and nothing is connected to: an absent server
// is an answer of the verbs. Refused as ClassFailed are a tenant (ReasonTenant) or Goal
// id that is not trimmed non-empty text that PostgreSQL can hold, an identity of another
// kind, and a connection string that is none (ReasonDSN).
func Open(options Options) (*Store, error) {
	options.Server.fill()
	s := &Store{options: options}
	err := checkNames(options.Tenant, options.GoalID, options.ExpectedIdentity)
	if err == nil {
		err = checkQuarantine(options.Quarantine, options.Mode)
	}
	if err != nil {
		return nil, s.answer("open", err, unreadable)
	}
	if s.link, err = newLink(options.Server); err != nil {
		return nil, s.answer("open", err, unreadable)
	}
	s.link.tenant, s.link.goal, s.link.expected = options.Tenant, options.GoalID, options.ExpectedIdentity
	s.link.aside = options.Quarantine
	return s, nil
}

func checkNames(tenant, goal string, expected authority.Identity) error {
	if !holdable(tenant) {
		return refuse(authority.ClassFailed, ReasonTenant,
			"a tenant must be named: a non-empty trimmed text without NUL").Field("tenant_id")
	}
	if !holdable(goal) {
		return violation("goal id must be a non-empty trimmed string that PostgreSQL can hold").Field("goal_id")
	}
	if expected != "" && !expected.Valid(authority.KindPostgreSQL) {
		return violation("PostgreSQL store identity must match postgresql:<32 lowercase hex>").Field("store_identity")
	}
	return nil
}

// holdable reports whether an id is one to LoopX and a text to PostgreSQL.
func holdable(id string) bool {
	return canonical.ValidID(id) && utf8.ValidString(id) && !hasNUL(id)
}

// Kind is authority.KindPostgreSQL.
func (s *Store) Kind() authority.Kind { return authority.KindPostgreSQL }

// GoalID is the Goal the store was opened for.
func (s *Store) GoalID() string { return s.options.GoalID }

// Tenant is the tenant the store was opened for.
func (s *Store) Tenant() string { return s.options.Tenant }

// Close ends the store's connections.
func (s *Store) Close() error {
	s.link.close()
	return nil
}

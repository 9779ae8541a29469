package pgstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

func TestMain(m *testing.M) {
	// The suite's random commits cost an fsync each: fewer by default, -rapid.checks for more.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(pgtest.Main(m))
}

const testIdentity authority.Identity = "postgresql:11111111111111111111111111111111"

// bench is an installed database with its three roles.
type bench struct {
	*pgtest.Database
	runtime, operator string
}

// installed makes a database and installs schema, objects and roles.
func installed(t testing.TB) *bench {
	t.Helper()
	return installedOn(t, pgtest.New(t))
}

func installedOn(t testing.TB, db *pgtest.Database) *bench {
	t.Helper()
	b := withRoles(t, db)
	b.install(t, testIdentity)
	return b
}

func withRoles(t testing.TB, db *pgtest.Database) *bench {
	t.Helper()
	return &bench{Database: db, runtime: db.Role(t, "runtime"), operator: db.Role(t, "operator")}
}

func (b *bench) install(t testing.TB, id authority.Identity) {
	t.Helper()
	_, err := Install(context.Background(), Server{DSN: b.DSN(pgtest.Admin)},
		InstallOptions{Identity: id, Runtime: []string{b.runtime}, Operators: []string{b.operator}})
	if err != nil {
		t.Fatal(err)
	}
}

var goals atomic.Int64

// store opens a Goal of tenant-a as the operator, for writing.
func (b *bench) store(t testing.TB, goal string) *Store {
	t.Helper()
	return openStore(t, Options{Server: Server{DSN: b.DSN(b.operator)}, Tenant: "tenant-a", GoalID: goal, Mode: ReadWrite})
}

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // it never fails
	return s
}

func freshGoal() string { return fmt.Sprintf("goal-%d", goals.Add(1)) }

// commit appends a row that must be applied and returns the new head.
func commit(t testing.TB, s authority.Store, on authority.Applied, operation string) authority.Applied {
	t.Helper()
	applied, err := s.Commit(context.Background(), request(on, operation))
	if err != nil {
		t.Fatalf("commit %s: %v", operation, err)
	}
	return applied
}

func request(on authority.Applied, operation string) authority.CommitRequest {
	return authority.CommitRequest{Expected: on.Revision, OperationID: operation,
		Events:     fmt.Appendf(nil, `[{"kind":"a","op":%q},{"kind":"b"}]`, operation),
		Projection: fmt.Appendf(nil, `{"last":%q,"todos":[{"todo_id":"todo_a"}]}`, operation),
		Receipts:   fmt.Appendf(nil, `[{"op":%q,"status":"applied"},{"n":1}]`, operation)}
}

// history commits n rows.
func history(t testing.TB, s authority.Store, n int) authority.Applied {
	t.Helper()
	var on authority.Applied
	for i := range n {
		on = commit(t, s, on, fmt.Sprintf("op-%d", i+1))
	}
	return on
}

func requireReason(t testing.TB, what string, err error, class authority.Class, reason authority.Reason) *authority.Error {
	t.Helper()
	var e *authority.Error
	if !errors.As(err, &e) || e.Class != class || e.Reason != reason {
		t.Fatalf("%s: %v, want %s/%s", what, err, class, reason)
	}
	return e
}

func audited(t testing.TB, s *Store) authority.Lineage {
	t.Helper()
	lineage, err := s.Audit(context.Background(), nil, nil)
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	return lineage
}

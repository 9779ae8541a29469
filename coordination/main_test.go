package coordination_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	// Each step of the property tests costs an fsync: few by default, -rapid.checks for more.
	if err := flag.Set("rapid.checks", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(pgtest.Main(m))
}

// address is where a store is, in a form that another process can be told.
type address struct {
	Kind         authority.Kind
	Path, Tenant string
	Goal         string
}

// open opens a new handle on a store.
func (a address) open() (authority.Store, error) {
	switch a.Kind {
	case authority.KindFile:
		return filestore.Open(filestore.Options{Dir: a.Path, GoalID: a.Goal})
	case authority.KindSQLite:
		return sqlitestore.Open(sqlitestore.Options{Path: a.Path, GoalID: a.Goal, Mode: sqlitestore.ReadWrite})
	}
	return pgstore.Open(pgstore.Options{Server: pgstore.Server{DSN: a.Path}, Tenant: a.Tenant, GoalID: a.Goal, Mode: pgstore.ReadWrite})
}

var (
	goals   atomic.Int64
	kinds   = []authority.Kind{authority.KindFile, authority.KindSQLite, authority.KindPostgreSQL}
	epochAt = time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)
)

// vacant is the place of a store that holds nothing yet.
func vacant(t testing.TB, kind authority.Kind) address {
	t.Helper()
	a := address{Kind: kind, Goal: fmt.Sprintf("goal-%d", goals.Add(1)), Tenant: "tenant-a"}
	switch kind {
	case authority.KindFile:
		a.Path = t.TempDir()
		identity := fmt.Sprintf("file:%032x", goals.Add(1))
		must(t, os.WriteFile(filepath.Join(a.Path, "store-identity"), []byte(identity), 0o600))
	case authority.KindSQLite:
		a.Path = filepath.Join(t.TempDir(), sqlitestore.DatabaseName(a.Goal))
	default:
		a.Path = database(t)
	}
	return a
}

// database is the address of the test's database with LoopX's schema, whose goals are
// apart; subtests of a test that called share have one together.
func database(t testing.TB) string {
	t.Helper()
	root, _, _ := strings.Cut(t.Name(), "/")
	if dsn, shared := databases.Load(root); shared {
		return dsn.(string)
	}
	return another(t)
}

var databases sync.Map

// share gives the subtests of a test one database.
func share(t testing.TB) {
	t.Helper()
	databases.Store(t.Name(), another(t))
	t.Cleanup(func() { databases.Delete(t.Name()) })
}

// another installs LoopX's schema in a database of its own.
func another(t testing.TB) string {
	t.Helper()
	db := pgtest.New(t)
	_, err := pgstore.Install(context.Background(), pgstore.Server{DSN: db.DSN(pgtest.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
	if err != nil {
		t.Fatal(err)
	}
	return db.DSN(pgtest.Admin)
}

// handle opens a store that is closed with the test.
func (a address) handle(t testing.TB) authority.Store {
	t.Helper()
	s, err := a.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock is a clock that stands until it is moved.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) forward(d time.Duration) { c.at = c.at.Add(d) }

// rig is a Goal with one kind of head in one kind of store.
type rig struct {
	testing.TB
	place address
	shape string
	clock *clock
	*coordination.Authority
}

// Shapes of heads.
const (
	bound     = "coordination-head"
	projected = "projection-head"
)

// everywhere runs a test on both shapes in all three stores.
func everywhere(t *testing.T, agents int, test func(*rig)) {
	share(t)
	for _, kind := range kinds {
		for _, shape := range []string{bound, projected} {
			t.Run(string(kind)+"/"+shape, func(t *testing.T) { test(newRig(t, kind, shape, agents)) })
		}
	}
}

// newRig makes a Goal with a number of Todos, todo_000 and so on, that anybody may claim
// whose name is agent-000 and so on.
func newRig(t testing.TB, kind authority.Kind, shape string, todos int) *rig {
	t.Helper()
	r := &rig{TB: t, place: vacant(t, kind), shape: shape, clock: &clock{epochAt}}
	store := r.place.handle(t)
	r.seed(store, todos)
	r.Authority = r.attach(store)
	return r
}

// attach is an authority with an index of its own, as another process has one.
func (r *rig) attach(store authority.Store) *coordination.Authority {
	return &coordination.Authority{Store: store, Clock: r.clock.now, Delegates: []string{"agent-owner"}}
}

func (r *rig) seed(store authority.Store, todos int) {
	r.Helper()
	identity, err := store.Identity(r.Context())
	must(r, err)
	head := projectionHead(r.place.Goal, "hard_lease", todos)
	if r.shape == bound {
		head = coordinationHead(r.place.Goal, string(identity), todos)
	}
	commit(r, store, "seed", head)
}

func commit(t testing.TB, store authority.Store, operation string, head map[string]any) {
	t.Helper()
	request := authority.CommitRequest{OperationID: operation, Events: []byte("[]"), Receipts: []byte("[]"), Projection: fixture.Canonical(head)}
	if head, err := store.Load(t.Context()); err == nil {
		request.Expected = head.Revision
	}
	_, err := store.Commit(t.Context(), request)
	must(t, err)
}

func todoID(i int) string  { return fmt.Sprintf("todo_%03d", i) }
func agentID(i int) string { return fmt.Sprintf("agent-%03d", i) }

func zeros(n int) string { return "sha256:" + fmt.Sprintf("%064d", n) }

// coordinationHead is a head of schema v1, written out by hand.
func coordinationHead(goal, identity string, todos int) map[string]any {
	var agents []any
	for i := range 32 {
		agents = append(agents, agentID(i))
	}
	records := map[string]any{}
	for i := range todos {
		records[todoID(i)] = map[string]any{"todo_revision": 0, "status": "open", "repository": "git:example.org/crane",
			"code_revision": "c0ffee", "last_lease_epoch": 0, "eligibility": map[string]any{
				"authorization_projection_revision": 1, "authorization_projection_digest": zeros(1), "allowed_agent_ids": agents,
				"dependencies_satisfied": true, "dependency_revision": 1, "gates_open": true, "gate_revision": 1}}
	}
	return map[string]any{"schema_version": "loopx_coordination_head_v1", "goal_id": goal, "handoff_mode": "hard_lease",
		"store_binding": identity, "authority_revision": 0, "receipt_index": map[string]any{},
		"receipt_retention": map[string]any{"mode": "retain_all_v0"},
		"coordination":      map[string]any{"todos": records, "leases": map[string]any{}}}
}

// nativeFields is the list that LoopX 2.1.1 declares for records born in a store.
var nativeFields = []any{"done", "text", "schema_version", "todo_id", "role", "status", "priority", "title", "archive_state", "task_class",
	"task_repository", "required_write_scopes", "claimed_by", "created_by", "bound_agent", "excluded_agents", "global_gate",
	"unblocks_todo_id", "blocks_agent", "resume_when", "resume_ready", "no_followup", "successor_todo_ids", "completion_continuation",
	"note", "evidence", "reason", "completed_at", "updated_at", "superseded_by", "decision_scope", "decision_outcome", "required_decision_scopes"}

// projectionHead is a head as real stores hold it, written out by hand.
func projectionHead(goal, mode string, todos int, extra ...map[string]any) map[string]any {
	records := []any{}
	for i := range todos {
		records = append(records, map[string]any{"schema_version": "todo_domain_record_v0", "todo_id": todoID(i), "role": "agent",
			"status": "open", "done": false, "archive_state": "active", "text": "private words " + todoID(i)})
	}
	for _, record := range extra {
		records = append(records, record)
	}
	return map[string]any{"schema_version": "loopx_coordination_runtime_shadow_projection_v0", "goal_id": goal,
		"source_authority": "legacy_markdown_and_task_lease", "handoff_mode": mode, "todos": records, "leases": []any{},
		"partitions": map[string]any{"todos": nil, "leases": nil}, "todo_read_model": readModel(records)}
}

func readModel(records []any) map[string]any {
	return map[string]any{"schema_version": "loopx_todo_domain_read_record_v0", "todo_count": len(records),
		"records_sha256": fixture.SHA256(fixture.Canonical(records)), "contract_fields": nativeFields}
}

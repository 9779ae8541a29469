package pgstore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// TestTenantsAreApart is case 63: two tenants with the same Goal and operation ids neither
// see nor block nor fence each other, and without a tenant there is no store.
func TestTenantsAreApart(t *testing.T) {
	b := installed(t)
	goal := freshGoal()
	tenant := func(name, role string) *Store {
		return openStore(t, Options{Server: Server{DSN: b.DSN(role)}, Tenant: name, GoalID: goal, Mode: ReadWrite})
	}
	a, other := tenant("t1", b.runtime), tenant("t2", b.runtime)
	on := history(t, a, 2)
	_, err := other.Load(t.Context())
	requireReason(t, "load of the other tenant", err, authority.ClassMissing, authority.ReasonNone)
	if lineage := audited(t, other); lineage.Transactions != 0 || lineage.Logical == audited(t, a).Logical {
		t.Errorf("the other tenant's audit proves %+v", lineage)
	}
	// A writer of t1 that holds its head is in nobody else's way.
	w := b.loopx(t, goal, "")
	w.tenant = "t1"
	if err := w.run(stepBegin, stepCommit, 3, "op-3"); err != nil {
		t.Fatal(err)
	}
	same := history(t, other, 2)
	if err := w.run(stepCommit, stepsEnd, 3, "op-3"); err != nil {
		t.Fatal(err)
	}
	if same.Revision != on.Revision {
		t.Errorf("revisions of one database: %s and %s", same.Revision, on.Revision)
	}
	if err := tenant("t2", b.operator).EngageFence(t.Context(), "fence-1", same); err != nil {
		t.Fatal(err)
	}
	on = authority.Applied{Cursor: 3, Revision: authority.Revision(fmt.Sprintf("%s:3", testIdentity))}
	commit(t, a, on, "op-4")
	if now, err := a.Standing(t.Context()); err != nil || now.State != FenceOpen {
		t.Errorf("t1 stands %+v, %v", now, err)
	}
	for _, s := range []*Store{a, other} {
		audited(t, s)
	}
	for _, none := range []string{"", " ", "t1 ", "t\x001", "t\xed\xa0\x80"} {
		_, err := Open(Options{Server: Server{DSN: b.DSN(b.runtime)}, Tenant: none, GoalID: goal})
		requireReason(t, fmt.Sprintf("open without a tenant: %q", none), err, authority.ClassFailed, ReasonTenant)
		_, err = CreateCandidate(t.Context(), CandidateOptions{Server: Server{DSN: b.DSN(b.operator)}, Tenant: none, GoalID: goal, CandidateID: "m"})
		requireReason(t, "candidate without a tenant", err, authority.ClassFailed, ReasonTenant)
	}
}

// TestSuperuserIsWarnedAbout: row-level security does not hold for it.
func TestSuperuserIsWarnedAbout(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	history(t, s, 1)
	if found := audited(t, s).Findings; len(found) != 0 {
		t.Errorf("as the operator: %v", found)
	}
	admin := openStore(t, Options{Server: Server{DSN: b.DSN("loopx_admin")}, Tenant: "tenant-b", GoalID: s.GoalID()})
	found := audited(t, admin).Findings
	if len(found) != 1 || found[0].Code != FindingBypass {
		t.Errorf("as the superuser: %v", found)
	}
	_, err := admin.Load(t.Context())
	requireReason(t, "the superuser as another tenant", err, authority.ClassMissing, authority.ReasonNone)
}

// TestRuntimeRoleIsPowerless: whatever LoopX's role tries with SQL of its own, it changes
// neither fences nor seals nor metadata nor what is committed nor another tenant.
func TestRuntimeRoleIsPowerless(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 2)
	if err := s.EngageFence(t.Context(), "fence-1", on); err != nil {
		t.Fatal(err)
	}
	before := contents(t, s) + b.Text(t, "SELECT store_identity FROM loopx_control_plane.authority_store_metadata")
	conn := b.Connect(t, b.runtime)
	if _, err := conn.Exec(t.Context(), "SELECT set_config('loopx.tenant_id', 'tenant-a', false), set_config('loopx_migrate.pass', 'fence-1', false)"); err != nil {
		t.Fatal(err)
	}
	const schema = "loopx_control_plane."
	for _, sql := range []string{
		"UPDATE " + schema + "loopx_migrate_fences SET state = 'open', fence_id = ''",
		"INSERT INTO " + schema + "loopx_migrate_fences VALUES ('x', 'y')",
		"DELETE FROM " + schema + "loopx_migrate_fences",
		"DELETE FROM " + schema + "loopx_migrate_seals",
		"UPDATE " + schema + "loopx_migrate_seals SET made_by = 'me'",
		"UPDATE " + schema + "authority_store_metadata SET store_identity = 'postgresql:33333333333333333333333333333333'",
		"UPDATE " + schema + "authority_commits SET projection = '{}'",
		"DELETE FROM " + schema + "authority_commits",
		"DELETE FROM " + schema + "authority_heads",
		"TRUNCATE " + schema + "authority_heads CASCADE",
		"UPDATE " + schema + "authority_heads SET tenant_id = 'tenant-b'",
		"UPDATE " + schema + "authority_heads SET head = '{}'",
		"INSERT INTO " + schema + "authority_events VALUES ('tenant-a', '" + s.GoalID() + "', 1, 9, '{}')",
		"INSERT INTO " + schema + "authority_heads (tenant_id, goal_id) VALUES ('tenant-b', 'g')",
		"ALTER TABLE " + schema + "authority_heads DISABLE TRIGGER ALL",
		"DROP TRIGGER loopx_migrate_seal ON " + schema + "authority_heads",
		"ALTER TABLE " + schema + "authority_heads NO FORCE ROW LEVEL SECURITY",
		"CREATE TABLE " + schema + "mine (a int)",
		"SET session_replication_role = replica",
		"SET ROLE " + b.operator,
		"SELECT " + schema + "loopx_migrate_adopt('tenant-a', '" + s.GoalID() + "')",
		"SELECT " + schema + "loopx_migrate_set_aside('tenant-a', '" + s.GoalID() + "', 'fence-1')",
		"SELECT " + schema + "loopx_migrate_bring_back('tenant-a', '" + s.GoalID() + "', 'x')",
		"SELECT " + schema + "loopx_migrate_seal_rows('tenant-a', '" + s.GoalID() + "', 0, 1, now(), 'me')",
		"SELECT * FROM " + schema + "loopx_migrate_quarantine",
	} {
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("the runtime role may: %s", sql)
		}
	}
	runtime := openStore(t, Options{Server: Server{DSN: b.DSN(b.runtime)}, Tenant: "tenant-a", GoalID: s.GoalID(), Mode: ReadWrite})
	requireReason(t, "lifting the fence", runtime.LiftFence(t.Context(), "fence-1"), authority.ClassFailed, authority.ReasonTransactionFailed)
	if after := contents(t, s) + b.Text(t, "SELECT store_identity FROM loopx_control_plane.authority_store_metadata"); after != before {
		t.Error("something changed")
	}
}

// TestManyGoalsAtOnce: writers of different Goals share a database and nothing else.
func TestManyGoalsAtOnce(t *testing.T) {
	b := installed(t)
	var all sync.WaitGroup
	for range 6 {
		s := openStore(t, Options{Server: Server{DSN: b.DSN(b.runtime), Connections: 2}, Tenant: "tenant-a", GoalID: freshGoal(), Mode: ReadWrite})
		all.Go(func() {
			var on authority.Applied
			for i := range 5 {
				applied, err := s.Commit(context.Background(), request(on, fmt.Sprintf("op-%d", i)))
				if err != nil {
					t.Errorf("commit %d: %v", i, err)
					return
				}
				on = applied
			}
			if lineage, err := s.Audit(context.Background(), nil, nil); err != nil || lineage.End.Cursor != 5 {
				t.Errorf("audit: %+v, %v", lineage.End, err)
			}
		})
	}
	all.Wait()
}

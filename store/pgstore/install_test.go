package pgstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// TestSchemaIsLoopXs compares catalogs: a database that LoopX's dump made, and one that
// our SQL made, print the same.
func TestSchemaIsLoopXs(t *testing.T) {
	theirs, ours := pgtest.New(t), pgtest.New(t)
	loadDump(t, theirs)
	ours.Exec(t, loopxSQL)
	if a, b := schemaOf(t, theirs), schemaOf(t, ours); a != b {
		t.Errorf("LoopX's:\n%s\nours:\n%s", a, b)
	}
	ours.Exec(t, loopxSQL)
	if a, b := schemaOf(t, theirs), schemaOf(t, ours); a != b {
		t.Error("a second run changed it")
	}
	for _, change := range []string{
		"ALTER TABLE loopx_control_plane.authority_commits DROP CONSTRAINT authority_commits_cursor_check",
		"ALTER TABLE loopx_control_plane.authority_receipts NO FORCE ROW LEVEL SECURITY",
		"DROP POLICY authority_events_tenant_scope ON loopx_control_plane.authority_events",
	} {
		before := catalogOf(t, ours)
		if ours.Exec(t, change); catalogOf(t, ours) == before {
			t.Errorf("the print of the catalog does not show %s", change)
		}
	}
}

// TestInstallAgain: over what LoopX installed, over itself, and as an owner that is no
// superuser. LoopX's rows stay as they are.
func TestInstallAgain(t *testing.T) {
	b := fixtureBench(t)
	s := b.store(t, fixtureGoal)
	on := at(audited(t, s))
	if err := s.EngageFence(t.Context(), "fence-1", on); err != nil {
		t.Fatal(err)
	}
	rows, schema := contents(t, s), schemaOf(t, b.Database)
	b.install(t, testIdentity)
	if contents(t, s) != rows || schemaOf(t, b.Database) != schema {
		t.Error("installing again changed something")
	}
	_, err := Install(t.Context(), Server{DSN: b.DSN(pgtest.Admin)}, InstallOptions{Identity: "postgresql:99999999999999999999999999999999"})
	requireReason(t, "another identity", err, authority.ClassFailed, ReasonIdentityMismatch)
	if contents(t, s) != rows || schemaOf(t, b.Database) != schema {
		t.Error("a refused install changed something")
	}
	_, err = Install(t.Context(), Server{DSN: b.DSN(pgtest.Admin)}, InstallOptions{Identity: "sqlite:99999999999999999999999999999999"})
	requireReason(t, "no identity", err, authority.ClassFailed, authority.ReasonProtocolViolation)
	_, err = Install(t.Context(), Server{DSN: b.DSN(b.runtime)}, InstallOptions{Identity: testIdentity})
	requireReason(t, "as the runtime role", err, authority.ClassFailed, authority.ReasonTransactionFailed)
}

// TestInstallAsPlainOwner: the whole life of a Goal under an owner without any privilege
// of its own, for whom row-level security is in force.
func TestInstallAsPlainOwner(t *testing.T) {
	db := pgtest.New(t)
	b := withRoles(t, db)
	owner := db.Role(t, "owner")
	db.Exec(t, "GRANT CREATE ON DATABASE "+db.Name+" TO "+owner)
	for range 2 {
		_, err := Install(t.Context(), Server{DSN: b.DSN(owner)}, InstallOptions{Identity: testIdentity, Runtime: []string{b.runtime}, Operators: []string{b.operator}})
		if err != nil {
			t.Fatal(err)
		}
	}
	o := b.candidate(b.operator, freshGoal())
	fill(t, createCandidate(t, o), 10)
	s := b.store(t, o.GoalID)
	if err := s.ReleaseCandidate(t.Context(), o.CandidateID, at(audited(t, s))); err != nil {
		t.Fatal(err)
	}
	if err := b.loopx(t, o.GoalID, "").commit(11, "by-loopx"); err != nil {
		t.Fatal(err)
	}
	if err := s.EngageFence(t.Context(), "fence-1", at(audited(t, s))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BringBack(t.Context(), setAside(t, s, "fence-1")); err != nil {
		t.Fatal(err)
	}
	audited(t, s)
	requireReason(t, "rotation under a fence", RotateIdentity(t.Context(), Server{DSN: b.DSN(owner)}, testIdentity, NewIdentity()), authority.ClassFailed, ReasonMigrationOpen)
	setAside(t, s, "fence-1")
	if err := RotateIdentity(t.Context(), Server{DSN: b.DSN(owner)}, testIdentity, NewIdentity()); err != nil {
		t.Errorf("rotation when all was set aside: %v", err)
	}
	if err := Adopt(t.Context(), Server{DSN: b.DSN(owner)}, "tenant-a", o.GoalID); err != nil {
		t.Errorf("adopt: %v", err)
	}
}

func TestRotationRefusals(t *testing.T) {
	b := installed(t)
	admin := Server{DSN: b.DSN(pgtest.Admin)}
	other := NewIdentity()
	for name, try := range map[string]struct {
		expected, next authority.Identity
		reason         authority.Reason
	}{
		"wrong": {other, NewIdentity(), ReasonIdentityMismatch},
		"same":  {testIdentity, testIdentity, ReasonIdentityUnchanged},
		"bad":   {testIdentity, "postgresql:xyz", ReasonInvalidIdentity},
	} {
		requireReason(t, name, RotateIdentity(t.Context(), admin, try.expected, try.next), authority.ClassFailed, try.reason)
	}
	requireReason(t, "as the operator", RotateIdentity(t.Context(), Server{DSN: b.DSN(b.operator)}, testIdentity, other), authority.ClassFailed, authority.ReasonTransactionFailed)
	plan, err := RotatePlan(testIdentity, other)
	if err != nil || !strings.Contains(plan.Text(), string(other)) || plan.Digest().IsZero() {
		t.Errorf("plan %s, %v", plan.Text(), err)
	}
	b.Exec(t, plan.Text()) // the preview does what it says
	if id := b.Text(t, "SELECT store_identity FROM loopx_control_plane.authority_store_metadata"); id != string(other) {
		t.Errorf("the identity is %s", id)
	}
}

// TestInstallPreview: what is printed is what is run.
func TestInstallPreview(t *testing.T) {
	b := installed(t)
	db := pgtest.New(t)
	plan, err := InstallPlan(InstallOptions{Identity: testIdentity, Runtime: []string{b.runtime}, Operators: []string{b.operator}})
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, plan.Text())
	if schemaOf(t, db) != schemaOf(t, b.Database) {
		t.Error("the printed plan installs something else")
	}
	if _, err := InstallPlan(InstallOptions{Identity: testIdentity, Runtime: []string{`x"; DROP TABLE y; --`}}); err == nil {
		t.Error("any text may be a role")
	}
}

// TestDoctor breaks one thing after the other and wants it named.
func TestDoctor(t *testing.T) {
	b := installed(t)
	failing := func(o DoctorOptions) (names []string) {
		t.Helper()
		found, err := Doctor(context.Background(), Server{DSN: b.DSN(b.operator)}, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range found {
			if !check.OK {
				names = append(names, check.Name)
			}
			if !check.OK && check.Fix == "" {
				t.Errorf("%s is wrong and no way out is named", check.Name)
			}
		}
		return names
	}
	well := DoctorOptions{Runtime: b.runtime}
	if names := failing(well); len(names) > 0 {
		t.Fatalf("right after install these are wrong: %v", names)
	}
	table := "ALTER TABLE loopx_control_plane.authority_events "
	for _, try := range []struct{ name, harm, cure string }{
		{"row_security_forced", table + "NO FORCE ROW LEVEL SECURITY", table + "FORCE ROW LEVEL SECURITY"},
		{"row_security_forced", table + "DISABLE ROW LEVEL SECURITY", table + "ENABLE ROW LEVEL SECURITY"},
		{"row_security_policies", "CREATE POLICY open ON loopx_control_plane.authority_heads USING (true)", "DROP POLICY open ON loopx_control_plane.authority_heads"},
		{"triggers", table + "DISABLE TRIGGER loopx_migrate_gate", table + "ENABLE ALWAYS TRIGGER loopx_migrate_gate"},
		{"triggers", table + "ENABLE TRIGGER loopx_migrate_gate", table + "ENABLE ALWAYS TRIGGER loopx_migrate_gate"},
		{"functions", "CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_gate_all() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'", ""},
		{"functions", "GRANT EXECUTE ON FUNCTION loopx_control_plane.loopx_migrate_adopt(text, text) TO PUBLIC", ""},
		{"runtime_not_superuser", "ALTER ROLE @ SUPERUSER", "ALTER ROLE @ NOSUPERUSER"},
		{"runtime_not_superuser", "ALTER ROLE @ CREATEROLE", "ALTER ROLE @ NOCREATEROLE"},
		{"runtime_no_bypassrls", "ALTER ROLE @ BYPASSRLS", "ALTER ROLE @ NOBYPASSRLS"},
		{"runtime_owns_nothing", "CREATE SCHEMA mine AUTHORIZATION @", "DROP SCHEMA mine"},
		{"runtime_memberships", "GRANT " + b.operator + " TO @", "REVOKE " + b.operator + " FROM @"},
		{"runtime_privileges", "GRANT UPDATE ON loopx_control_plane.authority_commits TO @", ""},
		{"runtime_privileges", "GRANT DELETE ON loopx_control_plane.authority_heads TO PUBLIC", "REVOKE ALL ON loopx_control_plane.authority_heads FROM PUBLIC"},
		{"runtime_no_create", "GRANT CREATE ON SCHEMA loopx_control_plane TO @", ""},
		{"synchronous_commit", "ALTER DATABASE " + b.Name + " SET synchronous_commit = off", "ALTER DATABASE " + b.Name + " RESET synchronous_commit"},
		{"search_path", "ALTER DATABASE " + b.Name + " SET search_path = loopx_control_plane", "ALTER DATABASE " + b.Name + " RESET search_path"},
		{"isolation", "ALTER DATABASE " + b.Name + " SET default_transaction_isolation = serializable", "ALTER DATABASE " + b.Name + " RESET default_transaction_isolation"},
		{"metadata", "UPDATE loopx_control_plane.authority_store_metadata SET schema_version = 'x'", "UPDATE loopx_control_plane.authority_store_metadata SET schema_version = 'loopx_postgresql_authority_store_v0'"},
	} {
		b.Exec(t, strings.ReplaceAll(try.harm, "@", b.runtime))
		if names := failing(well); !slices.Contains(names, try.name) {
			t.Errorf("%s: named were %v, want %s", try.harm, names, try.name)
		}
		if try.cure == "" {
			b.install(t, testIdentity) // repairs it
		} else {
			b.Exec(t, strings.ReplaceAll(try.cure, "@", b.runtime))
		}
		if names := failing(well); len(names) > 0 {
			t.Fatalf("after %q these are still wrong: %v", try.cure, names)
		}
	}
	if names := failing(DoctorOptions{Runtime: "no_such_role"}); !slices.Contains(names, "runtime_role") {
		t.Errorf("a role that is not there: %v", names)
	}
	late := DoctorOptions{Runtime: b.runtime, Now: func() time.Time { return time.Now().Add(-time.Minute) }}
	if names := failing(late); !slices.Equal(names, []string{"clock"}) {
		t.Errorf("a clock a minute apart: %v", names)
	}
	bare, err := Doctor(t.Context(), Server{DSN: pgtest.New(t).DSN(pgtest.Admin)}, DoctorOptions{Runtime: b.runtime})
	if err != nil || bare.OK() {
		t.Errorf("a bare database: %v, %v", bare, err)
	}
}

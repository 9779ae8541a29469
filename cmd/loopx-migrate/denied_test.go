package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// Every command that changes something asks for a grant before it looks at anything
// else, also those that work beside a migration. A denial of a fresh operation is stored
// once; the same again adds not one byte.
func TestEveryMutatingCommandAsksForAGrantFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := fixture.Copy(t, "goal-file-v1")
	root, out := filepath.Join(dir, "runtime"), t.TempDir()
	if err := os.Chown(root, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	g := []string{"--runtime-root=" + root, "--goal-id=harbour-crane", "--postgres=postgres://127.0.0.1:1/nowhere"}
	for _, command := range [][]string{
		{"freeze", "--to", "sqlite:"}, {"import"}, {"import", "--from", "file:", "--to", "sqlite:" + out + "/copy.sqlite"}, {"compare"}, {"promote"},
		{"cutover", "--to", "sqlite:", "--max-stall", "1m"}, {"abort"}, {"rollback"}, {"resume"}, {"project"},
		{"export", "--to", "archive:" + out + "/goal.jsonl"}, {"export", "--to", "sqlite:" + out + "/copy.sqlite"},
		{"upgrade-head", "--store-identity", "file:" + strings.Repeat("0", 32)}, {"rebind"}, {"grant", "os:#54322"}, {"revoke", "os:#54322"},
		{"pg", "install"}, {"pg", "rotate-identity"},
	} {
		name := strings.Join(command[:min(2, len(command))], " ")
		line := with(g, append(command, "--operation-id", "op-"+strings.ReplaceAll(command[0], "-", ""), "--plan-digest", "sha256:"+strings.Repeat("0", 64), "--execute")...)
		if got := ask(t, 3, line...); got.ReasonCode != "permission_denied" {
			t.Errorf("%s: %s", name, got.ReasonCode)
		}
		before := fixture.TreeHash(t, dir)
		if got := ask(t, 3, line...); got.ReasonCode != "permission_denied" || got.Facts.Replayed {
			t.Errorf("%s again: %s", name, got.ReasonCode)
		}
		fixture.Unchanged(t, dir, before)
	}
	if made, err := os.ReadDir(out); err != nil || len(made) != 0 {
		t.Errorf("made %v, %v", made, err)
	}
	stored, err := filepath.Glob(filepath.Join(root, "authority-transition", "loopx-migrate", "*", "outcomes", "*.json"))
	if err != nil || len(stored) != 15 { // one for each operation id above
		t.Errorf("%d refusals are stored, %v", len(stored), err)
	}
}

// A role of the database server holds a grant: who it is says the server, and not the
// command line.
func TestDatabaseRoleAsPrincipal(t *testing.T) {
	db := pgtest.New(t)
	role := db.Role(t, "ops")
	_, err := pgstore.Install(t.Context(), pgstore.Server{DSN: db.DSN(pgtest.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity(), Operators: []string{role}})
	if err != nil {
		t.Fatal(err)
	}
	dir := fixture.Copy(t, "goal-file-v1")
	g := []string{"--runtime-root=" + filepath.Join(dir, "runtime"), "--goal-id=harbour-crane"}
	as := func(role string) []string {
		return with(g, "--principal=role", "--postgres="+db.Cluster.Cluster.URL(db.Name, role))
	}
	if got := ask(t, 3, with(as(role), "freeze", "--to", "sqlite:")...); got.ReasonCode != "permission_denied" {
		t.Errorf("without a grant: %s", got.ReasonCode)
	}
	execute(t, 0, with(g, "grant", "role:"+role)...)
	line := ask(t, 0, with(as(role), "freeze", "--to", "sqlite:")...).Next.Argv[2:]
	if got := ask(t, 0, line...); got.Status != statusDone {
		t.Errorf("with one: %s", got.Status)
	}
	if got := ask(t, 3, with(as(pgtest.Admin), "import")...); got.ReasonCode != "permission_denied" {
		t.Errorf("another role: %s", got.ReasonCode)
	}
	execute(t, 0, with(g, "revoke", "role:"+role)...)
	before := fixture.TreeHash(t, dir)
	if got := ask(t, 3, line...); got.ReasonCode != "permission_denied" {
		t.Errorf("after the withdrawal: %s", got.ReasonCode)
	}
	fixture.Unchanged(t, dir, before)
	execute(t, 0, with(g, "grant", "role:"+role)...)
	if got := ask(t, 0, line...); got.Status != "replayed" {
		t.Errorf("after the grant's return: %s", got.Status)
	}
}

// The identity of a database is rotated once: the same line again says that it was.
func TestRotatedOnce(t *testing.T) {
	db := pgtest.New(t)
	_, err := pgstore.Install(t.Context(), pgstore.Server{DSN: db.DSN(pgtest.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
	if err != nil {
		t.Fatal(err)
	}
	line := ask(t, 0, "--postgres="+db.Cluster.Cluster.URL(db.Name, pgtest.Admin), "pg", "rotate-identity").Next.Argv[2:]
	if got := ask(t, 0, line...); got.Status != statusDone {
		t.Errorf("%s", got.Status)
	}
	identity := db.Text(t, "select store_identity from loopx_control_plane.authority_store_metadata")
	if got := ask(t, 0, line...); got.Status != "replayed" {
		t.Errorf("again: %s", got.Status)
	}
	if now := db.Text(t, "select store_identity from loopx_control_plane.authority_store_metadata"); now != identity {
		t.Errorf("rotated twice: %s, %s", identity, now)
	}
}

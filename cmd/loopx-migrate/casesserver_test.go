package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// serverCase is a case with a database of its own, installed, and the flags that name the
// Goal, the tenant and the server as the operator role reaches it, through port if not 0.
type serverCase struct {
	*pgtest.Database
	goal, operator string
	port           int
}

func onServer(t *testing.T, name, goal string) (c *serverCase, dir string) {
	t.Helper()
	dir = fixture.Case(t, name)
	writeFence(t, dir, goal) // its journal holds two transactions
	c = &serverCase{Database: pgtest.New(t), goal: goal}
	c.operator = c.Role(t, "operator")
	_, err := pgstore.Install(t.Context(), pgstore.Server{DSN: c.DSN(pgtest.Admin)},
		pgstore.InstallOptions{Identity: pgstore.NewIdentity(), Operators: []string{c.operator}})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSWORD", c.Password())
	return c, dir
}

// as is the URL for a role; the password comes from the environment.
func (c *serverCase) as(role string) string {
	port := c.port
	if port == 0 {
		port = c.Port()
	}
	u := url.URL{Scheme: "postgres", User: url.User(role), Host: "127.0.0.1:" + strconv.Itoa(port), Path: c.Name, RawQuery: "sslmode=disable"}
	return u.String()
}

func (c *serverCase) flags(dir, tenant string) []string {
	return append(flags(dir, c.goal), "--tenant="+tenant, "--postgres="+c.as(c.operator), "--lock-timeout=5s")
}

func (c *serverCase) to(command string, tenant string, more ...string) []string {
	return append([]string{command, "--to", c.as(c.operator), "--accept", "needs_service_runtime:" + tenant, "--owner", "ops", "--reason", "it is there"}, more...)
}

func (c *serverCase) count(t *testing.T) string {
	t.Helper()
	return c.Text(t, "SELECT count(*) || ' rows, last ' || max(cursor) FROM loopx_control_plane.authority_commits WHERE goal_id = $1", c.goal)
}

// The answer to each COMMIT of an import is lost in turn. What was committed is told as
// done or as unknown, never as failed, and the same line finishes it: one row each.
func TestCase60CommitAnswerLost(t *testing.T) {
	for lost := 1; lost <= 2; lost++ {
		t.Run(fmt.Sprintf("commit %d", lost), func(t *testing.T) {
			c, dir := onServer(t, "60-commit-answer-lost", "pg-amb")
			proxy := pgtest.NewProxy(t, c.Cluster, func(n int) pgtest.Fate {
				if n == lost {
					return pgtest.LoseAnswer
				}
				return pgtest.Deliver
			})
			c.port = proxy.Port()
			g := c.flags(dir, "t1")
			line := ask(t, 0, with(g, c.to("import", "t1")...)...).Next.Argv[2:]
			first := run(t, append([]string{"--output=json"}, line...)...)
			if first.exit != 0 && first.exit != 6 {
				t.Fatalf("the first call ends with %d: %s", first.exit, first.stdout)
			}
			if proxy.Commits() < lost {
				t.Fatalf("%d COMMITs passed; the answer to none was lost", proxy.Commits())
			}
			if again := ask(t, 0, line...); first.exit == 0 && again.Status != "replayed" {
				t.Errorf("the second call is %s", again.Status)
			}
			if got := c.count(t); got != "2 rows, last 2" {
				t.Errorf("the server holds %s", got)
			}
			ask(t, 0, line...)
			ask(t, 0, with(g, "compare")...)
		})
	}
}

// promoted takes the case's Goal to the server.
func (c *serverCase) promoted(t *testing.T, g []string, tenant string) {
	t.Helper()
	execute(t, 0, with(g, c.to("freeze", tenant)...)...)
	for _, command := range []string{"import", "compare"} {
		execute(t, 0, with(g, command)...)
	}
	execute(t, 0, with(g, "promote", "--accept", "rehearsal_missing:postgresql", "--owner", "ops", "--reason", "it is a test")...)
}

// A server that was restored from yesterday's dump. Set back behind the promotion, it is
// behind the record, which says so with both positions; set back behind what an operator
// saw, it is behind the anchor. LoopX's tables alone set back are behind their seals. In
// no case anything is exported.
func TestCase62RestoredDatabaseIncarnation(t *testing.T) {
	c, dir := onServer(t, "62-restored-database-incarnation", "pg-res")
	empty := c.dump(t)
	g := c.flags(dir, "t1")
	c.promoted(t, g, "t1")
	promoted := c.dump(t)
	c.commitTo(t, "op-3")
	c.commitTo(t, "op-4")
	seen := run(t, with(g, "--output=json", "verify", c.as(c.operator))...)
	anchor := inside(t, seen.stdout, `"anchor": "`, `"`)

	refused := ask(t, 6, with(empty.flags(dir, "t1"), "rollback")...)
	if refused.ReasonCode != "target_rewound" || !strings.Contains(refused.Sentence, "cursor 0") || !strings.Contains(refused.Sentence, "at 2") {
		t.Errorf("a dump from before the promotion: %s: %s", refused.ReasonCode, refused.Sentence)
	}
	ask(t, 0, with(promoted.flags(dir, "t1"), "verify", promoted.as(c.operator))...)
	behind := ask(t, 3, with(promoted.flags(dir, "t1"), "verify", promoted.as(c.operator), "--anchor", anchor)...)
	if !strings.Contains(behind.Sentence+fmt.Sprint(behind.Facts.Where), "4") {
		t.Errorf("a dump from before what was seen: %s: %s %v", behind.ReasonCode, behind.Sentence, behind.Facts.Where)
	}
	c.Exec(t, fmt.Sprintf(`DELETE FROM loopx_control_plane.authority_commits WHERE goal_id = '%s' AND cursor > 2;
		UPDATE loopx_control_plane.authority_heads AS h SET cursor = 2, provider_revision = 2, updated_at = s.head_updated_at, head = c.projection
		FROM loopx_control_plane.authority_commits AS c JOIN loopx_control_plane.loopx_migrate_seals AS s USING (goal_id, cursor)
		WHERE h.goal_id = '%s' AND c.goal_id = h.goal_id AND c.cursor = 2`, c.goal, c.goal))
	refused = ask(t, 3, with(g, "rollback")...)
	if where := fmt.Sprint(refused.Facts.Where); !strings.Contains(where+refused.Sentence, "restored or rewound") || refused.Facts.Where["cursor"] != "3" {
		t.Errorf("LoopX's tables set back: %s %s %v", refused.ReasonCode, refused.Sentence, refused.Facts.Where)
	}
	if kept := fixture.TreeHash(t, dir); strings.Contains(string(kept), "/export/") {
		t.Error("something was exported")
	}
}

// dump is the database as it is now, to stand in its place later.
func (c *serverCase) dump(t *testing.T) *serverCase {
	t.Helper()
	copied, drop := c.Copy(t)
	t.Cleanup(drop)
	return &serverCase{Database: copied, goal: c.goal, operator: c.operator}
}

func inside(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, from)
	value, _, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatalf("no %q in %s", from, text)
	}
	return value
}

// commitTo commits on the server as whoever works on the Goal.
func (c *serverCase) commitTo(t *testing.T, operation string) {
	t.Helper()
	store, err := newEnv("loopx-migrate", nil, nil).stores.Open(t.Context(), cutover.Ref{Kind: authority.KindPostgreSQL, Goal: c.goal, Server: c.as(c.operator), Tenant: "t1", Access: cutover.AccessWrite})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	head, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), authority.CommitRequest{Expected: head.Revision, OperationID: operation, Events: []byte("[]"), Projection: head.Projection, Receipts: []byte("[]")}); err != nil {
		t.Fatal(err)
	}
}

// A tenant that sees nothing is missing, and never equal to a Goal with two transactions;
// no tenant is refused as an argument; a role that row-level security does not bind is named.
func TestCase63RowLevelSecurityShowsNothing(t *testing.T) {
	c, dir := onServer(t, "63-row-level-security-shows-nothing", "pg-rls")
	for _, none := range [][]string{nil, {"--tenant="}} {
		refused := ask(t, 2, with(append(flags(dir, c.goal), none...), "import", "--to", c.as(c.operator))...)
		if refused.ReasonCode != "tenant_required" {
			t.Errorf("without a tenant: %s", refused.ReasonCode)
		}
	}
	execute(t, 0, with(c.flags(dir, "t1"), c.to("import", "t1")...)...)
	compare := func(tenant string) []string {
		return with(append(flags(dir, c.goal), "--tenant="+tenant), "compare", "--left", "file:", "--right", c.as(c.operator))
	}
	ask(t, 0, compare("t1")...)
	ask(t, 4, compare("t2")...)
	if got := c.count(t); got != "2 rows, last 2" {
		t.Errorf("the server holds %s", got)
	}
	seen := run(t, with(append(flags(dir, c.goal), "--tenant=t1"), "verify", c.as(pgtest.Admin))...)
	if seen.exit != 0 || !strings.Contains(seen.stdout, "row_security_bypassed") {
		t.Errorf("as a superuser: exit %d\n%s%s", seen.exit, seen.stdout, seen.stderr)
	}
}

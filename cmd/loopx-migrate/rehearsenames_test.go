package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// namedServer is a real database and the ways to name it.
type namedServer struct {
	*pgtest.Database
	link, service string // a link to the socket folder, and a service file
}

func newNamedServer(t *testing.T) *namedServer {
	t.Helper()
	s := &namedServer{Database: pgtest.New(t), link: filepath.Join(t.TempDir(), "s"), service: filepath.Join(t.TempDir(), "services")}
	if _, err := pgstore.Install(t.Context(), pgstore.Server{DSN: s.DSN(pgtest.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.Socket(), s.link); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.service, fmt.Appendf(nil, "[loopx]\nhost=%s\nport=%d\ndbname=%s\nuser=%s\n", s.Socket(), s.Port(), s.Name, pgtest.Admin))
	t.Setenv("PGPASSWORD", s.Password())
	t.Setenv("PGSERVICEFILE", s.service)
	t.Setenv("PGSSLMODE", "disable")
	return s
}

// tcp names the database by a host, and socket by a folder.
func (s *namedServer) tcp(host string, port int) string {
	return "postgres://" + pgtest.Admin + "@" + net.JoinHostPort(host, strconv.Itoa(port)) + "/" + s.Name
}

func (s *namedServer) socket(folder string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&port=%d&user=%s", s.Name, folder, s.Port(), pgtest.Admin)
}

// names are all by which one database is reached here.
func (s *namedServer) names(t *testing.T) map[string]string {
	names := map[string]string{
		"an address":                        s.tcp("127.0.0.1", s.Port()),
		"a host name":                       s.tcp("localhost", s.Port()),
		"any address":                       s.tcp("0.0.0.0", s.Port()),
		"an address of version 6":           s.tcp("::ffff:127.0.0.1", s.Port()),
		"the socket":                        s.socket(s.Socket()),
		"a link to the socket folder":       s.socket(s.link),
		"a socket folder spelled otherwise": s.socket(s.Socket() + "/data/.."),
		"another port, as a pooler":         s.tcp("127.0.0.1", pgtest.NewProxy(t, s.Cluster, nil).Port()),
		"another setting":                   s.tcp("127.0.0.1", s.Port()) + "?application_name=copies",
		"a service":                         "postgres:///?service=loopx",
	}
	return names
}

// reason of a rehearsal with a server for copies, which has to end with that status.
func serverRefused(t *testing.T, program string, flags []string, exit int, production, server string) string {
	t.Helper()
	words := append(slices.Clone(flags), "rehearse", "--arms", "postgresql", "--production", production, "--server", server)
	return answeredBy(t, program, exit, words...).Reason
}

// A production server under any of its names is production under each other name.
func TestRehearseOnServersUnderOtherNames(t *testing.T) {
	program := rehearser(t)
	s := newNamedServer(t)
	dir, flags := rehearsedGoal(t, "small")
	before := fixture.TreeHash(t, dir)
	names := s.names(t)
	for name, url := range names {
		if got := serverRefused(t, program, flags, 3, names["an address"], url); got != "rehearsal_on_production" {
			t.Errorf("production by its address, copies by %s: %s", name, got)
		}
		if got := serverRefused(t, program, flags, 3, url, names["the socket"]); got != "rehearsal_on_production" {
			t.Errorf("production by %s, copies by the socket: %s", name, got)
		}
	}
	hostaddr := names["the socket"] + "&hostaddr=127.0.0.1" // which the driver does not know and the server refuses
	if got := serverRefused(t, program, flags, 7, hostaddr, names["the socket"]); got != "production_unreachable" {
		t.Errorf("production by hostaddr: %s", got)
	}
	t.Setenv("PGHOST", s.Socket())
	t.Setenv("PGPORT", strconv.Itoa(s.Port()))
	t.Setenv("PGUSER", pgtest.Admin)
	if got := serverRefused(t, program, flags, 3, names["an address"], "postgres:///"+s.Name); got != "rehearsal_on_production" {
		t.Errorf("copies by the environment: %s", got)
	}
	if got := answeredBy(t, program, 3, append(slices.Clone(flags), "--postgres", names["a host name"], "--tenant", "theirs", "rehearse", "--arms", "postgresql", "--server", names["the socket"])...).Reason; got != "rehearsal_on_production" {
		t.Errorf("production by --postgres: %s", got)
	}
	fixture.Unchanged(t, dir, before)
}

// A database that was renamed or is gone cannot be told from the one for copies, and a
// standby or a physical copy of production counts as production.
func TestRehearseOnServersThatMoved(t *testing.T) {
	program := rehearser(t)
	s := newNamedServer(t)
	_, flags := rehearsedGoal(t, "small")
	old := s.socket(s.Socket())
	renamed := &namedServer{Database: &pgtest.Database{Cluster: s.Cluster, Name: s.Name + "_renamed"}}
	admin := &pgtest.Database{Cluster: s.Cluster, Name: "postgres"}
	admin.Exec(t, "ALTER DATABASE "+s.Name+" RENAME TO "+renamed.Name)
	t.Cleanup(func() { admin.Exec(t, "ALTER DATABASE "+renamed.Name+" RENAME TO "+s.Name) })
	if got := serverRefused(t, program, flags, 7, old, renamed.socket(s.Socket())); got != "production_unreachable" {
		t.Errorf("production under its old name: %s", got)
	}
	if got := serverRefused(t, program, flags, 3, renamed.socket(s.Socket()), renamed.tcp("localhost", s.Port())); got != "rehearsal_on_production" {
		t.Errorf("production under its new name: %s", got)
	}
}

func TestRehearseOnAStandbyOfProduction(t *testing.T) {
	program := rehearser(t)
	own := pgtest.Own(t)
	database := own.Database(t)
	standby := &namedServer{Database: database.On(own.Standby(t))}
	primary := &namedServer{Database: database}
	_, flags := rehearsedGoal(t, "small")
	t.Setenv("PGPASSWORD", own.Password())
	t.Setenv("PGSSLMODE", "disable")
	if got := serverRefused(t, program, flags, 3, primary.socket(primary.Socket()), standby.socket(standby.Socket())); got != "rehearsal_on_production" {
		t.Errorf("copies on a standby of production: %s", got)
	}
	if got := serverRefused(t, program, flags, 3, standby.socket(standby.Socket()), primary.tcp("127.0.0.1", primary.Port())); got != "rehearsal_on_production" {
		t.Errorf("copies on the primary of a production standby: %s", got)
	}
	own.WaitForNobody(t)
}

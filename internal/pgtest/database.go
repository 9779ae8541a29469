package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/internal/pgserver"
)

var (
	once    sync.Once
	shared  *Cluster
	failure error
	serial  atomic.Int64
)

// Admin is the superuser of every cluster.
const Admin = pgserver.Admin

// Cluster is a running server of the tests.
type Cluster struct{ *pgserver.Cluster }

func begin(bin string) (*Cluster, error) {
	c, err := pgserver.New(bin)
	if err != nil {
		return nil, err
	}
	return &Cluster{c}, nil
}

const skipped = "PostgreSQL tests skipped: no server programs (initdb, postgres) were found"

// Main runs a package's tests and stops its server afterwards. The result is for os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	if shared != nil {
		if err := shared.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the test server:", err)
			return 1
		}
	}
	return code
}

// Server is the package's server, started if it is not running.
func Server(t testing.TB) *Cluster {
	t.Helper()
	bin := pgserver.Programs()
	if bin == "" {
		if os.Getenv("LOOPX_MIGRATE_REQUIRE_PG") == "1" {
			t.Fatal(skipped)
		}
		fmt.Fprintln(os.Stderr, skipped)
		t.Skip(skipped)
	}
	once.Do(func() { shared, failure = begin(bin) })
	if failure != nil {
		t.Fatal(failure)
	}
	return shared
}

// Own starts a server for this test alone, which may kill it.
func Own(t testing.TB) *Cluster {
	t.Helper()
	Server(t) // skips when there are no programs
	c, err := begin(pgserver.Programs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Database is a database of a test.
type Database struct {
	*Cluster
	Name string
}

// New makes an empty database on the package's server.
func New(t testing.TB) *Database { t.Helper(); return Server(t).Database(t) }

// Database makes an empty database that goes with the test.
func (c *Cluster) Database(t testing.TB) *Database {
	t.Helper()
	d := &Database{Cluster: c, Name: fmt.Sprintf("test_%d", serial.Add(1))}
	c.execute(t, "CREATE DATABASE "+d.Name+" TEMPLATE template0")
	t.Cleanup(func() { c.execute(t, "DROP DATABASE "+d.Name+" WITH (FORCE)") })
	return d
}

func (c *Cluster) execute(t testing.TB, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.Cluster.DSN("postgres", Admin))
	if err != nil {
		t.Fatalf("connecting to the test server: %v\n%s", err, c.Log())
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Role makes a role that can log in, named after the database and the label, and
// returns its name. Roles belong to the cluster and are left to it.
func (d *Database) Role(t testing.TB, label string) string {
	t.Helper()
	name := d.Name + "_" + label
	d.execute(t, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", name, d.Password()))
	return name
}

// DSN addresses the database over the Unix socket.
func (d *Database) DSN(role string) string { return d.Cluster.Cluster.DSN(d.Name, role) }

// URL addresses the database over the loopback, or through a proxy when port is its
// port, with the password in it.
func (d *Database) URL(role string, port int) string {
	if port == 0 {
		port = d.Port()
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, d.Password()), Host: "127.0.0.1:" + strconv.Itoa(port),
		Path: d.Name, RawQuery: "sslmode=disable"}
	return u.String()
}

// Connect opens a plain connection that is closed with the test.
func (d *Database) Connect(t testing.TB, role string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), d.DSN(role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // a test may have killed it
	return conn
}

// Exec runs statements as superuser, each in a transaction of its own.
func (d *Database) Exec(t testing.TB, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, d.DSN(Admin))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Text returns the one value of a query, asked as superuser.
func (d *Database) Text(t testing.TB, query string, args ...any) string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, d.DSN(Admin))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var text *string
	if err := conn.QueryRow(ctx, query, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if text == nil {
		return ""
	}
	return *text
}

// Copy makes a database that is a copy of this one, which nobody may be connected to,
// and returns what drops it again before the test ends.
func (d *Database) Copy(t testing.TB) (*Database, func()) {
	t.Helper()
	c := &Database{Cluster: d.Cluster, Name: fmt.Sprintf("test_%d", serial.Add(1))}
	c.execute(t, "CREATE DATABASE "+c.Name+" TEMPLATE "+d.Name)
	return c, func() { c.execute(t, "DROP DATABASE "+c.Name+" WITH (FORCE)") }
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/loopx-project/loopx-migrate/authority"
)

const secret = "hunter2-and-a-half"

// requireSilent prints an error in every way there is and walks its causes.
func requireSilent(t *testing.T, what string, err error, secrets ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	var texts []string
	var walk func(error)
	walk = func(err error) {
		if err == nil {
			return
		}
		texts = append(texts, err.Error(), fmt.Sprintf("%v %+v %#v %q", err, err, err, err))
		switch wrapper := err.(type) {
		case interface{ Unwrap() error }:
			walk(wrapper.Unwrap())
		case interface{ Unwrap() []error }:
			for _, one := range wrapper.Unwrap() {
				walk(one)
			}
		}
	}
	walk(err)
	for _, text := range texts {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s: the error tells %q: %s", what, s, text)
			}
		}
	}
	var foreign *pgconn.PgError
	var connecting *pgconn.ConnectError
	if errors.As(err, &foreign) || errors.As(err, &connecting) {
		t.Errorf("%s: an error of the driver is among the causes", what)
	}
}

// TestErrorsTellNoSecrets breaks every way in, with a password that must not come out.
func TestErrorsTellNoSecrets(t *testing.T) {
	b := installed(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	live := fmt.Sprintf("127.0.0.1:%d", b.Port())
	for name, dsn := range map[string]string{
		"wrong password": "postgres://" + b.runtime + ":" + secret + "@" + live + "/" + b.Name + "?sslmode=disable",
		"no such role":   "postgres://nobody-" + secret + ":" + secret + "@" + live + "/" + b.Name + "?sslmode=disable",
		"no such base":   "postgres://" + b.runtime + ":" + b.Password() + "@" + live + "/" + secret + "?sslmode=disable",
		"refused":        "postgres://" + b.runtime + ":" + secret + "@" + dead + "/" + b.Name + "?sslmode=disable",
		"no such host":   "postgres://u:" + secret + "@no-such-host-" + secret + ".invalid/db",
		"no TLS":         "postgres://" + b.runtime + ":" + secret + "@" + live + "/" + b.Name + "?sslmode=require",
		"bad parameter":  "postgres://u:" + secret + "@" + live + "/db?no_such_parameter=" + secret,
	} {
		s := openStore(t, Options{Server: Server{DSN: dsn, ConnectWait: 5 * time.Second}, Tenant: "t", GoalID: "g", Mode: ReadWrite})
		_, err := s.Load(t.Context())
		requireSilent(t, name+": load", err, secret, b.Password(), dead)
		_, err = s.Commit(t.Context(), request(authority.Applied{}, "op-1"))
		requireSilent(t, name+": commit", err, secret, b.Password(), dead)
		_, err = Doctor(t.Context(), s.options.Server, DoctorOptions{})
		requireSilent(t, name+": doctor", err, secret, b.Password(), dead)
		_, err = Install(t.Context(), s.options.Server, InstallOptions{Identity: testIdentity})
		requireSilent(t, name+": install", err, secret, b.Password(), dead)
	}
	for _, dsn := range []string{"postgres://u:" + secret + "@host:bad-" + secret + "/db", "password=" + secret + " port=x", "postgres://u:" + secret + "%zz@host/db"} {
		_, err := Open(Options{Server: Server{DSN: dsn}, Tenant: "t", GoalID: "g"})
		requireSilent(t, dsn, err, secret)
		requireReason(t, dsn, err, authority.ClassFailed, ReasonDSN)
	}
}

// TestErrorsTellNoRows: the server quotes values in its messages; they end there.
func TestErrorsTellNoRows(t *testing.T) {
	b := installed(t)
	s := b.store(t, freshGoal())
	on := history(t, s, 1)
	b.Exec(t, fmt.Sprintf(`CREATE FUNCTION public.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'told: %%', NEW.receipt; END $$;
		CREATE TRIGGER tell AFTER INSERT ON loopx_control_plane.authority_receipts FOR EACH ROW WHEN (NEW.goal_id = '%s') EXECUTE FUNCTION public.tell()`, s.GoalID()))
	offered := request(on, "op-2")
	offered.Receipts = []byte(`[{"text":"` + secret + `"}]`)
	_, err := s.Commit(t.Context(), offered)
	requireSilent(t, "a trigger that quotes", err, secret)
	requireReason(t, "a trigger that quotes", err, authority.ClassFailed, authority.ReasonTransactionFailed)
	var said *serverError
	if !errors.As(err, &said) || said.code != "P0001" {
		t.Errorf("the code is not told: %v", err)
	}
	row := authority.Row{Transaction: authority.Transaction{Cursor: 1, OperationID: secret, Events: []byte(`[]`), Projection: []byte(`{"a":"` + secret + `"`), Receipts: []byte(`[]`)}}
	c := createCandidate(t, b.candidate(b.operator, freshGoal()))
	if err := c.Append(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	requireSilent(t, "COPY of what is no JSON", c.Flush(t.Context()), secret)
}

// TestPasswordFromTheEnvironment: nothing has to be on a command line.
func TestPasswordFromTheEnvironment(t *testing.T) {
	b := installed(t)
	file := t.TempDir() + "/pgpass"
	line := fmt.Sprintf("127.0.0.1:%d:%s:%s:%s\n", b.Port(), b.Name, b.runtime, b.Password())
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSFILE", file)
	dsn := fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", b.runtime, b.Port(), b.Name)
	s := openStore(t, Options{Server: Server{DSN: dsn}, Tenant: "t", GoalID: "g", Mode: ReadWrite})
	commit(t, s, authority.Applied{}, "op-1")
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Server: Server{Config: config}, Tenant: "t", GoalID: "g"})
	if head, err := s.Load(context.Background()); err != nil || head.Cursor != 1 {
		t.Errorf("over a configuration: %+v, %v", head, err)
	}
}

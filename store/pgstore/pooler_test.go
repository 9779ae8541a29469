package pgstore

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/loopx-project/loopx-migrate/authority"
)

// pooler is a pool in transaction mode with one backend, as PgBouncer would be with
// pool_size 1: whoever begins has the backend until the transaction ends.
type pooler struct {
	t        *testing.T
	listener net.Listener
	server   *pgconn.HijackedConn

	turn sync.Mutex // who has the backend
	wait sync.WaitGroup
}

func startPooler(t *testing.T, dsn string) *pooler {
	t.Helper()
	conn, err := pgconn.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	server, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{t: t, listener: listener, server: server}
	p.wait.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close() // ends serve
		_ = server.Conn.Close()
		p.wait.Wait()
	})
	return p
}

func (p *pooler) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() {
			defer client.Close()
			p.greet(client)
		})
	}
}

// greet lets a client in and carries its transactions.
func (p *pooler) greet(client net.Conn) {
	backend := pgproto3.NewBackend(client, client)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range p.server.ParameterStatuses {
		backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	backend.Send(&pgproto3.BackendKeyData{ProcessID: 7, SecretKey: []byte{0, 0, 0, 7}})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if backend.Flush() != nil {
		return
	}
	for p.transaction(backend) == nil {
	}
}

// transaction carries messages from the first one until the backend is idle again.
func (p *pooler) transaction(client *pgproto3.Backend) error {
	message, err := client.Receive()
	if err != nil {
		return err
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	server := pgproto3.NewFrontend(p.server.Conn, p.server.Conn)
	for {
		if _, ends := message.(*pgproto3.Terminate); ends {
			return net.ErrClosed
		}
		server.Send(message)
		_, asks := message.(*pgproto3.Query)
		_, syncs := message.(*pgproto3.Sync)
		if asks || syncs {
			idle, err := p.answer(client, server)
			if err != nil || idle {
				return err
			}
		}
		if message, err = client.Receive(); err != nil {
			return err
		}
	}
}

// answer carries what the server says until it is ready, and whether it is idle then.
func (p *pooler) answer(client *pgproto3.Backend, server *pgproto3.Frontend) (bool, error) {
	if err := server.Flush(); err != nil {
		return false, err
	}
	for {
		message, err := server.Receive()
		if err != nil {
			return false, err
		}
		client.Send(message)
		if ready, is := message.(*pgproto3.ReadyForQuery); is {
			return ready.TxStatus == 'I', client.Flush()
		}
	}
}

// TestThroughAPooler: two stores share one backend by the transaction, each with its own
// tenant, and the doctor says so.
func TestThroughAPooler(t *testing.T) {
	b := installed(t)
	p := startPooler(t, b.DSN(b.operator))
	dsn := b.URL(b.operator, p.listener.Addr().(*net.TCPAddr).Port)
	found, err := Doctor(t.Context(), Server{DSN: dsn}, DoctorOptions{Runtime: b.runtime})
	if err != nil {
		t.Fatal(err)
	}
	wrong := slices.DeleteFunc(found, func(c Check) bool { return c.OK })
	if len(wrong) != 1 || wrong[0].Name != "pooler" || wrong[0].Detail != "a pooler in transaction mode is in between" {
		t.Errorf("the doctor says %+v", wrong)
	}
	goal := freshGoal()
	var both sync.WaitGroup
	for _, tenant := range []string{"t1", "t2"} {
		s := openStore(t, Options{Server: Server{DSN: dsn}, Tenant: tenant, GoalID: goal, Mode: ReadWrite})
		both.Go(func() {
			var on authority.Applied
			for range 5 {
				applied, err := s.Commit(context.Background(), request(on, "op-"+on.Cursor.String()))
				if err != nil {
					t.Errorf("%s: %v", tenant, err)
					return
				}
				on = applied
			}
			if lineage, err := s.Audit(context.Background(), nil, nil); err != nil || lineage.End.Cursor != 5 {
				t.Errorf("%s: audit ends at %s, %v", tenant, lineage.End.Cursor, err)
			}
		})
	}
	both.Wait()
	if left := b.Text(t, "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); left != "0" {
		t.Errorf("%s advisory locks are left", left)
	}
}

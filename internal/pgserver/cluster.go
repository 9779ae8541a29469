// Package pgserver starts a private PostgreSQL server: a cluster of its own in a
// temporary folder, on a Unix socket and a random port of the loopback, fsync on, as a
// user that is not root. It is stopped by Remove, and by the kernel when this process
// dies. The tests stand on it (internal/pgtest), and so does the demo.
package pgserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Admin is the superuser of every cluster.
const Admin = "loopx_admin"

// patience is how long a server may take to come up or to go down.
const patience = 30 * time.Second

// Cluster is one running server.
type Cluster struct {
	bin      string
	dir      string // holds data, socket and log
	port     int
	password string
	owner    *syscall.Credential

	process *os.Process
	exited  chan struct{}
}

// Programs finds the folder with initdb and postgres, empty when there is none.
func Programs() string {
	if named := os.Getenv("LOOPX_MIGRATE_PG_BIN"); named != "" {
		return named
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if len(found) > 0 {
		return filepath.Dir(found[0])
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

// version reads 15 out of /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// New makes a cluster with the programs in a folder and starts it.
func New(bin string) (*Cluster, error) {
	dir, err := os.MkdirTemp("/tmp", "lmpg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, password: rand.Text()}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

func (c *Cluster) prepare() error {
	if os.Geteuid() == 0 {
		owner, err := unprivileged()
		if err != nil {
			return err
		}
		c.owner = owner
		if err := os.Chown(c.dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	secret := filepath.Join(c.dir, "password")
	if err := os.WriteFile(secret, []byte(c.password+"\n"), 0o644); err != nil {
		return err
	}
	// Not syncing what initdb writes is safe: a machine that stops takes the test with it.
	initdb := exec.Command(filepath.Join(c.bin, "initdb"), "--pgdata", c.data(), "--username", Admin, "--pwfile", secret,
		"--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner}
	initdb.Dir = c.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// unprivileged is the user that the server runs as when the tests run as root.
func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("there is neither a user postgres nor a user nobody to run the server as")
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// Start starts the server, on the port it had before if it had one, and waits until it
// answers.
func (c *Cluster) Start() error {
	deadline := time.Now().Add(patience)
	for {
		if c.port == 0 {
			port, err := freePort()
			if err != nil {
				return err
			}
			c.port = port
		}
		err := c.launch(deadline)
		if err == nil {
			return nil
		}
		// Killed servers leave shared memory behind until their last backend is gone,
		// and somebody else may have taken the port meanwhile.
		if time.Now().After(deadline) {
			return errors.Join(err, errors.New(c.Log()))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

func (c *Cluster) launch(deadline time.Time) error {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	server := exec.Command(filepath.Join(c.bin, "postgres"), "-D", c.data(), "-k", c.dir, "-p", strconv.Itoa(c.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "max_connections=200", "-c", "log_statement=none",
		"-c", "unix_socket_permissions=0777")
	server.Stdout, server.Stderr, server.Dir = log, log, c.dir
	// SIGQUIT is an immediate shutdown; it comes when the thread that started the
	// server ends, so that thread must last as long as the process.
	server.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner, Pdeathsig: syscall.SIGQUIT}
	started, exited := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait() // how it ended is in its log
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	c.process, c.exited = server.Process, exited
	return c.awaitAnswer(deadline)
}

func (c *Cluster) awaitAnswer(deadline time.Time) error {
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		conn, err := pgx.Connect(ctx, c.DSN("postgres", Admin))
		cancel()
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-c.exited:
			return fmt.Errorf("the server ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// Kill ends the server as a crash would: no process of it has a moment to tidy up.
func (c *Cluster) Kill() { c.signal(syscall.SIGKILL) }

// Stop ends the server at once, without a checkpoint.
func (c *Cluster) Stop() { c.signal(syscall.SIGQUIT) }

func (c *Cluster) signal(signal os.Signal) {
	if c.process == nil {
		return
	}
	_ = c.process.Signal(signal) // it may be gone already
	select {
	case <-c.exited:
	case <-time.After(patience):
		_ = c.process.Kill()
		<-c.exited
	}
	c.process = nil
}

// Remove stops the server and removes its folder.
func (c *Cluster) Remove() error {
	c.Stop()
	return os.RemoveAll(c.dir)
}

// Log is the end of what the server wrote.
func (c *Cluster) Log() string {
	text, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(text, []byte{'\n'})
	return string(bytes.Join(lines[max(0, len(lines)-30):], []byte{'\n'}))
}

// Port is the server's port on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

// Password is the superuser's, and that of every role made by Database.Role.
func (c *Cluster) Password() string { return c.password }

// Program is the path of a program of the server's, such as pg_dump.
func (c *Cluster) Program(name string) string { return filepath.Join(c.bin, name) }

// Socket is the folder of the Unix socket, which trusts everybody.
func (c *Cluster) Socket() string { return c.dir }

// DSN addresses a database over the Unix socket, as libpq spells it.
func (c *Cluster) DSN(database, role string) string {
	return strings.Join([]string{"host=" + c.dir, "port=" + strconv.Itoa(c.port), "dbname=" + database, "user=" + role}, " ")
}

// URL addresses a database over the Unix socket, as an operator names it.
func (c *Cluster) URL(database, role string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s&port=%d", role, database, c.dir, c.port)
}

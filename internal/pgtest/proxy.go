package pgtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Fate is what a Proxy does to a COMMIT.
type Fate int

// The fates of a COMMIT on its way.
const (
	Deliver    Fate = iota // nothing happens to it
	LoseCommit             // the connection breaks before the server has it
	LoseAnswer             // the server commits, its answer is lost and the connection breaks
	Cut                    // the connection breaks as soon as the server has been sent it
)

// Proxy stands between clients and a server on the loopback.
type Proxy struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	fate    func(n int) Fate
	commits int
	open    map[net.Conn]bool
	wait    sync.WaitGroup
}

// NewProxy starts a proxy before the cluster. Fate is asked for each COMMIT, counted
// from 1 over all connections; nil delivers all.
func NewProxy(t testing.TB, c *Cluster, fate func(n int) Fate) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, server: "127.0.0.1:" + strconv.Itoa(c.Port()), fate: fate, open: map[net.Conn]bool{}}
	p.wait.Go(p.serve)
	t.Cleanup(func() {
		p.Close()
		p.CutAll()
		p.wait.Wait()
	})
	return p
}

// Port is where the proxy listens.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Commits is how many COMMITs came so far.
func (p *Proxy) Commits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commits
}

// CutAll breaks every connection.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close() // it may be broken already
	}
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.carry(client) })
	}
}

func (p *Proxy) keep(conn net.Conn) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[conn] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, conn)
		_ = conn.Close() // the other direction may have closed it
	}
}

// carry carries one connection until a side ends it.
func (p *Proxy) carry(client net.Conn) {
	defer p.keep(client)()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer p.keep(server)()
	answers := &answers{to: client}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(answers, server) // its end is the end of the connection
		answers.end()
		_ = client.Close()
	})
	_ = p.requests(client, server, answers)
	_ = server.Close()
	back.Wait()
}

// answers passes on what the server says, until it is muted.
type answers struct {
	mu    sync.Mutex
	to    io.Writer
	heard chan struct{} // when set, closed by the first answer, which is dropped
	over  bool
	once  sync.Once
}

var errMuted = errors.New("the answer was lost")

// Write is the server speaking.
func (a *answers) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard != nil {
		a.once.Do(func() { close(a.heard) })
		return 0, errMuted
	}
	return a.to.Write(data)
}

func (a *answers) mute() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = make(chan struct{})
	if a.over {
		a.once.Do(func() { close(a.heard) })
	}
	return a.heard
}

// end says that no answer will come any more.
func (a *answers) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.heard != nil {
		a.once.Do(func() { close(a.heard) })
	}
}

// requests carries the client's messages, of which the first has no type byte.
func (p *Proxy) requests(client io.Reader, server io.Writer, answers *answers) error {
	started := false
	for {
		message, err := nextMessage(client, started)
		if err != nil {
			return err
		}
		started = true
		fate := Deliver
		if message[0] == 'Q' && bytes.EqualFold(bytes.TrimRight(message[5:], "\x00; "), []byte("commit")) {
			fate = p.next()
		}
		if fate == LoseCommit {
			return errMuted
		}
		var heard <-chan struct{}
		if fate != Deliver {
			heard = answers.mute()
		}
		if _, err := server.Write(message); err != nil || fate == Cut {
			return err
		}
		if fate == LoseAnswer {
			<-heard
			return errMuted
		}
	}
}

func (p *Proxy) next() Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits++
	if p.fate == nil {
		return Deliver
	}
	return p.fate(p.commits)
}

// nextMessage reads one whole message, its header included.
func nextMessage(from io.Reader, typed bool) ([]byte, error) {
	head := 4
	if typed {
		head = 5
	}
	message := make([]byte, head)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	rest := int(binary.BigEndian.Uint32(message[head-4:])) - 4
	message = slices.Concat(message, make([]byte, max(rest, 0)))
	_, err := io.ReadFull(from, message[head:])
	return message, err
}

// Close stops listening, so that no new connection reaches the server this way.
func (p *Proxy) Close() {
	_ = p.listener.Close() // it may be closed already
}

//go:build soak

package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

const (
	soakWriters = 16
	soakTime    = 30 * time.Second
)

// asked is what a writer did: offered an operation on a head, or looked at the head.
type asked struct {
	goal      string
	operation string // empty for a look
	on        authority.Cursor
}

// told is what came of it.
type told struct {
	applied  bool
	refused  bool // nothing was written, for whatever reason
	conflict bool
	head     authority.Cursor
	last     string // operation at the head, for a look
}

// headState is the model: a counter, and who moved it last.
type headState struct {
	cursor authority.Cursor
	last   string
}

// goalModel is a compare-and-set register a Goal.
var goalModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		goals := map[string][]porcupine.Operation{}
		for _, op := range history {
			goal := op.Input.(asked).goal
			goals[goal] = append(goals[goal], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range goals {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return headState{} },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(headState), input.(asked), output.(told)
		switch {
		case in.operation == "":
			return out.head == now.cursor && out.last == now.last, now
		case out.applied:
			return in.on == now.cursor && out.head == now.cursor+1, headState{now.cursor + 1, in.operation}
		case out.conflict:
			return in.on != now.cursor && out.head == now.cursor, now
		}
		return true, now
	},
}

// soaker writes one Goal until the time is over.
type soaker struct {
	t     *testing.T
	store *Store
	id    int
	start time.Time

	history []porcupine.Operation
	unknown []porcupine.Operation // commits whose outcome nobody told
}

func (s *soaker) run(until time.Time) {
	on, count := authority.Applied{}, 0
	for time.Now().Before(until) {
		count++
		call := time.Since(s.start).Nanoseconds()
		head, err := s.store.Load(context.Background())
		if err == nil {
			on = authority.Applied{Cursor: head.Cursor, Revision: head.Revision}
			s.note(call, asked{goal: s.store.GoalID()}, told{head: head.Cursor, last: lastOf(s.t, head.Projection)})
		}
		if err != nil && !errors.Is(err, authority.ErrMissing) && !errors.Is(err, authority.ErrUnavailable) {
			s.t.Errorf("load: %v", err)
			return
		}
		s.commit(on, fmt.Sprintf("w%d-%d", s.id, count))
	}
}

func (s *soaker) note(call int64, in asked, out told) {
	s.history = append(s.history, porcupine.Operation{ClientId: s.id, Input: in, Output: out, Call: call, Return: time.Since(s.start).Nanoseconds()})
}

func (s *soaker) commit(on authority.Applied, operation string) {
	in := asked{goal: s.store.GoalID(), operation: operation, on: on.Cursor}
	call := time.Since(s.start).Nanoseconds()
	applied, err := s.store.Commit(context.Background(), request(on, operation))
	var e *authority.Error
	switch {
	case err == nil:
		s.note(call, in, told{applied: true, head: applied.Cursor})
	case errors.As(err, &e) && e.Class == authority.ClassConflict && e.Reason == authority.ReasonRevisionMismatch:
		s.note(call, in, told{conflict: true, head: e.Current.Cursor})
	case errors.Is(err, authority.ErrFailed):
		s.note(call, in, told{refused: true})
	case errors.Is(err, authority.ErrAmbiguous):
		s.unknown = append(s.unknown, porcupine.Operation{ClientId: s.id, Input: in, Call: call})
	default:
		s.t.Errorf("commit: %v", err)
	}
}

func lastOf(t *testing.T, projection []byte) string {
	var head struct{ Last string }
	if err := json.Unmarshal(projection, &head); err != nil {
		t.Error(err)
	}
	return head.Last
}

// TestSoak: sixteen writers on sixteen Goals and sixteen on one, while the server is
// killed and started again twice. What they were told must fit one order of events, and
// the receipts must say the same.
func TestSoak(t *testing.T) {
	c := pgtest.Own(t)
	b := installedOn(t, c.Database(t))
	p := pgtest.NewProxy(t, c, func(n int) pgtest.Fate {
		switch n % 97 {
		case 13:
			return pgtest.LoseAnswer
		case 31:
			return pgtest.LoseCommit
		case 59:
			return pgtest.Cut
		}
		return pgtest.Deliver
	})
	start := time.Now()
	until := start.Add(soakTime)
	var all sync.WaitGroup
	var soakers []*soaker
	for i := range 2 * soakWriters {
		goal := "goal-shared"
		if i >= soakWriters {
			goal = fmt.Sprintf("goal-%d", i)
		}
		store := openStore(t, Options{Server: Server{DSN: b.URL(b.runtime, p.Port()), Connections: 2}, Tenant: "tenant-a", GoalID: goal, Mode: ReadWrite})
		s := &soaker{t: t, store: store, id: i, start: start}
		soakers = append(soakers, s)
		all.Go(func() { s.run(until) })
	}
	for range 2 {
		time.Sleep(soakTime / 3)
		c.Kill()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	requireSettled(t, b, soakers)
}

// requireSettled looks every operation up, checks the order, and audits every Goal.
func requireSettled(t *testing.T, b *bench, soakers []*soaker) {
	t.Helper()
	var history []porcupine.Operation
	applied, refused, ambiguous := 0, 0, 0
	for _, s := range soakers {
		direct := b.store(t, s.store.GoalID())
		for _, op := range s.history {
			in, out := op.Input.(asked), op.Output.(told)
			if in.operation == "" {
				continue
			}
			receipt, err := direct.Receipt(t.Context(), in.operation)
			switch {
			case out.applied && (err != nil || receipt.Cursor != out.head):
				t.Errorf("%s was applied at %s; its receipt: %+v, %v", in.operation, out.head, receipt, err)
			case !out.applied && !errors.Is(err, authority.ErrMissing):
				t.Errorf("%s was refused; its receipt: %+v, %v", in.operation, receipt, err)
			}
			if out.applied {
				applied++
			} else {
				refused++
			}
		}
		history = append(history, s.history...)
		for _, op := range s.unknown {
			ambiguous++
			if receipt, err := direct.Receipt(t.Context(), op.Input.(asked).operation); err == nil {
				op.Output, op.Return = told{applied: true, head: receipt.Cursor}, time.Since(s.start).Nanoseconds()
				history = append(history, op)
			}
		}
		audited(t, direct)
	}
	t.Logf("%d applied, %d refused, %d ambiguous", applied, refused, ambiguous)
	if result := porcupine.CheckOperationsTimeout(goalModel, history, time.Minute); result != porcupine.Ok {
		t.Errorf("the order of events: %s", result)
	}
	if applied < soakWriters {
		t.Error("next to nothing was committed")
	}
}

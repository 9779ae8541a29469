package canary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// Habit is how an agent treats its first lease.
type Habit string

// The habits.
const (
	// Steady renews in time.
	Steady Habit = "steady"
	// Sleepy stands still after the first effect until somebody took the Todo over.
	Sleepy Habit = "sleepy"
)

// Plan is the work that both agents share.
type Plan struct {
	Run        string // in every operation id, so that a Goal can be used again
	Goal       string
	Todos      []string
	Steps      int           // effects of each Todo
	Pace       time.Duration // how long one effect takes
	TTLSeconds int64
}

// Agent works on the Todos of a plan until all are done.
type Agent struct {
	Plan
	Name      string
	Habit     Habit
	Authority *coordination.Authority
	Ledger    Ledger
	// Wait waits, or returns early with the context's error.
	Wait func(ctx context.Context, d time.Duration) error

	sent []sent
}

// sent is an operation that was acknowledged.
type sent struct {
	envelope coordination.Envelope
	receipt  authority.Canonical
}

// Work works until every Todo is done, and then asks for each of its own operations again.
func (a *Agent) Work(ctx context.Context) error {
	for {
		left, todo, err := a.pick(ctx)
		if err != nil {
			return err
		}
		if left == 0 {
			return a.replays(ctx)
		}
		if todo.ID != "" {
			err = a.take(ctx, todo)
		} else {
			err = a.Wait(ctx, a.Pace/4)
		}
		if err != nil {
			return err
		}
	}
}

// pick looks for a Todo that is free, or whose lease has ended, and counts what is left.
func (a *Agent) pick(ctx context.Context) (left int, free coordination.Todo, err error) {
	now := a.Authority.Clock()
	for _, id := range a.Todos {
		todo, err := a.look(ctx, id)
		if err != nil {
			return 0, free, err
		}
		if todo.Status != "open" {
			continue
		}
		left++
		end, _ := todo.Lease.ExpiresAt.Time()
		if free.ID == "" && (todo.Lease.ID == "" || !end.After(now)) {
			free = todo
		}
	}
	return left, free, nil
}

// look waits out a store that cannot be asked.
func (a *Agent) look(ctx context.Context, id string) (coordination.Todo, error) {
	for told := false; ; told = true {
		todo, err := a.Authority.Look(ctx, id)
		if class, _ := authority.ReasonOf(err); err == nil || class == "" || class == authority.ClassMissing {
			return todo, err
		}
		if err := a.outage(ctx, told); err != nil {
			return todo, err
		}
	}
}

func (a *Agent) outage(ctx context.Context, told bool) error {
	if !told {
		if err := a.note(Entry{Kind: Unreachable}); err != nil {
			return err
		}
	}
	return a.Wait(ctx, a.Pace/4)
}

func (a *Agent) note(e Entry) error {
	e.Agent, e.At = a.Name, a.Authority.Clock().UTC()
	return a.Ledger.Append(e)
}

// send asks until there is an answer. The operation id stays: only its receipt can tell
// what became of an attempt that was not answered.
func (a *Agent) send(ctx context.Context, c coordination.Command) (coordination.Result, error) {
	e := coordination.Envelope{OperationID: fmt.Sprintf("%s-%s-%d", a.Run, a.Name, len(a.sent)+1), GoalID: a.Goal, Command: c,
		Actor: coordination.Actor{AgentID: a.Name, DeviceID: "canary"}}
	for told := false; ; told = true {
		result := a.Authority.Apply(ctx, e)
		switch result.Outcome {
		case coordination.Failed:
			if err := a.outage(ctx, told); err != nil {
				return result, errors.Join(err, result.Err)
			}
			continue
		case coordination.Applied, coordination.AlreadyApplied:
			a.sent = append(a.sent, sent{e, result.ReceiptText})
			return result, a.note(acknowledged(Operation, e, result))
		}
		// A refusal has no receipt; the id is free, but an attempt has one id.
		a.sent = append(a.sent, sent{envelope: e})
		return result, nil
	}
}

func acknowledged(kind Kind, e coordination.Envelope, r coordination.Result) Entry {
	return Entry{Kind: kind, TodoID: e.Command.TodoID, Operation: e.OperationID, Command: string(e.Command.Type),
		LeaseID: r.Receipt.LeaseID, LeaseEpoch: r.Receipt.LeaseEpoch, Receipt: authority.DigestOf(r.ReceiptText).String()}
}

// take claims or reclaims a Todo and works on it.
func (a *Agent) take(ctx context.Context, todo coordination.Todo) error {
	c := coordination.Command{Type: coordination.ClaimWork, TodoID: todo.ID, ExpectedRevision: &todo.Revision,
		Preconditions: map[string]authority.Canonical{}, TTLSeconds: a.TTLSeconds, Scopes: []string{"canary/" + todo.ID}}
	if todo.Lease.ID != "" {
		c.Type = coordination.ReclaimWork
	}
	result, err := a.send(ctx, c)
	if err != nil {
		return err
	}
	if result.Refusal != nil {
		return a.note(Entry{Kind: TakenFirst, TodoID: todo.ID})
	}
	return a.perform(ctx, result.Receipt)
}

// perform performs what is left of a Todo, one effect after another, each only under a
// fence that is in force for longer than the effect takes.
func (a *Agent) perform(ctx context.Context, lease coordination.Receipt) error {
	step, err := a.Ledger.performed(lease.TodoID)
	if err != nil {
		return err
	}
	for ; step < a.Steps; step++ {
		held, err := a.keep(ctx, &lease)
		if err != nil || !held {
			return err
		}
		if err := a.note(Entry{Kind: Effect, TodoID: lease.TodoID, Step: step, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch}); err != nil {
			return err
		}
		if err := a.rest(ctx, lease); err != nil {
			return err
		}
	}
	return a.complete(ctx, lease)
}

// rest is the time an effect takes; a sleepy agent oversleeps once.
func (a *Agent) rest(ctx context.Context, lease coordination.Receipt) error {
	if a.Habit != Sleepy {
		return a.Wait(ctx, a.Pace)
	}
	a.Habit = Steady
	for {
		todo, err := a.look(ctx, lease.TodoID)
		if err != nil || todo.Watermark > lease.LeaseEpoch {
			return err
		}
		if err := a.Wait(ctx, a.Pace/4); err != nil {
			return err
		}
	}
}

// keep renews a lease that ends soon. Without proof that it is in force there is no
// effect: the agent stops and says so.
func (a *Agent) keep(ctx context.Context, lease *coordination.Receipt) (held bool, err error) {
	half := time.Duration(a.TTLSeconds) * time.Second / 2
	for !a.lasts(*lease, half) {
		result, err := a.send(ctx, coordination.Command{Type: coordination.RenewWork, TodoID: lease.TodoID, LeaseID: lease.LeaseID,
			LeaseEpoch: lease.LeaseEpoch, TTLSeconds: a.TTLSeconds})
		if err != nil {
			return false, err
		}
		if result.Refusal != nil {
			return false, a.lost(*lease)
		}
		*lease = result.Receipt
	}
	return true, nil
}

func (a *Agent) lasts(lease coordination.Receipt, d time.Duration) bool {
	end, ok := lease.ExpiresAt.Time()
	return ok && end.Sub(a.Authority.Clock()) > d
}

func (a *Agent) lost(lease coordination.Receipt) error {
	return a.note(Entry{Kind: FenceLost, TodoID: lease.TodoID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch})
}

func (a *Agent) complete(ctx context.Context, lease coordination.Receipt) error {
	if held, err := a.keep(ctx, &lease); err != nil || !held {
		return err
	}
	result, err := a.send(ctx, coordination.Command{Type: coordination.CompleteWork, TodoID: lease.TodoID, LeaseID: lease.LeaseID,
		LeaseEpoch: lease.LeaseEpoch, NoFollowup: true, Successors: []string{}})
	if err == nil && result.Refusal != nil {
		return a.lost(lease)
	}
	return err
}

// replays asks for every acknowledged operation again: the receipt must be the one it got.
func (a *Agent) replays(ctx context.Context) error {
	for _, s := range a.sent {
		if s.receipt == nil {
			continue
		}
		result := a.Authority.Apply(ctx, s.envelope)
		if result.Outcome != coordination.AlreadyApplied || string(result.ReceiptText) != string(s.receipt) {
			return fmt.Errorf("operation %s, asked again, got %s", s.envelope.OperationID, result.Outcome)
		}
		if err := a.note(acknowledged(Replayed, s.envelope, result)); err != nil {
			return err
		}
	}
	return nil
}

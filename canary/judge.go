package canary

import (
	"fmt"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// Report is what the judge found: counts, and faults, which must be none.
type Report struct {
	Verdict     string   `json:"verdict"` // proved, insufficient or violated
	Agents      int      `json:"agents"`
	Todos       int      `json:"todos_completed"`
	Effects     int      `json:"effects"`
	Operations  int      `json:"operations"`
	Replays     int      `json:"replays"`
	Renewals    int      `json:"renewals"`
	Reclaims    int      `json:"reclaims"`
	FencesLost  int      `json:"fences_lost"`
	TakenFirst  int      `json:"taken_first"`
	Unreachable int      `json:"times_unreachable"`
	Missing     []string `json:"not_lived,omitempty"`
	Faults      []string `json:"faults,omitempty"`
}

// The verdicts.
const (
	// Proved: nothing is wrong, and everything that was to be lived was lived.
	Proved = "proved"
	// Insufficient: nothing is wrong, but something did not come up.
	Insufficient = "insufficient"
	// Violated: ledger and history contradict each other.
	Violated = "violated"
)

// Expect is what has to come up for a verdict of Proved.
type Expect struct{ Outage bool }

// fenceKey is one lease of one Todo.
type fenceKey struct {
	todo, lease string
	epoch       int64
}

// trial is a judgement in progress.
type trial struct {
	plan     Plan
	report   Report
	until    map[fenceKey]time.Time // how long each lease was in force at most
	owner    map[fenceKey]string    // whose it was
	receipts map[string]string      // by operation id, the digest of its receipt
	done     map[string]int         // completions by Todo
	epochs   map[string]int64       // newest fence of an effect so far, by Todo
	steps    map[string][]int       // steps performed, by Todo, in order
	agents   map[string]bool
}

// Judge holds ledger and history against each other. The history is every transaction of
// the store.
func Judge(plan Plan, ledger []Entry, history []authority.Transaction, expect Expect) Report {
	t := &trial{plan: plan, until: map[fenceKey]time.Time{}, owner: map[fenceKey]string{}, receipts: map[string]string{}, done: map[string]int{},
		epochs: map[string]int64{}, steps: map[string][]int{}, agents: map[string]bool{}}
	for _, row := range history {
		t.readRow(row)
	}
	for _, e := range ledger {
		t.readEntry(e)
	}
	t.close(expect)
	return t.report
}

func (t *trial) fault(format string, args ...any) {
	t.report.Faults = append(t.report.Faults, fmt.Sprintf(format, args...))
}

func (t *trial) readRow(row authority.Transaction) {
	for text := range canonical.Elements(row.Receipts) {
		r, err := coordination.ParseReceipt(text)
		if err != nil || !slices.Contains(t.plan.Todos, r.TodoID) {
			continue // of LoopX, or of other work on the Goal
		}
		if _, twice := t.receipts[r.OperationID]; twice {
			t.fault("operation %s has two receipts", r.OperationID)
		}
		t.receipts[r.OperationID] = authority.DigestOf(text).String()
		key := fenceKey{r.TodoID, r.LeaseID, r.LeaseEpoch}
		if end, ok := r.ExpiresAt.Time(); ok {
			t.until[key], t.owner[key] = end, r.Actor.AgentID
		}
		switch r.Command {
		case coordination.RenewWork:
			t.report.Renewals++
		case coordination.ReclaimWork:
			t.report.Reclaims++
		case coordination.CompleteWork:
			t.done[r.TodoID]++
		}
	}
}

func (t *trial) readEntry(e Entry) {
	t.agents[e.Agent] = true
	switch e.Kind {
	case Effect:
		t.readEffect(e)
	case Operation, Replayed:
		if e.Kind == Operation {
			t.report.Operations++
		} else {
			t.report.Replays++
		}
		if t.receipts[e.Operation] != e.Receipt {
			t.fault("operation %s was acknowledged (%s), and the history does not have that receipt", e.Operation, e.Kind)
		}
	case FenceLost:
		t.report.FencesLost++
	case TakenFirst:
		t.report.TakenFirst++
	case Unreachable:
		t.report.Unreachable++
	}
}

func (t *trial) readEffect(e Entry) {
	t.report.Effects++
	key := fenceKey{e.TodoID, e.LeaseID, e.LeaseEpoch}
	end, known := t.until[key]
	switch {
	case !known || t.owner[key] != e.Agent:
		t.fault("effect %d of %s has a fence that %s never had", e.Step, e.TodoID, e.Agent)
	case !e.At.Before(end):
		t.fault("effect %d of %s came after the end of its lease", e.Step, e.TodoID)
	case e.LeaseEpoch < t.epochs[e.TodoID]:
		t.fault("effect %d of %s came under epoch %d after one under epoch %d", e.Step, e.TodoID, e.LeaseEpoch, t.epochs[e.TodoID])
	}
	t.epochs[e.TodoID] = max(t.epochs[e.TodoID], e.LeaseEpoch)
	t.steps[e.TodoID] = append(t.steps[e.TodoID], e.Step)
}

// close counts what must be whole, and names what did not come up.
func (t *trial) close(expect Expect) {
	whole := make([]int, t.plan.Steps)
	for i := range whole {
		whole[i] = i
	}
	for _, todo := range t.plan.Todos {
		if t.done[todo] != 1 {
			t.fault("%s was completed %d times", todo, t.done[todo])
		}
		if !slices.Equal(t.steps[todo], whole) {
			t.fault("%s has the effects %v and should have %v", todo, t.steps[todo], whole)
		}
		t.report.Todos += t.done[todo]
	}
	r := &t.report
	r.Agents = len(t.agents)
	if r.Replays != r.Operations {
		t.fault("%d operations were acknowledged, %d were asked for again", r.Operations, r.Replays)
	}
	for _, lived := range []struct {
		what string
		is   bool
	}{
		{"two agents", r.Agents == 2}, {"a renewal", r.Renewals > 0}, {"a reclaim", r.Reclaims > 0},
		{"a fence that was lost", r.FencesLost > 0}, {"an outage", r.Unreachable > 0 || !expect.Outage},
	} {
		if !lived.is {
			r.Missing = append(r.Missing, lived.what)
		}
	}
	switch {
	case len(r.Faults) > 0:
		r.Verdict = Violated
	case len(r.Missing) > 0:
		r.Verdict = Insufficient
	default:
		r.Verdict = Proved
	}
}

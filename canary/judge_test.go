package canary_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/canary"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

var began = time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)

func second(n float64) time.Time { return began.Add(time.Duration(n * float64(time.Second))) }

var plan = canary.Plan{Run: "run", Goal: "goal", Todos: []string{"todo_0"}, Steps: 2, TTLSeconds: 2}

// play is a ledger and a history in the making.
type play struct {
	ledger  []canary.Entry
	history []authority.Transaction
}

// command puts a receipt into the history and its acknowledgement into the ledger, twice:
// at once, and when it is asked for again.
func (p *play) command(verb, agent string, epoch int, at float64, more map[string]any) {
	id := fmt.Sprintf("run-%d", len(p.history)+1)
	r := map[string]any{"schema_version": "loopx_authority_receipt_v0", "operation_id": id, "request_digest": "sha256:" + strings.Repeat("0", 64),
		"command": verb, "actor": map[string]any{"agent_id": agent, "device_id": "canary"}, "todo_id": "todo_0", "accepted_todo_revision": len(p.history) + 1,
		"accepted_authority_revision": len(p.history) + 1, "applied_at": second(at).Format("2006-01-02T15:04:05Z"), "lease_id": fmt.Sprintf("lease-%d", epoch), "lease_epoch": epoch}
	if verb != "complete_work" {
		r["expires_at"] = second(at + 2).Format("2006-01-02T15:04:05Z")
	}
	for key, value := range more {
		r[key] = value
	}
	p.history = append(p.history, authority.Transaction{Cursor: authority.Cursor(len(p.history) + 1), OperationID: id, Receipts: fixture.Canonical([]any{r})})
	for _, kind := range []canary.Kind{canary.Operation, canary.Replayed} {
		p.ledger = append(p.ledger, canary.Entry{Kind: kind, Agent: agent, TodoID: "todo_0", Operation: id, Receipt: fixture.SHA256(fixture.Canonical(r))})
	}
}

func (p *play) effect(agent string, step, epoch int, at float64) {
	p.ledger = append(p.ledger, canary.Entry{Kind: canary.Effect, Agent: agent, TodoID: "todo_0", Step: step, LeaseID: fmt.Sprintf("lease-%d", epoch),
		LeaseEpoch: int64(epoch), At: second(at)})
}

// good is a play in which everything comes up and nothing is wrong.
func good() *play {
	p := &play{}
	p.command("claim_work", "b", 1, 0, nil)
	p.effect("b", 0, 1, 1)
	p.command("reclaim_work", "a", 2, 2, map[string]any{"superseded_owner": "b", "superseded_lease_epoch": 1})
	p.ledger = append(p.ledger, canary.Entry{Kind: canary.FenceLost, Agent: "b", TodoID: "todo_0"})
	p.command("renew_work", "a", 2, 3, nil)
	p.effect("a", 1, 2, 4.9)
	p.command("complete_work", "a", 2, 5, map[string]any{"completion_continuation": "no_followup", "successor_todo_ids": []any{}})
	return p
}

func TestJudgeProves(t *testing.T) {
	got := canary.Judge(plan, good().ledger, good().history, canary.Expect{})
	if got.Verdict != canary.Proved || got.Effects != 2 || got.Operations != 4 || got.Renewals != 1 || got.Reclaims != 1 || got.Todos != 1 {
		t.Errorf("%+v", got)
	}
	if got := canary.Judge(plan, good().ledger, good().history, canary.Expect{Outage: true}); got.Verdict != canary.Insufficient {
		t.Errorf("without the outage that was to be: %+v", got)
	}
}

// TestJudgeFinds plants one fault after another.
func TestJudgeFinds(t *testing.T) {
	effect := func(p *play, n int) *canary.Entry {
		for i := range p.ledger {
			if p.ledger[i].Kind == canary.Effect {
				if n == 0 {
					return &p.ledger[i]
				}
				n--
			}
		}
		t.Fatal("no such effect")
		return nil
	}
	for name, plant := range map[string]func(p *play){
		"after the end of the lease":   func(p *play) { effect(p, 1).At = second(5) },
		"under a fence never held":     func(p *play) { effect(p, 1).LeaseEpoch = 3 },
		"under another's fence":        func(p *play) { effect(p, 1).Agent = "b" },
		"twice":                        func(p *play) { p.ledger = append(p.ledger, *effect(p, 1)) },
		"left out":                     func(p *play) { effect(p, 1).Kind = canary.TakenFirst },
		"an older fence after a newer": func(p *play) { *effect(p, 0), *effect(p, 1) = *effect(p, 1), *effect(p, 0) },
		"receipt gone":                 func(p *play) { p.history[2].Receipts = authority.Canonical("[]") },
		"receipt changed":              func(p *play) { p.ledger[0].Receipt = strings.Repeat("0", 64) },
		"two receipts":                 func(p *play) { p.history = append(p.history, p.history[0]) },
		"never completed":              func(p *play) { p.history = p.history[:3]; p.ledger = p.ledger[:len(p.ledger)-2] },
		"not asked for again":          func(p *play) { p.ledger = slices.Delete(p.ledger, 1, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			p := good()
			plant(p)
			if got := canary.Judge(plan, p.ledger, p.history, canary.Expect{}); got.Verdict != canary.Violated || len(got.Faults) == 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

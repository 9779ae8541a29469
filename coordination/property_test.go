package coordination_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// TestRandomHistories draws histories and holds every answer, every receipt and the head
// against the naive model, in each store; somewhere in the middle the history is moved
// to another store, and a bound head is bound to that one.
func TestRandomHistories(t *testing.T) {
	everywhere(t, 0, func(empty *rig) {
		t := empty.TB.(*testing.T)
		rapid.Check(t, func(draw *rapid.T) {
			p := begin(t, empty.place.Kind, empty.shape)
			steps := rapid.IntRange(8, 30).Draw(draw, "steps")
			move := rapid.IntRange(1, steps-1).Draw(draw, "migration before step")
			for i := range steps {
				if i == move {
					p.migrate(draw)
				}
				p.step(draw, i)
			}
			p.compare(draw)
		})
	})
}

// play is a random history under way.
type play struct {
	*rig
	model  *naive
	leases []coordination.Receipt // every lease that was ever given
	done   []naiveCommand
}

func begin(t *testing.T, kind authority.Kind, shape string) *play {
	t.Helper()
	r := &rig{TB: t, place: vacant(t, kind), shape: shape, clock: &clock{epochAt}}
	store := r.place.handle(t)
	identity, err := store.Identity(t.Context())
	must(t, err)
	m := &naive{shape: shape, goal: r.place.Goal, binding: string(identity), now: epochAt.UnixMilli(), grace: 5000,
		todos: map[string]*naiveTodo{}, asked: map[string]naiveAnswer{}, index: map[string]any{}}
	if shape == projected {
		m.revision = 1 // the seed
	}
	for i := range 3 {
		id := todoID(i)
		m.todos[id] = &naiveTodo{record: at(coordinationHead("", "", 3), "coordination", "todos")[id].(map[string]any)}
		if shape == projected {
			m.todos[id].record = at(projectionHead("", "", 3)["todos"].([]any)[i])
		}
		delete(m.todos[id].record, "todo_revision")
		delete(m.todos[id].record, "last_lease_epoch")
	}
	if shape == projected {
		m.todos["todo_002"].record["excluded_agents"] = []any{"agent-003"}
	} else {
		at(m.todos["todo_002"].record, "eligibility")["allowed_agent_ids"] = []any{"agent-000", "agent-001", "agent-002"}
	}
	_, err = store.Commit(t.Context(), authority.CommitRequest{OperationID: "seed", Events: []byte("[]"), Receipts: []byte("[]"), Projection: m.head()})
	must(t, err)
	r.Authority = r.attach(store)
	r.Grace, err = coordination.GraceSeconds(5)
	must(t, err)
	return &play{rig: r, model: m}
}

func (p *play) step(draw *rapid.T, i int) {
	c := p.draw(draw, i)
	e, err := coordination.ParseEnvelope(fixture.Canonical(p.envelopeOf(c)))
	if err != nil {
		draw.Fatalf("%v: %+v", err, c)
	}
	got := p.Apply(p.Context(), e)
	verdict, receipt := p.model.apply(c, got.Receipt.LeaseID)
	answer := string(got.Outcome)
	if got.Refusal != nil {
		answer += "/" + string(got.Refusal.Reason)
	}
	if answer != verdict {
		draw.Fatalf("step %d: %+v\nanswered %s, %v, %v; want %s", i, c, answer, got.Refusal, got.Err, verdict)
	}
	if receipt != nil && !bytes.Equal(got.ReceiptText, fixture.Canonical(receipt)) {
		draw.Fatalf("step %d: receipt\n%s\nwant\n%s", i, got.ReceiptText, fixture.Canonical(receipt))
	}
	if answer == "applied" {
		p.done = append(p.done, c)
		if got.Receipt.ExpiresAt != "" {
			p.leases = append(p.leases, got.Receipt)
		}
	}
}

func (p *play) envelopeOf(c naiveCommand) map[string]any {
	e := c.request(p.place.Goal)
	e["schema_version"], e["operation_id"] = "loopx_command_v0", c.operation
	return e
}

// draw draws a command: mostly a sensible one, sometimes an old one again or changed.
func (p *play) draw(draw *rapid.T, i int) naiveCommand {
	ms := rapid.SampledFrom([]int64{0, 0, 500, 1000, 20000, 29500, 31000, 36000}).Draw(draw, "milliseconds")
	p.model.now += ms
	p.clock.forward(time.Duration(ms) * time.Millisecond)
	if len(p.done) > 0 && rapid.IntRange(0, 4).Draw(draw, "again") == 0 {
		c := rapid.SampledFrom(p.done).Draw(draw, "old operation")
		if rapid.Bool().Draw(draw, "changed") {
			c.agent = "agent-009"
		}
		return c
	}
	c := naiveCommand{operation: fmt.Sprintf("op-%d", i), params: map[string]any{},
		verb:  rapid.SampledFrom([]string{"claim_work", "claim_work", "claim_work", "renew_work", "release_work", "reclaim_work", "reclaim_work", "complete_work"}).Draw(draw, "verb"),
		agent: agentID(rapid.IntRange(0, 3).Draw(draw, "agent")),
		todo:  rapid.SampledFrom([]string{"todo_000", "todo_000", "todo_001", "todo_002", "todo_next_0", "todo_none"}).Draw(draw, "todo")}
	switch c.verb {
	case "claim_work", "reclaim_work":
		p.drawTaking(draw, &c)
		return c
	case "renew_work":
		c.params["lease_ttl_seconds"] = int64(30)
	case "complete_work":
		c.params["no_followup"], c.params["successor_todo_ids"] = rapid.Bool().Draw(draw, "no followup"), []any{}
		if n := rapid.IntRange(0, 3).Draw(draw, "successor"); n < 2 {
			c.params["successor_todo_ids"] = []any{fmt.Sprintf("todo_next_%d", n)}
		}
	}
	p.drawFence(draw, &c)
	return c
}

func (p *play) drawTaking(draw *rapid.T, c *naiveCommand) {
	scopes := []any{}
	if n := rapid.IntRange(0, 2*len(naiveScopes)).Draw(draw, "scope"); n < len(naiveScopes) {
		scopes = append(scopes, naiveScopes[n])
	}
	c.params["expected_preconditions"], c.params["lease_ttl_seconds"], c.params["write_scopes"] = map[string]any{}, int64(30), scopes
	if c.verb == "reclaim_work" {
		return
	}
	c.params["expected_todo_revision"] = int64(0)
	if t := p.model.todos[c.todo]; t != nil {
		c.params["expected_todo_revision"] = t.revision + rapid.SampledFrom([]int64{0, 0, 0, 0, 1}).Draw(draw, "off by")
	}
}

// drawFence shows a lease that was given at some time, mostly the last, mostly by its owner.
func (p *play) drawFence(draw *rapid.T, c *naiveCommand) {
	c.params["lease_id"], c.params["expected_lease_epoch"] = "lease-none", int64(1)
	if len(p.leases) == 0 {
		return
	}
	lease := p.leases[len(p.leases)-1]
	if rapid.IntRange(0, 2).Draw(draw, "old lease") == 0 {
		lease = rapid.SampledFrom(p.leases).Draw(draw, "lease")
	}
	c.todo, c.params["lease_id"], c.params["expected_lease_epoch"] = lease.TodoID, lease.LeaseID, lease.LeaseEpoch
	if rapid.IntRange(0, 5).Draw(draw, "thief") > 0 {
		c.agent = lease.Actor.AgentID
	}
}

// migrate moves the history to a store of another kind.
func (p *play) migrate(draw *rapid.T) {
	next := vacant(p.TB, rapid.SampledFrom(kinds).Draw(draw, "target"))
	next.Goal = p.place.Goal
	next.Tenant = fmt.Sprintf("tenant-%d", goals.Add(1))
	to := next.handle(p.TB)
	copyHistory(p.TB, p.Store, to)
	grace := p.Grace
	p.place, p.Authority = next, p.attach(to)
	p.Grace = grace
	if p.shape != bound {
		return
	}
	identity, err := to.Identity(p.Context())
	must(p.TB, err)
	request := coordination.RebindRequest{OperationID: "rebind-" + fmt.Sprint(goals.Add(1)), GoalID: next.Goal, Store: identity, MigrationID: "migration-1",
		ManifestDigest: authority.DigestOf([]byte("m")), Actor: coordination.Actor{AgentID: "agent-owner", DeviceID: "host-1"}}
	got := p.Rebind(p.Context(), request)
	if identity == authority.Identity(p.model.binding) {
		refused(p.TB, got, coordination.Rejected, coordination.ReasonBoundAlready) // another tenant of the same database
		return
	}
	want := p.model.rebind(request.OperationID, string(identity), map[string]any{"actor": map[string]any{"agent_id": "agent-owner", "device_id": "host-1"},
		"goal_id": next.Goal, "command": map[string]any{"type": "rebind_head", "store_binding": string(identity), "migration_id": "migration-1",
			"manifest_digest": "sha256:" + fixture.SHA256([]byte("m"))}})
	if got.Outcome != coordination.Applied || !bytes.Equal(got.ReceiptText, fixture.Canonical(want)) {
		draw.Fatalf("rebind: %s, %v\n%s\nwant\n%s", got.Outcome, got.Refusal, got.ReceiptText, fixture.Canonical(want))
	}
}

// compare holds the head and every receipt against the model.
func (p *play) compare(draw *rapid.T) {
	head, err := p.Store.Load(p.Context())
	must(p.TB, err)
	if want := p.model.head(); !bytes.Equal(head.Projection, want) {
		draw.Fatalf("head\n%s\nwant\n%s", head.Projection, want)
	}
	for id, answer := range p.model.asked {
		stored, err := p.Store.Receipt(p.Context(), id)
		must(p.TB, err)
		if want := fixture.Canonical([]any{answer.receipt}); !bytes.Equal(stored.Receipts, want) {
			draw.Fatalf("receipt of %s\n%s\nwant\n%s", id, stored.Receipts, want)
		}
	}
}

//go:build interop

package interop

import (
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

const (
	goalV0 = "goal-file-v0"
	goalV1 = "goal-file-v1"
)

// upgraded is a Goal whose physical format LoopX has upgraded.
func upgraded(t *testing.T, name string) goal {
	t.Helper()
	g := newGoal(t, name)
	g.upgrade()
	return g
}

func (g goal) upgrade() {
	g.t.Helper()
	if a := command(g.t, nil, g.loopxLine("authority-archive", "upgrade", "--execute")...).done(g.t); a.is("status") != "upgraded" {
		g.t.Fatalf("LoopX's upgrade: %s", a.text)
	}
}

// TestInteropForward promotes a Goal and has LoopX go on with it. A v0 Goal cannot be
// read by LoopX 2.1.1 as it is: there a twin, which LoopX upgraded, says what was in it.
func TestInteropForward(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		goal  func(*testing.T) goal
		twin  func(*testing.T) goal
		reads bool // LoopX reads the Goal before it is promoted
	}{
		{"v1", func(t *testing.T) goal { return newGoal(t, goalV1) }, nil, true},
		{"v0, upgraded by LoopX", func(t *testing.T) goal { return upgraded(t, goalV0) }, nil, true},
		{"v0, as it is", func(t *testing.T) goal { return newGoal(t, goalV0) }, func(t *testing.T) goal { return upgraded(t, goalV0) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := c.goal(t)
			before := g
			if !c.reads {
				g.list().refused(t, "provider_protocol_violation")
				before = c.twin(t)
			}
			list, history := before.list(), before.export()
			readBy(t, list, "file_v0")
			g.forwardProved()
			after := g.list()
			readBy(t, after, "sqlite_v0")
			sameList(t, list, after)
			g.fixtureReceipts(goalV0, 1, 116, 231)
			history.begins(t, g.export())
			g.matches(history, "")
			g.worksOn(after)
			g.matches(history, allowNewerHead)
			history.begins(t, g.export())
			g.sound("sqlite:")
		})
	}
}

// forwardProved is forward with LoopX's answers to the frozen Goal in between.
func (g goal) forwardProved() {
	g.t.Helper()
	frozen := g.do("freeze", "--to", "sqlite:")
	if probe := frozen.is("facts", "result", "probe"); probe != "loopx: local_authority_selector_invalid" {
		g.t.Errorf("freeze was proved by %q", probe)
	}
	g.refusesAll("local_authority_selector_invalid")
	for _, step := range []string{"import", "compare", "promote"} {
		g.do(step)
	}
	probes, _ := g.migrate("status").done(g.t).at("facts", "migration", "fence", "probes").([]any)
	if len(probes) != 1 {
		g.t.Fatalf("the record holds the probes %v, want one", probes)
	}
	probe := answer{fields: probes[0].(map[string]any)}
	if probe.is("by") != "loopx" || probe.is("answer") != "local_authority_selector_invalid" || probe.at("refused") != true {
		g.t.Errorf("the record of the fence's proof: %v", probe.fields)
	}
}

// refusesAll fails unless LoopX refuses every read and write for one reason, and
// changes no byte by it.
func (g goal) refusesAll(reason string) {
	g.t.Helper()
	tree := fixture.TreeHash(g.t, g.root)
	for _, a := range []answer{
		g.list(), g.receipt("turn-0003"), g.loopx("task-lease", "inspect", "--todo-id", "todo_0043"),
		g.add("refused"), g.acquire("todo_0043"),
		g.loopx("todo", "complete", "--todo-id", "todo_0043", "--agent-id", "agent-north", "--evidence", "none", "--no-follow-up"),
	} {
		a.refused(g.t, reason)
		if a.at("legacy_fallback_used") == true {
			g.t.Errorf("%q fell back: %s", a.argv, a.text)
		}
	}
	fixture.Unchanged(g.t, g.root, tree)
}

// worksOn uses every verb that writes, on Todos of the list that nobody has.
func (g goal) worksOn(list answer) {
	g.t.Helper()
	free := freeTodos(g.t, list)
	g.leases(free[0])
	g.completes(free[1])
	g.addsOnce("after-promotion")
	if got := g.list().done(g.t).at("todo_count"); got != list.at("todo_count").(float64)+1 {
		g.t.Errorf("%v Todos after one was added to %v", got, list.at("todo_count"))
	}
}

// leases takes a lease, renews it and gives it back.
func (g goal) leases(todo string) {
	g.t.Helper()
	g.acquire(todo).done(g.t)
	g.lease("renew", todo, g.version(todo)).done(g.t)
	g.lease("release", todo, g.version(todo)).done(g.t)
	if a := g.loopx("task-lease", "inspect", "--todo-id", todo).done(g.t); a.at("active") != false {
		g.t.Errorf("the lease is released and LoopX says %s", a.text)
	}
}

// version is the version of the lease a Todo has.
func (g goal) version(todo string) string {
	g.t.Helper()
	a := g.loopx("task-lease", "inspect", "--todo-id", todo).done(g.t)
	version, held := a.at("lease", "version").(float64)
	if !held {
		g.t.Fatalf("%s has no lease: %s", todo, a.text)
	}
	return strconv.Itoa(int(version))
}

// completes claims a Todo, which takes its lease, and completes it.
func (g goal) completes(todo string) {
	g.t.Helper()
	g.loopx("todo", "claim", "--todo-id", todo, "--claimed-by", "agent-south", "--agent-id", "agent-south",
		"--task-lease-idempotency-key", "claim-of-"+todo).done(g.t)
	g.loopx("todo", "complete", "--todo-id", todo, "--agent-id", "agent-south", "--evidence", "it was done", "--no-follow-up",
		"--task-lease-idempotency-key", "claim-of-"+todo, "--task-lease-expected-version", g.version(todo)).done(g.t)
}

// addsOnce adds a Todo under an operation id, and finds the same receipt wherever it
// is asked for again.
func (g goal) addsOnce(operation string) answer {
	g.t.Helper()
	added := g.add(operation).done(g.t)
	if added.is("status") != "applied" {
		g.t.Fatalf("todo add: %s", added.text)
	}
	g.replays(added)
	other := g.loopx("todo", "add", "--role", "agent", "--text", "[P2] Other work", "--task-class", "advancement_task", "--operation-id", operation)
	other.refused(g.t, "coordination_operation_identity_mismatch")
	return added
}

// replays offers an operation of addsOnce again and fails unless LoopX answers with
// the receipt and cursor it gave first.
func (g goal) replays(first answer) {
	g.t.Helper()
	operation := first.is("operation_id")
	again := g.add(operation).done(g.t)
	if again.is("status") != "replayed" || again.at("changed") == true {
		g.t.Errorf("%s again: %s", operation, again.text)
	}
	stored := g.receipt(operation).done(g.t)
	receipts, _ := stored.at("receipts").([]any)
	if len(receipts) != 1 || !reflect.DeepEqual(receipts[0], first.at("original_receipt")) ||
		!reflect.DeepEqual(again.at("original_receipt"), first.at("original_receipt")) {
		g.t.Errorf("%s was answered %v, again %v, and by receipt %v", operation, first.at("original_receipt"), again.at("original_receipt"), receipts)
	}
	if first.is("cursor") != again.is("cursor") || first.is("cursor") != stored.is("cursor") {
		g.t.Errorf("%s stands at cursor %s, again %s, by receipt %s", operation, first.is("cursor"), again.is("cursor"), stored.is("cursor"))
	}
}

// freeTodos are open Todos of agents without a claim.
func freeTodos(t testing.TB, list answer) []string {
	t.Helper()
	var free []string
	todos, _ := list.at("todos").([]any)
	for _, todo := range todos {
		a := answer{fields: todo.(map[string]any)}
		if a.is("status") == "open" && a.is("role") == "agent" && a.is("claimed_by") == "" {
			free = append(free, a.is("todo_id"))
		}
	}
	if len(free) < 2 {
		t.Fatalf("%d free Todos", len(free))
	}
	return free
}

// TestInteropWritten reads a journal that LoopX itself has written a while.
func TestInteropWritten(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	g.worksOn(g.list())
	history, list := g.export(), g.list()
	row, seen := g.authority()
	stores, _ := seen.done(t).at("facts", "stores").([]any)
	if row != "fence engaged, no selector, a journal" || len(stores) != 1 {
		t.Fatalf("inspect: %q, %s", row, seen.text)
	}
	journal := answer{fields: stores[0].(map[string]any)}
	if journal.at("verified") != true || journal.is("cursor") != list.is("authority_read", "cursor") ||
		journal.is("provider_revision") != list.is("authority_read", "provider_revision") || journal.is("format") != "file-v1" {
		t.Errorf("inspect reads %v, LoopX %v", journal.fields, list.at("authority_read"))
	}
	g.migrate("verify", "file:").done(t)
	g.do("cutover", "--to", "sqlite:", "--max-stall", "2m")
	sameList(t, list, g.list())
	history.begins(t, g.export())
	g.matches(history, "")
	g.sound("sqlite:")
	if _, err := os.Stat(g.journal()); !os.IsNotExist(err) {
		t.Errorf("the journal is still at LoopX's place: %v", err)
	}
}

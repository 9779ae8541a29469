//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// While a freeze holds the maintenance lock, LoopX's writers wait for it, give up
// after their 30 s, and change nothing; its readers do not wait. Then the freeze
// goes on and finds the Goal as it was.
func TestInteropWritersWaitForFreeze(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	before := g.list()
	freeze := g.paused(g.effect("provider-", "freeze", "--to", "sqlite:"), "freeze", "--to", "sqlite:")
	if _, err := os.Stat(g.maintenance()); err != nil {
		t.Fatalf("the freeze does not hold the maintenance lock: %v", err)
	}
	tree := g.tree()
	add := start(t, nil, g.addLine("while-locked")...)
	acquire := start(t, nil, g.loopxLine("task-lease", "acquire", "--goal-id", goalID, "--todo-id", "todo_0043", "--owner", "agent-north",
		"--idempotency-key", "k", "--ttl-seconds", "600", "--write-scope", "docs/**")...)
	sameList(t, before, g.list())
	add.wait(t).refused(t, "invalid_local_coordination_todo_create_request")
	acquire.wait(t).refused(t, "lock_acquire_timeout")
	fixture.Unchanged(t, g.root, tree)
	if frozen := freeze.goOn(t).done(t); frozen.is("facts", "result", "cursor") != before.is("authority_read", "cursor") {
		t.Errorf("the freeze bound %s, LoopX had read %s", frozen.text, before.is("authority_read", "cursor"))
	}
	g.add("while-frozen").refused(t, "local_authority_selector_invalid")
	g.do("abort")
	sameList(t, before, g.list())
	g.addsOnce("after-abort")
}

// While LoopX is in the middle of a write, a freeze is refused, and says who holds
// the lock. LoopX is kept there by its document lock, which this process holds.
func TestInteropFreezeWaitsForWriter(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	line := g.preview(built, "freeze", "--to", "sqlite:")
	holder := fmt.Sprintf(`{"pid":%d,"token":"interop"}`, os.Getpid())
	must(t, os.WriteFile(g.journal()+".ts-effect.lock", []byte(holder), 0o600))
	add := start(t, nil, g.addLine("in-the-middle")...)
	var daemon struct{ PID int }
	until(t, "LoopX holds the maintenance lock", func() bool {
		text, err := os.ReadFile(g.maintenance())
		return err == nil && json.Unmarshal(text, &daemon) == nil && daemon.PID != 0
	})
	line[slices.Index(line, lockWait)] = "--lock-timeout=300ms"
	refused := command(t, nil, line...)
	must(t, os.Remove(g.journal()+".ts-effect.lock"))
	added := add.wait(t).done(t)
	if refused.exit != 7 || refused.reason() != "lock_timeout" || refused.at("facts", "where", "holder_pid") != float64(daemon.PID) {
		t.Errorf("the freeze ended with %d, LoopX's daemon is %d: %s", refused.exit, daemon.PID, refused.text)
	}
	if row, _ := g.authority(); row != "fence engaged, no selector, a journal" {
		t.Errorf("after the refusal the authority is %q", row)
	}
	g.replays(added)
	g.do("freeze", "--to", "sqlite:")
}

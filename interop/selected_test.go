//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// moves has LoopX move the Goal to another local store by its own migration.
func (g goal) moves(provider string) {
	g.t.Helper()
	plan := filepath.Join(g.t.TempDir(), "plan.json")
	planned := g.loopx("authority-archive", "plan-migration", "--plan", plan, "--provider", provider).done(g.t)
	moved := g.loopx("authority-archive", "migrate", "--plan", plan, "--plan-sha256", planned.is("plan_sha256"), "--execute").done(g.t)
	if moved.is("status") != "migrated" {
		g.t.Fatalf("LoopX's migration: %s", moved.text)
	}
}

// A database that LoopX made is read here, and so is the journal it went back to. In
// both the other store stands there still.
func TestInteropLoopXMigration(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	g.moves("sqlite")
	g.worksOn(g.list())
	g.stands("sqlite", "fence engaged, selector names sqlite")
	g.moves("file")
	g.addsOnce("after-both")
	g.stands("file", "fence engaged, selector names file")

	// What LoopX left at the target's place is in the way, and is named.
	refused := g.migrate("freeze", "--to", "sqlite:")
	if refused.exit != 3 || refused.reason() != "target_in_the_way" {
		t.Errorf("freeze over a database of LoopX's: %d %q: %s", refused.exit, refused.reason(), refused.text)
	}
}

// stands fails unless that store is the authority, for that reason, and what LoopX
// wrote into it is found good here, to the same end.
func (g goal) stands(kind, row string) {
	g.t.Helper()
	list := g.list().done(g.t)
	found, seen := g.authority()
	if found != row || seen.is("facts", "authority", "kind") != kind {
		g.t.Errorf("the authority is %q, want %q: %s", found, row, seen.text)
	}
	verified := g.migrate("verify", kind+":").done(g.t)
	if verified.is("facts", "store", "cursor") != list.is("authority_read", "cursor") ||
		verified.is("facts", "store", "provider_revision") != list.is("authority_read", "provider_revision") {
		g.t.Errorf("verified %s, LoopX reads %v", verified.text, list.at("authority_read"))
	}
}

// Each way in which selector and stores can contradict each other is refused by LoopX
// for one reason, and here for the one that goes with it.
func TestInteropContradictions(t *testing.T) {
	t.Parallel()
	g := newGoal(t, goalV1)
	g.moves("sqlite")
	selector, err := os.ReadFile(g.selector())
	must(t, err)
	made := g.save()
	for _, c := range []struct {
		name, loopx, ours string
		spoil             func() error
	}{
		{"selector missing", "local_authority_selector_missing", "selector_missing",
			func() error { return os.Remove(g.selector()) }},
		{"store missing", "local_authority_provider_missing", "selected_store_missing",
			func() error { return os.Remove(g.database()) }},
		{"another identity", "local_authority_provider_identity_mismatch", "selected_store_mismatch", func() error {
			i := strings.Index(string(selector), "sqlite:")
			other := string(selector[:i]) + "sqlite:" + strings.Repeat("0", 32) + string(selector[i+len("sqlite:")+32:])
			return os.WriteFile(g.selector(), []byte(other), 0o600)
		}},
		{"selector empty", "local_authority_selector_invalid", "selector_unreadable",
			func() error { return os.WriteFile(g.selector(), nil, 0o600) }},
		{"selector of another goal", "local_authority_selector_invalid", "selector_unreadable", func() error {
			return os.WriteFile(g.selector(), []byte(strings.Replace(string(selector), goalID, "other-goal", 1)), 0o600)
		}},
	} {
		g.restore(made)
		must(t, c.spoil())
		g.list().refused(t, c.loopx)
		g.add("refused").refused(t, c.loopx)
		_, seen := g.authority()
		if seen.exit != 6 || seen.reason() != c.ours {
			t.Errorf("%s: inspect ended with %d %q, want 6 %q: %s", c.name, seen.exit, seen.reason(), c.ours, seen.text)
		}
	}
}

package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// granted is grants.json of the sample Goal after these principals were given a grant.
func granted(principals ...string) Grants {
	g := Grants{SchemaVersion: GrantsSchema, GoalID: "goal"}
	for _, p := range principals {
		g = g.With(change(Given, p))
	}
	return g
}

func change(kind, principal string) GrantChange {
	return GrantChange{Change: kind, Principal: principal, By: "os:owner", OperationID: "op-" + kind + principal,
		At: time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)}
}

func TestGrantsStandUntilTheyAreWithdrawn(t *testing.T) {
	g := granted("os:b", "os:a").With(change(Withdrawn, "os:b"))
	for principal, stands := range map[string]bool{"os:a": true, "os:b": false, "os:c": false} {
		if got := g.Standing(principal) != nil; got != stands {
			t.Errorf("%s holds a grant: %v", principal, got)
		}
	}
	g = g.With(change(Given, "os:b"))
	if c := g.Standing("os:b"); c == nil || c.Seq != 4 {
		t.Errorf("given again: %+v", c)
	}
	if holders := g.Holders(); len(holders) != 2 || holders[0].Principal != "os:a" || holders[1].Principal != "os:b" {
		t.Errorf("holders %+v", holders)
	}
	if c := g.Of("os:owner", "op-withdrawnos:b"); c == nil || c.Seq != 3 {
		t.Errorf("the change of an operation: %+v", c)
	}
	if c := g.Of("os:other", "op-withdrawnos:b"); c != nil {
		t.Error("the same id under another principal is another operation")
	}
}

func TestSaveGrantsIsCompareAndSet(t *testing.T) {
	f := folder(t)
	first, err := f.SaveGrants(authority.Digest{}, granted("os:a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.SaveGrants(authority.Digest{}, granted("os:b")); !errors.Is(err, ErrGrantsStale) {
		t.Errorf("over grants that were never read: %v", err)
	}
	if _, err := f.SaveGrants(first, granted("os:a", "os:b")); err != nil {
		t.Error(err)
	}
}

// What no sequence of commands has left is refused, read or written, and nobody holds a
// grant by it. The file keeps every byte.
func TestGrantsThatCannotBeAreRefused(t *testing.T) {
	cases := map[string]func(g *Grants){
		"unknown schema":       func(g *Grants) { g.SchemaVersion = "loopx_migrate_grants_v2" },
		"another goal":         func(g *Grants) { g.GoalID = "other" },
		"given twice":          func(g *Grants) { *g = g.With(change(Given, "os:a")) },
		"withdrawn from none":  func(g *Grants) { *g = g.With(change(Withdrawn, "os:z")) },
		"a gap":                func(g *Grants) { g.Changes[1].Seq = 3 },
		"unknown kind":         func(g *Grants) { g.Changes[1].Change = "lent" },
		"nobody's grant":       func(g *Grants) { g.Changes[1].Principal = "" },
		"given by nobody":      func(g *Grants) { g.Changes[1].By = "" },
		"by no operation":      func(g *Grants) { g.Changes[1].OperationID = "" },
		"a change was removed": func(g *Grants) { g.Changes = g.Changes[1:] },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			f, g := folder(t), granted("os:a", "os:b")
			spoil(&g)
			path := filepath.Join(f.Dir(), "grants.json")
			if err := write(path, g); err != nil { // sealed as if it were right
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var tampered *TamperedError
			got, digest, err := f.LoadGrants()
			if !errors.As(err, &tampered) || tampered.File != "grants.json" || got.Standing("os:b") != nil {
				t.Errorf("read: %v", err)
			}
			if _, err := f.SaveGrants(digest, granted("os:a")); !errors.As(err, &tampered) {
				t.Errorf("replaced: %v", err)
			}
			if _, err := f.Verify(); !errors.As(err, &tampered) {
				t.Errorf("verified: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the document was rewritten: %v", err)
			}
		})
	}
}

// A stored outcome that this tool cannot have written is refused and stays as it is.
func TestOutcomesThatCannotBeAreRefused(t *testing.T) {
	command := Command{Kind: "freeze", OperationID: "op-1", Principal: "os:a", GoalID: "goal"}
	good := Outcome{SchemaVersion: OutcomeSchema, Command: "freeze", OperationID: "op-1", Principal: "os:a", GoalID: "goal",
		Fingerprint: authority.DigestOf([]byte("x")), ReasonCode: Done}
	for name, spoil := range map[string]func(o *Outcome){
		"unknown schema":      func(o *Outcome) { o.SchemaVersion = "loopx_migrate_outcome_v2" },
		"another operation":   func(o *Outcome) { o.OperationID = "op-2" },
		"another principal":   func(o *Outcome) { o.Principal = "os:b" },
		"another goal":        func(o *Outcome) { o.GoalID = "other" },
		"usage error":         func(o *Outcome) { o.Exit, o.ReasonCode = 2, "usage" },
		"unproved":            func(o *Outcome) { o.Exit, o.ReasonCode = 6, "store_not_as_bound" },
		"unreachable":         func(o *Outcome) { o.Exit, o.ReasonCode = 7, "lock_timeout" },
		"done and refused":    func(o *Outcome) { o.Exit = 3 },
		"refused and exit 0":  func(o *Outcome) { o.ReasonCode = "wrong_phase" },
		"done against a hold": func(o *Outcome) { o.Holds = []Hold{{Code: "lease_active"}} },
		"without a content":   func(o *Outcome) { o.Fingerprint = authority.Digest{} },
		"without a command":   func(o *Outcome) { o.Command = "" },
	} {
		t.Run(name, func(t *testing.T) {
			f, o := folder(t), good
			spoil(&o)
			path := f.outcomePath(command)
			if err := write(path, o); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var tampered *TamperedError
			if _, err := f.Outcome(command); !errors.As(err, &tampered) {
				t.Errorf("read: %v", err)
			}
			if err := f.StoreOutcome(command, good); !errors.As(err, &tampered) {
				t.Errorf("stored over: %v", err)
			}
			if _, err := f.Verify(); !errors.As(err, &tampered) {
				t.Errorf("verified: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the outcome was rewritten: %v", err)
			}
		})
	}
	f := folder(t)
	if err := f.StoreOutcome(command, Outcome{Exit: 6, ReasonCode: "unproved"}); err == nil {
		t.Error("an outcome that is not proved was stored")
	}
}

package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
)

// Every claim, through the program itself: none fails.
func TestEveryClaimStands(t *testing.T) {
	if testing.Short() {
		t.Skip("a run of the whole ladder takes two minutes")
	}
	r := run(t, "ladder", "--output", "json")
	var answer struct {
		Facts struct{ Claims []stood }
	}
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil {
		t.Fatalf("%v: %.300s", err, r.stdout)
	}
	if len(answer.Facts.Claims) != len(rungs) {
		t.Errorf("%d of %d claims were tried", len(answer.Facts.Claims), len(rungs))
	}
	for _, c := range answer.Facts.Claims {
		tried := rungNamed(t, c.ID).probe != nil && !untriable(c.ID)
		if c.State == rungFail || tried && c.State != rungPass {
			t.Errorf("%s: %s, %s", c.ID, c.State, c.Why)
		}
	}
	if r.exit == 0 {
		t.Error("a model stood in for LoopX, and the exit status is 0")
	}
}

// untriable reports whether a claim may be unverified on this machine.
func untriable(id string) bool {
	switch id {
	case "freeze.probe", "loopx.goes_on":
		return true // no LoopX was named
	case "grants.required":
		return os.Geteuid() != 0
	}
	return strings.HasPrefix(id, "postgresql.") && os.Getenv("LOOPX_MIGRATE_REQUIRE_PG") == ""
}

func rungNamed(t *testing.T, id string) rung {
	t.Helper()
	selected, err := selectRungs([]string{id})
	if err != nil {
		t.Fatal(err)
	}
	return selected[0]
}

// Exit status and reason for each way a selection can stand, with and without its flag.
func TestLadderExits(t *testing.T) {
	of := func(states ...string) []stood {
		var all []stood
		for _, s := range states {
			all = append(all, stood{ID: s, State: s})
		}
		return all
	}
	for name, c := range map[string]struct {
		all                 []stood
		unverified, pending bool
		reason              string
	}{
		"all pass":             {of(rungPass, rungPass), false, false, ""},
		"one fails":            {of(rungPass, rungFail), true, true, "claim_failed"},
		"unverified":           {of(rungPass, rungUnverified), false, true, "claims_unverified"},
		"unverified, allowed":  {of(rungPass, rungUnverified), true, false, ""},
		"pending":              {of(rungPass, rungPending), true, false, "claims_pending"},
		"pending, allowed":     {of(rungPass, rungPending), false, true, ""},
		"both, one is allowed": {of(rungUnverified, rungPending), true, false, "claims_pending"},
	} {
		_, err := laddered(c.all, evidence.Private{}, c.unverified, c.pending)
		var refusal *cutover.Refusal
		if c.reason == "" && err != nil || c.reason != "" && (!errors.As(err, &refusal) || refusal.Reason != c.reason) {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
	}
}

// No flag lets through what is private.
func TestLadderPrintsNothingPrivate(t *testing.T) {
	for _, why := range []string{"open /home/ops/x: no such file", "Inspect the slewing ring"} {
		a, err := laddered([]stood{{ID: "x", State: rungPass, Why: why}}, evidence.Private{Texts: []string{"Inspect the slewing ring"}}, true, true)
		var private *evidence.PrivateError
		if a != nil || !errors.As(err, &private) {
			t.Errorf("%q: %v", why, err)
		}
	}
}

// A claim that does not hold fails, and a probe that cannot be carried out does too.
func TestAProbeCanFail(t *testing.T) {
	l := newClimber(t.Context(), newEnv("loopx-migrate", nil, nil), "")
	for _, r := range []rung{
		{id: "wrong row", probe: authorityIs(0, "another row", untouched)},
		{id: "wrong reason", probe: blockedAs("selector_missing", withoutJournal)},
		{id: "no block", probe: blockedAs("authority_missing", untouched)},
		{id: "no step", probe: func(l *climber) standing { l.goal().step("promote"); return pass("") }},
	} {
		if s := l.stand(r); s.state != rungFail || s.why == "" {
			t.Errorf("%s: %+v", r.id, s)
		}
	}
	if s := l.stand(rung{command: "no-such-command", probe: probeUsage}); s.state != rungPending {
		t.Errorf("a command that is not there: %+v", s)
	}
	if err := l.clean(); err != nil {
		t.Error(err)
	}
}

// Ids are unique and none begins with another, so that --only means one thing; each claim
// says where it is made.
func TestClaimsAreNamed(t *testing.T) {
	for i, r := range rungs {
		if r.id == "" || r.claim == "" || r.source == "" || len(r.claim) > 90 {
			t.Errorf("claim %d: %q, %q, %q", i, r.id, r.claim, r.source)
		}
		if selected, err := selectRungs([]string{r.id}); err != nil || len(selected) != 1 {
			t.Errorf("%s selects %d claims, %v", r.id, len(selected), err)
		}
	}
	if _, err := selectRungs([]string{"no such"}); err == nil || !strings.Contains(err.Error(), "no such") {
		t.Errorf("%v", err)
	}
}

// A ladder that `go run` started prints lines that say go run again.
func TestPrintedLinesAreRunWithoutTheProgram(t *testing.T) {
	for _, line := range []string{`["/usr/bin/loopx-migrate","--goal-id=a","status"]`, `["go","run","./cmd/loopx-migrate","--goal-id=a","status"]`} {
		var r ran
		if err := json.Unmarshal([]byte(`{"next":{"argv":`+line+`}}`), &r); err != nil {
			t.Fatal(err)
		}
		if got := r.printed(); !slices.Equal(got, []string{"--goal-id=a", "status"}) {
			t.Errorf("%s is run as %q", line, got)
		}
	}
}

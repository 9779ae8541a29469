package cutover_test

import (
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// rehearsed is a rehearsal of what the rig's Goal is about to do.
func rehearsed(r *rig, target authority.Kind) *cutover.Rehearsed {
	r.Helper()
	made := fixture.ExpectedGoal(r.T, "goal-file-v1")
	cursor, err := authority.ParseCursor(made.Cursor)
	if err != nil {
		r.Fatal(err)
	}
	return &cutover.Rehearsed{Digest: authority.DigestOf([]byte("result")), Passed: true, FinishedAt: time.Now().Add(-time.Hour), Program: r.flow.Program,
		GoalID: goal, Kind: authority.KindFile, Identity: authority.Identity(made.StoreIdentity), Cursor: cursor, Revision: authority.Revision(made.ProviderRevision),
		Targets: []authority.Kind{target}}
}

// Each way in which a rehearsal is not one of this promotion holds cutover and promote, by
// a name that nobody may accept.
func TestOutdatedRehearsals(t *testing.T) {
	ways := map[string]func(*cutover.Rehearsed){
		"not_passed":      func(g *cutover.Rehearsed) { g.Passed = false },
		"another_goal":    func(g *cutover.Rehearsed) { g.GoalID = "another" },
		"another_source":  func(g *cutover.Rehearsed) { g.Identity = "file:00000000000000000000000000000000" },
		"another_target":  func(g *cutover.Rehearsed) { g.Targets = []authority.Kind{authority.KindPostgreSQL} },
		"another_program": func(g *cutover.Rehearsed) { g.Program = "loopx-migrate v0.0.0" },
		"too_old":         func(g *cutover.Rehearsed) { g.FinishedAt = time.Now().Add(-25 * time.Hour) },
		"not_yet":         func(g *cutover.Rehearsed) { g.FinishedAt = time.Now().Add(time.Hour) },
		"another_history": func(g *cutover.Rehearsed) { g.Revision = "file:231:000000000000000000000000" },
	}
	r := newRig(t, "goal-file-v1")
	r.flow.Program = "loopx-migrate v1.0.0"
	held := func(request cutover.Request, way string) {
		t.Helper()
		_, err := r.try(request)
		refusal := cutover.AsRefusal(err)
		if refusal.Reason != cutover.HoldRehearsalOutdated || len(refusal.Holds) != 1 || refusal.Holds[0].Record != way || refusal.Holds[0].Acceptable {
			t.Errorf("%s of %s: %v %+v", request.Command, way, err, refusal.Holds)
		}
	}
	for way, spoil := range ways {
		given := rehearsed(r, authority.KindSQLite)
		spoil(given)
		held(cutover.Request{Command: cutover.CommandCutover, To: cutover.Target{Kind: authority.KindSQLite}, MaxStall: time.Minute,
			Rehearsal: cutover.RehearsalDemand{Given: given}}, way)
	}
	r.do(cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindSQLite}})
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	for way, spoil := range ways {
		given := rehearsed(r, authority.KindSQLite)
		spoil(given)
		held(cutover.Request{Command: cutover.CommandPromote, Rehearsal: cutover.RehearsalDemand{Given: given}}, way)
	}
	required := cutover.Request{Command: cutover.CommandPromote, Rehearsal: cutover.RehearsalDemand{Required: true}}
	r.refused(required, cutover.KindRefused, cutover.HoldRehearsalMissing)
	old := rehearsed(r, authority.KindSQLite)
	old.FinishedAt = time.Now().Add(-25 * time.Hour)
	r.do(cutover.Request{Command: cutover.CommandPromote, Rehearsal: cutover.RehearsalDemand{Given: old, Required: true, MaxAge: 26 * time.Hour}})
	r.authority(authority.KindSQLite)
}

// A source that went on since is the one that was rehearsed. Into a server a rehearsal is
// asked for without a word.
func TestARehearsedCutover(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	r.commits(authority.KindFile, "since", 2)
	request := toServer(r, cutover.CommandCutover)
	request.MaxStall, request.Accept = time.Minute, request.Accept[:1]
	r.refused(request, cutover.KindRefused, cutover.HoldRehearsalMissing)
	given := rehearsed(r, authority.KindPostgreSQL)
	request.Rehearsal.Given = given
	r.do(request)
	r.authority(authority.KindPostgreSQL)
	snap, err := r.flow.Folder.Load()
	if err != nil {
		t.Fatal(err)
	}
	if steps := snap.Manifest.Steps; steps[len(steps)-1].Evidence["rehearsal"] != given.Digest.String() {
		t.Errorf("the record does not name the rehearsal: %v", steps[len(steps)-1].Evidence)
	}
}

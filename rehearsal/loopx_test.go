package rehearsal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// onCopy is a hand at LoopX's small Goal of legacy files.
func onCopy(t *testing.T) (h *loopxHand, source []byte) {
	t.Helper()
	dir := fixture.Copy(t, "legacy/small")
	path := filepath.Join(dir, "project", ".loopx", "registry.json")
	registration, err := fence.ReadRegistry(path, "demo-small")
	if err != nil {
		t.Fatal(err)
	}
	place, err := authority.NewPlace(registration.RuntimeRoot, "demo-small")
	if err != nil {
		t.Fatal(err)
	}
	if source, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Date(2026, 11, 30, 16, 5, 0, 0, time.UTC) } // its lease still runs
	h = &loopxHand{loopx: &loopx{at: copied{dir: dir, place: place, registration: registration}}, clock: now, until: map[string]time.Time{}}
	files, err := legacy.Load(place, registration.StateFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.now = reading{files: files}
	return h, source
}

// A lease runs out in the copy's file for one operation, and what LoopX left there for
// another time comes back to the byte.
func TestLeasesThatRunOut(t *testing.T) {
	const leased = "todo_fce99541009e"
	h, _ := onCopy(t)
	path := filepath.Join(h.at.place.LeaseDir(), leased+".json")
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		until  time.Time
		lapsed bool
	}{{"none of the workload", time.Time{}, false}, {"it runs", nine.Add(time.Minute), false}, {"it ran out", nine, true}} {
		if !c.until.IsZero() {
			h.until[leased] = c.until
		}
		o := Operation{Verb: LeaseRenew, TodoID: leased}
		giveBack, err := h.age(&o, nine)
		if err != nil {
			t.Fatal(err)
		}
		aged, err := os.ReadFile(path)
		if err != nil || o.lapsed != c.lapsed || strings.Contains(string(aged), `"expires_at": "2000-01-01T00:00:00Z"`) != c.lapsed {
			t.Errorf("%s: %v, lapsed %v, %s", c.name, err, o.lapsed, aged)
		}
		if err := giveBack(); err != nil {
			t.Fatal(err)
		}
		if is, err := os.ReadFile(path); err != nil || string(is) != string(was) {
			t.Errorf("%s: %v, it came back as %s", c.name, err, is)
		}
	}
	o := Operation{Verb: LeaseAcquire, TodoID: leased}
	giveBack, err := h.age(&o, nine)
	if err != nil {
		t.Fatal(err)
	}
	taken := strings.Replace(string(was), `"version": 1`, `"version": 2`, 1)
	if err := os.WriteFile(path, []byte(taken), 0o600); err != nil {
		t.Fatal(err)
	}
	if is, err := os.ReadFile(path); giveBack() != nil || err != nil || string(is) != taken {
		t.Errorf("what LoopX wrote is not left alone: %v, %s", err, is)
	}
}

// The registry of a copy names the copy and nothing of the source.
func TestRegistryOfACopy(t *testing.T) {
	h, source := onCopy(t)
	at := copied{dir: "/copy"}
	var err error
	if at.place, err = authority.NewPlace("/copy/runtime", "demo-small"); err != nil {
		t.Fatal(err)
	}
	at.registration.EventLogs = map[string]string{"event_log": "/copy/project/event-logs/event_log"}
	text, err := registryOf(source, at, []string{"agent-south", "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), h.at.dir) {
		t.Errorf("the source is in it: %s", text)
	}
	entry, there := legacy.RegistryEntry(text, "demo-small", "/copy/project")
	if !there || strings.Join(entry.Agents, " ") != "alice bob agent-south" || entry.EventLogs["event_log"] != at.registration.EventLogs["event_log"] {
		t.Errorf("%v %+v", there, entry)
	}
	var doc struct {
		Root  string `json:"common_runtime_root"`
		Goals []struct {
			Repo  string `json:"repo"`
			State string `json:"state_file"`
		} `json:"goals"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Root != "/copy/runtime" || len(doc.Goals) != 1 || filepath.Join(doc.Goals[0].Repo, doc.Goals[0].State) != "/copy/"+stateRel {
		t.Errorf("%v %+v", err, doc)
	}
	for name, spoilt := range map[string]string{"no JSON": "{", "another goal": strings.ReplaceAll(string(source), "demo-small", "demo-other")} {
		if _, err := registryOf([]byte(spoilt), at, nil); err == nil {
			t.Errorf("%s: it makes a registry", name)
		}
	}
}

// A code of LoopX that is not known is never taken for another one, and a refusal that
// wrote is not the same as one that did not.
func TestRefusalsOfLoopX(t *testing.T) {
	for _, c := range []struct {
		s         reply
		untouched bool
		want      string
	}{
		{reply{ErrorCode: "todo_lease_conflict"}, true, "refused lease_held"},
		{reply{ReasonCode: "todo_not_found"}, true, "refused todo_missing"},
		{reply{ErrorCode: "version_mismatch"}, true, "refused loopx:version_mismatch"},
		{reply{}, true, "refused"},
		{reply{ErrorCode: "todo_lease_conflict"}, false, "refused lease_held, WROTE"},
		{reply{}, false, "refused, WROTE"},
	} {
		if got := new(loopxHand).refused(c.s, c.untouched); got != c.want {
			t.Errorf("%+v: %s, want %s", c.s, got, c.want)
		}
	}
	for _, c := range []struct {
		values map[string]string
		odd    string
		same   bool
	}{
		{map[string]string{"legacy": "refused", "file": "refused lease_held", "sqlite": "refused lease_held"}, "", true},
		{map[string]string{"legacy": "refused", "file": "refused lease_held", "sqlite": "refused todo_missing"}, "", false},
		{map[string]string{"legacy": "refused", "file": "applied +2", "sqlite": "applied +2"}, "legacy", false},
		{map[string]string{"legacy": "refused loopx:x", "file": "refused lease_held", "sqlite": "refused lease_held"}, "legacy", false},
		{map[string]string{"legacy": "refused, WROTE", "file": "refused lease_held", "sqlite": "refused lease_held"}, "legacy", false},
		{map[string]string{"legacy": "unchanged", "file": "applied +2", "sqlite": "applied +2"}, "legacy", false},
		{map[string]string{"legacy": "applied", "file": "applied +2", "sqlite": "applied +2"}, "", true},
	} {
		if odd, same := oddOf(c.values); odd != c.odd || same != c.same {
			t.Errorf("%v: odd %q, same %v", c.values, odd, same)
		}
	}
}

// A time is learnt where LoopX can have meant it.
func TestTimesThatAreLearnt(t *testing.T) {
	during := window{nine.Add(300 * time.Millisecond), nine.Add(2 * time.Second)}
	for text, learnt := range map[string]bool{"2026-11-03T09:00:00Z": true, "2026-11-03T09:00:02+00:00": true, "2026-11-03T08:59:58Z": false,
		"2026-11-03T09:00:04Z": false, "2027-11-03T09:00:01Z": false, "": false, "soon": false} {
		if _, got := during.holds(text); got != learnt {
			t.Errorf("%q: %v", text, got)
		}
	}
}

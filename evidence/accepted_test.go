package evidence

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/parity"
)

const acceptedOne = `{"schema_version":"loopx_migrate_accepted_differences_v1","entries":[
 {"id":"d-1","owner":"maria","reason":"the class is a guess of 0.5.1","expires_at":"2026-12-01T00:00:00Z",
  "scope":{"check":"head","arm":"legacy","field":"projection.todos[todo_0001].task_class","todo_id":"todo_0001"}}]}`

func differing() []CheckVerdict {
	return []CheckVerdict{
		{By: "parity", Check: "head", Arms: []string{"legacy", "file"}, Outcome: parity.Differs, Total: 1, Differences: []parity.Difference{
			{Code: "field_differs", Arm: "legacy", TodoID: "todo_0001", Field: "projection.todos[todo_0001].task_class"}}},
		{By: "parity", Check: "receipts", Arms: []string{"file", "sqlite"}, Outcome: parity.Equal, Compared: 3},
	}
}

func TestAnAcceptedDifferenceIsCounted(t *testing.T) {
	a, err := ReadAcceptance([]byte(acceptedOne), began)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, uses, err := a.Apply(differing())
	if err != nil || verdicts[0].Accepted != 1 || len(uses) != 1 || uses[0] != (AcceptedUse{"d-1", "maria", 1}) {
		t.Errorf("%+v %+v %v", verdicts, uses, err)
	}
	r := passed()
	r.Verdicts = verdicts
	if result, reasons := r.Judge(); result != Passed {
		t.Errorf("%s %v", result, reasons)
	}
}

// Anything that does not fit in all of its scope is not accepted, and the entry is then
// unused, which fails by itself.
func TestNothingElseIsAccepted(t *testing.T) {
	for name, change := range map[string]func(*CheckVerdict){
		"another field":         func(v *CheckVerdict) { v.Differences[0].Field += "x" },
		"another todo":          func(v *CheckVerdict) { v.Differences[0].TodoID = "todo_0002" },
		"another arm":           func(v *CheckVerdict) { v.Differences[0].Arm = "file" },
		"another check":         func(v *CheckVerdict) { v.Check = "consumers" },
		"with an operation":     func(v *CheckVerdict) { v.Differences[0].OperationID = "op" },
		"a check that failed":   func(v *CheckVerdict) { v.Outcome = parity.Failed },
		"a check that is equal": func(v *CheckVerdict) { v.Outcome, v.Differences = parity.Equal, nil },
		"an arm not in it at all": func(v *CheckVerdict) {
			v.Differences[0].Arm, v.Differences[0].Values = "", map[string]string{"file": "a", "sqlite": "b"}
		},
	} {
		a, err := ReadAcceptance([]byte(acceptedOne), began)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := differing()
		change(&verdicts[0])
		applied, _, err := a.Apply(verdicts)
		var refused *AcceptanceError
		if applied[0].Accepted != 0 || !errors.As(err, &refused) || refused.Reason != AcceptanceUnused || refused.Entry != "d-1" {
			t.Errorf("%s: accepted %d, %v", name, applied[0].Accepted, err)
		}
	}
	many := differing()
	many[0].Total = 21 // one is counted and not listed
	a, err := ReadAcceptance([]byte(acceptedOne), began)
	if err != nil {
		t.Fatal(err)
	}
	r := passed()
	if r.Verdicts, _, err = a.Apply(many); err != nil {
		t.Fatal(err)
	}
	if result, _ := r.Judge(); result != Failed {
		t.Errorf("a difference that nobody saw was accepted: %s", result)
	}
}

func TestAcceptanceIsReadStrictly(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		now      time.Time
		reason   string
	}{
		"unknown field":    {`"owner"`, `"all":true,"owner"`, began, AcceptanceMalformed},
		"no owner":         {`"maria"`, `""`, began, AcceptanceMalformed},
		"no reason":        {`"the class is a guess of 0.5.1"`, `""`, began, AcceptanceMalformed},
		"no field":         {`"field":"projection.todos[todo_0001].task_class",`, ``, began, AcceptanceMalformed},
		"no arm":           {`"arm":"legacy",`, ``, began, AcceptanceMalformed},
		"no expiry":        {`"expires_at":"2026-12-01T00:00:00Z",`, ``, began, AcceptanceMalformed},
		"a receipt":        {`"check":"head"`, `"check":"receipts"`, began, AcceptanceMalformed},
		"a changed source": {`"check":"head"`, `"check":"source_untouched"`, began, AcceptanceMalformed},
		"another schema":   {`differences_v1`, `differences_v2`, began, AcceptanceMalformed},
		"twice":            {`"todo_0001"}}]`, `"todo_0001"}},{"id":"d-1","owner":"b","reason":"r","expires_at":"2026-12-01T00:00:00Z","scope":{"check":"head","arm":"a","field":"f"}}]`, began, AcceptanceMalformed},
		"at its expiry":    {`"d-1"`, `"d-1"`, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), AcceptanceExpired},
		"behind it":        {`"d-1"`, `"d-1"`, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), AcceptanceExpired},
	} {
		_, err := ReadAcceptance([]byte(strings.Replace(acceptedOne, c.from, c.to, 1)), c.now)
		var refused *AcceptanceError
		if !errors.As(err, &refused) || refused.Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadAcceptance([]byte(acceptedOne), time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC)); err != nil {
		t.Errorf("a second before its expiry: %v", err)
	}
}

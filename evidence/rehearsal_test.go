package evidence

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

var began = time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC)

// passed is a rehearsal of two arms against which nothing stands.
func passed() *Rehearsal {
	tree := authority.DigestOf([]byte("tree"))
	return &Rehearsal{
		SchemaVersion: RehearsalSchema, RehearsalID: "reh-1", GoalID: "harbour-crane", StartedAt: began, FinishedAt: began.Add(4 * time.Second), Result: Passed,
		Plan:   RehearsedPlan{SourceKind: authority.KindFile, SourceIdentity: "file:00", Cursor: 231, Targets: []authority.Kind{authority.KindSQLite}},
		Source: RehearsedSource{Format: authority.FormatFileV1, Transactions: 231, Bytes: 1000, TreeBefore: tree, TreeAfter: tree},
		Arms: []RehearsedArm{
			{Name: "file", Kind: authority.KindFile, Driver: "model", Transactions: 231, Receipts: 231, ReceiptsCompared: 231, RowsScanned: 231},
			{Name: "sqlite", Kind: authority.KindSQLite, Driver: "model", Transactions: 231, Receipts: 231, ReceiptsCompared: 231, RowsScanned: 231},
		},
		Phases:  []Phase{{Arm: "sqlite", Name: "import", StartMillis: 100, DurationMillis: 900}},
		WayBack: []WayBack{{Arm: "sqlite", Proved: true, DurationMillis: 300, Exported: 3}},
		Verdicts: []CheckVerdict{
			{By: "parity", Check: "head", Arms: []string{"file", "sqlite"}, Outcome: parity.Equal, Compared: 1},
			{By: "witness", Check: "receipts", Arms: []string{"file", "sqlite"}, Outcome: parity.Equal, Compared: 231},
		},
		Planted:    []Planted{{Name: "dropped_transaction", Arm: "sqlite", Cursor: 40, Found: true, FoundBy: "order", FoundAt: 40}},
		NotChecked: []NotChecked{{What: "quota", Why: "it stays with its own ledger"}},
	}
}

// Each thing that may stand against a rehearsal is made to, alone, and must be named.
func TestJudge(t *testing.T) {
	if result, reasons := passed().Judge(); result != Passed || reasons != nil {
		t.Fatalf("the sample: %s %v", result, reasons)
	}
	for name, c := range map[string]struct {
		spoil  func(*Rehearsal)
		result Result
		says   string
	}{
		"a difference":         {func(r *Rehearsal) { r.Verdicts[1].Outcome, r.Verdicts[1].Total = parity.Differs, 1 }, Failed, "receipts"},
		"one of two accepted":  {func(r *Rehearsal) { v := &r.Verdicts[0]; v.Outcome, v.Total, v.Accepted = parity.Differs, 2, 1 }, Failed, "head"},
		"a difference uncount": {func(r *Rehearsal) { r.Verdicts[0].Outcome = parity.Differs }, Failed, "head"},
		"an unreadable arm":    {func(r *Rehearsal) { v := &r.Verdicts[0]; v.Outcome, v.Total, v.Accepted = parity.Failed, 1, 1 }, Failed, "failed"},
		"a planted one missed": {func(r *Rehearsal) { r.Planted[0].Found = false }, Failed, "dropped_transaction"},
		"nothing planted":      {func(r *Rehearsal) { r.Planted = nil }, Incomplete, "planted"},
		"a changed source":     {func(r *Rehearsal) { r.Source.TreeAfter = authority.DigestOf(nil) }, Failed, "source changed"},
		"no hash of it":        {func(r *Rehearsal) { r.Source = RehearsedSource{} }, Incomplete, "hashed"},
		"no way back":          {func(r *Rehearsal) { r.WayBack = nil }, Incomplete, "way back"},
		"an unproved one":      {func(r *Rehearsal) { r.WayBack[0].Proved = false }, Failed, "way back"},
		"a failed phase":       {func(r *Rehearsal) { r.Phases[0].Failed = true }, Incomplete, "import"},
		"one that differs":     {func(r *Rehearsal) { r.Phases[0].Failed, r.Phases[0].Differs = true, true }, Failed, "import"},
		"a hole in the fence":  {func(r *Rehearsal) { r.Probes = []NamedProbe{{Phase: "freeze", Probe: manifest.Probe{Arm: "file"}}} }, Failed, "fence of file"},
		"one arm":              {func(r *Rehearsal) { r.Arms = r.Arms[:1] }, Incomplete, "two arms"},
		"no check":             {func(r *Rehearsal) { r.Verdicts = nil }, Incomplete, "no check"},
		"no end":               {func(r *Rehearsal) { r.FinishedAt = time.Time{} }, Incomplete, "end"},
	} {
		r := passed()
		c.spoil(r)
		result, reasons := r.Judge()
		if result != c.result || len(reasons) != 1 || !strings.Contains(reasons[0], c.says) {
			t.Errorf("%s: %s %q, want %s and a reason with %q", name, result, reasons, c.result, c.says)
		}
	}
	all := passed()
	all.Verdicts[0].Outcome, all.Verdicts[0].Total, all.Verdicts[0].Accepted = parity.Differs, 2, 2
	if result, reasons := all.Judge(); result != Passed {
		t.Errorf("two differences, both accepted: %s %v", result, reasons)
	}
}

func TestRehearsalIsReadBackStrictly(t *testing.T) {
	text, err := passed().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeRehearsal(text); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"an unknown field": strings.Replace(string(text), `{"arms"`, `{"aaaa":1,"arms"`, 1),
		"another schema":   strings.Replace(string(text), "rehearsal_v1", "rehearsal_v2", 1),
		"another spelling": strings.Replace(string(text), `{"arms"`, `{ "arms"`, 1),
		"a finer result":   strings.Replace(string(text), `"found":true`, `"found":false`, 1),
		"text behind it":   string(text) + "{}",
		"nothing":          "",
	} {
		if bad == string(text) {
			t.Fatalf("%s: the text was not changed", name)
		}
		if _, err := DecodeRehearsal([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if bytes.Contains(text, []byte("\n\n")) || !bytes.HasSuffix(text, []byte("}\n")) {
		t.Errorf("the text is not one line: %q", text)
	}
}

package page

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

var (
	keep     = flag.String("keep", "", "a folder for the pages that the tests make")
	pictured = flag.String("page", "", "a page to take pictures of, instead of one of made-up numbers")
)

func rendered(t *testing.T, name string, c evidence.Contents) string {
	t.Helper()
	text, err := Render(c)
	if err != nil {
		t.Fatal(err)
	}
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, name+".html"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return string(text)
}

// Everything that is wrong stands before everything that is not.
func TestFailuresComeFirst(t *testing.T) {
	page := rendered(t, "failed", spoilt())
	checks := strings.Index(page, `id="checks"`)
	for _, wrong := range []string{"check receipts by parity: differs", "receipt_differs", "arm postgresql, operation op-2917, cursor 2917", "receipts[0].targets",
		"check lineage by parity: failed", "planted repeated_operation_id was not found", "phase rollback failed", "a write went through behind the fence", "the source changed"} {
		if at := strings.Index(page, wrong); at < 0 || at > checks {
			t.Errorf("%q stands at %d, the checks at %d", wrong, at, checks)
		}
	}
	first := strings.Index(page[checks:], `<th scope="row">`)
	if row := page[checks+first:]; !strings.HasPrefix(row, `<th scope="row">lineage`) {
		t.Errorf("the first check is %.60s", row)
	}
	for _, mark := range []string{">failed</span>", "NOT proved", "exceeded", ">MISSED<", "NOT refused", "CHANGED"} {
		if !strings.Contains(page, mark) {
			t.Errorf("the page does not show %q", mark)
		}
	}
}

func TestPassedPageSaysSo(t *testing.T) {
	page := rendered(t, "passed", sample())
	for _, want := range []string{`<span class="badge good">passed</span>`, "Nothing: no check differs", "3\u202f420 of 3\u202f420", "1 (1 accepted)", "maria", "not planted",
		"loopx_migrate_legacy_v1", "1.8 s", "head only: it has no journal", "quota, settlement", "Way back from sqlite: <span class=\"yes\">proved</span>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(page, `class="no"`) {
		t.Error("something is marked as wrong")
	}
}

// A migration without a rehearsal has a page too: its steps and its record.
func TestMigrationPage(t *testing.T) {
	c := evidence.Contents{GoalID: "harbour-crane", MadeAt: began, Environment: evidence.Environment{Program: "loopx-migrate", Go: "go1.26", Platform: "linux/amd64", CPUs: 2}}
	c.Manifest = &manifest.Manifest{MigrationID: "mig-1", GoalID: "harbour-crane", Phase: manifest.PhasePromoted, Source: manifest.Binding{Kind: authority.KindFile, Identity: "file:00", Cursor: 231},
		Target: manifest.Binding{Kind: authority.KindSQLite}, Incidents: []manifest.Incident{{Code: "fence_does_not_hold", Cursor: 7, Detail: "a writer's try went through"}}}
	for i, command := range []string{"freeze", "import", "promote"} {
		at := began.Add(time.Duration(i) * time.Minute)
		if err := c.Manifest.AddStep(manifest.Step{Command: command, OperationID: "op-" + command, Principal: "os:root", StartedAt: at, FinishedAt: at.Add(2e9)}); err != nil {
			t.Fatal(err)
		}
	}
	page := rendered(t, "migration", c)
	for _, want := range []string{"Migration of harbour-crane", `<span class="badge bad">promoted</span>`, "incident fence_does_not_hold", "3. promote", "op-freeze", "file:00"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
}

// The page asks for nothing: no script, no address, no file; and it is the same each time.
func TestPageIsSelfContained(t *testing.T) {
	page := rendered(t, "passed", sample())
	for _, loads := range []string{"<script", "<link", "<img", "<iframe", "src=", "@import", "http://", "https://", "url(http", "xlink"} {
		text := strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, "")
		if strings.Contains(text, loads) {
			t.Errorf("the page holds %q", loads)
		}
	}
	if err := (evidence.Private{}).Scan(evidence.FilePage, []byte(page)); err != nil {
		t.Error(err)
	}
	if again := rendered(t, "passed", sample()); again != page {
		t.Error("two pages of the same contents differ")
	}
	if len(page) > 200_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// What comes from a Goal cannot become markup.
func TestPageEscapes(t *testing.T) {
	c := sample()
	c.GoalID, c.Rehearsal.GoalID = `<b onload="x">`, `<b onload="x">`
	c.Rehearsal.Arms[1].Name, c.Rehearsal.Rates[0].Arm, c.Rehearsal.Latencies[0].Arm = "<i>a</i>", "<i>r</i>", "<i>l</i>"
	page := rendered(t, "escaped", c)
	for _, markup := range []string{"<b onload", "<i>a", "<i>r", "<i>l"} {
		if strings.Contains(page, markup) {
			t.Errorf("%s became markup", markup)
		}
	}
}

// Every drawing is well-formed XML, has a text alternative and a table of its numbers.
func TestPlots(t *testing.T) {
	v, err := viewOf(sample())
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Plots) != 3 {
		t.Fatalf("%d plots", len(v.Plots))
	}
	for _, p := range v.Plots {
		var svg struct {
			Paths []struct{} `xml:"path"`
			Texts []string   `xml:"text"`
		}
		if err := xml.NewDecoder(bytes.NewReader([]byte(p.Drawing))).Decode(&svg); err != nil || len(svg.Paths) < 5 || len(svg.Texts) < 6 {
			t.Errorf("%s: %v, %d paths, %q", p.Title, err, len(svg.Paths), svg.Texts)
		}
		if len(p.Description) < 40 || len(p.Rows) < 3 || len(p.Legend) < 2 {
			t.Errorf("%s: described as %q, %d rows, %d in the legend", p.Title, p.Description, len(p.Rows), len(p.Legend))
		}
	}
	points := [][2]float64{{0, 10}, {10, 20}, {10, 30}}
	for x, want := range map[float64]float64{0: 10, 5: 15, 10: 20} {
		if got := at(points, x); got != want {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
	if at(points, 11) != at(points, -1) || at(points, 11) < 1e300 {
		t.Error("a curve goes on outside of its points")
	}
}

// A phase that failed is among what stands against the rehearsal, with the reason on record.
func TestAFailedPhaseSaysWhy(t *testing.T) {
	r := &evidence.Rehearsal{Phases: []evidence.Phase{{Arm: "sqlite", Name: "cutover", Failed: true}},
		NotChecked: []evidence.NotChecked{{What: "arm file from cutover on", Why: "another"}, {What: "arm sqlite from cutover on", Why: "lease_active: a hold stands"}}}
	var v view
	v.failures(r)
	if len(v.Failures) == 0 || v.Failures[0] != (failure{"phase cutover failed", "arm sqlite", "lease_active: a hold stands"}) {
		t.Errorf("%+v", v.Failures)
	}
}

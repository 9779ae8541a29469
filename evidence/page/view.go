package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

// view is what the template shows.
type view struct {
	evidence.Contents
	Style style

	Title     string
	Badge     string // passed, failed, incomplete, or a phase
	BadgeKind string // good, bad or open
	Reasons   []string
	Facts     []fact
	Failures  []failure
	Lanes     []lane
	Total     int64 // milliseconds of the timeline
	Checks    []evidence.CheckVerdict
	Coverage  []coverage
	Plantings plantings
	Plots     []plot
	// Unrated: no import took so long that a rate was measured.
	Unrated bool

	phases []string // names in the order of their colours
}

type fact struct{ Name, Value, Note string }

// failure is one line of what is wrong.
type failure struct{ What, Where, Note string }

// coverage is how much of an arm was met by the checks.
type coverage struct {
	Arm, What   string
	Met, Of     uint64
	Percent     uint64
	Description string
}

// plantings is a table: a row a difference, a column an arm.
type plantings struct {
	Arms []string
	Rows []plantingRow
}

type plantingRow struct {
	Name  string
	Cells []plantingCell
}

type plantingCell struct {
	Arm, Text string
	Missed    bool
}

func viewOf(c evidence.Contents) (view, error) {
	v := view{Contents: c, Style: style(pageStyle), Title: "Migration of " + c.GoalID, BadgeKind: "open"}
	if m := c.Manifest; m != nil {
		v.ofMigration(m)
	}
	if r := c.Rehearsal; r != nil {
		v.ofRehearsal(r)
		if err := v.plots(r); err != nil {
			return v, err
		}
	}
	v.layOut()
	return v, nil
}

func (v *view) ofMigration(m *manifest.Manifest) {
	v.Badge = string(m.Phase)
	v.Facts = append(v.Facts, fact{"migration", m.MigrationID, string(m.Source.Kind) + " to " + string(m.Target.Kind)},
		fact{"phase", string(m.Phase), fmt.Sprintf("%d chained steps", len(m.Steps))})
	for _, i := range m.Incidents {
		v.Failures = append(v.Failures, failure{"incident " + i.Code, "cursor " + i.Cursor.String(), i.Detail})
	}
	for _, verdict := range m.Verdicts {
		if !verdict.Passed {
			v.Failures = append(v.Failures, failure{"recorded comparison", "cursor " + verdict.Cursor.String(), "it did not pass"})
		}
	}
	if m.Fence != nil {
		v.probes("migration", m.Fence.Probes...)
	}
	if len(v.Failures) > 0 {
		v.BadgeKind = "bad"
	}
	if len(m.Steps) == 0 {
		return
	}
	began := m.Steps[0].StartedAt
	for _, s := range m.Steps {
		v.bar("migration", s.Command, s.StartedAt.Sub(began).Milliseconds(), s.FinishedAt.Sub(s.StartedAt).Milliseconds(), "")
	}
}

func (v *view) probes(phase string, probes ...manifest.Probe) {
	for _, p := range probes {
		if !p.Refused {
			v.Failures = append(v.Failures, failure{"a write went through behind the fence", phase + ", arm " + p.Arm, "tried by " + p.By})
		}
	}
}

func (v *view) ofRehearsal(r *evidence.Rehearsal) {
	v.Title = "Rehearsal for " + v.GoalID
	result, reasons := r.Judge()
	v.Badge, v.Reasons = string(result), reasons
	v.BadgeKind = map[evidence.Result]string{evidence.Passed: "good", evidence.Failed: "bad"}[result]
	if v.BadgeKind == "" || len(v.Failures) > 0 && result == evidence.Passed {
		v.BadgeKind = "open"
	}
	v.Checks = slices.Clone(r.Verdicts)
	slices.SortStableFunc(v.Checks, func(a, b evidence.CheckVerdict) int { return cmp.Compare(rank(a), rank(b)) })
	v.failures(r)
	v.rehearsalFacts(r)
	v.Lanes = nil // the rehearsal's timeline instead of the migration's
	for _, p := range r.Phases {
		state := ""
		if p.Failed {
			state = "failed"
		}
		v.bar(p.Arm, p.Name, p.StartMillis, p.DurationMillis, state)
	}
	for _, s := range r.Stalls {
		v.bar(s.Arm, "write stall", s.StartMillis, s.DurationMillis, "stall")
	}
	for _, a := range r.Arms {
		if a.Transactions == 0 {
			v.Coverage = append(v.Coverage, coverage{Arm: a.Name, What: "head only: it has no journal"})
			continue
		}
		v.Coverage = append(v.Coverage, covered(a.Name, "receipts", a.ReceiptsCompared, a.Receipts), covered(a.Name, "rows", a.RowsScanned, a.Transactions))
	}
	v.plantings(r)
}

// rank puts failing checks first.
func rank(c evidence.CheckVerdict) int {
	switch {
	case c.Outcome == parity.Failed:
		return 0
	case c.Outcome == parity.Differs && c.Accepted < c.Total:
		return 1
	case c.Outcome == parity.Differs:
		return 2
	case c.Outcome == parity.NotCompared:
		return 3
	}
	return 4
}

func (v *view) failures(r *evidence.Rehearsal) {
	for _, c := range v.Checks {
		if rank(c) > 1 {
			continue
		}
		v.Failures = append(v.Failures, failure{fmt.Sprintf("check %s by %s: %s", c.Check, c.By, c.Outcome), strings.Join(c.Arms, ", "),
			fmt.Sprintf("%d differences, %d accepted", c.Total, c.Accepted)})
		for _, d := range c.Differences {
			v.Failures = append(v.Failures, failure{d.Code, placeOf(d), d.Field})
		}
	}
	for _, p := range r.Planted {
		if !p.Found {
			v.Failures = append(v.Failures, failure{"planted " + p.Name + " was not found", "arm " + p.Arm + ", cursor " + p.Cursor.String(), "the verifier proves nothing on this arm"})
		}
	}
	for _, p := range r.Phases {
		if p.Failed {
			v.Failures = append(v.Failures, failure{"phase " + p.Name + " failed", "arm " + p.Arm, why(r, p)})
		}
	}
	for _, w := range r.WayBack {
		if !w.Proved {
			v.Failures = append(v.Failures, failure{"the way back was not proved", "arm " + w.Arm, ""})
		}
	}
	for _, p := range r.Probes {
		v.probes(p.Phase, p.Probe)
	}
	if !r.Source.Untouched() {
		v.Failures = append(v.Failures, failure{"the source changed", "its tree", short(r.Source.TreeBefore) + " before, " + short(r.Source.TreeAfter) + " after"})
	}
}

// why is the reason that is on record for a phase that failed.
func why(r *evidence.Rehearsal, p evidence.Phase) string {
	for _, n := range r.NotChecked {
		if n.What == "arm "+p.Arm+" from "+p.Name+" on" {
			return n.Why
		}
	}
	return ""
}

func placeOf(d parity.Difference) string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"arm", d.Arm}, {"operation", d.OperationID}, {"todo", d.TodoID}} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	if d.Cursor != 0 {
		parts = append(parts, "cursor "+d.Cursor.String())
	}
	return strings.Join(parts, ", ")
}

func (v *view) rehearsalFacts(r *evidence.Rehearsal) {
	var stall, receipts, rows uint64
	for _, s := range r.Stalls {
		stall = max(stall, uint64(s.DurationMillis))
	}
	for _, a := range r.Arms {
		receipts, rows = receipts+a.ReceiptsCompared, rows+a.RowsScanned
	}
	v.Facts = append(v.Facts,
		fact{"longest write stall", millis(int64(stall)), fmt.Sprintf("%d measured", len(r.Stalls))},
		fact{"receipts compared", grouped(receipts), "over all arms"},
		fact{"rows scanned", grouped(rows), "over all arms"},
		fact{"source", map[bool]string{true: "untouched", false: "CHANGED"}[r.Source.Untouched()], counted(r.Source.Transactions, "transaction") + ", " + byteText(r.Source.Bytes)},
		fact{"took", millis(r.FinishedAt.Sub(r.StartedAt).Milliseconds()), "began " + r.StartedAt.UTC().Format("2006-01-02 15:04 MST")})
}

// unplanted tells a difference that could not be planted from one that is none of an arm.
func unplanted(r *evidence.Rehearsal, name, arm string) string {
	if slices.ContainsFunc(r.NotChecked, func(n evidence.NotChecked) bool { return n.What == "planted difference "+name+" on arm "+arm }) {
		return "not planted"
	}
	return "–"
}

// counted is a number of things.
func counted(n uint64, what string) string {
	if n != 1 {
		what += "s"
	}
	return grouped(n) + " " + what
}

// covered says how much was met of what there is. Checks meet some of it more than once.
func covered(arm, what string, met, of uint64) coverage {
	met = min(met, of)
	c := coverage{Arm: arm, What: what, Met: met, Of: of}
	if of > 0 {
		c.Percent = met * 100 / of
	}
	c.Description = fmt.Sprintf("%s of %s %s, %d percent", grouped(met), grouped(of), what, c.Percent)
	return c
}

func (v *view) plantings(r *evidence.Rehearsal) {
	cells := map[string]map[string]plantingCell{}
	var names []string
	for _, p := range r.Planted {
		if !slices.Contains(v.Plantings.Arms, p.Arm) {
			v.Plantings.Arms = append(v.Plantings.Arms, p.Arm)
		}
		if cells[p.Name] == nil {
			cells[p.Name] = map[string]plantingCell{}
			names = append(names, p.Name)
		}
		cell := plantingCell{Arm: p.Arm, Text: "found at " + p.FoundAt.String()}
		switch {
		case p.Name == "nothing":
			cell.Text = "alike"
		case p.FoundAt == 0:
			cell.Text = "found"
		}
		if !p.Found {
			cell.Text, cell.Missed = "MISSED", true
		}
		cells[p.Name][p.Arm] = cell
	}
	for _, name := range names {
		row := plantingRow{Name: strings.ReplaceAll(name, "_", " ")}
		for _, arm := range v.Plantings.Arms {
			cell, there := cells[name][arm]
			if !there {
				cell = plantingCell{Arm: arm, Text: unplanted(r, name, arm)}
			}
			row.Cells = append(row.Cells, cell)
		}
		v.Plantings.Rows = append(v.Plantings.Rows, row)
	}
}

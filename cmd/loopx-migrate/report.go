package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/parity"
)

// reportBlocks shows a comparison: the verdict, the checks with failing ones first,
// and where the arms differ.
func reportBlocks(r parity.Report) []block {
	verdict := pairs("COMPARISON", "verdict", string(r.Verdict),
		"operations", strconv.FormatUint(r.Coverage.Operations, 10)+" that all arms hold alike")
	for _, arm := range r.Arms {
		text := fmt.Sprintf("%s through cursor %s", arm.Identity, arm.Cursor)
		if arm.Logical != nil {
			text += ", logical digest " + arm.Logical.String()[:12]
		}
		verdict.rows = append(verdict.rows, row{cells: []string{"arm " + arm.Name, text}})
	}
	if missing := r.Coverage.MissingEventKinds; len(missing) > 0 {
		verdict.rows = append(verdict.rows, row{cells: []string{"MISSING", "event kinds " + strings.Join(missing, ", ")}, failing: true})
	}
	checks := block{head: []string{"check", "outcome", "compared", "differences", "notes"}}
	differences := block{title: "differences", head: []string{"check", "what", "arm", "where"}}
	for _, c := range r.Checks {
		failing := c.Outcome == parity.Differs || c.Outcome == parity.Failed
		checks.rows = append(checks.rows, row{failing: failing, cells: []string{string(c.Name), string(c.Outcome),
			strconv.FormatUint(c.Compared, 10), strconv.FormatUint(c.Total, 10), strings.Join(c.Notes, "; ")}})
		for _, d := range c.Differences {
			differences.rows = append(differences.rows, row{failing: true, cells: []string{string(c.Name), d.Code, d.Arm, differenceText(d)}})
		}
	}
	blocks := []block{verdict, checks}
	if len(differences.rows) > 0 {
		blocks = append(blocks, differences)
	}
	if r.Readable != "" {
		text := block{title: "the first differing record"}
		for line := range strings.Lines(r.Readable) {
			text.rows = append(text.rows, row{cells: []string{strings.TrimRight(line, "\n")}})
		}
		blocks = append(blocks, text)
	}
	return blocks
}

func differenceText(d parity.Difference) string {
	var parts []string
	if d.Cursor != 0 {
		parts = append(parts, "cursor "+d.Cursor.String())
	}
	for _, p := range [][2]string{{"operation", d.OperationID}, {"todo", d.TodoID}, {"field", d.Field}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return strings.Join(parts, ", ")
}

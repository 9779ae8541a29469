package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/parity"
)

// rehearsalBlocks shows a rehearsal: the answer, the arms, the stalls, and every check
// with failing ones first.
func rehearsalBlocks(r *evidence.Rehearsal) []block {
	top := pairs("REHEARSAL", "result", string(r.Result), "rehearsal", r.RehearsalID, "source", string(r.Plan.SourceIdentity)+" at cursor "+r.Plan.Cursor.String(),
		"source left alone", yes(r.Source.Untouched()), "workload", r.Workload.Name+", "+r.Workload.Origin, "odd arm", r.OddArm)
	for _, reason := range r.Reasons {
		top.rows = append(top.rows, row{cells: []string{"REASON", reason}, failing: true})
	}
	if r.First != nil {
		top.rows = append(top.rows, row{cells: []string{"first difference", differenceText(*r.First)}, failing: true})
	}
	arms := block{title: "arms", head: []string{"arm", "driven by", "transactions", "head", "logical digest"}}
	for _, a := range r.Arms {
		logical := ""
		if !a.LogicalDigest.IsZero() {
			logical = a.LogicalDigest.String()[:12]
		}
		arms.rows = append(arms.rows, row{cells: []string{a.Name, strings.TrimSpace(a.Driver + " " + a.DriverVersion), strconv.FormatUint(a.Transactions, 10), a.HeadDigest.String()[:12], logical}})
	}
	return append([]block{top, arms, timesBlock(r)}, append(checksBlocks(r), notCheckedBlock(r))...)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}

func timesBlock(r *evidence.Rehearsal) block {
	b := block{title: "times", head: []string{"arm", "phase", "ms", "what"}}
	for _, p := range r.Phases {
		what := ""
		if p.Failed {
			what = "FAILED"
		}
		b.rows = append(b.rows, row{cells: []string{p.Arm, p.Name, strconv.FormatInt(p.DurationMillis, 10), what}, failing: p.Failed})
	}
	for _, s := range r.Stalls {
		what := "write stall"
		if s.PredictedMillis > 0 {
			what += fmt.Sprintf(", %d ms predicted", s.PredictedMillis)
		}
		b.rows = append(b.rows, row{cells: []string{s.Arm, s.Phase, strconv.FormatInt(s.DurationMillis, 10), what}})
	}
	for _, w := range r.WayBack {
		what := fmt.Sprintf("way back, %d transactions, proved: %s", w.Exported, yes(w.Proved))
		b.rows = append(b.rows, row{cells: []string{w.Arm, "rollback", strconv.FormatInt(w.DurationMillis, 10), what}, failing: !w.Proved})
	}
	return b
}

func checksBlocks(r *evidence.Rehearsal) []block {
	checks := block{title: "checks", head: []string{"by", "check", "arms", "outcome", "compared", "differences"}}
	differences := block{title: "differences", head: []string{"check", "what", "arm", "where"}}
	for _, v := range r.Verdicts {
		failing := v.Outcome == parity.Differs || v.Outcome == parity.Failed
		checks.rows = append(checks.rows, row{failing: failing, cells: []string{v.By, v.Check, strings.Join(v.Arms, ", "), string(v.Outcome),
			strconv.FormatUint(v.Compared, 10), strconv.FormatUint(v.Total, 10)}})
		for _, d := range v.Differences {
			differences.rows = append(differences.rows, row{failing: true, cells: []string{v.Check, d.Code, d.Arm, differenceText(d)}})
		}
	}
	planted := block{title: "planted differences", head: []string{"arm", "planted", "found", "by"}}
	for _, p := range r.Planted {
		planted.rows = append(planted.rows, row{failing: !p.Found, cells: []string{p.Arm, p.Name, yes(p.Found), p.FoundBy}})
	}
	var blocks []block
	for _, b := range []block{checks, differences, planted} {
		if len(b.rows) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func notCheckedBlock(r *evidence.Rehearsal) block {
	b := block{title: "not checked"}
	if len(r.NotChecked) == 0 {
		b.rows = []row{{cells: []string{"nothing", "every check had what it needs"}}}
	}
	for _, n := range r.NotChecked {
		b.rows = append(b.rows, row{cells: []string{n.What, n.Why}})
	}
	return b
}

package rehearsal

import (
	"bytes"
	"context"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/parity"
)

// back goes the way back in every migrated arm, and proves it: what came back is what the
// control has, which was never migrated and did the same work.
func (r *run) back(ctx context.Context) error {
	for _, a := range r.migrated() {
		if a.failed {
			continue
		}
		way := evidence.WayBack{Arm: a.name}
		start := r.since()
		err := r.phase(ctx, a, "rollback", func() error {
			result, err := r.execute(ctx, a, cutover.Request{Command: cutover.CommandRollback})
			way.Exported, _ = strconv.ParseUint(result.Facts["exported_transactions"], 10, 64) // absent where it failed
			return err
		})
		if err != nil {
			return err
		}
		way.DurationMillis = r.since() - start
		if !a.failed {
			if way.Proved, err = r.cameBack(ctx, a); err != nil {
				return err
			}
		}
		r.report.WayBack = append(r.report.WayBack, way)
		if err := r.record(a); err != nil {
			return err
		}
	}
	return nil
}

// record takes probes, curve and stall from the record of an arm's migration.
func (r *run) record(a *arm) error {
	snap, err := a.flow.Folder.Load()
	if err != nil {
		return err
	}
	if len(a.curve.points) > 0 {
		r.report.Rates = append(r.report.Rates, evidence.Series{Arm: a.name, Name: "import_rate", X: "seconds", Y: "transactions per second", Points: a.curve.points})
	}
	m := snap.Manifest
	if m == nil || m.Fence == nil {
		return nil
	}
	for _, p := range m.Fence.Probes {
		phase := "cutover"
		if p.Arm == string(a.kind) {
			phase = "rollback"
		}
		r.report.Probes = append(r.report.Probes, evidence.NamedProbe{Phase: phase, Probe: p})
	}
	if back := m.Rollback; back != nil && !back.RestoredAt.IsZero() {
		r.report.Stalls = append(r.report.Stalls, evidence.Stall{Arm: a.name, Phase: "rollback",
			StartMillis: back.FrozenAt.Sub(r.report.StartedAt).Milliseconds(), DurationMillis: back.StallMillis})
	}
	return nil
}

// cameBack compares what a rollback restored with the control.
func (r *run) cameBack(ctx context.Context, a *arm) (bool, error) {
	control := r.arms[0]
	if control.failed {
		return false, nil
	}
	names := []string{control.name, a.name}
	if r.kind == authority.KindLegacy {
		return r.filesCameBack(control, a, names)
	}
	var compared []parity.Arm
	sides := []*arm{control, a}
	all, errs := r.lookAll(ctx, sides, func(side *arm) cutover.Ref { return r.homeOf(side.at, r.kind, cutover.AccessUntouched) })
	defer closeAll(all)
	for i, o := range all {
		if errs[i] != nil {
			return false, r.unreadable(ctx, sides[i], errs[i])
		}
		compared = append(compared, o.Arm)
	}
	report, err := parity.Compare(ctx, compared, parity.Options{})
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	return r.take(report, names, checkWayBack+"_") && report.Verdict == parity.Qualified, nil
}

// filesCameBack compares the files that came back with those of the control: what the
// head of each is, through what Markdown carries.
func (r *run) filesCameBack(control, a *arm, names []string) (bool, error) {
	v := evidence.CheckVerdict{By: byRehearsal, Check: checkWayBack, Arms: names, Outcome: parity.Equal, Notes: []string{"through " + legacy.CompatibleName}}
	var heads [2][]byte
	for i, side := range []*arm{control, a} {
		projection, err := filesHand{at: side.at, clock: r.Clock}.head()
		if err != nil {
			return false, err
		}
		heads[i] = legacy.Compatible(projection)
	}
	v.Compared = uint64(len(headOf(heads[0]).todos.ids))
	if !bytes.Equal(heads[0], heads[1]) {
		v.Outcome, v.Total = parity.Differs, 1
		v.Differences = []parity.Difference{firstDifference(heads[0], heads[1])}
	}
	r.report.Verdicts = append(r.report.Verdicts, v)
	return v.Outcome == parity.Equal, nil
}

// firstDifference names the first record and field in which two heads differ.
func firstDifference(left, right []byte) parity.Difference {
	l, r := headOf(left), headOf(right)
	for _, side := range []struct {
		key  string
		l, r rows
	}{{"todos", l.todos, r.todos}, {"leases", l.leases, r.leases}} {
		for _, id := range append(side.l.ids, side.r.ids...) {
			a, b := side.l.text[id], side.r.text[id]
			if bytes.Equal(a, b) {
				continue
			}
			d := parity.Difference{Code: "record_differs", TodoID: id, Field: side.key + "[" + id + "]"}
			if key, found := firstField(a, b); found {
				d.Field += "." + key
			}
			return d
		}
	}
	return parity.Difference{Code: "field_differs", Field: "handoff_mode"}
}

func firstField(a, b []byte) (string, bool) {
	if a == nil || b == nil {
		return "", false
	}
	was, is := recordOf(a), recordOf(b)
	for key := range canonical.Members(a) {
		if !bytes.Equal(was[key], is[key]) {
			return key, true
		}
	}
	for key := range canonical.Members(b) {
		if was[key] == nil {
			return key, true
		}
	}
	return "", false
}

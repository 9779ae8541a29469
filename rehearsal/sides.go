package rehearsal

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/parity"
)

// Names of the checks that are made here.
const (
	checkAnswers = "answers"  // what each operation of the work came to
	checkWayBack = "way_back" // what a rollback brought back, against the control
)

// by says who checked.
const (
	byParity    = "parity"
	byRehearsal = "rehearsal"
)

// sizeOf tells how many bytes a store keeps, where it is files.
func sizeOf(ref cutover.Ref) func() (int64, error) {
	if ref.Path == "" {
		return nil
	}
	return func() (size int64, err error) {
		for _, suffix := range []string{"", "-wal"} {
			info, err := os.Stat(ref.Path + suffix)
			if errors.Is(err, os.ErrNotExist) && suffix != "" {
				return size, nil
			}
			if err != nil {
				return size, err
			}
			size += info.Size()
		}
		return size, nil
	}
}

// opened is an arm of a comparison with what has to be closed behind it.
type opened struct {
	parity.Arm
	store cutover.History
	view  authority.View
}

func (o *opened) close() error {
	var err error
	if o.view != nil {
		err = o.view.Close()
	}
	if o.store != nil {
		err = errors.Join(err, o.store.Close())
	}
	return err
}

// closeAll closes what was only read.
func closeAll(all []*opened) {
	for _, o := range all {
		_ = o.close()
	}
}

// look views a store for a comparison.
func (r *run) look(ctx context.Context, name string, ref cutover.Ref) (o *opened, err error) {
	o = &opened{Arm: parity.Arm{Name: name}}
	if o.store, err = r.Stores.Open(ctx, ref); err != nil {
		return o, err
	}
	if o.view, err = o.store.View(ctx); err != nil {
		return o, err
	}
	if ref.Kind == authority.KindLegacy {
		o.Head = func(ctx context.Context) (authority.Canonical, error) {
			head, err := o.view.Load(ctx)
			return head.Projection, err
		}
		return o, nil
	}
	o.View, o.CheckCommit = o.view, o.store.CheckCommit
	if view, able := o.view.(interface {
		CheckCommit(context.Context, authority.CommitRequest) error
	}); able {
		o.CheckCommit = view.CheckCommit
	}
	return o, nil
}

// lookAll views the stores of arms side by side, since each is proved for it. What was
// opened is the caller's to close, also where another failed.
func (r *run) lookAll(ctx context.Context, arms []*arm, at func(*arm) cutover.Ref) ([]*opened, []error) {
	all, errs := make([]*opened, len(arms)), make([]error, len(arms))
	var views sync.WaitGroup
	for i, a := range arms {
		views.Go(func() { all[i], errs[i] = r.look(ctx, a.name, at(a)) })
	}
	views.Wait()
	return all, errs
}

// see views what each arm has after its work. A view is proved once and stays open for all
// who compare, until unsee. It returns the arms that could not be viewed, and why.
func (r *run) see(ctx context.Context, arms []*arm) map[*arm]error {
	due := slices.DeleteFunc(slices.Clone(arms), func(a *arm) bool { return a.seen != nil })
	all, errs := r.lookAll(ctx, due, func(a *arm) cutover.Ref { return r.homeOf(a.at, a.kind, cutover.AccessUntouched) })
	failed := map[*arm]error{}
	for i, a := range due {
		if errs[i] == nil {
			a.seen = all[i]
			continue
		}
		failed[a] = errs[i]
		_ = all[i].close() // it was only read
	}
	return failed
}

func (r *run) unsee() {
	for _, a := range r.arms {
		if a.seen != nil {
			_ = a.seen.close() // it was only read
			a.seen = nil
		}
	}
}

// compare holds the arms against each other after the work: the stores exactly, the
// legacy files through what Markdown carries, and what each operation came to.
func (r *run) compare(ctx context.Context) error {
	start := r.since()
	r.compareAnswers()
	var stores []*arm
	var files *arm
	for _, a := range r.standing() {
		if a.kind == authority.KindLegacy {
			files = a
			continue
		}
		stores = append(stores, a)
	}
	if len(stores) >= 2 {
		if err := r.compareArms(ctx, stores, false); err != nil {
			return err
		}
	}
	if files != nil && len(stores) > 0 {
		if err := r.compareArms(ctx, append(slices.Clone(stores[:min(2, len(stores))]), files), true); err != nil {
			return err
		}
	}
	r.report.Phases = append(r.report.Phases, evidence.Phase{Arm: "all", Name: "compare", StartMillis: start, DurationMillis: r.since() - start})
	return nil
}

// compareArms compares two or three arms, through files where one of them is.
func (r *run) compareArms(ctx context.Context, arms []*arm, throughFiles bool) (err error) {
	var compared []parity.Arm
	var names []string
	failed := r.see(ctx, arms)
	for _, a := range arms {
		if failed[a] != nil {
			return r.unreadable(ctx, a, failed[a])
		}
		o := *a.seen
		if throughFiles {
			o.Projection, o.Compatible = legacy.CompatibleName, func(head authority.Canonical) authority.Canonical { return legacy.Compatible(head) }
		}
		if lineage := o.view.Lineage(); a.kind != authority.KindLegacy {
			a.facts.Events, a.facts.Receipts, a.facts.Bytes = lineage.Events, lineage.Receipts, lineage.Bytes
		}
		compared, names = append(compared, o.Arm), append(names, a.name)
	}
	report, err := parity.Compare(ctx, compared, parity.Options{})
	if err != nil && ctx.Err() != nil {
		return err
	}
	r.imported = arms[0].base
	r.take(report, names, "")
	r.describe(report, throughFiles)
	return nil
}

// verdict puts a check into the report, without what each import of legacy files writes
// of itself into its own row: the digest of the plan that it was made by, which names its
// target. Nothing else of that row is let pass, its projection least of all.
func (r *run) verdict(v evidence.CheckVerdict) parity.Outcome {
	own := []string{"events[0].import_plan_sha256", "receipts[0].import_plan_sha256"}
	rest := slices.DeleteFunc(slices.Clone(v.Differences), func(d parity.Difference) bool {
		whole := d.Code == "lineage_differs" && d.Field == "logical_sha256" // which that row enters
		return r.kind == authority.KindLegacy && (whole || d.Cursor == r.imported && slices.Contains(own, d.Field))
	})
	if let := uint64(len(v.Differences) - len(rest)); let > 0 {
		v.Differences, v.Total = rest, v.Total-let
		v.Notes = append(v.Notes, "the plan digest in each arm's own import was not compared")
		if v.Outcome == parity.Differs && v.Total == 0 {
			v.Outcome = parity.Equal
		}
	}
	r.report.Verdicts = append(r.report.Verdicts, v)
	return v.Outcome
}

// unreadable records an arm that could not be looked at.
func (r *run) unreadable(ctx context.Context, a *arm, err error) error {
	if ctx.Err() != nil {
		return err
	}
	a.failed = true
	refusal := cutover.AsRefusal(err)
	r.report.Verdicts = append(r.report.Verdicts, evidence.CheckVerdict{By: byRehearsal, Check: "arm_readable", Arms: []string{a.name}, Outcome: parity.Failed,
		Total: 1, Differences: []parity.Difference{{Code: "arm_unreadable", Arm: a.name, Values: map[string]string{a.name: refusal.Reason}}}})
	return nil
}

// take puts a comparison's checks into the report.
func (r *run) take(report parity.Report, names []string, prefix string) (equal bool) {
	equal = true
	for _, c := range report.Checks {
		outcome := r.verdict(evidence.CheckVerdict{By: byParity, Check: prefix + string(c.Name), Arms: names, Outcome: c.Outcome,
			Compared: c.Compared, Total: c.Total, Differences: c.Differences, Notes: c.Notes})
		equal = equal && (outcome == parity.Equal || outcome == parity.NotCompared)
	}
	return equal
}

// describe takes what a comparison learnt of each arm.
func (r *run) describe(report parity.Report, throughFiles bool) {
	for _, facts := range report.Arms {
		i := slices.IndexFunc(r.arms, func(a *arm) bool { return a.name == facts.Name })
		if i < 0 || throughFiles && facts.Kind != authority.KindLegacy {
			continue
		}
		f := &r.arms[i].facts
		f.Projection, f.Format, f.Identity, f.Cursor, f.Transactions = facts.Projection, facts.Format, facts.Identity, facts.Cursor, facts.Transactions
		if facts.Head != nil {
			f.HeadDigest = *facts.Head
		}
		if facts.Logical != nil {
			f.LogicalDigest = *facts.Logical
		}
		f.ReceiptsCompared, f.RowsScanned = report.Check(parity.CheckReceipts).Compared, report.Check(parity.CheckScans).Compared
	}
}

// compareAnswers holds what each operation came to in each arm against the others. The
// files give no cursors and cannot be asked everything.
func (r *run) compareAnswers() {
	v := evidence.CheckVerdict{By: byRehearsal, Check: checkAnswers, Outcome: parity.Equal}
	for _, a := range r.standing() {
		v.Arms = append(v.Arms, a.name)
	}
	for i, o := range r.load.Operations {
		values := map[string]string{}
		for _, a := range r.standing() {
			answer := a.work.answers[i]
			if answer != "not_asked" {
				values[a.name] = answer
			}
		}
		v.Compared++
		if arm, same := oddOf(values); !same {
			v.Total++
			v.Outcome = parity.Differs
			v.Differences = append(v.Differences, parity.Difference{Code: "answer_differs", Arm: arm, OperationID: o.ID, TodoID: o.TodoID, Values: values})
		}
	}
	const listed = 20
	v.Differences = v.Differences[:min(len(v.Differences), listed)]
	r.report.Verdicts = append(r.report.Verdicts, v)
}

// oddOf is the one arm whose value differs from that of all others, of which there are at
// least two. A value without a cursor is the same as one with, and a refusal without a
// reason the same as one with.
func oddOf(values map[string]string) (odd string, same bool) {
	voices := map[string][]string{}
	for arm, value := range values {
		voices[value] = append(voices[value], arm)
	}
	for plain, fuller := range map[string]string{"applied": "applied +", refusedPlainly: refusedPlainly + " "} {
		for value := range voices {
			if len(voices) == 2 && len(voices[plain]) > 0 && strings.HasPrefix(value, fuller) {
				return "", true
			}
		}
	}
	if len(voices) < 2 {
		return "", true
	}
	for _, arms := range voices {
		if len(arms) == 1 && len(voices) == 2 && len(values) >= 3 {
			odd = arms[0]
		}
	}
	return odd, false
}

// testify lets the witness read what the arms hold now.
func (r *run) testify(ctx context.Context) error {
	defer r.unsee()
	if r.Witness == nil {
		return nil
	}
	start := r.since()
	var arms []Standing
	for _, a := range r.standing() {
		standing := Standing{Name: a.name, Ref: r.homeOf(a.at, a.kind, cutover.AccessUntouched), Base: a.base, Whole: r.kind != authority.KindLegacy, Earlier: a.earlier}
		if a.seen != nil {
			standing.View = a.seen.view
		}
		arms = append(arms, standing)
	}
	said, err := r.Witness.Testify(ctx, arms)
	if err != nil {
		return err
	}
	for _, v := range said.Verdicts {
		r.verdict(v)
	}
	r.report.Planted = append(r.report.Planted, said.Planted...)
	r.report.NotChecked = append(r.report.NotChecked, said.NotChecked...)
	r.report.Phases = append(r.report.Phases, evidence.Phase{Arm: "all", Name: "witness", StartMillis: start, DurationMillis: r.since() - start})
	return nil
}

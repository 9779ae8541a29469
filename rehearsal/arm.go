package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/witness"
)

// role is what becomes of an arm.
type role int

const (
	control  role = iota // of the source's kind, never migrated
	migrated             // promoted, worked on, rolled back
)

// arm is one side of the rehearsal.
type arm struct {
	name   string
	kind   authority.Kind
	role   role
	at     copied
	flow   *cutover.Flow
	base   authority.Cursor // of its store before the work
	work   work
	failed bool
	seen   *opened // after the work, while arms are compared
	facts  evidence.RehearsedArm
	curve  curve
	// earlier are the legacy files before the last operation that changed them.
	earlier *witness.Files
}

// lay copies the source's copy for each arm. Leases are released before, where asked for.
func (r *run) lay(ctx context.Context) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	kinds := []authority.Kind{r.kind}
	for _, kind := range []authority.Kind{authority.KindLegacy, authority.KindFile, authority.KindSQLite, authority.KindPostgreSQL} {
		if slices.Contains(r.Arms, kind) && kind != r.kind {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		a := &arm{name: string(kind), kind: kind, role: migrated}
		switch {
		case kind == r.kind:
			a.role = control
		case kind == authority.KindLegacy:
			return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "arm_not_possible",
				Sentence: "a legacy arm needs a source that is legacy files; this goal's authority is " + string(r.kind) + "; nothing was changed"}
		case kind == authority.KindPostgreSQL && r.Server == nil:
			return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "server_required", Sentence: "a postgresql arm needs a server for copies; nothing was changed"}
		}
		r.arms = append(r.arms, a)
		if err := r.layOne(ctx, a); err != nil {
			return err
		}
	}
	if len(r.migrated()) == 0 {
		return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "arm_required", Sentence: "no arm would be migrated: name another kind than the source's with --arms; nothing was changed"}
	}
	return nil
}

func (r *run) layOne(ctx context.Context, a *arm) (err error) {
	if a.at, err = copyGoal(ctx, r.base.place, r.base.registration, filepath.Join(r.dir, a.name)); err != nil {
		return err
	}
	if err := r.Guard.Copy(a.at.dir); err != nil {
		return err
	}
	if a.flow, err = r.Flow(a.at.place, a.at.registration); err != nil {
		return err
	}
	a.flow.Watch = func(p cutover.Progress) {
		a.curve.see(r.now(), p)
		if r.Watch != nil {
			r.Watch(p)
		}
	}
	return nil
}

func (r *run) migrated() (all []*arm) {
	for _, a := range r.arms {
		if a.role == migrated {
			all = append(all, a)
		}
	}
	return all
}

// standing are the arms that nothing failed in.
func (r *run) standing() (all []*arm) {
	for _, a := range r.arms {
		if !a.failed {
			all = append(all, a)
		}
	}
	return all
}

// settle ends the leases that run on the copy: a promotion waits for them, and no agent
// works on a copy.
func (r *run) settle(ctx context.Context) error {
	if !r.ReleaseLeases {
		return nil
	}
	files := filesHand{at: r.base, clock: r.Clock}
	projection, err := r.headOfBase(ctx, files)
	if err != nil {
		return err
	}
	h := headOf(projection)
	ids := activeLeases(projection)
	for _, id := range ids {
		d := decision{head: h, o: Operation{TodoID: id}, at: r.now()}
		d.release(recordOf(h.leases.text[id]))
		r.report.NotChecked = append(r.report.NotChecked, evidence.NotChecked{What: "lease of " + id, Why: "it is active in the source and was released on the copies; the migration itself waits for it"})
	}
	if len(ids) == 0 {
		return nil
	}
	next, err := h.canonical()
	if err != nil {
		return err
	}
	if r.kind == authority.KindLegacy {
		loaded, err := files.load()
		if err != nil {
			return err
		}
		returned, err := legacy.Return(loaded, next, loaded.Declarations(), r.now())
		if err != nil {
			return err
		}
		return files.write(returned)
	}
	return r.settleStore(ctx, next)
}

func (r *run) headOfBase(ctx context.Context, files filesHand) (authority.Canonical, error) {
	if r.kind == authority.KindLegacy {
		return files.head()
	}
	store, err := r.Stores.Open(ctx, r.source)
	if err != nil {
		return nil, err
	}
	head, err := store.Load(ctx)
	return head.Projection, errors.Join(err, store.Close())
}

func (r *run) settleStore(ctx context.Context, next authority.Canonical) error {
	store, err := r.Stores.Open(ctx, r.homeOf(r.base, r.kind, cutover.AccessWrite))
	if err != nil {
		return err
	}
	head, err := store.Load(ctx)
	if err == nil {
		_, err = store.Commit(ctx, authority.CommitRequest{Expected: head.Revision, OperationID: "rehearsal-release-leases",
			Events: []byte("[]"), Projection: next, Receipts: []byte("[]")})
	}
	return errors.Join(err, store.Close())
}

// forward brings the migrated arms to where the work begins, through the real cutover.
func (r *run) forward(ctx context.Context) error {
	for _, a := range r.migrated() {
		to := cutover.Target{Kind: a.kind}
		if a.kind == authority.KindPostgreSQL {
			to.Path, to.Tenant = r.Server.URL, r.Server.Tenant
			a.flow.Server = r.Server.URL
		}
		request := cutover.Request{Command: cutover.CommandCutover, To: to, MaxStall: r.MaxStall, WritersStopped: r.kind == authority.KindLegacy}
		if a.kind == authority.KindPostgreSQL { // this is the rehearsal that it is held for
			request.Accept = []manifest.Accepted{acceptedOnCopy(cutover.HoldRehearsalMissing, string(a.kind))}
		}
		if err := r.phase(ctx, a, "cutover", func() error { return r.cutOver(ctx, a, request) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) cutOver(ctx context.Context, a *arm, request cutover.Request) error {
	result, err := r.execute(ctx, a, request)
	if err != nil {
		return err
	}
	snap, err := a.flow.Folder.Load()
	if err != nil {
		return err
	}
	m := snap.Manifest
	predicted, _ := strconv.ParseInt(result.Facts["predicted_stall_ms"], 10, 64) // none without a prediction
	stall := evidence.Stall{Arm: a.name, Phase: "cutover", StartMillis: m.Fence.FrozenAt.Sub(r.report.StartedAt).Milliseconds(),
		DurationMillis: m.Promotion.StallMillis, PredictedMillis: predicted, BudgetMillis: r.MaxStall.Milliseconds()}
	r.report.Stalls = append(r.report.Stalls, stall)
	if r.report.Plan.PlanDigest == "" {
		r.report.Plan.PlanDigest = result.PlanDigest
	}
	return nil
}

// execute previews a step and does it, as an operator would. Holds that may be accepted
// are, since a copy hurts nobody; each is named in the report.
func (r *run) execute(ctx context.Context, a *arm, request cutover.Request) (cutover.Result, error) {
	request.OperationID = r.ID + "-" + request.Command // the same in every arm, since an import writes it into its row
	preview, err := a.flow.Run(ctx, request)
	var refusal *cutover.Refusal
	if errors.As(err, &refusal) && r.mayAccept(refusal.Holds) {
		for _, h := range refusal.Holds {
			accepted := acceptedOnCopy(h.Code, h.Record)
			request.Accept = append(request.Accept, accepted)
			r.holds[h.Code+":"+h.Record] = accepted
		}
		preview, err = a.flow.Run(ctx, request)
	}
	if err != nil {
		return preview, err
	}
	request.Execute, request.PlanDigest = true, preview.PlanDigest
	if i := slices.Index(preview.Next, "--through"); i >= 0 {
		if request.Through, err = authority.ParseCursor(preview.Next[i+1]); err != nil {
			return preview, err
		}
	}
	done, err := a.flow.Run(ctx, request)
	done.PlanDigest = preview.PlanDigest
	return done, err
}

func acceptedOnCopy(hold, record string) manifest.Accepted {
	return manifest.Accepted{Hold: hold, Record: record, Owner: "rehearsal", Reason: "on a disposable copy"}
}

func (r *run) mayAccept(holds []cutover.Hold) bool {
	for _, h := range holds {
		if !h.Acceptable {
			return false
		}
	}
	return len(holds) > 0
}

// work drives the workload through every arm, as often as there are arms.
func (r *run) work(ctx context.Context) error {
	for _, a := range r.standing() {
		if err := r.phase(ctx, a, "work", func() error { return r.workOn(ctx, a) }); err != nil {
			return err
		}
		r.report.Latencies = append(r.report.Latencies, a.work.latencies(a.name)...)
		if len(a.work.growth) > 0 {
			r.report.Growth = append(r.report.Growth, evidence.Series{Arm: a.name, Name: "history_bytes", X: "transactions", Y: "bytes", Points: a.work.growth})
		}
	}
	return nil
}

func (r *run) workOn(ctx context.Context, a *arm) (err error) {
	watch := func(done int) {
		if r.Watch != nil {
			r.Watch(cutover.Progress{Act: "work", Arm: a.name, Done: uint64(done), Total: uint64(len(r.load.Operations))})
		}
	}
	a.facts = evidence.RehearsedArm{Name: a.name, Kind: a.kind, Driver: "model"}
	if a.kind == authority.KindLegacy && r.LoopX != nil {
		return r.workByLoopX(ctx, a, watch)
	}
	if a.kind == authority.KindLegacy {
		kept, err := keepEarlier(a.at, watch)
		if err != nil {
			return err
		}
		a.work, err = filesHand{at: a.at, clock: r.Clock, watch: kept.see}.drive(ctx, r.load)
		a.earlier = kept.before
		return errors.Join(err, kept.err)
	}
	ref := r.homeOf(a.at, a.kind, cutover.AccessWrite)
	store, err := r.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	before, err := store.Load(ctx)
	if err != nil {
		return err
	}
	a.base = before.Cursor
	h := hand{goal: a.at.place.GoalID(), store: store, watch: watch, clock: r.Clock, size: sizeOf(ref)}
	a.work, err = driveStore(ctx, h, r.load)
	return err
}

// workByLoopX lets LoopX drive the control. What it made of the workload is what the
// other arms repeat.
func (r *run) workByLoopX(ctx context.Context, a *arm, watch func(done int)) error {
	a.facts.Driver, a.facts.DriverVersion = "loopx", r.loopxVersion
	l, err := r.installLoopX(a.at)
	if err != nil {
		return err
	}
	kept, err := keepEarlier(a.at, watch)
	if err != nil {
		return err
	}
	h := &loopxHand{loopx: l, clock: r.Clock, watch: kept.see}
	w, done, err := h.drive(ctx, r.load)
	if err := errors.Join(err, kept.err); err != nil {
		return err
	}
	a.work, r.load, a.earlier = w, done, kept.before
	r.report.NotChecked = append(r.report.NotChecked, h.notChecked()...)
	return nil
}

// curve collects how fast rows were copied.
type curve struct {
	began, last time.Time
	rows        uint64
	points      [][2]float64
}

// see takes a sign of life; a point is a quarter of a second apart from the next.
func (c *curve) see(now time.Time, p cutover.Progress) {
	if p.Act != "copy" {
		return
	}
	if c.began.IsZero() {
		c.began, c.last, c.rows = now, now, p.Done
		return
	}
	took := now.Sub(c.last).Seconds()
	if took < 0.25 || p.Done < c.rows {
		return
	}
	c.points = append(c.points, [2]float64{round(now.Sub(c.began).Seconds()), round(float64(p.Done-c.rows) / took)})
	c.last, c.rows = now, p.Done
}

func round(x float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 3, 64), 64)
	if err != nil {
		return x
	}
	return short
}

func mapsValues(m map[string]manifest.Accepted) iter.Seq[manifest.Accepted] { return maps.Values(m) }

func byHold(a, b manifest.Accepted) int {
	return cmp.Compare(fmt.Sprint(a.Hold, ":", a.Record), fmt.Sprint(b.Hold, ":", b.Record))
}

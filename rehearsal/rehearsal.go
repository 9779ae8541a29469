package rehearsal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
	"github.com/loopx-project/loopx-migrate/witness"
)

// Config is a rehearsal to be run.
type Config struct {
	// Place and Registration are the source. It is only read.
	Place        authority.Place
	Registration fence.Registration
	Stores       cutover.Stores
	// Flow makes a migration over a copy, for the principal who rehearses.
	Flow  func(place authority.Place, registration fence.Registration) (*cutover.Flow, error)
	Clock func() time.Time
	// ID names the rehearsal.
	ID string
	// Arms are the kinds to be rehearsed; the source's own kind is always one of them.
	Arms []authority.Kind
	// Server is where a PostgreSQL arm works, nil without one.
	Server *Server
	Guard  *Guard
	// Workload is what is driven through every arm, for the head that the source has.
	Workload func(ctx context.Context, source authority.Reader) (Workload, error)
	// MaxStall is the budget for the write stall of the promotion.
	MaxStall time.Duration
	// ReleaseLeases lets active leases end on the copies, which a promotion would wait for.
	ReleaseLeases bool
	// Parent is the folder to make the copies in; Keep leaves them there.
	Parent string
	Keep   bool
	// Output is where the result will be written, empty for nowhere; it may not be production.
	Output string
	Watch  func(cutover.Progress)
	// LoopX drives the arm of legacy files; nil leaves that to this program's own writer.
	LoopX *Program
	// Witness proves the arms a second time; nil leaves the rehearsal incomplete.
	Witness     Witness
	Environment evidence.Environment
}

// Server is a disposable place in a database server.
type Server struct {
	URL    string // without a password
	Tenant string
	At     Whereabouts
}

// Witness reads the arms with code of its own, plants differences on copies and looks
// for them.
type Witness interface {
	Testify(ctx context.Context, arms []Standing) (Testimony, error)
}

// Standing is a store that stands where LoopX would find it, on a copy.
type Standing struct {
	Name string
	Ref  cutover.Ref
	// View is of the same state, proved by the store's own reader; nil where none is open.
	View authority.View
	// Base is the last cursor that the arm had before the work. Rows up to it are only
	// compared where Whole says that all arms began with the same ones.
	Base  authority.Cursor
	Whole bool
	// Earlier are legacy files before the last operation that changed them, nil for stores.
	Earlier *witness.Files
}

// Testimony is what a witness found.
type Testimony struct {
	Verdicts   []evidence.CheckVerdict
	Planted    []evidence.Planted
	NotChecked []evidence.NotChecked
}

// run is a rehearsal in progress.
type run struct {
	Config
	dir    string
	report *evidence.Rehearsal
	source cutover.Ref // of the base copy
	kind   authority.Kind
	base   copied
	arms   []*arm
	load   Workload
	holds  map[string]manifest.Accepted
	// imported is the row in which an import of legacy files says what it was.
	imported authority.Cursor
	// loopxRegistry and loopxVersion are the source's registry and what LoopX calls itself.
	loopxRegistry []byte
	loopxVersion  string
}

// Run rehearses. Differences and failed steps are in the report; an error means that
// there is none: the rehearsal was refused before it began, or interrupted.
func Run(ctx context.Context, c Config) (_ *evidence.Rehearsal, kept string, err error) {
	r := &run{Config: c, holds: map[string]manifest.Accepted{}}
	r.report = &evidence.Rehearsal{SchemaVersion: evidence.RehearsalSchema, RehearsalID: c.ID, GoalID: c.Place.GoalID(), StartedAt: r.now(),
		Environment: c.Environment}
	if err := r.guarded(); err != nil {
		return nil, "", err
	}
	if r.dir, err = os.MkdirTemp(c.Parent, "loopx-migrate-rehearsal-"); err != nil {
		return nil, "", err
	}
	if c.Keep {
		kept = r.dir
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	}
	if r.dir, err = filepath.EvalSymlinks(r.dir); err != nil {
		return nil, kept, err
	}
	defer r.unsee()
	for _, act := range []func(context.Context) error{r.copySource, r.bind, r.lay, r.forward, r.work, r.compare, r.testify, r.back} {
		if err := act(ctx); err != nil {
			return nil, kept, err
		}
	}
	return r.report, kept, r.finish()
}

func (r *run) now() time.Time { return r.Clock().UTC().Truncate(time.Millisecond) }

// since is the rehearsal's own clock, in milliseconds.
func (r *run) since() int64 { return r.now().Sub(r.report.StartedAt).Milliseconds() }

// guarded refuses what could be production before anything is made.
func (r *run) guarded() error {
	r.Guard.Paths = append(r.Guard.Paths, r.Place.Root())
	if state := r.Registration.StateFile; state != "" {
		r.Guard.Paths = append(r.Guard.Paths, filepath.Dir(state))
	}
	for _, path := range r.Registration.EventLogs {
		r.Guard.Paths = append(r.Guard.Paths, path)
	}
	if err := errors.Join(r.Guard.Folder(r.Parent), r.Guard.Output(r.Output)); err != nil {
		return err
	}
	if r.Server == nil {
		return nil
	}
	return r.Guard.Server(r.Server.At)
}

// phase does one step of an arm and puts it on the timeline. A step that fails ends its
// arm and is no error of the rehearsal, unless that was interrupted.
func (r *run) phase(ctx context.Context, a *arm, name string, do func() error) error {
	p := evidence.Phase{Arm: a.name, Name: name, StartMillis: r.since()}
	err := do()
	p.DurationMillis, p.Failed = r.since()-p.StartMillis, err != nil
	refusal := cutover.AsRefusal(err)
	p.Differs = err != nil && refusal.Kind == cutover.KindDiffers
	r.report.Phases = append(r.report.Phases, p)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	a.failed = true
	why := refusal.Reason + ": " + refusal.Sentence
	for _, h := range refusal.Holds {
		why += "; " + h.Code + " " + h.Record
	}
	r.report.NotChecked = append(r.report.NotChecked, evidence.NotChecked{What: "arm " + a.name + " from " + name + " on", Why: why})
	return nil
}

// copySource makes the copy from which the arms are made.
func (r *run) copySource(ctx context.Context) (err error) {
	self := &arm{name: "source"}
	start := r.since()
	r.base, r.report.Source.TreeBefore, r.report.Source.Bytes, err = cloneSource(ctx, r.Place, r.Registration, filepath.Join(r.dir, "base"))
	if err != nil {
		return err
	}
	r.report.Phases = append(r.report.Phases, evidence.Phase{Arm: self.name, Name: "copy", StartMillis: start, DurationMillis: r.since() - start})
	return r.Guard.Copy(r.base.dir)
}

// bind reads the copy: who is its authority, and what is rehearsed for.
func (r *run) bind(ctx context.Context) error {
	flow, err := r.Flow(r.base.place, r.base.registration)
	if err != nil {
		return err
	}
	flow.Watch = r.Watch
	seen, err := flow.Inspect(ctx)
	if err != nil {
		return err
	}
	if err := r.rehearsable(flow, seen); err != nil {
		return err
	}
	r.kind = seen.Verdict.Kind
	r.source = r.homeOf(r.base, r.kind, cutover.AccessUntouched)
	store, err := r.Stores.Open(ctx, r.source)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // it was only read
	lineage, err := r.lineage(ctx, store, seen)
	if err != nil {
		return err
	}
	r.report.Source.Format, r.report.Source.Transactions = lineage.Format, lineage.Transactions
	r.report.Plan = evidence.RehearsedPlan{SourceKind: r.kind, SourceIdentity: lineage.Identity, Cursor: lineage.End.Cursor,
		Revision: lineage.End.Revision, LogicalDigest: lineage.Logical}
	if r.load, err = r.Workload(ctx, store); err != nil {
		return err
	}
	if r.report.Workload, err = r.load.facts(); err != nil {
		return err
	}
	if err := r.readRegistry(); err != nil {
		return err
	}
	return r.tryLoopX(ctx)
}

// lineage is what the inspection proved of the source; legacy files it only reads.
func (r *run) lineage(ctx context.Context, store cutover.History, seen cutover.Inspection) (authority.Lineage, error) {
	for _, s := range seen.Stores {
		if s.Kind == r.kind {
			return s.Lineage, s.Defect
		}
	}
	return store.Audit(ctx, nil, nil)
}

// rehearsable refuses a Goal that cannot be copied whole or is in the middle of something.
func (r *run) rehearsable(flow *cutover.Flow, seen cutover.Inspection) error {
	refuse := func(reason, sentence string) error {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: reason, Sentence: sentence + "; nothing was changed"}
	}
	snap, err := flow.Folder.Load()
	if err != nil {
		return err
	}
	switch phase := snap.Phase(); {
	case seen.Verdict.Blocked:
		return refuse(seen.Verdict.Reason, "no store is the authority of this goal: "+seen.Verdict.Detail)
	case seen.Verdict.Kind == authority.KindPostgreSQL:
		return refuse("source_not_copied", "a goal in a database server cannot be copied by its files: rehearse from an export of it")
	case snap.Manifest != nil && snap.Manifest.Intent != nil || !slices.Contains([]manifest.Phase{manifest.PhaseNone, manifest.PhasePlanned, manifest.PhasePromoted, manifest.PhaseAborted, manifest.PhaseRolledBack}, phase):
		return refuse("migration_open", "a migration of this goal is in phase "+string(phase)+": rehearse before the freeze")
	}
	return nil
}

// homeOf is LoopX's own place for a kind of store in a copy.
func (r *run) homeOf(c copied, kind authority.Kind, access cutover.Access) cutover.Ref {
	ref := cutover.Ref{Kind: kind, Goal: c.place.GoalID(), Access: access}
	switch kind {
	case authority.KindFile:
		ref.Path, ref.IdentityFile = c.place.Journal(), c.place.StoreIdentity()
	case authority.KindSQLite:
		ref.Path = c.place.Database()
	case authority.KindLegacy:
		ref.Live = cutover.LegacyFiles{Root: c.place.Root(), StateFile: c.registration.StateFile, EventLogs: c.registration.EventLogs}
	case authority.KindPostgreSQL:
		ref.Server, ref.Tenant = r.Server.URL, r.Server.Tenant
	}
	return ref
}

// finish closes the report: the source once more, and the answer over all.
func (r *run) finish() error {
	after, _, err := Tree(r.Place, r.Registration)
	if err != nil {
		return sorted(err)
	}
	r.report.Source.TreeAfter = after
	for _, a := range r.arms {
		if a.facts.Name != "" { // one that ended before the work has nothing to say
			r.report.Arms = append(r.report.Arms, a.facts)
		}
		if a.role == migrated {
			r.report.Plan.Targets = append(r.report.Plan.Targets, a.kind)
		}
	}
	for _, h := range slices.SortedFunc(mapsValues(r.holds), byHold) {
		r.report.NotChecked = append(r.report.NotChecked, evidence.NotChecked{What: "hold " + h.Hold + ":" + h.Record,
			Why: "it was accepted on the copies; the migration itself has to accept it by name"})
	}
	r.report.OddArm, r.report.First = odd(r.report.Verdicts)
	r.report.FinishedAt = r.now()
	r.report.Result, r.report.Reasons = r.report.Judge()
	return nil
}

// telling says how much a difference tells: which arm, and where in which field.
func telling(d parity.Difference) (points int) {
	for _, told := range []bool{d.Arm != "", d.Cursor != 0, d.Field != ""} {
		if told {
			points++
		}
	}
	return points
}

// odd is the first difference, and the arm at fault where two others agree.
func odd(verdicts []evidence.CheckVerdict) (string, *parity.Difference) {
	var first *parity.Difference
	for _, v := range verdicts {
		for i := range v.Differences {
			d := &v.Differences[i]
			if first == nil || telling(*d) > telling(*first) {
				first = d
			}
		}
	}
	if first == nil {
		return "", nil
	}
	return first.Arm, first
}

package cutover

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

// ParityOptions are what an operator asks of a comparison.
type ParityOptions = parity.Options

// planCompare makes the comparison: reading is all it does. Executing it records the
// verdict, and lets an imported migration go on to verified.
func (f *Flow) planCompare(ctx context.Context, now seen, r Request) (Plan, error) {
	p := f.newPlan(now, r)
	if m := now.snap.Manifest; m.Phase != manifest.PhasePlanned {
		if err := frozenAs(now, m); err != nil {
			return p, err
		}
	}
	report, err := f.parity(ctx, now.snap.Manifest, r.Parity)
	if err != nil {
		return p, err
	}
	digest, err := manifest.DigestOf(report)
	if err != nil {
		return p, err
	}
	p.report = report
	p.Limits = map[string]string{"report": digest.String()}
	p.Effects = []string{"record this verdict in the manifest"}
	return p, nil
}

// parity compares source and candidate, check by check.
func (f *Flow) parity(ctx context.Context, m *manifest.Manifest, options ParityOptions) (parity.Report, error) {
	target, err := f.target(m).candidate(AccessUntouched)
	if err != nil {
		return parity.Report{}, err
	}
	if m.Phase == manifest.PhasePlanned && m.Copied != nil {
		options.Through = m.Copied.Bookmark.Cursor // the source is live and may have gone on
		source := f.source(m).home(AccessUntouched)
		source.Moving = true
		report, err := f.compareArms(ctx, options, source, target)
		if busy(source, err) && ctx.Err() == nil {
			source.Access = AccessLive
			return f.compareArms(ctx, options, source, target)
		}
		return report, err
	}
	return f.compareArms(ctx, options, f.source(m).home(AccessUntouched), target)
}

// compareArms views the arms side by side, and hashes meanwhile what they keep.
func (f *Flow) compareArms(ctx context.Context, options ParityOptions, refs ...Ref) (_ parity.Report, err error) {
	arms, errs := make([]arm, len(refs)), make([]error, 2*len(refs))
	var views sync.WaitGroup
	for i, ref := range refs {
		f.tell(Progress{Act: "verify", Arm: string(ref.Kind)})
		arms[i].Name, arms[i].Digest = string(ref.Kind), bytesOf(ref)
		views.Go(func() { errs[2*i] = arms[i].open(ctx, f.Stores, ref) })
		if arms[i].Digest != nil {
			views.Go(func() { arms[i].Before, errs[2*i+1] = arms[i].Digest(ctx) })
		}
	}
	views.Wait()
	compared := make([]parity.Arm, len(refs))
	for i := range arms {
		defer closing(&arms[i], &err)
		compared[i] = arms[i].Arm
	}
	throughFiles(compared)
	if err := errors.Join(errs...); err != nil {
		return parity.Report{}, err
	}
	return parity.Compare(ctx, compared, options)
}

// arm is a side of a comparison with what has to be closed behind it.
type arm struct {
	parity.Arm
	store History
	view  authority.View
}

// open views the store. A view that can decide on a commit itself spares the store
// from proving the whole history again for each.
func (a *arm) open(ctx context.Context, stores Stores, ref Ref) (err error) {
	if a.store, err = stores.Open(ctx, ref); err != nil {
		return err
	}
	if a.view, err = a.store.View(ctx); err != nil {
		return err
	}
	if ref.Kind == authority.KindLegacy {
		a.Head = headOf(a.view)
		return nil
	}
	a.View = a.view
	a.CheckCommit = a.store.CheckCommit
	if view, ok := a.View.(interface {
		CheckCommit(context.Context, authority.CommitRequest) error
	}); ok {
		a.CheckCommit = view.CheckCommit
	}
	return nil
}

// Close closes the view before its store.
func (a *arm) Close() (err error) {
	if a.view != nil {
		err = a.view.Close()
	}
	if a.store != nil {
		err = errors.Join(err, a.store.Close())
	}
	return err
}

// headOf is the head of an arm that has no journal of its own.
func headOf(view authority.View) func(context.Context) (authority.Canonical, error) {
	return func(ctx context.Context) (authority.Canonical, error) {
		head, err := view.Load(ctx)
		return head.Projection, err
	}
}

// throughFiles lets all arms be compared as legacy files can show them, where one of
// them is legacy files.
func throughFiles(arms []parity.Arm) {
	if !slices.ContainsFunc(arms, func(a parity.Arm) bool { return a.Head != nil }) {
		return
	}
	for i := range arms {
		arms[i].Projection = legacy.CompatibleName
		arms[i].Compatible = func(head authority.Canonical) authority.Canonical { return legacy.Compatible(head) }
	}
}

// bytesOf hashes what a store keeps, to see that a comparison left it alone. A source
// that LoopX writes to meanwhile changes by itself, and is not watched.
func bytesOf(ref Ref) func(context.Context) (authority.Digest, error) {
	if ref.Access != AccessUntouched || ref.Moving || ref.Path == "" {
		return nil
	}
	return func(context.Context) (authority.Digest, error) { return digestParts(ref.Path) }
}

// digestParts hashes the two halves of a file side by side and returns the digest of
// their digests.
func digestParts(path string) (_ authority.Digest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return authority.Digest{}, err
	}
	defer closing(file, &err)
	info, err := file.Stat()
	if err != nil {
		return authority.Digest{}, err
	}
	half := info.Size() / 2
	ends := []int64{0, half, math.MaxInt64}
	var parts [2][sha256.Size]byte
	var errs [2]error
	var hashing sync.WaitGroup
	for i := range parts {
		hashing.Go(func() {
			sum := sha256.New()
			_, errs[i] = io.Copy(sum, io.NewSectionReader(file, ends[i], ends[i+1]-ends[i]))
			sum.Sum(parts[i][:0])
		})
	}
	hashing.Wait()
	return authority.DigestOf(append(parts[0][:], parts[1][:]...)), errors.Join(errs[:]...)
}

// comparison is the verdict to be recorded.
func (f *Flow) comparison(ctx context.Context, w *work) (manifest.Verdict, error) {
	report, made := w.report.(parity.Report)
	if !made {
		var err error
		if report, err = f.parity(ctx, w.m, w.request.Parity); err != nil {
			return manifest.Verdict{}, err
		}
		w.report = report
	}
	digest, err := manifest.DigestOf(report)
	return manifest.Verdict{Cursor: w.m.Target.Cursor, Revision: w.m.Copied.Bookmark.Revision, Logical: w.m.Target.LogicalDigest,
		Report: digest, Passed: report.Verdict == parity.Qualified, At: f.now()}, err
}

// fencedAnswers are what a writer is told behind a frozen selector: this tool's model
// of one, and LoopX (docs/formats.md, "Answers").
var fencedAnswers = []string{"migration_frozen", "local_authority_selector_invalid"}

// probe lets a writer try, and records what it was told. A write that went through
// is an incident: the fence does not hold.
func (f *Flow) probe(ctx context.Context, w *work, arm authority.Kind) error {
	found, err := f.Probes(arm).Probe(ctx)
	if err != nil {
		return err
	}
	w.m.Fence.Probes = append(w.m.Fence.Probes, found)
	w.facts["probe"] = found.By + ": " + found.Answer
	if found.Refused && !slices.Contains(fencedAnswers, found.Answer) {
		return errors.Join(f.save(w), refuse(KindUnproved, "probe_inconclusive",
			"a writer's try was refused for another reason than this fence: %s", found.Answer))
	}
	if !found.Refused {
		w.m.Incidents = append(w.m.Incidents, manifest.Incident{Code: "fence_does_not_hold", Cursor: w.m.Source.Cursor, Detail: "a writer's try went through behind the fence", At: f.now()})
		return errors.Join(f.save(w), refuse(KindUnproved, "fence_does_not_hold", "a writer's try went through behind the fence"))
	}
	return nil
}

// unqualified is the refusal of a comparison that did not pass.
func unqualified(report any) *Refusal {
	switch r := report.(parity.Report); r.Verdict {
	case parity.Qualified:
		return nil
	case parity.InsufficientEvidence:
		return refuse(KindRefused, "insufficient_evidence", "the arms agree, but less was compared than was asked for")
	}
	refusal := refuse(KindDiffers, "parity_differs", "the arms differ; the source stays the authority and nothing was changed")
	refusal.Next = []string{CommandAbort}
	return refusal
}

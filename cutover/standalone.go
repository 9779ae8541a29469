package cutover

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/parity"
)

// CopyAlone copies a history from one store into another that no migration stands
// behind: no fence, no manifest, and whatever is the authority stays it. It serves
// rehearsals and looking. Like every command it is previewed first; the target's
// identity follows from the operation id, so that the same operation goes on with its
// own candidate, does nothing to one that is finished, and never touches another's.
// A preview's Next lacks --from: only the caller knows how the source was typed.
func (f *Flow) CopyAlone(ctx context.Context, r Request, from, to Ref) (Result, error) {
	to.Identity = mintIdentity(to.Kind, to.Goal, "standalone "+r.OperationID)
	plan, err := f.planAlone(ctx, r, from, to)
	if err != nil {
		return Result{}, err
	}
	digest, err := plan.Digest()
	if err != nil {
		return Result{}, err
	}
	result := Result{Command: r.Command, Status: "preview", OperationID: r.OperationID, Plan: &plan, PlanDigest: digest}
	if err := held(plan); err != nil {
		return result, err
	}
	if !r.Execute {
		result.Next = f.executeLine(r, plan, digest)
		return result, nil
	}
	if r.OperationID == "" || r.PlanDigest == "" {
		return Result{}, refuse(KindUsage, "plan_required", "--execute needs --operation-id and --plan-digest of a preview; run %s without --execute first", r.Command)
	}
	if digest != r.PlanDigest {
		return Result{}, refuse(KindConflict, "plan_changed", "the plan is now %s, not the one that was previewed; nothing was changed", digest)
	}
	return f.copyAlone(ctx, r, from, to)
}

func (f *Flow) planAlone(ctx context.Context, r Request, from, to Ref) (Plan, error) {
	if to.Kind != authority.KindSQLite {
		return Plan{}, refuse(KindRefused, "pair_not_supported", "this build copies into sqlite stores, not %s", to.Kind)
	}
	p := Plan{SchemaVersion: PlanSchema, Command: r.Command, GoalID: from.Goal, OperationID: r.OperationID,
		Source: PlanSide{Kind: from.Kind}, Target: PlanSide{Kind: to.Kind, Identity: to.Identity, Elsewhere: true, Place: placeDigest(Target{Kind: to.Kind, Path: to.Path})},
		Effects: []string{"copy every transaction into a database at the path given by --to", "audit it in full and compare the logical digests",
			"no authority, fence or record is touched"}}
	source, err := f.Stores.Open(ctx, from)
	if err != nil {
		return p, err
	}
	lineage, err := f.audit(ctx, source, nil, func(row authority.Row) error {
		if row.Cursor == r.Through {
			p.Source.Cursor, p.Source.Revision = row.Cursor, row.Revision
		}
		p.Holds = append(p.Holds, unholdableInSQLite(row)...)
		return nil
	})
	if err := errors.Join(err, source.Close()); err != nil {
		return p, err
	}
	p.Source.Identity = lineage.Identity
	switch {
	case lineage.End.Cursor == 0:
		return p, refuse(KindRefused, "source_empty", "the source holds no transaction")
	case r.Through == 0:
		p.Source.Cursor, p.Source.Revision = lineage.End.Cursor, lineage.End.Revision
	case p.Source.Cursor == 0:
		return p, refuse(KindConflict, "plan_changed", "the history ends at cursor %s, before the bound cursor %s", lineage.End.Cursor, r.Through)
	}
	if err := f.Stores.Suits(nearest(filepath.Dir(to.Path))); err != nil {
		return p, err
	}
	sortHolds(p.Holds)
	return p, nil
}

// copyAlone copies and proves. A target that holds the history already is only
// proved again.
func (f *Flow) copyAlone(ctx context.Context, r Request, from, to Ref) (Result, error) {
	source, err := f.proveRef(ctx, from, nil, authority.Bookmark{})
	if err != nil {
		return Result{}, err
	}
	result := Result{Command: r.Command, Status: "done", OperationID: r.OperationID, Facts: map[string]string{
		"copied_through": source.lineage.End.Cursor.String(), "logical_digest": source.lineage.Logical.String(), "store_identity": string(to.Identity)}}
	if there, err := f.proveRef(ctx, to, nil, authority.Bookmark{}); err == nil && there.lineage.Identity == to.Identity && bootstrap.Done(source.lineage, there.lineage) == nil {
		result.Status = "replayed"
		return result, nil
	}
	store, err := f.Stores.Open(ctx, from)
	if err != nil {
		return Result{}, err
	}
	copied, err := f.copyInto(ctx, store, to, nil)
	if err := errors.Join(err, store.Close()); err != nil {
		return Result{}, err
	}
	proved, err := f.proveRef(ctx, to, nil, authority.Bookmark{})
	if err != nil {
		return Result{}, err
	}
	return result, bootstrap.Done(copied, proved.lineage)
}

// CompareAlone compares two stores that no migration stands behind, and records nothing.
func (f *Flow) CompareAlone(ctx context.Context, options ParityOptions, left, right Ref) (_ parity.Report, err error) {
	var arms []parity.Arm
	for i, ref := range []Ref{left, right} {
		store, err := f.Stores.Open(ctx, ref)
		if err != nil {
			return parity.Report{}, err
		}
		defer closing(store, &err)
		view, err := store.View(ctx)
		if err != nil {
			return parity.Report{}, err
		}
		defer closing(view, &err)
		arms = append(arms, parity.Arm{Name: []string{"left", "right"}[i], View: view, CheckCommit: store.CheckCommit})
	}
	return parity.Compare(ctx, arms, options)
}

// Unqualified is the refusal that a report which did not pass comes to, nil for one that did.
func Unqualified(report parity.Report) *Refusal { return unqualified(report) }

package cutover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Commands that change who may run mutating commands on a Goal.
const (
	CommandGrant  = "grant"
	CommandRevoke = "revoke"
)

// authorize refuses a principal that holds no grant now. The owner of the runtime root
// holds the first one, and nothing takes it from him; every other stands in grants.json.
// Grants that cannot be trusted are nobody's.
func (f *Flow) authorize() error {
	owner, err := ownerOf(f.Place.Root())
	if err != nil {
		return err
	}
	if owner == f.Principal {
		return nil
	}
	grants, _, err := f.Folder.LoadGrants()
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if grants.Standing(f.Principal) != nil {
		return nil
	}
	why := "holds no grant on this goal"
	if err != nil {
		why = "cannot read the grants on this goal, which may hold one"
	}
	refusal := refuse(KindRefused, reasonDenied, "the runtime root belongs to %s and %s %s; nothing was changed", owner, f.Principal, why)
	refusal.Next, refusal.Err = []string{"grants"}, err
	return refusal
}

const reasonDenied = "permission_denied"

// denied answers a principal that may not run a command. The refusal of an operation id
// that was never seen is stored, once; for one that is known not a byte is written, and
// nothing of what is stored under it is said.
func (f *Flow) denied(ctx context.Context, command manifest.Command, fingerprint authority.Digest, err error) error {
	refusal := AsRefusal(err)
	if refusal.Reason != reasonDenied {
		return err // whether there is a grant could not be found out
	}
	if stored, err := f.Folder.Outcome(command); err != nil || stored != nil {
		return refusal
	}
	if err := f.storeDenial(ctx, command, fingerprint, refusal); err != nil && refusal.Err == nil {
		refusal.Err = fmt.Errorf("the refusal itself could not be stored: %w", err)
	}
	return refusal
}

func (f *Flow) storeDenial(ctx context.Context, command manifest.Command, fingerprint authority.Digest, refusal *Refusal) error {
	unlock, err := f.operatorLock(ctx, command.Kind)
	if err != nil {
		return err
	}
	return errors.Join(f.storeRefusal(command, fingerprint, refusal), unlock())
}

// saidBefore says in a preview that this principal may not execute it, rather than after
// the line was pasted.
func (f *Flow) saidBefore(p *Plan) error {
	err := f.authorize()
	if err == nil {
		return nil
	}
	refusal := AsRefusal(err)
	if refusal.Reason != reasonDenied {
		return err
	}
	// Before all others: to clear them would not lead on.
	p.Holds = slices.Insert(p.Holds, 0, Hold{Code: refusal.Reason, Record: f.Principal, Detail: refusal.Sentence})
	return nil
}

// GrantList is who may run mutating commands on a Goal, from a fresh look.
type GrantList struct {
	Owner   string // of the runtime root; holds the first grant
	Holders []manifest.GrantChange
	Changes []manifest.GrantChange // all there ever were, in order
}

// Grants reads who holds a grant and changes nothing.
func (f *Flow) Grants() (GrantList, error) {
	owner, err := ownerOf(f.Place.Root())
	if err != nil {
		return GrantList{}, err
	}
	grants, _, err := f.Folder.LoadGrants()
	return GrantList{Owner: owner, Holders: grants.Holders(), Changes: grants.Changes}, err
}

// ChangeGrants previews or executes a grant or its withdrawal. Whoever holds a grant may
// do either, since he may run every other command too; the owner's own grant follows from
// the file system and cannot be withdrawn. The whole effect is one replaced document that
// names its operation, so that a step that died before its outcome is found in it.
func (f *Flow) ChangeGrants(ctx context.Context, r Request) (Result, error) {
	if !r.Execute {
		return f.previewGrants(r)
	}
	return f.guarded(ctx, r, func(command manifest.Command, fingerprint authority.Digest) (Result, error) {
		return f.changeGrants(r, command, fingerprint)
	})
}

func (f *Flow) previewGrants(r Request) (Result, error) {
	plan, err := f.planGrants(r)
	if err != nil {
		return Result{}, err
	}
	digest, err := plan.Digest()
	if err != nil {
		return Result{}, err
	}
	if err := f.saidBefore(&plan); err != nil {
		return Result{}, err
	}
	result := Result{Command: r.Command, Status: "preview", OperationID: r.OperationID, Plan: &plan, PlanDigest: digest}
	if err := held(plan); err != nil {
		return result, err
	}
	result.Next = []string{r.Command, plan.Principal, "--operation-id", r.OperationID, "--plan-digest", digest, "--execute"}
	return result, nil
}

// planGrants says what would change, over the grants as they stand.
func (f *Flow) planGrants(r Request) (Plan, error) {
	// A record that cannot be trusted stops no withdrawal; one that is away would be begun anew.
	if snap, err := f.Folder.Load(); err == nil {
		if lost := f.recordless(snap.Manifest, fence.ReadSelector(f.Place)); lost != nil {
			return Plan{}, lost
		}
	}
	owner, err := ownerOf(f.Place.Root())
	if err != nil {
		return Plan{}, err
	}
	grants, digest, err := f.Folder.LoadGrants()
	if err != nil {
		return Plan{}, err
	}
	p := Plan{SchemaVersion: PlanSchema, Command: r.Command, GoalID: f.Place.GoalID(), OperationID: r.OperationID,
		Principal: r.Principal, Grants: digest}
	if r.Principal == owner {
		return p, refuse(KindRefused, "owner_grant", "%s owns the runtime root: that grant follows from the file system, is not given and cannot be withdrawn; nothing was changed", owner)
	}
	standing := grants.Standing(r.Principal)
	switch {
	case r.Command == CommandGrant && standing != nil:
		return p, refuse(KindRefused, "already_granted", "%s holds a grant already; nothing was changed", r.Principal)
	case r.Command == CommandRevoke && standing == nil:
		return p, refuse(KindRefused, "no_such_grant", "%s holds no grant; nothing was changed", r.Principal)
	}
	p.Effects = []string{"from then on " + r.Principal + " may run every mutating command on this goal, this one too"}
	if r.Command == CommandRevoke {
		p.Effects = []string{"from then on " + r.Principal + " may run no mutating command on this goal, not even one that succeeded before",
			"a step that it began is finished by whoever holds a grant: resume, or abort"}
	}
	return p, nil
}

func (f *Flow) changeGrants(r Request, command manifest.Command, fingerprint authority.Digest) (Result, error) {
	grants, digest, err := f.Folder.LoadGrants()
	if err != nil {
		return Result{}, err
	}
	if grants.Of(f.Principal, r.OperationID) == nil { // else it died between its effect and its outcome
		if err := f.agreedGrants(r); err != nil {
			return Result{}, f.decidedNow(command, fingerprint, err)
		}
		grants = grants.With(f.grantChange(r, fingerprint))
		if digest, err = f.Folder.SaveGrants(digest, grants); err != nil {
			return Result{}, err
		}
	}
	change := grants.Of(f.Principal, r.OperationID)
	if change.Fingerprint != fingerprint {
		return Result{}, &manifest.TamperedError{File: "grants.json", Detail: "operation " + r.OperationID + " changed something else there"}
	}
	return f.done(command, fingerprint, Result{Next: []string{"grants"}, Facts: map[string]string{"principal": change.Principal, "grant": change.Change,
		"change": strconv.Itoa(change.Seq), "grants_digest": digest.String()}})
}

// agreedGrants makes the plan again and refuses one that is not the previewed one.
func (f *Flow) agreedGrants(r Request) error {
	plan, err := f.planGrants(r)
	if err != nil {
		return err
	}
	return samePlan(plan, r)
}

func (f *Flow) grantChange(r Request, fingerprint authority.Digest) manifest.GrantChange {
	kind := manifest.Given
	if r.Command == CommandRevoke {
		kind = manifest.Withdrawn
	}
	return manifest.GrantChange{Change: kind, Principal: r.Principal, By: f.Principal, Actor: f.Actor,
		OperationID: r.OperationID, Fingerprint: fingerprint, At: f.now()}
}

// Permitted refuses an executed command that works beside a migration, an export or a copy
// for one, to a principal without a grant on the Goal, and repeats a refusal that is stored
// under its operation id. What such a command makes is named after its content and its
// operation, so that the thing itself is its outcome and none is stored here.
func (f *Flow) Permitted(ctx context.Context, r Request) error {
	if !r.Execute {
		return f.authorize()
	}
	command, fingerprint, err := f.identify(r)
	if err != nil {
		return err
	}
	if err := f.authorize(); err != nil {
		return f.denied(ctx, command, fingerprint, err)
	}
	_, _, err = f.replay(ctx, command, fingerprint)
	return err
}

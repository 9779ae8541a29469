package cutover

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Commands that change the head of the authority by one declared transaction.
const (
	CommandUpgradeHead = "upgrade-head"
	CommandRebind      = "rebind"
)

// declarer is the actor of the declared transactions. Who ran the command stands in the
// outcome, which stays on the host; a receipt goes wherever the history goes.
var declarer = coordination.Actor{AgentID: "loopx-migrate", DeviceID: "operator"}

// ChangeHead previews or executes upgrade-head or rebind on the store that is the
// authority. Effect and outcome are one transaction of that store: its receipt is found
// under the operation, also by a retry after a crash, and is what the command answers.
func (f *Flow) ChangeHead(ctx context.Context, r Request) (Result, error) {
	if r.Execute {
		return f.guarded(ctx, r, func(command manifest.Command, fingerprint authority.Digest) (Result, error) {
			return f.changeHead(ctx, r, command, fingerprint)
		})
	}
	c, err := f.headChange(ctx, r)
	if err != nil {
		return Result{}, err
	}
	digest, err := c.plan.Digest()
	if err != nil {
		return Result{}, err
	}
	if err := f.saidBefore(&c.plan); err != nil {
		return Result{}, err
	}
	result := Result{Command: r.Command, Status: "preview", OperationID: r.OperationID, MigrationID: c.plan.MigrationID, Plan: &c.plan, PlanDigest: digest}
	if err := held(c.plan); err != nil {
		return result, err
	}
	result.Next = []string{r.Command}
	if r.Store != "" {
		result.Next = append(result.Next, "--store-identity", string(r.Store))
	}
	result.Next = append(result.Next, "--operation-id", r.OperationID, "--plan-digest", digest, "--execute")
	return result, nil
}

// headChange is a declared transaction that was looked into.
type headChange struct {
	plan  Plan
	ref   Ref // of the authority, to be written
	apply func(context.Context, *coordination.Authority, string) coordination.Result
}

// headChange makes the plan of a declared transaction: which store, from which head, and
// what the library says to it. Nothing is written.
func (f *Flow) headChange(ctx context.Context, r Request) (headChange, error) {
	now, err := f.look(ctx)
	if err != nil {
		return headChange{}, err
	}
	if m := now.snap.Manifest; m != nil && m.Intent != nil {
		return headChange{}, sameIntent(m.Intent, Request{}, authority.Digest{})
	}
	switch v := now.verdict; {
	case v.Blocked:
		refusal := refuse(KindUnproved, v.Reason, "no store is the authority now: %s", v.Detail)
		refusal.Next = []string{"status"}
		return headChange{}, refusal
	case v.Kind == authority.KindLegacy:
		return headChange{}, refuse(KindRefused, "no_store_is_authority", "the legacy files are the authority, and hold no such head; nothing was changed")
	}
	ref := f.liveRef(now)
	identity, head, err := f.headOf(ctx, ref)
	if err != nil {
		return headChange{}, err
	}
	ref.Access = AccessWrite
	c := headChange{ref: ref, plan: Plan{SchemaVersion: PlanSchema, Command: r.Command, GoalID: f.Place.GoalID(), OperationID: r.OperationID, Phase: now.snap.Phase(),
		Source: PlanSide{Kind: ref.Kind, Identity: identity, Tenant: ref.Tenant, Cursor: head.Cursor, Revision: head.Revision}}}
	if r.Command == CommandUpgradeHead {
		return f.upgrade(c, head, r)
	}
	return f.rebind(c, head, now)
}

func (f *Flow) headOf(ctx context.Context, ref Ref) (identity authority.Identity, head authority.Head, err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return "", head, err
	}
	defer closing(store, &err)
	if identity, err = store.Identity(ctx); err != nil {
		return "", head, err
	}
	head, err = store.Load(ctx)
	return identity, head, err
}

// upgrade looks into a head of schema v0. The identity it is bound to is the one the
// operator verified and named; it is never taken from whichever store the head came through.
func (f *Flow) upgrade(c headChange, head authority.Head, r Request) (headChange, error) {
	if r.Store != c.plan.Source.Identity {
		return c, refuse(KindRefused, string(coordination.ReasonLineage),
			"--store-identity names %s, and the authority is %s; nothing was changed", r.Store, c.plan.Source.Identity)
	}
	request := coordination.UpgradeRequest{Actor: declarer, GoalID: f.Place.GoalID(), Store: r.Store}
	c.apply = func(ctx context.Context, a *coordination.Authority, operation string) coordination.Result {
		request.OperationID = operation
		return a.Upgrade(ctx, request)
	}
	request.OperationID = probeOperation
	if _, err := coordination.UpgradeHead(head.Projection, request, f.now()); err != nil {
		return c, undeclared(err)
	}
	c.plan.Effects = []string{"rebuild the history of claims from the receipts and hold it against the live claims",
		"commit the head in schema v1, bound to " + string(r.Store) + ", as one transaction with its receipt"}
	return c, nil
}

// rebind looks into a head that a migration brought into another store.
func (f *Flow) rebind(c headChange, head authority.Head, now seen) (headChange, error) {
	m, identity := now.snap.Manifest, c.plan.Source.Identity
	switch {
	case m == nil:
		return c, refuse(KindRefused, "manifest_missing", "this goal was never migrated by this tool: there is no record that a binding could name; nothing was changed")
	case m.Phase == manifest.PhasePromoted && m.Target.Identity == identity, m.Phase == manifest.PhaseRolledBack && m.Source.Identity == identity:
	default:
		return c, refuse(KindRefused, "wrong_phase", "in phase %s migration %s has not made %s the authority; nothing was changed", m.Phase, m.MigrationID, identity)
	}
	request := coordination.RebindRequest{Actor: declarer, GoalID: f.Place.GoalID(), Store: identity, MigrationID: m.MigrationID, ManifestDigest: now.snap.Digest}
	c.apply = func(ctx context.Context, a *coordination.Authority, operation string) coordination.Result {
		request.OperationID = operation
		return a.Rebind(ctx, request)
	}
	request.OperationID = probeOperation
	if _, err := coordination.Rebind(head.Projection, request, f.now()); err != nil {
		return c, undeclared(err)
	}
	c.plan.MigrationID, c.plan.Manifest = m.MigrationID, now.snap.Digest
	c.plan.Effects = []string{"commit the head bound to " + string(identity) + " as one transaction, with a receipt that names migration " + m.MigrationID + " and its manifest",
		"from then on agents may work on this goal in this store"}
	return c, nil
}

// probeOperation stands for the operation while a preview asks the library.
const probeOperation = "loopx-migrate:preview"

func (f *Flow) changeHead(ctx context.Context, r Request, command manifest.Command, fingerprint authority.Digest) (result Result, err error) {
	if err := atomicfile.MkdirAll(filepath.Dir(f.Place.MaintenanceLock()), 0o700); err != nil {
		return Result{}, err
	}
	// LoopX's writers wait for this lock; the document's own is the store's to take.
	lock, err := lockfile.AcquireMarker(ctx, f.Place.MaintenanceLock(), f.LockWait)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	operation := storeOperation(command, fingerprint)
	receipt, found, err := f.declaredBefore(ctx, operation)
	if err != nil {
		return Result{}, err
	}
	if !found { // else it died between its effect and its outcome
		c, err := f.headChange(ctx, r)
		if err == nil {
			err = samePlan(c.plan, r)
		}
		if err != nil {
			return Result{}, f.decidedNow(command, fingerprint, err)
		}
		if receipt, err = f.declare(ctx, c, operation); err != nil {
			return Result{}, f.keepDecided(command, fingerprint, err)
		}
	}
	return f.done(command, fingerprint, Result{Next: []string{"status"}, Facts: receiptFacts(receipt)})
}

// keepDecided stores what the library decided against the transaction. An error of the store
// is passing trouble, whatever it is: the same command asks for the receipt first.
func (f *Flow) keepDecided(command manifest.Command, fingerprint authority.Digest, err error) error {
	var decided *Refusal
	if !errors.As(err, &decided) {
		return err
	}
	return f.decidedNow(command, fingerprint, decided)
}

// storeOperation is the id of the transaction in the store. The store knows neither
// principals nor fingerprints, so that both are in the id.
func storeOperation(command manifest.Command, fingerprint authority.Digest) string {
	var text []byte
	for _, part := range []string{command.Principal, command.GoalID, command.OperationID, fingerprint.String()} {
		text = fmt.Appendf(text, "%d:%s", len(part), part)
	}
	return "loopx-migrate:" + command.Kind + ":" + authority.DigestOf(text).String()[:32]
}

// declaredBefore looks for the receipt of the transaction in the store that is the authority.
func (f *Flow) declaredBefore(ctx context.Context, operation string) (receipt coordination.Receipt, found bool, err error) {
	now, err := f.look(ctx)
	if err != nil || now.verdict.Blocked || now.verdict.Kind == authority.KindLegacy {
		return receipt, false, err // what stands against it, the plan says
	}
	store, err := f.Stores.Open(ctx, f.liveRef(now))
	if err != nil {
		return receipt, false, err
	}
	defer closing(store, &err)
	stored, err := store.Receipt(ctx, operation)
	if errors.Is(err, authority.ErrMissing) {
		return receipt, false, nil
	}
	if err != nil {
		return receipt, false, err
	}
	receipts := elements(stored.Receipts)
	if len(receipts) != 1 {
		return receipt, false, refuse(KindUnproved, "receipt_malformed", "the transaction of this operation has %d receipts; nothing was changed", len(receipts))
	}
	receipt, err = coordination.ParseReceipt(receipts[0])
	return receipt, err == nil, err
}

// declare commits the transaction.
func (f *Flow) declare(ctx context.Context, c headChange, operation string) (receipt coordination.Receipt, err error) {
	store, err := f.Stores.Open(ctx, c.ref)
	if err != nil {
		return receipt, err
	}
	defer closing(store, &err)
	applied := c.apply(ctx, &coordination.Authority{Store: store, Clock: f.Clock}, operation)
	if applied.Refusal == nil {
		return applied.Receipt, nil
	}
	return receipt, undeclared(errors.Join(applied.Refusal, applied.Err))
}

// undeclared sorts what the library says: a head or a request that it refuses is decided;
// a store that did not answer, and an outcome that is not proved, are not.
func undeclared(err error) error {
	var refusal *coordination.Refusal
	var head *coordination.HeadError
	switch {
	case errors.As(err, &head):
		return &Refusal{Kind: KindRefused, Reason: string(head.Reason), Sentence: "the head is refused; nothing was changed", Err: err}
	case !errors.As(err, &refusal):
		return err
	}
	said := &Refusal{Reason: string(refusal.Reason), Sentence: "the command is refused; nothing was changed", Err: err}
	switch refusal.Outcome {
	case coordination.Rejected:
		said.Kind = KindRefused
	case coordination.Conflict:
		said.Kind = KindConflict
	default:
		return unanswered(said, refusal)
	}
	return said
}

// unanswered sorts a failure of the library by its reason.
func unanswered(said *Refusal, refusal *coordination.Refusal) error {
	var store *authority.Error
	switch {
	case errors.As(said.Err, &store) && refusal.Reason != coordination.ReasonUnproved:
		return store
	case slices.Contains([]coordination.Reason{coordination.ReasonHeadCorruption, coordination.ReasonHeadSchema, coordination.ReasonHeadMigration}, refusal.Reason):
		said.Kind = KindRefused
	default:
		said.Kind, said.Sentence = KindUnproved, "whether the transaction was committed is not proved; the same command asks its receipt"
	}
	return said
}

func receiptFacts(r coordination.Receipt) map[string]string {
	facts := map[string]string{"transaction_operation_id": r.OperationID, "accepted_authority_revision": fmt.Sprint(r.AuthorityRevision),
		"store_binding": string(r.Binding), "previous_store_binding": string(r.PreviousBinding), "previous_schema_version": r.PreviousSchema,
		"migration_id": r.MigrationID, "manifest_digest": r.ManifestDigest, "receipt_sha256": authority.DigestOf(r.Canonical()).String()}
	for name, value := range facts {
		if value == "" {
			delete(facts, name)
		}
	}
	return facts
}

// samePlan refuses to execute another plan than the previewed one.
func samePlan(p Plan, r Request) error {
	digest, err := p.Digest()
	if err != nil || digest == r.PlanDigest {
		return err
	}
	refusal := refuse(KindConflict, "plan_changed", "the plan is now %s, not the one that was previewed; nothing was changed", digest)
	refusal.Next = []string{r.Command}
	if r.Principal != "" {
		refusal.Next = append(refusal.Next, r.Principal)
	}
	return refusal
}

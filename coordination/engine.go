package coordination

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// DefaultBudget is how often a command is decided anew when others commit in between.
const DefaultBudget = 64

// Authority applies commands to one Goal in one store. Its clock is the only judge of
// time. It may be used by several goroutines, and several may share a store.
type Authority struct {
	Store authority.Store
	Clock func() time.Time
	// Grace is how long after its end a lease still cannot be reclaimed.
	Grace Grace
	// Budget is how many heads a command may be decided on; zero is DefaultBudget.
	Budget int
	// Delegates are the agents that may override a claim with a stated reason.
	Delegates []string

	index revisions
}

// Result is what a command got.
type Result struct {
	Outcome Outcome
	// Refusal is set unless the command was applied, now or before.
	Refusal *Refusal
	// Receipt and its text as the store holds it, of a command that was applied.
	Receipt     Receipt
	ReceiptText authority.Canonical
	// ObservedRevision is the authority revision of the head that was looked at last.
	ObservedRevision int64
	// Authorization says of a replayed receipt what its lease is worth now: active,
	// expired or superseded; empty when the receipt gave no lease.
	Authorization string
	// Attempts is how many heads the command was decided on.
	Attempts int
	// Err is the cause of a failure that the store gave.
	Err error
}

// operation is a command on its way through the one order that holds for all.
type operation struct {
	id, digest string
	decide     func(ctx context.Context, head authority.Head) (Step, error)
}

// Upgrade commits UpgradeHead. The identity the operator named must be the store's.
func (a *Authority) Upgrade(ctx context.Context, r UpgradeRequest) Result {
	return a.run(ctx, operation{r.OperationID, r.Digest(), func(ctx context.Context, head authority.Head) (Step, error) {
		if err := a.mustBe(ctx, r.Store); err != nil {
			return Step{}, err
		}
		return UpgradeHead(head.Projection, r, a.Clock())
	}})
}

// Rebind commits Rebind. The identity the request names must be the store's.
func (a *Authority) Rebind(ctx context.Context, r RebindRequest) Result {
	return a.run(ctx, operation{r.OperationID, r.Digest(), func(ctx context.Context, head authority.Head) (Step, error) {
		if err := a.mustBe(ctx, r.Store); err != nil {
			return Step{}, err
		}
		return Rebind(head.Projection, r, a.Clock())
	}})
}

func (a *Authority) mustBe(ctx context.Context, named authority.Identity) error {
	identity, err := a.Store.Identity(ctx)
	if err == nil && identity != named {
		return rejected(ReasonLineage, "store_binding", "the identity that was named is not this store's")
	}
	return err
}

// run takes a command through load, replay, decision and one commit, again while others
// move the head and the target still stands as the command needs it.
func (a *Authority) run(ctx context.Context, op operation) Result {
	budget := a.Budget
	if budget <= 0 {
		budget = DefaultBudget
	}
	var result Result
	for result.Attempts < budget {
		result.Attempts++
		if a.attempt(ctx, op, &result) {
			return result
		}
	}
	return result.refuse(failed(ReasonBudget, "others committed each time; nothing was written"), nil)
}

// attempt decides on one head. It reports whether the result stands.
func (a *Authority) attempt(ctx context.Context, op operation, result *Result) bool {
	head, err := a.Store.Load(ctx)
	if err != nil {
		*result = result.refuse(observed(err), err)
		return true
	}
	result.ObservedRevision = observedRevision(head)
	if a.replay(ctx, op, head, AlreadyApplied, result) {
		return true
	}
	step, err := op.decide(ctx, head)
	if err != nil {
		*result = result.refuse(asRefusal(err), storeCause(err))
		return true
	}
	_, err = a.Store.Commit(ctx, authority.CommitRequest{Expected: head.Revision, OperationID: op.id,
		Events: step.Events, Projection: step.Projection, Receipts: step.Receipts})
	if err == nil {
		return a.readBack(ctx, op, step, result)
	}
	return a.settle(ctx, op, head, err, result)
}

// readBack proves what was written: an acknowledged commit whose receipt is not there is no success.
func (a *Authority) readBack(ctx context.Context, op operation, step Step, result *Result) bool {
	stored, err := a.Store.Receipt(ctx, op.id)
	switch {
	case errors.Is(err, authority.ErrMissing) || err == nil && string(stored.Receipts) != string(step.Receipts):
		*result = result.refuse(failed(ReasonReadbackDiffers, "the commit was acknowledged and its receipt is not there"), err)
	case err != nil:
		*result = result.refuse(failed(ReasonUnproved, "committed, but not read back; ask again with the same operation id"), err)
	default:
		result.Outcome, result.Receipt, result.ReceiptText = Applied, step.Receipt, step.Receipt.Canonical()
		result.ObservedRevision = step.Receipt.AuthorityRevision
	}
	return true
}

// settle finds out what became of a commit that was not acknowledged: the receipt has the
// first word, then the head.
func (a *Authority) settle(ctx context.Context, op operation, before authority.Head, cause error, result *Result) bool {
	if !errors.Is(cause, authority.ErrConflict) && !errors.Is(cause, authority.ErrAmbiguous) {
		reason := ReasonUnproved
		if errors.Is(cause, authority.ErrFailed) {
			reason = ReasonStoreRefused
		}
		*result = result.refuse(failed(reason, "the store did not take the commit"), cause)
		return true
	}
	head, err := a.Store.Load(ctx)
	if err != nil {
		*result = result.refuse(failed(ReasonUnproved, "the store could not be asked what became of the commit"), errors.Join(cause, err))
		return true
	}
	if a.replay(ctx, op, head, Applied, result) {
		return true
	}
	if head.Revision == before.Revision {
		*result = result.refuse(failed(ReasonUnproved, "no receipt, and the head did not move"), cause)
		return true
	}
	return false
}

// replay answers from the receipt that stands under the operation id, if one does.
func (a *Authority) replay(ctx context.Context, op operation, head authority.Head, outcome Outcome, result *Result) bool {
	stored, err := a.Store.Receipt(ctx, op.id)
	var text authority.Canonical
	var found bool
	switch {
	case err == nil:
		if text, found = receiptOf(stored.Receipts); !found {
			*result = result.refuse(conflict(ReasonIdentity, "operation_id", "the id stands for a transaction of another kind"), nil)
			return true
		}
	case errors.Is(err, authority.ErrMissing):
		// A head that came into its store as the first transaction brought its receipts along.
		if text, found = indexed(head.Projection, op.id); !found {
			return false
		}
	default:
		*result = result.refuse(observed(err), err)
		return true
	}
	if stored.Cursor > head.Cursor {
		// Committed since the head was read: what its lease is worth now is for a newer head to say.
		if newer, err := a.Store.Load(ctx); err == nil {
			head, result.ObservedRevision = newer, observedRevision(newer)
		}
	}
	receipt, err := ParseReceipt(text)
	switch {
	case err != nil || receipt.OperationID != op.id:
		*result = result.refuse(failed(ReasonReceiptMalform, "what stands under the id cannot be read as its receipt"), err)
	case receipt.RequestDigest != op.digest:
		*result = result.refuse(conflict(ReasonIdentity, "operation_id", "the id stands for another request"), nil)
	default:
		result.Outcome, result.Receipt, result.ReceiptText = outcome, receipt, slices.Clone(text)
		result.Authorization = authorization(head, receipt, a.Clock())
	}
	return true
}

// indexed finds a receipt in the index of a coordination head.
func indexed(projection authority.Canonical, operation string) (authority.Canonical, bool) {
	entry := takeApart(takeApart(projection)["receipt_index"])[operation]
	text := takeApart(entry)["original_receipt"]
	return text, text != nil
}

// refuse keeps what was learnt and says why it ends here.
func (r Result) refuse(refusal *Refusal, cause error) Result {
	return Result{Outcome: refusal.Outcome, Refusal: refusal, ObservedRevision: r.ObservedRevision, Attempts: r.Attempts, Err: cause}
}

// observed turns a store's answer to a read into a failure. Missing is not unavailable.
func observed(err error) *Refusal {
	switch {
	case errors.Is(err, authority.ErrMissing):
		return failed(ReasonMissing, "the store has no transaction")
	case errors.Is(err, authority.ErrUnavailable):
		return failed(ReasonUnavailable, "the store could not be read")
	}
	return failed(ReasonStoreRefused, "the store refused to be read")
}

// asRefusal sorts what a decision ended with.
func asRefusal(err error) *Refusal {
	var refusal *Refusal
	var head *HeadError
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &head):
		refusal = &Refusal{Outcome: Failed, Reason: head.Reason, Field: head.Path, Detail: head.Detail}
		if head.Reason == ReasonHeadMigration {
			refusal.Outcome = Rejected
		}
		return refusal
	}
	return observed(err)
}

// storeCause keeps an error that is a store's and drops those that became a refusal.
func storeCause(err error) error {
	var refusal *Refusal
	var head *HeadError
	if errors.As(err, &refusal) || errors.As(err, &head) {
		return nil
	}
	return err
}

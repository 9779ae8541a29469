package coordination_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// TestReplays: at once, after more history, through a new handle, and after the history
// was moved to every other store and back, an operation gets the receipt it got.
func TestReplays(t *testing.T) {
	everywhere(t, 3, func(r *rig) {
		requests, first := r.history()
		check := func(a *coordination.Authority) {
			r.Helper()
			for i, e := range requests {
				replayed(r, a.Apply(r.Context(), e), first[i])
				other := e
				other.Actor.DeviceID = "host-2"
				refused(r, a.Apply(r.Context(), other), coordination.Conflict, coordination.ReasonIdentity)
			}
		}
		r.without(func() { check(r.Authority) })
		r.without(func() { check(r.attach(r.place.handle(r))) }) // as after a restart: nothing is remembered
		from := r.Store
		for _, kind := range []authority.Kind{authority.KindSQLite, authority.KindPostgreSQL, authority.KindFile, r.place.Kind} {
			next := vacant(r, kind)
			next.Goal = r.place.Goal
			if kind == authority.KindPostgreSQL {
				next.Tenant = "tenant-b-" + string(r.place.Kind) + fmt.Sprint(goals.Add(1))
			}
			to := next.handle(r)
			copyHistory(r, from, to)
			check(r.attach(to))
			from = to
		}
	})
}

// history makes one operation of every kind and returns what was asked and answered.
func (r *rig) history() (requests []coordination.Envelope, first []coordination.Result) {
	r.Helper()
	do := func(e coordination.Envelope) coordination.Receipt {
		result := r.do(e)
		applied(r, result)
		requests, first = append(requests, e), append(first, result)
		replayed(r, r.do(e), result)
		return result.Receipt
	}
	claim := do(claimRequest(r.place.Goal, "h-claim", 1, 0, 0))
	do(renewRequest(r.place.Goal, "h-renew", 1, claim))
	do(releaseRequest(r.place.Goal, "h-release", 1, claim))
	again := do(claimRequest(r.place.Goal, "h-again", 1, 0, 3))
	r.clock.forward(2 * time.Minute)
	reclaim := do(reclaimRequest(r.place.Goal, "h-reclaim", 2, 0))
	do(completeRequest(r.place.Goal, "h-done", 2, reclaim, "todo_after"))
	if again.LeaseEpoch != 2 {
		r.Fatalf("epoch %d", again.LeaseEpoch)
	}
	return requests, first
}

// TestAuthorizationOfAReplay: what a receipt's lease is worth is told beside it, never in it.
func TestAuthorizationOfAReplay(t *testing.T) {
	everywhere(t, 1, func(r *rig) {
		e := claimRequest(r.place.Goal, "op-claim", 1, 0, 0)
		claim := r.must(e)
		expect := func(want string) {
			r.Helper()
			if got := r.do(e); got.Outcome != coordination.AlreadyApplied || got.Authorization != want {
				r.Fatalf("%s %s, want %s", got.Outcome, got.Authorization, want)
			}
		}
		expect(coordination.AuthorizationActive)
		r.clock.forward(time.Minute)
		expect(coordination.AuthorizationExpired)
		r.clock.forward(-time.Second)
		r.must(renewRequest(r.place.Goal, "op-renew", 1, claim))
		r.clock.forward(time.Second)
		expect(coordination.AuthorizationActive)
		r.must(releaseRequest(r.place.Goal, "op-release", 1, claim))
		expect(coordination.AuthorizationSuperseded)
		if got := r.do(e); got.ObservedRevision != claim.AuthorityRevision+2 || got.Receipt.AuthorityRevision != claim.AuthorityRevision {
			r.Errorf("observed %d beside accepted %d", got.ObservedRevision, got.Receipt.AuthorityRevision)
		}
	})
}

// TestAnIdOfAnotherKind: an id under which LoopX or a migration committed is nobody's command.
func TestAnIdOfAnotherKind(t *testing.T) {
	everywhere(t, 1, func(r *rig) {
		r.without(func() {
			refused(r, r.do(claimRequest(r.place.Goal, "seed", 1, 0, 0)), coordination.Conflict, coordination.ReasonIdentity)
		})
	})
}

// fate is what becomes of a commit's answer.
type fate int

const (
	answerLost  fate = iota // committed, and nobody is told
	requestLost             // not committed, and nobody is told
	refusedNow              // not committed, and the store says so
)

// unlucky is a store whose next commit has a fate.
type unlucky struct {
	authority.Store
	fate  fate
	times int
}

func (u *unlucky) Commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	if u.times == 0 {
		return u.Store.Commit(ctx, request)
	}
	u.times--
	refusal := &authority.Error{Verb: "commit", Kind: u.Kind(), Goal: u.GoalID(), Class: authority.ClassAmbiguous, Reason: authority.ReasonOutcomeUnknown}
	switch u.fate {
	case answerLost:
		if _, err := u.Store.Commit(ctx, request); err != nil {
			return authority.Applied{}, err
		}
	case refusedNow:
		refusal.Class, refusal.Reason = authority.ClassFailed, authority.ReasonTransactionFailed
	}
	return authority.Applied{}, refusal
}

// TestAmbiguousOutcomesAreSettledFromTheReceipt: state and receipt are both there or both
// absent, and the answer says which; a retry is safe either way.
func TestAmbiguousOutcomesAreSettledFromTheReceipt(t *testing.T) {
	everywhere(t, 1, func(r *rig) {
		e := claimRequest(r.place.Goal, "op-claim", 1, 0, 0)
		for _, lost := range []fate{requestLost, refusedNow} {
			r.without(func() {
				reason := coordination.ReasonUnproved
				if lost == refusedNow {
					reason = coordination.ReasonStoreRefused
				}
				result := r.attach(&unlucky{r.Store, lost, 1}).Apply(r.Context(), e)
				if result.Err == nil || result.Outcome != coordination.Failed || result.Refusal.Reason != reason {
					r.Fatalf("%s %v, %v", result.Outcome, result.Refusal, result.Err)
				}
			})
		}
		settled := r.attach(&unlucky{r.Store, answerLost, 1}).Apply(r.Context(), e)
		applied(r, settled)
		replayed(r, r.do(e), settled)
		same(r, r.lease(0), map[string]any{"owner": agentID(1), "lease_epoch": 1})
		if r.receiptsOf("op-claim") != 1 {
			r.Error("the receipt does not stand exactly once")
		}
	})
}

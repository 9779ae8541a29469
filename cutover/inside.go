package cutover

import (
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Fencer is a store that can hold a fence inside itself, so that a writer who ignores
// every file is still refused.
type Fencer interface {
	// EngageFence engages the fence in the transaction that proves the head to be the
	// expected one. The same fence again is no write.
	EngageFence(ctx context.Context, fenceID string, expected authority.Applied) error
	Fence(ctx context.Context) (fenceID string, engaged bool, err error)
	LiftFence(ctx context.Context, fenceID string) error
}

// withFencer opens a store that can be fenced inside, and closes it.
func (f *Flow) withFencer(ctx context.Context, ref Ref, do func(History, Fencer) error) (err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	fencer, able := store.(Fencer)
	if !able {
		return refuse(KindRefused, "store_cannot_be_fenced", "the %s store has no fence of its own", ref.Kind)
	}
	return do(store, fencer)
}

// engageInside engages a fence at the head the store has now. A writer that commits
// between the look and the fence makes the first try fail, and is then in the head.
func (f *Flow) engageInside(ctx context.Context, ref Ref, fenceID string) error {
	return f.withFencer(ctx, ref, func(store History, fencer Fencer) error {
		const tries = 10
		var err error
		for range tries {
			var head authority.Head
			if head, err = store.Load(ctx); err != nil && !errors.Is(err, authority.ErrMissing) {
				return err
			}
			err = fencer.EngageFence(ctx, fenceID, authority.Applied{Cursor: head.Cursor, Revision: head.Revision})
			if _, reason := authority.ReasonOf(err); reason != authority.ReasonRevisionMismatch {
				return err
			}
		}
		return err
	})
}

func (f *Flow) liftInside(ctx context.Context, ref Ref, fenceID string) error {
	return f.withFencer(ctx, ref, func(_ History, fencer Fencer) error {
		_, engaged, err := fencer.Fence(ctx)
		if err != nil || !engaged {
			return err
		}
		return fencer.LiftFence(ctx, fenceID)
	})
}

// probeInside offers a real commit to a store that is fenced inside, past every file.
// One that goes through is an incident.
func (f *Flow) probeInside(ctx context.Context, w *work, ref Ref) (err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	if _, able := store.(Fencer); !able {
		return nil
	}
	head, err := store.Load(ctx)
	if err != nil {
		return err
	}
	_, tried := store.Commit(ctx, authority.CommitRequest{Expected: head.Revision, OperationID: "loopx-migrate-probe:" + w.request.OperationID,
		Events: []byte("[]"), Projection: head.Projection, Receipts: []byte("[]")})
	_, reason := authority.ReasonOf(tried)
	w.m.Fence.Probes = append(w.m.Fence.Probes, manifest.Probe{By: "commit", Arm: string(ref.Kind), Refused: tried != nil, Answer: string(reason), At: f.now()})
	if tried == nil {
		w.m.Incidents = append(w.m.Incidents, manifest.Incident{Code: "fence_does_not_hold", Cursor: head.Cursor + 1, Detail: "a commit went through the fence inside the store", At: f.now()})
		return errors.Join(f.save(w), refuse(KindUnproved, "fence_does_not_hold", "a commit went through the fence inside the store"))
	}
	if reason != authority.ReasonTransactionFailed {
		return tried // it was refused for another reason, which proves nothing
	}
	return nil
}

// liftAny lifts whatever fence stands in a copy.
func (f *Flow) liftAny(ctx context.Context, ref Ref) error {
	return f.withFencer(ctx, ref, func(_ History, fencer Fencer) error {
		id, engaged, err := fencer.Fence(ctx)
		if err != nil || !engaged {
			return err
		}
		return fencer.LiftFence(ctx, id)
	})
}

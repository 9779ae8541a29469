package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/rehearsal"
	"github.com/loopx-project/loopx-migrate/store"
	"github.com/loopx-project/loopx-migrate/witness"
)

// rehearsalWitness lets the naive readers look at every arm, compare each with the first
// one, and prove themselves on spoilt copies of each.
type rehearsalWitness struct{ e *env }

// Testify reads the arms side by side. An arm that the readers refuse is a failed check.
func (w rehearsalWitness) Testify(ctx context.Context, arms []rehearsal.Standing) (t rehearsal.Testimony, err error) {
	said, readings, errs := make([]testified, len(arms)), make([]*witness.Reading, len(arms)), make([]error, len(arms))
	var reading sync.WaitGroup
	for i, a := range arms {
		history, release, refused := store.Opener{}.Witness(a.Name, a.Ref)
		if refused != nil {
			errs[i] = refused
			break
		}
		defer func() { err = errors.Join(err, release()) }()
		reading.Go(func() {
			if readings[i], errs[i] = w.e.testify(ctx, a.Ref, a.View, history, &said[i]); errs[i] != nil {
				errs[i] = fmt.Errorf("witness of arm %s: %w", a.Name, errs[i])
			}
		})
	}
	reading.Wait()
	if err := errors.Join(errs...); err != nil {
		return t, err
	}
	for i := range arms {
		if i > 0 {
			comparison, err := witness.Compare(ctx, readings[0], readings[i], 0)
			if err != nil {
				return t, err
			}
			t.Verdicts = append(t.Verdicts, evidence.Witnessed(comparison)...)
		}
		t.Verdicts, t.Planted, t.NotChecked = append(t.Verdicts, said[i].Verdicts...), append(t.Planted, said[i].Planted...), append(t.NotChecked, said[i].NotChecked...)
	}
	return t, nil
}

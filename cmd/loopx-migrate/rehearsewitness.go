package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/rehearsal"
	"github.com/loopx-project/loopx-migrate/store"
	"github.com/loopx-project/loopx-migrate/witness"
)

// rehearsalWitness lets the naive readers look at every arm, compare each with the first
// one, and prove themselves on spoilt copies of each.
type rehearsalWitness struct{ e *env }

// Testify reads every arm. An arm that the readers refuse is a failed check.
func (w rehearsalWitness) Testify(ctx context.Context, arms []rehearsal.Standing) (t rehearsal.Testimony, err error) {
	said := testified{Logical: map[string]string{}}
	var first *witness.Reading
	for _, a := range arms {
		history, release, err := store.Opener{}.Witness(a.Name, a.Ref)
		if err != nil {
			return t, err
		}
		defer func() { err = errors.Join(err, release()) }()
		reading, err := w.e.testify(ctx, a.Ref, history, &said)
		if err != nil {
			return t, fmt.Errorf("witness of arm %s: %w", a.Name, err)
		}
		if first == nil {
			first = reading
			continue
		}
		comparison, err := witness.Compare(ctx, first, reading, 0)
		if err != nil {
			return t, err
		}
		said.Verdicts = append(said.Verdicts, evidence.Witnessed(comparison)...)
	}
	return rehearsal.Testimony{Verdicts: said.Verdicts, Planted: said.Planted, NotChecked: said.NotChecked}, nil
}

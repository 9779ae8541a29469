package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/rehearsal"
	"github.com/loopx-project/loopx-migrate/store"
	"github.com/loopx-project/loopx-migrate/witness"
)

// rehearsalWitness lets the naive readers look at every arm, compare each with the first
// one, and prove themselves on spoilt copies of each.
type rehearsalWitness struct{ e *env }

// Testify reads the stores side by side, and then the legacy files. A store that the
// readers refuse is a failed check.
func (w rehearsalWitness) Testify(ctx context.Context, standing []rehearsal.Standing) (t rehearsal.Testimony, err error) {
	var arms []rehearsal.Standing
	var files *rehearsal.Standing
	for i, a := range standing {
		if a.Ref.Kind == authority.KindLegacy {
			files = &standing[i]
			continue
		}
		arms = append(arms, a)
	}
	said, readings, errs := make([]testified, len(arms)+1), make([]*witness.Reading, len(arms)), make([]error, len(arms))
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
	if files != nil {
		if err := w.e.testifyFiles(ctx, *files, readings, &said[len(arms)]); err != nil {
			return t, fmt.Errorf("witness of arm %s: %w", files.Name, err)
		}
	}
	return together(ctx, readings, said)
}

// together compares each store with the first one and joins what was said of all.
func together(ctx context.Context, readings []*witness.Reading, said []testified) (t rehearsal.Testimony, err error) {
	for i, own := range said {
		if i > 0 && i < len(readings) {
			comparison, err := witness.Compare(ctx, readings[0], readings[i], 0)
			if err != nil {
				return t, err
			}
			t.Verdicts = append(t.Verdicts, evidence.Witnessed(comparison)...)
		}
		t.Verdicts, t.Planted, t.NotChecked = append(t.Verdicts, own.Verdicts...), append(t.Planted, own.Planted...), append(t.NotChecked, own.NotChecked...)
	}
	return t, nil
}

// testifyFiles reads the legacy files of an arm, holds them against the head of every
// store and against the head that this program makes of them, and proves the reader on
// spoilt copies.
func (e *env) testifyFiles(ctx context.Context, a rehearsal.Standing, stores []*witness.Reading, said *testified) error {
	goal := a.Ref.Goal
	loaded, err := witness.LoadFiles(goal, a.Ref.Live.StateFile, filepath.Join(a.Ref.Live.Root, "goals", goal, "task-leases"))
	if err != nil {
		return err
	}
	r, err := witness.ReadFiles(a.Name, loaded)
	var beyond *witness.Beyond
	var defect *witness.Defect
	switch {
	case errors.As(err, &beyond):
		said.NotChecked = append(said.NotChecked, evidence.NotChecked{What: "arm " + a.Name + " by the witness", Why: beyond.What})
		return nil
	case errors.As(err, &defect):
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "witness_defect", Sentence: a.Name + ": " + defect.Error(), Err: err}
	case err != nil:
		return err
	}
	for _, not := range r.NotJudged() {
		said.NotChecked = append(said.NotChecked, evidence.NotChecked{What: not.What, Why: not.Why})
	}
	if err := e.askFiles(ctx, a, r, said); err != nil {
		return err
	}
	var against *witness.Reading
	for _, s := range stores {
		comparison := witness.CompareFiles(r, s)
		verdicts, not := evidence.WitnessedFiles(comparison)
		said.Verdicts, said.NotChecked = append(said.Verdicts, verdicts...), append(said.NotChecked, not...)
		if against == nil && comparison.Alike() {
			against = s
		}
	}
	proof, err := witness.ProveFiles(r, a.Earlier, against)
	if err != nil {
		return err
	}
	planted, not := evidence.PlantedBy(proof)
	said.Planted, said.NotChecked = append(said.Planted, planted...), append(said.NotChecked, not...)
	return nil
}

// askFiles holds the head that this program makes of legacy files against the reading.
func (e *env) askFiles(ctx context.Context, a rehearsal.Standing, r *witness.FilesReading, said *testified) error {
	s, err := e.stores.Open(ctx, a.Ref)
	if err != nil {
		return err
	}
	head, err := s.Load(ctx)
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	check, err := witness.AskFiles(r, head.Projection)
	if err != nil {
		return err
	}
	said.Verdicts = append(said.Verdicts, evidence.WitnessedCheck(check, a.Name))
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/parity"
	"github.com/loopx-project/loopx-migrate/store"
	"github.com/loopx-project/loopx-migrate/witness"
)

// testified is what the witness says of two stores.
type testified struct {
	Verdicts   []evidence.CheckVerdict `json:"checks"`
	Planted    []evidence.Planted      `json:"planted_differences"`
	NotChecked []evidence.NotChecked   `json:"not_checked"`
	Logical    map[string]string       `json:"logical_sha256"`
}

// compareByWitness compares two stores with readers that share no code with the stores
// and the import, and lets them prove themselves on spoilt copies of both.
func (e *env) compareByWitness(ctx context.Context, left, right cutover.Ref) (_ *answer, err error) {
	names := [2]string{string(left.Kind), string(right.Kind)}
	if names[0] == names[1] {
		names = [2]string{"left", "right"}
	}
	said := testified{Logical: map[string]string{}}
	var readings [2]*witness.Reading
	for i, ref := range []cutover.Ref{left, right} {
		history, release, refused := store.Opener{}.Witness(names[i], ref)
		if refused != nil {
			return nil, refused
		}
		defer func() { err = errors.Join(err, release()) }()
		if readings[i], err = e.testify(ctx, ref, nil, history, &said); err != nil {
			return nil, err
		}
		said.Logical[names[i]] = readings[i].Logical
	}
	comparison, err := witness.Compare(ctx, readings[0], readings[1], 0)
	if err != nil {
		return nil, err
	}
	said.Verdicts = append(evidence.Witnessed(comparison), said.Verdicts...)
	a := &answer{Status: statusDone, Sentence: "The witness read both stores without this program's stores: they say the same thing. Nothing was changed or recorded."}
	a.fact("witness", said)
	a.show(said.blocks()...)
	return a, said.refusal()
}

// testify reads one side, asks its store's own reader, and proves the witness on spoilt
// copies. Without a view it opens one.
func (e *env) testify(ctx context.Context, ref cutover.Ref, view authority.View, history *witness.History, said *testified) (*witness.Reading, error) {
	r, err := witness.Read(ctx, history)
	var defect *witness.Defect
	if errors.As(err, &defect) {
		return nil, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "witness_defect", Sentence: history.Name + ": " + defect.Error(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	check, err := e.askStore(ctx, ref, view, r)
	if err != nil {
		return nil, err
	}
	said.Verdicts = append(said.Verdicts, evidence.WitnessedCheck(check, history.Name))
	proof, err := witness.Prove(ctx, r)
	if err != nil {
		return nil, err
	}
	planted, not := evidence.PlantedBy(proof)
	said.Planted, said.NotChecked = append(said.Planted, planted...), append(said.NotChecked, not...)
	return r, nil
}

func (e *env) askStore(ctx context.Context, ref cutover.Ref, view authority.View, r *witness.Reading) (witness.Check, error) {
	if view != nil {
		return witness.Ask(ctx, r, view)
	}
	s, err := e.stores.Open(ctx, ref)
	if err != nil {
		return witness.Check{}, err
	}
	view, err = s.View(ctx)
	if err != nil {
		return witness.Check{}, errors.Join(err, s.Close())
	}
	check, err := witness.Ask(ctx, r, view)
	return check, errors.Join(err, view.Close(), s.Close())
}

// refusal is nil when every check is equal and every planted difference was found.
func (t testified) refusal() error {
	for _, p := range t.Planted {
		if !p.Found {
			return &cutover.Refusal{Kind: cutover.KindOther, Reason: "witness_unproved",
				Sentence: fmt.Sprintf("the difference %q, planted on a copy of %s, was not found: the witness proves nothing", p.Name, p.Arm)}
		}
	}
	for _, v := range t.Verdicts {
		if v.Outcome != parity.Equal {
			return &cutover.Refusal{Kind: cutover.KindDiffers, Reason: "parity_differs", Sentence: "the witness finds that the stores differ in " + v.Check + "; nothing was changed"}
		}
	}
	return nil
}

func (t testified) blocks() []block {
	checks := block{title: "WITNESS", head: []string{"check", "arms", "outcome", "compared", "differences"}}
	differences := block{title: "differences", head: []string{"check", "where"}}
	for _, v := range t.Verdicts {
		checks.rows = append(checks.rows, row{failing: v.Outcome != parity.Equal, cells: []string{v.Check, fmt.Sprint(v.Arms), string(v.Outcome),
			strconv.FormatUint(v.Compared, 10), strconv.FormatUint(v.Total, 10)}})
		for _, d := range v.Differences {
			differences.rows = append(differences.rows, row{failing: true, cells: []string{v.Check, differenceText(d)}})
		}
	}
	planted := block{title: "planted on copies", head: []string{"planted", "arm", "at", "found by", "field"}}
	for _, p := range t.Planted {
		by := p.FoundBy
		if !p.Found {
			by = "NOT FOUND"
		}
		planted.rows = append(planted.rows, row{failing: !p.Found, cells: []string{p.Name, p.Arm, p.Cursor.String(), by, p.Field}})
	}
	blocks := []block{checks}
	if len(differences.rows) > 0 {
		blocks = append(blocks, differences)
	}
	blocks = append(blocks, planted)
	if len(t.NotChecked) > 0 {
		not := block{title: "not checked"}
		for _, n := range t.NotChecked {
			not.rows = append(not.rows, row{cells: []string{n.What, n.Why}})
		}
		blocks = append(blocks, not)
	}
	return blocks
}

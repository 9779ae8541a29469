package evidence

import (
	"github.com/loopx-project/loopx-migrate/parity"
	"github.com/loopx-project/loopx-migrate/witness"
)

// ByWitness marks verdicts of the naive readers.
const ByWitness = "witness"

// Witnessed are the verdicts of a comparison by the witness.
func Witnessed(c witness.Comparison) []CheckVerdict {
	var verdicts []CheckVerdict
	for _, check := range c.Checks {
		verdicts = append(verdicts, WitnessedCheck(check, c.Left, c.Right))
	}
	return verdicts
}

// WitnessedFiles are the verdicts of a comparison of legacy files with the head of a
// store, and what of it could not be compared.
func WitnessedFiles(c witness.Comparison) (verdicts []CheckVerdict, not []NotChecked) {
	verdicts = Witnessed(c)
	placed := false
	for i := range verdicts {
		verdicts[i].Notes = append(verdicts[i].Notes, "through "+witness.FilesProjection)
		placed = placed || verdicts[i].Check == witness.CheckPlaces
	}
	if !placed {
		not = []NotChecked{{What: "order of the Todos of arms " + c.Left + " and " + c.Right, Why: "the records do not know their place"}}
	}
	return verdicts, not
}

// WitnessedCheck is the verdict of one check. One that compared nothing is a failure.
func WitnessedCheck(check witness.Check, arms ...string) CheckVerdict {
	v := CheckVerdict{By: ByWitness, Check: check.Name, Arms: arms, Outcome: parity.Equal, Compared: check.Compared, Total: check.Total}
	if check.Compared == 0 {
		v.Outcome = parity.Failed
		v.Notes = []string{"nothing was compared"}
	}
	if check.Total > 0 {
		v.Outcome = parity.Differs
	}
	for _, f := range check.Findings {
		d := parity.Difference{Code: check.Name + "_differs", Cursor: f.Cursor, OperationID: f.OperationID, Field: f.Field}
		if f.Left != "" && len(arms) == 2 {
			d.Values = map[string]string{arms[0]: f.Left, arms[1]: f.Right}
		}
		v.Differences = append(v.Differences, d)
	}
	return v
}

// PlantedBy are the differences that the witness planted in copies of one arm, and those
// it could not plant. A copy without a difference that did not read alike is among them:
// with it no other finding would prove anything.
func PlantedBy(p witness.Proof) ([]Planted, []NotChecked) {
	planted := []Planted{{Name: "nothing", Arm: p.Arm, Cursor: p.Through, Found: p.Clean, FoundBy: "a copy without a difference is alike"}}
	for _, d := range p.Planted {
		planted = append(planted, Planted{Name: d.Name, Arm: p.Arm, Cursor: d.Cursor, Found: d.Found, FoundBy: d.FoundBy, FoundAt: d.FoundAt, Field: d.Field})
	}
	var not []NotChecked
	for _, u := range p.Unplanted {
		not = append(not, NotChecked{What: "planted difference " + u.Name + " on arm " + p.Arm, Why: u.Why})
	}
	return planted, not
}

package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/parity"
)

// AcceptedSchema names the file of accepted differences.
const AcceptedSchema = "loopx_migrate_accepted_differences_v1"

// Acceptance is the operator's file of differences that are known and answered for.
type Acceptance struct {
	SchemaVersion string               `json:"schema_version"`
	Entries       []AcceptedDifference `json:"entries"`
}

// AcceptedDifference accepts one difference in one place until one day.
type AcceptedDifference struct {
	ID        string    `json:"id"`
	Owner     string    `json:"owner"`  // who answers for it
	Reason    string    `json:"reason"` // why it may stand
	ExpiresAt time.Time `json:"expires_at"`
	Scope     Scope     `json:"scope"`
}

// Scope is the one place a difference is accepted at. All of it has to fit: there is no
// wildcard. Of the two ids a scope names those that the difference has.
type Scope struct {
	Check       string `json:"check"`
	Arm         string `json:"arm"`
	Field       string `json:"field"` // JSON path, as a report prints it
	TodoID      string `json:"todo_id,omitempty"`
	OperationID string `json:"operation_id,omitempty"`
}

// acceptable are the checks whose differences can be answered for: what a state says.
// A receipt, an order, a lineage or a changed source cannot.
var acceptable = []string{string(parity.CheckHead), string(parity.CheckConsumers), string(parity.CheckScans)}

// Reasons of an AcceptanceError.
const (
	AcceptanceMalformed = "acceptance_malformed"
	AcceptanceExpired   = "acceptance_expired"
	AcceptanceUnused    = "acceptance_unused"
)

// AcceptanceError refuses a file of accepted differences, or one entry of it.
type AcceptanceError struct {
	Entry  string // id, empty for the file
	Reason string
	Detail string
}

// Error names the entry.
func (e *AcceptanceError) Error() string {
	if e.Entry == "" {
		return "accepted differences: " + e.Detail
	}
	return fmt.Sprintf("accepted difference %s: %s", e.Entry, e.Detail)
}

// ReadAcceptance reads the file and refuses it whole when any entry is malformed or has
// expired at now.
func ReadAcceptance(text []byte, now time.Time) (*Acceptance, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var a Acceptance
	if err := dec.Decode(&a); err != nil {
		return nil, &AcceptanceError{Reason: AcceptanceMalformed, Detail: err.Error()}
	}
	if dec.More() || a.SchemaVersion != AcceptedSchema {
		return nil, &AcceptanceError{Reason: AcceptanceMalformed, Detail: "it is not one document of " + AcceptedSchema}
	}
	ids := map[string]bool{}
	for _, entry := range a.Entries {
		if ids[entry.ID] {
			return nil, &AcceptanceError{entry.ID, AcceptanceMalformed, "its id stands twice"}
		}
		ids[entry.ID] = true
		if err := entry.check(now); err != nil {
			return nil, err
		}
	}
	return &a, nil
}

func (d AcceptedDifference) check(now time.Time) error {
	for name, value := range map[string]string{"id": d.ID, "owner": d.Owner, "reason": d.Reason, "scope.check": d.Scope.Check, "scope.arm": d.Scope.Arm, "scope.field": d.Scope.Field} {
		if value == "" {
			return &AcceptanceError{d.ID, AcceptanceMalformed, name + " is missing"}
		}
	}
	if !slices.Contains(acceptable, d.Scope.Check) {
		return &AcceptanceError{d.ID, AcceptanceMalformed, fmt.Sprintf("a difference of the check %q cannot be accepted", d.Scope.Check)}
	}
	if d.ExpiresAt.IsZero() {
		return &AcceptanceError{d.ID, AcceptanceMalformed, "expires_at is missing"}
	}
	if !now.Before(d.ExpiresAt) {
		return &AcceptanceError{d.ID, AcceptanceExpired, "it expired at " + d.ExpiresAt.UTC().Format(time.RFC3339)}
	}
	return nil
}

// Apply counts in each verdict the differences that an entry covers, and returns how often
// each entry was needed. An entry that was not needed is an error: what it was made for
// is gone, and what it would cover next nobody has looked at. A check that could not be
// made, and a difference that is counted but not listed, are covered by nothing.
func (a *Acceptance) Apply(verdicts []CheckVerdict) ([]CheckVerdict, []AcceptedUse, error) {
	applied := slices.Clone(verdicts)
	used := map[string]uint64{}
	for i := range applied {
		v := &applied[i]
		if v.Outcome != parity.Differs {
			continue
		}
		for _, d := range v.Differences {
			if entry := a.covering(*v, d); entry != nil {
				v.Accepted++
				used[entry.ID]++
			}
		}
	}
	var uses []AcceptedUse
	var errs []error
	for _, entry := range a.Entries {
		uses = append(uses, AcceptedUse{ID: entry.ID, Owner: entry.Owner, Used: used[entry.ID]})
		if used[entry.ID] == 0 {
			errs = append(errs, &AcceptanceError{entry.ID, AcceptanceUnused, "no difference needed it; take it out"})
		}
	}
	return applied, uses, errors.Join(errs...)
}

func (a *Acceptance) covering(v CheckVerdict, d parity.Difference) *AcceptedDifference {
	for i, entry := range a.Entries {
		s := entry.Scope
		if s.Check == v.Check && s.Field == d.Field && s.TodoID == d.TodoID && s.OperationID == d.OperationID && concerns(s.Arm, v, d) {
			return &a.Entries[i]
		}
	}
	return nil
}

// concerns reports whether a difference is one of that arm: the arm at fault, or, where
// nothing says which is right, one of those that differ.
func concerns(arm string, v CheckVerdict, d parity.Difference) bool {
	if d.Arm != "" {
		return d.Arm == arm
	}
	_, differs := d.Values[arm]
	return differs || len(d.Values) == 0 && slices.Contains(v.Arms, arm)
}

package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

// Judge works out the result from what the rehearsal holds, and says what stands
// against Passed. Whoever fills a Rehearsal stores this; whoever checks one asks again.
func (r *Rehearsal) Judge() (Result, []string) {
	failed := r.differing()
	if !r.Source.Untouched() {
		failed = append(failed, "the source changed while it was rehearsed")
	}
	for _, p := range r.Planted {
		if !p.Found {
			failed = append(failed, fmt.Sprintf("the planted difference %s on %s was not found", p.Name, p.Arm))
		}
	}
	for _, w := range r.WayBack {
		if !w.Proved {
			failed = append(failed, "the way back of arm "+w.Arm+" was not proved")
		}
	}
	missing := r.missing()
	switch {
	case len(failed) > 0:
		return Failed, append(failed, missing...)
	case len(missing) > 0:
		return Incomplete, missing
	}
	return Passed, nil
}

// differing lists checks and phases with differences that nobody accepted, and writers
// that the fence let through.
func (r *Rehearsal) differing() []string {
	var found []string
	for _, v := range r.Verdicts {
		bad := v.Outcome == parity.Failed || v.Outcome == parity.Differs && (v.Total == 0 || v.Accepted < v.Total)
		if bad {
			found = append(found, fmt.Sprintf("check %s by %s: %s, %d differences, %d accepted", v.Check, v.By, v.Outcome, v.Total, v.Accepted))
		}
	}
	for _, p := range r.Phases {
		if p.Failed && p.Differs {
			found = append(found, "phase "+p.Name+" of arm "+p.Arm+" found a difference")
		}
	}
	for _, p := range r.Probes {
		if !p.Refused {
			found = append(found, "a writer's try was not refused behind the fence of "+p.Arm)
		}
	}
	return found
}

// missing lists what a rehearsal needs to be called one.
func (r *Rehearsal) missing() []string {
	var missing []string
	for _, p := range r.Phases {
		if p.Failed && !p.Differs {
			missing = append(missing, "phase "+p.Name+" of arm "+p.Arm+" failed")
		}
	}
	for _, need := range []struct {
		there bool
		what  string
	}{
		{len(r.Arms) >= 2, "fewer than two arms"},
		{len(r.Verdicts) > 0, "no check was made"},
		{len(r.Planted) > 0, "no difference was planted: the verifier did not prove itself"},
		{len(r.WayBack) > 0, "the way back was not rehearsed"},
		{!r.FinishedAt.IsZero(), "it did not come to its end"},
		{!r.Source.TreeBefore.IsZero(), "the source's tree was not hashed"},
	} {
		if !need.there {
			missing = append(missing, need.what)
		}
	}
	return missing
}

// Encode returns the canonical JSON of a rehearsal, with a final line feed.
func (r *Rehearsal) Encode() ([]byte, error) {
	text, err := manifest.Encode(r)
	return append(text, '\n'), err
}

// DecodeRehearsal reads what Encode wrote: unknown fields, another schema and a result
// that does not follow from the rest are refused.
func DecodeRehearsal(text []byte) (*Rehearsal, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var r Rehearsal
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("rehearsal result: %w", err)
	}
	if r.SchemaVersion != RehearsalSchema {
		return nil, fmt.Errorf("rehearsal result: its schema %q is not %s", r.SchemaVersion, RehearsalSchema)
	}
	again, err := r.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, text) {
		return nil, fmt.Errorf("rehearsal result: it is spelled otherwise than this program writes it")
	}
	if result, _ := r.Judge(); result != r.Result {
		return nil, fmt.Errorf("rehearsal result: it says %q, but its parts say %q", r.Result, result)
	}
	return &r, nil
}

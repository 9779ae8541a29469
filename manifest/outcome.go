package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// OutcomeSchema of an outcome document.
const OutcomeSchema = "loopx_migrate_outcome_v1"

// Command identifies one executed command. The same id under another principal or
// Goal is another operation.
type Command struct {
	Kind        string
	OperationID string
	Principal   string
	GoalID      string
	// Arguments are what the command is to do; not time, retries or output options.
	Arguments map[string]string
}

// Fingerprint is SHA-256 over the canonical form of kind, principal, Goal and arguments.
func (c Command) Fingerprint() (authority.Digest, error) {
	return DigestOf(struct {
		Kind      string            `json:"kind"`
		Principal string            `json:"principal"`
		GoalID    string            `json:"goal_id"`
		Arguments map[string]string `json:"arguments"`
	}{c.Kind, c.Principal, c.GoalID, c.Arguments})
}

func (c Command) key() string {
	sum := sha256.New()
	for _, part := range []string{c.Principal, c.GoalID, c.OperationID} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Outcome is what an executed command answered: success, or a decided refusal.
type Outcome struct {
	SchemaVersion string            `json:"schema_version"`
	Command       string            `json:"command"`
	OperationID   string            `json:"operation_id"`
	Principal     string            `json:"principal"`
	GoalID        string            `json:"goal_id"`
	Fingerprint   authority.Digest  `json:"fingerprint"`
	MigrationID   string            `json:"migration_id,omitempty"`
	Phase         Phase             `json:"phase,omitempty"` // when it was decided
	Exit          int               `json:"exit"`            // 0, 3, 4 or 5
	ReasonCode    string            `json:"reason_code"`     // "done" with exit 0
	Sentence      string            `json:"sentence"`
	Holds         []Hold            `json:"holds,omitempty"` // of a refusal
	Facts         map[string]string `json:"facts,omitempty"`
	At            time.Time         `json:"at"`
}

// Hold is a named reason why a step may not run now.
type Hold struct {
	Code       string           `json:"code"`
	Record     string           `json:"record,omitempty"` // the Todo, lease, operation or file it speaks of
	Cursor     authority.Cursor `json:"cursor,omitempty"`
	Detail     string           `json:"detail"`
	Acceptable bool             `json:"acceptable,omitempty"` // by --accept CODE:RECORD
	Accepted   bool             `json:"accepted,omitempty"`
}

// check refuses an outcome that contradicts itself: only success and decided refusals
// are ever stored.
func (o *Outcome) check() error {
	switch {
	case o.Exit != 0 && (o.Exit < 3 || o.Exit > 5):
		return fmt.Errorf("exit status %d is never stored", o.Exit)
	case (o.Exit == 0) != (o.ReasonCode == Done):
		return fmt.Errorf("exit status %d and reason %q contradict each other", o.Exit, o.ReasonCode)
	case o.Exit == 0 && len(o.Holds) > 0:
		return errors.New("it was done and holds stood against it")
	case o.Command == "" || o.Fingerprint.IsZero():
		return errors.New("it does not say what was done")
	}
	return nil
}

// Done is the reason code of success.
const Done = "done"

// Outcome returns the stored outcome of a command, or nil. One that is malformed, of an
// unknown schema, of something else or in contradiction to itself is refused
// (*TamperedError); no other place is looked at.
func (f *Folder) Outcome(c Command) (*Outcome, error) {
	o, err := f.outcomeAt(f.outcomePath(c))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return o, err
}

// outcomeAt reads and proves the outcome that stands in a file.
func (f *Folder) outcomeAt(path string) (*Outcome, error) {
	var o Outcome
	if _, err := openSealed(path, &o); err != nil {
		return nil, err
	}
	tampered := func(format string, args ...any) (*Outcome, error) {
		return nil, &TamperedError{File: filepath.Base(path), Detail: fmt.Sprintf(format, args...)}
	}
	if o.SchemaVersion != OutcomeSchema {
		return tampered("its schema %q is unknown", o.SchemaVersion)
	}
	// The name of the file follows from whose outcome it is.
	owner := Command{OperationID: o.OperationID, Principal: o.Principal, GoalID: o.GoalID}
	if o.GoalID != f.goal || f.outcomePath(owner) != path {
		return tampered("it is the outcome of something else")
	}
	if err := o.check(); err != nil {
		return tampered("%v", err)
	}
	return &o, nil
}

// StoreOutcome stores what a command answered, once. An outcome that stands there is
// never replaced.
func (f *Folder) StoreOutcome(c Command, o Outcome) error {
	there, err := f.Outcome(c)
	if err != nil || there != nil {
		return err
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("the outcome of operation %s cannot be stored: %w", c.OperationID, err)
	}
	return write(f.outcomePath(c), o)
}

func (f *Folder) outcomePath(c Command) string {
	return filepath.Join(f.dir, "outcomes", c.key()+".json")
}

// Outcomes reads every stored outcome, in the order they were given.
func (f *Folder) Outcomes() ([]Outcome, error) {
	names, err := f.documents("outcomes")
	if err != nil {
		return nil, err
	}
	var all []Outcome
	for _, name := range names {
		var o Outcome
		if _, err := openSealed(filepath.Join(f.dir, "outcomes", name), &o); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b Outcome) int { return a.At.Compare(b.At) })
	return all, nil
}

package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
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
	Exit          int               `json:"exit"`
	ReasonCode    string            `json:"reason_code"`
	Sentence      string            `json:"sentence"`
	Facts         map[string]string `json:"facts,omitempty"`
	At            time.Time         `json:"at"`
}

// Outcome returns the stored outcome of a command, or nil.
func (f *Folder) Outcome(c Command) (*Outcome, error) {
	var o Outcome
	path := f.outcomePath(c)
	_, err := openSealed(path, &o)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if o.SchemaVersion != OutcomeSchema || o.OperationID != c.OperationID || o.Principal != c.Principal || o.GoalID != c.GoalID {
		return nil, &TamperedError{File: filepath.Base(path), Detail: "it is the outcome of something else"}
	}
	return &o, nil
}

// StoreOutcome stores what a command answered, once.
func (f *Folder) StoreOutcome(c Command, o Outcome) error {
	there, err := f.Outcome(c)
	if err != nil || there != nil {
		return err
	}
	return write(f.outcomePath(c), o)
}

func (f *Folder) outcomePath(c Command) string {
	return filepath.Join(f.dir, "outcomes", c.key()+".json")
}

package canary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// Kind is what a line of the ledger says.
type Kind string

// The kinds of lines. Only an effect changes anything outside the store.
const (
	Effect      Kind = "effect"      // one step of a Todo was performed
	FenceLost   Kind = "fence_lost"  // the agent stopped: its lease is not in force any more
	TakenFirst  Kind = "taken_first" // another agent was faster
	Unreachable Kind = "unreachable" // the store could not be asked
	Operation   Kind = "operation"   // a command was acknowledged
	Replayed    Kind = "replayed"    // and asked for again, with the same receipt
)

// Entry is one line: ids, counters, digests and a time, never a Todo's words.
type Entry struct {
	Kind       Kind      `json:"kind"`
	Agent      string    `json:"agent"`
	TodoID     string    `json:"todo_id,omitempty"`
	Step       int       `json:"step"`
	LeaseID    string    `json:"lease_id,omitempty"`
	LeaseEpoch int64     `json:"lease_epoch,omitempty"`
	Operation  string    `json:"operation_id,omitempty"`
	Command    string    `json:"command,omitempty"`
	Receipt    string    `json:"receipt_sha256,omitempty"`
	At         time.Time `json:"at"`
}

// Ledger is the file in which both agents note what they do, each line in one write.
type Ledger struct{ Path string }

// Append adds a line behind those of everybody else.
func (l Ledger) Append(e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	file, err := faultio.OpenFile(l.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// Entries reads every line in the order in which they were written.
func (l Ledger) Entries() ([]Entry, error) {
	text, err := os.ReadFile(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Entry
	for line := range bytes.Lines(text) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d of the ledger: %w", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// performed is how many steps of a Todo were performed, by whomever.
func (l Ledger) performed(todo string) (int, error) {
	all, err := l.Entries()
	n := 0
	for _, e := range all {
		if e.Kind == Effect && e.TodoID == todo {
			n++
		}
	}
	return n, err
}

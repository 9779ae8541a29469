package fence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// WriterFenceState is what the legacy writer fence says.
type WriterFenceState string

// The states of a writer fence.
const (
	WriterFenceAbsent     WriterFenceState = "absent"
	WriterFenceEngaged    WriterFenceState = "engaged"
	WriterFenceUnreadable WriterFenceState = "unreadable"
)

// Schemas of the writer fences LoopX writes and accepts (docs/formats.md).
const (
	WriterFenceSchema     = "loopx_legacy_coordination_writer_fence_v0"
	ColdImportFenceSchema = "loopx_cold_source_import_writer_fence_v0"
	NewGoalFenceSchema    = "loopx_new_goal_writer_fence_v0"
)

// WriterFence is a writer fence as it was read.
type WriterFence struct {
	State   WriterFenceState
	ID      string
	Schema  string
	Problem string
}

// ReadWriterFence reads the Goal's writer fence. Anything LoopX would not accept is
// WriterFenceUnreadable, and so is a schema that is unknown here.
func ReadWriterFence(place authority.Place) WriterFence {
	text, err := os.ReadFile(place.WriterFence())
	if errors.Is(err, fs.ErrNotExist) {
		return WriterFence{State: WriterFenceAbsent}
	}
	unreadable := func(why string) WriterFence {
		return WriterFence{State: WriterFenceUnreadable, Problem: why}
	}
	if err != nil {
		return unreadable("it cannot be read: " + cause(err))
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return unreadable("it is not a JSON object")
	}
	schema, _ := fields["schema_version"].(string)
	required, known := writerFenceKeys[schema]
	if !known {
		return unreadable(fmt.Sprintf("its schema %q is unknown", schema))
	}
	for _, key := range required {
		if value, _ := fields[key].(string); !canonical.ValidID(value) {
			return unreadable(key + " is not a trimmed, non-empty string")
		}
	}
	if fields["state"] != "engaged" || fields["goal_id"] != place.GoalID() {
		return unreadable("it is not engaged for this goal")
	}
	if schema == NewGoalFenceSchema {
		if done, isBool := fields["creation_completed"].(bool); !isBool || !done {
			return unreadable("LoopX has not finished the creation of this goal")
		}
		delete(fields, "creation_completed")
	}
	if schema != WriterFenceSchema && len(fields) != len(required) {
		return unreadable("it has other keys than its schema allows")
	}
	id, _ := fields["fence_id"].(string)
	return WriterFence{State: WriterFenceEngaged, ID: id, Schema: schema}
}

var writerFenceKeys = map[string][]string{
	WriterFenceSchema: {"schema_version", "state", "goal_id", "fence_id", "source_version",
		"source_projection_sha256", "expected_shadow_provider_revision"},
	ColdImportFenceSchema: {"schema_version", "state", "goal_id", "fence_id",
		"import_operation_id", "import_plan_sha256"},
	NewGoalFenceSchema: {"schema_version", "state", "goal_id", "fence_id",
		"creation_operation_id", "creation_identity_sha256"},
}

// ColdImport is the writer fence of an import from the legacy files, in LoopX's form
// for that (docs/formats.md, "Writer fence", second row).
type ColdImport struct {
	OperationID string
	Plan        authority.Digest
}

// FenceID is the id that LoopX's answers to a fenced writer name.
func (c ColdImport) FenceID() string { return "cold-import:" + c.OperationID }

func (c ColdImport) text(goal string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(struct {
		Schema    string           `json:"schema_version"`
		State     string           `json:"state"`
		Goal      string           `json:"goal_id"`
		ID        string           `json:"fence_id"`
		Operation string           `json:"import_operation_id"`
		Plan      authority.Digest `json:"import_plan_sha256"`
	}{ColdImportFenceSchema, "engaged", goal, c.FenceID(), c.OperationID, c.Plan})
	return b.Bytes(), err
}

// ErrForeignFence: a writer fence stands there that this migration did not engage.
var ErrForeignFence = errors.New("another writer fence stands there")

// Standing reports whether exactly this fence stands; any other one is ErrForeignFence.
func (c ColdImport) Standing(place authority.Place) (bool, error) {
	want, err := c.text(place.GoalID())
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(place.WriterFence())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the writer fence: %w", err)
	case !bytes.Equal(text, want):
		return false, ErrForeignFence
	}
	return true, nil
}

// Engage puts the fence up, durably, and reads it back. The same one again is no write.
func (c ColdImport) Engage(place authority.Place) error {
	if standing, err := c.Standing(place); err != nil || standing {
		return err
	}
	text, err := c.text(place.GoalID())
	if err != nil {
		return err
	}
	if err := atomicfile.Replace(place.WriterFence(), 0o600, text); err != nil {
		return fmt.Errorf("engage the writer fence: %w", err)
	}
	if seen := ReadWriterFence(place); seen.State != WriterFenceEngaged || seen.ID != c.FenceID() {
		return fmt.Errorf("engage the writer fence: it reads back as %s %q", seen.State, seen.Problem)
	}
	return nil
}

// Lift takes the fence away, durably, if it is exactly this one. Absent is done.
func (c ColdImport) Lift(place authority.Place) error {
	standing, err := c.Standing(place)
	if err != nil || !standing {
		return err
	}
	if err := faultio.Remove(place.WriterFence()); err != nil {
		return fmt.Errorf("lift the writer fence: %w", err)
	}
	if err := faultio.SyncDir(filepath.Dir(place.WriterFence())); err != nil {
		return fmt.Errorf("lift the writer fence: %w", err)
	}
	return nil
}

package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
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

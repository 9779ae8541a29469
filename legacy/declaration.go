package legacy

import (
	"path/filepath"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Declarations are the private validation declarations that LoopX keeps as files (schema
// loopx_todo_completion_validation_declaration_v0, or a blob of one): Display and Return
// take them as known. Files of another kind give none, and a record whose digest nothing
// stands for is refused by name there.
func (f Files) Declarations() []Validation {
	var known []Validation
	for _, e := range f.Validations {
		value, err := canonical.Append(nil, e.Bytes)
		if err != nil || filepath.Ext(e.Name) != ".json" {
			continue
		}
		m := members(value)
		if schema := text(m["schema_version"]); !strings.HasPrefix(schema, "loopx_todo_completion_validation_declaration_") && schema != "loopx_todo_validation_blob_v0" {
			continue
		}
		d := members(m["declaration"])
		known = append(known, Validation{Command: text(d["validation_command"]), Argv: spelling(d["validation_command_argv"]),
			Label: text(d["validation_label"]), TimeoutSeconds: spelling(d["validation_timeout_seconds"])})
	}
	return known
}

// spelling is how a value stands in a metadata token: a string as it is, null not at
// all, anything else as JSON.
func spelling(value []byte) string {
	switch {
	case absent(value):
		return ""
	case canonical.Kind(value) == canonical.String:
		return text(value)
	}
	return string(value)
}

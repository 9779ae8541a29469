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
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Schemas of the two documents that can stand at the selector's place.
const (
	SelectorSchema = "loopx_local_authority_provider_v0"
	FrozenSchema   = "loopx_migrate_frozen_selector_v1"
)

// SelectorState is what stands at the selector's place.
type SelectorState string

// The states of a selector.
const (
	SelectorAbsent     SelectorState = "absent"
	SelectorSelection  SelectorState = "selection"
	SelectorFrozen     SelectorState = "frozen"
	SelectorUnreadable SelectorState = "unreadable"
)

// Selection is LoopX's own document: which store is the authority.
type Selection struct {
	SchemaVersion string             `json:"schema_version"`
	Provider      authority.Kind     `json:"provider"`
	GoalID        string             `json:"goal_id"`
	StoreIdentity authority.Identity `json:"store_identity"`
	TenantID      string             `json:"tenant_id,omitempty"`
}

// Frozen is this tool's document: nobody may write, and what stood here before.
type Frozen struct {
	SchemaVersion string            `json:"schema_version"`
	GoalID        string            `json:"goal_id"`
	MigrationID   string            `json:"migration_id"`
	FenceID       string            `json:"fence_id"`
	Original      manifest.Selector `json:"original_selector"`
}

// SelectorView is the selector as it was read.
type SelectorView struct {
	State     SelectorState
	Selection *Selection
	Frozen    *Frozen
	Text      []byte
	Problem   string // why it is unreadable
}

// Original is what has to stand here again when a migration is undone.
func (v SelectorView) Original() manifest.Selector {
	if v.Frozen != nil {
		return v.Frozen.Original
	}
	return manifest.Selector{Present: v.State != SelectorAbsent, Text: string(v.Text)}
}

// ReadSelector reads what stands at the selector's place. Only absence is absence:
// whatever cannot be read or understood is SelectorUnreadable.
func ReadSelector(place authority.Place) SelectorView {
	text, err := os.ReadFile(place.Selector())
	if errors.Is(err, fs.ErrNotExist) {
		return SelectorView{State: SelectorAbsent}
	}
	if err != nil {
		return SelectorView{State: SelectorUnreadable, Problem: "it cannot be read: " + cause(err)}
	}
	return parseSelector(place.GoalID(), text)
}

func parseSelector(goal string, text []byte) SelectorView {
	unreadable := func(why string) SelectorView {
		return SelectorView{State: SelectorUnreadable, Text: text, Problem: why}
	}
	var peek struct {
		SchemaVersion string `json:"schema_version"`
	}
	if err := json.Unmarshal(text, &peek); err != nil {
		return unreadable("it is not a JSON object")
	}
	switch peek.SchemaVersion {
	case FrozenSchema:
		var f Frozen
		if err := canonical.DecodeStrict(text, &f); err != nil || f.GoalID != goal || f.MigrationID == "" || f.FenceID == "" {
			return unreadable("it is a frozen selector, but a malformed one or another goal's")
		}
		return SelectorView{State: SelectorFrozen, Frozen: &f, Text: text}
	case SelectorSchema:
		var s Selection
		if err := canonical.DecodeStrict(text, &s); err != nil {
			return unreadable("it has other keys than a selection")
		}
		if s.GoalID != goal {
			return unreadable("it names another goal")
		}
		if !s.StoreIdentity.Valid(s.Provider) || !selectable(s) {
			return unreadable("its provider or store identity is malformed")
		}
		return SelectorView{State: SelectorSelection, Selection: &s, Text: text}
	}
	return unreadable(fmt.Sprintf("its schema %q is unknown", peek.SchemaVersion))
}

func selectable(s Selection) bool {
	switch s.Provider {
	case authority.KindFile, authority.KindSQLite:
		return s.TenantID == ""
	case authority.KindPostgreSQL:
		return s.TenantID != ""
	}
	return false
}

// SelectionText spells a selection as LoopX does: one-space indented JSON in the
// order schema_version, provider, goal_id, store_identity, and a newline.
func SelectionText(s Selection) ([]byte, error) {
	s.SchemaVersion = SelectorSchema
	return indented(s)
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Freeze publishes a frozen selector and reads it back. The same one again is no write.
func Freeze(place authority.Place, f Frozen) error {
	f.SchemaVersion, f.GoalID = FrozenSchema, place.GoalID()
	text, err := indented(f)
	if err != nil {
		return err
	}
	return publish(place, text)
}

// Select publishes a selection and reads it back. The same one again is no write.
func Select(place authority.Place, s Selection) error {
	text, err := SelectionText(s)
	if err != nil {
		return err
	}
	return publish(place, text)
}

func publish(place authority.Place, text []byte) error {
	if bytes.Equal(ReadSelector(place).Text, text) {
		return nil
	}
	if err := atomicfile.Replace(place.Selector(), 0o600, text); err != nil {
		return fmt.Errorf("publish selector: %w", err)
	}
	if !bytes.Equal(ReadSelector(place).Text, text) {
		return errors.New("publish selector: it reads back otherwise")
	}
	return nil
}

// Restore puts back what stood at the selector's place before a migration, absence
// included, and reads it back.
func Restore(place authority.Place, original manifest.Selector) error {
	if original.Present {
		return publish(place, []byte(original.Text))
	}
	if ReadSelector(place).State == SelectorAbsent {
		return nil
	}
	if err := faultio.Remove(place.Selector()); err != nil {
		return fmt.Errorf("remove selector: %w", err)
	}
	if err := faultio.SyncDir(filepath.Dir(place.Selector())); err != nil {
		return fmt.Errorf("remove selector: %w", err)
	}
	if state := ReadSelector(place).State; state != SelectorAbsent {
		return fmt.Errorf("remove selector: it is still there (%s)", state)
	}
	return nil
}

func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

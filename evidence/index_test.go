package evidence

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// The chain and the seal are what docs/formats.md says, worked out with encoding/json.
func TestIndexIsAsDocumented(t *testing.T) {
	dir := written(t)
	text, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var index map[string]any
	if err := dec.Decode(&index); err != nil {
		t.Fatal(err)
	}
	entries, seal := index["entries"].([]any), index["seal"]
	index["seal"] = strings.Repeat("0", 64)
	if got := fixture.SHA256(fixture.Canonical(index)); got != seal {
		t.Errorf("seal %s, want %s", seal, got)
	}
	index["entries"] = nil
	previous := fixture.SHA256(fixture.Canonical(index))
	last := ""
	for _, e := range entries {
		entry := e.(map[string]any)
		name := entry["name"].(string)
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if entry["previous"] != previous || entry["sha256"] != fixture.SHA256(content) || name <= last {
			t.Errorf("entry %v", entry)
		}
		previous, last = fixture.SHA256(fixture.Canonical(entry)), name
	}
}

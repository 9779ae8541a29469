package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// BundleSchema names the shape of a bundle's index.
const BundleSchema = "loopx_migrate_evidence_v1"

// indexName is the one file that is not in the index.
const indexName = "index.json"

// Index lists the files of a bundle. Its seal is SHA-256 over the canonical form of all
// the rest; kept elsewhere, it tells this bundle from one that was made anew.
type Index struct {
	SchemaVersion string           `json:"schema_version"`
	GoalID        string           `json:"goal_id"`
	MadeAt        time.Time        `json:"made_at"`
	Entries       []Entry          `json:"entries"`
	Seal          authority.Digest `json:"seal"`
}

// Entry is one file. Previous is SHA-256 over the canonical form of the entry before, of
// the index without entries for the first.
type Entry struct {
	Name     string           `json:"name"` // relative, with slashes
	Size     int64            `json:"size"`
	SHA256   authority.Digest `json:"sha256"`
	Previous authority.Digest `json:"previous"`
}

// BundleError refuses a bundle, and names the file that is the reason.
type BundleError struct {
	File   string
	Detail string
}

// Error names the file.
func (e *BundleError) Error() string {
	return fmt.Sprintf("evidence %s: %s", e.File, e.Detail)
}

// newIndex chains the files in their order.
func newIndex(goal string, at time.Time, files []File) (Index, error) {
	index := Index{SchemaVersion: BundleSchema, GoalID: goal, MadeAt: at}
	previous, err := manifest.DigestOf(index)
	if err != nil {
		return index, err
	}
	for _, f := range files {
		entry := Entry{Name: f.Name, Size: int64(len(f.Content)), SHA256: authority.DigestOf(f.Content), Previous: previous}
		index.Entries = append(index.Entries, entry)
		if previous, err = manifest.DigestOf(entry); err != nil {
			return index, err
		}
	}
	index.Seal, err = manifest.DigestOf(index)
	return index, err
}

func (x Index) encode() ([]byte, error) {
	text, err := manifest.Encode(x)
	return append(text, '\n'), err
}

// readIndex proves an index by itself: its spelling, its chain, its seal.
func readIndex(text []byte) (Index, error) {
	refuse := func(detail string) (Index, error) { return Index{}, &BundleError{indexName, detail} }
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var x Index
	if err := dec.Decode(&x); err != nil {
		return refuse("it is no index")
	}
	if x.SchemaVersion != BundleSchema {
		return refuse("its schema is unknown")
	}
	if again, err := x.encode(); err != nil || !bytes.Equal(again, text) {
		return refuse("it is spelled otherwise than it was written")
	}
	links := Index{SchemaVersion: x.SchemaVersion, GoalID: x.GoalID, MadeAt: x.MadeAt}
	previous, err := manifest.DigestOf(links)
	if err != nil {
		return Index{}, err
	}
	for _, entry := range x.Entries {
		if entry.Previous != previous {
			return refuse("the entry " + entry.Name + " does not follow from the one before")
		}
		if previous, err = manifest.DigestOf(entry); err != nil {
			return Index{}, err
		}
	}
	unsealed := x
	unsealed.Seal = authority.Digest{}
	if seal, err := manifest.DigestOf(unsealed); err != nil || seal != x.Seal {
		return refuse("its seal is not that of its entries")
	}
	return x, nil
}

package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// GrantsSchema of grants.json.
const GrantsSchema = "loopx_migrate_grants_v1"

// ErrGrantsStale refuses to replace grants that changed since they were read.
var ErrGrantsStale = errors.New("the grants changed since they were read")

// Grants says who may run mutating commands on a Goal, beside the owner of the runtime
// root, whose grant stands in no document. It is the list of every grant given and
// withdrawn, in order, so that it also says who did it; nothing is taken out of it.
type Grants struct {
	SchemaVersion string        `json:"schema_version"` // GrantsSchema
	GoalID        string        `json:"goal_id"`
	Changes       []GrantChange `json:"changes"`
}

// Given and Withdrawn are the two kinds of change.
const (
	Given     = "given"
	Withdrawn = "withdrawn"
)

// GrantChange is one grant that was given or withdrawn, and by which operation.
type GrantChange struct {
	Seq         int              `json:"seq"` // from 1, without a gap
	Change      string           `json:"change"`
	Principal   string           `json:"principal"` // whose grant
	By          string           `json:"by"`        // the principal that changed it
	Actor       string           `json:"actor,omitempty"`
	OperationID string           `json:"operation_id"`
	Fingerprint authority.Digest `json:"fingerprint"`
	At          time.Time        `json:"at"`
}

// Standing returns the change that gave a principal the grant it holds, nil if it holds none.
func (g Grants) Standing(principal string) *GrantChange {
	for i := len(g.Changes) - 1; i >= 0; i-- {
		if c := &g.Changes[i]; c.Principal == principal {
			if c.Change == Given {
				return c
			}
			return nil
		}
	}
	return nil
}

// Of returns the change that an operation of a principal made, or nil.
func (g Grants) Of(by, operationID string) *GrantChange {
	for i := range g.Changes {
		if c := &g.Changes[i]; c.By == by && c.OperationID == operationID {
			return c
		}
	}
	return nil
}

// Holders lists the changes whose grants stand, by principal.
func (g Grants) Holders() []GrantChange {
	var holders []GrantChange
	for _, c := range g.Changes {
		if standing := g.Standing(c.Principal); standing != nil && standing.Seq == c.Seq {
			holders = append(holders, c)
		}
	}
	slices.SortFunc(holders, func(a, b GrantChange) int {
		if a.Principal < b.Principal {
			return -1
		}
		return 1
	})
	return holders
}

// With returns the grants with one change more. The change gets its number.
func (g Grants) With(c GrantChange) Grants {
	c.Seq = len(g.Changes) + 1
	g.Changes = append(slices.Clone(g.Changes), c)
	return g
}

// check refuses a list that no sequence of commands has left.
func (g Grants) check() error {
	holds := map[string]bool{}
	for i, c := range g.Changes {
		switch {
		case c.Seq != i+1:
			return fmt.Errorf("change %d has number %d", i+1, c.Seq)
		case c.Change != Given && c.Change != Withdrawn:
			return fmt.Errorf("change %d is of an unknown kind", c.Seq)
		case c.Principal == "" || c.By == "" || c.OperationID == "":
			return fmt.Errorf("change %d does not say whose grant, by whom and by which operation", c.Seq)
		case holds[c.Principal] == (c.Change == Given):
			return fmt.Errorf("change %d contradicts what stood before it", c.Seq)
		}
		holds[c.Principal] = c.Change == Given
	}
	return nil
}

// LoadGrants reads and proves grants.json. A Goal on which nobody was given a grant has
// none; a document that is malformed, of another Goal or of an unknown schema grants
// nobody anything and is refused (*TamperedError).
func (f *Folder) LoadGrants() (Grants, authority.Digest, error) {
	var g Grants
	digest, err := openSealed(f.grantsPath(), &g)
	if errors.Is(err, fs.ErrNotExist) {
		return Grants{SchemaVersion: GrantsSchema, GoalID: f.goal}, authority.Digest{}, nil
	}
	if err != nil {
		return Grants{}, authority.Digest{}, err
	}
	tampered := func(format string, args ...any) (Grants, authority.Digest, error) {
		return Grants{}, authority.Digest{}, &TamperedError{File: filepath.Base(f.grantsPath()), Detail: fmt.Sprintf(format, args...)}
	}
	if g.SchemaVersion != GrantsSchema {
		return tampered("its schema %q is unknown", g.SchemaVersion)
	}
	if g.GoalID != f.goal {
		return tampered("it belongs to another goal")
	}
	if err := g.check(); err != nil {
		return tampered("%v", err)
	}
	return g, digest, nil
}

// SaveGrants replaces the grants that were read with digest old, durably, and returns the
// digest of what was read back. The caller holds the operator lock; the digest catches a
// stranger (ErrGrantsStale).
func (f *Folder) SaveGrants(old authority.Digest, g Grants) (authority.Digest, error) {
	_, now, err := f.LoadGrants()
	if err != nil {
		return now, err
	}
	if now != old {
		return now, ErrGrantsStale
	}
	if err := g.check(); err != nil {
		return now, err
	}
	if err := write(f.grantsPath(), g); err != nil {
		return now, err
	}
	_, digest, err := f.LoadGrants()
	return digest, err
}

func (f *Folder) grantsPath() string { return filepath.Join(f.dir, "grants.json") }

package fence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Observation is what was seen of a Goal, fresh.
type Observation struct {
	WriterFence WriterFence
	Selector    SelectorView
	Journal     bool // at LoopX's place
	Database    bool // at LoopX's place
	// Selected is the identity of the store that the selector names, as that store
	// tells it; SelectedErr is why it could not.
	Selected    authority.Identity
	SelectedErr error
}

// Identities asks the store that a selection names for its identity. A
// missing store is authority.ErrMissing or ErrUnavailable.
type Identities func(ctx context.Context, selected Selection) (authority.Identity, error)

// Observe reads fence, selector and places. It changes nothing.
func Observe(ctx context.Context, place authority.Place, identities Identities) (Observation, error) {
	var o Observation
	var err error
	if o.Journal, err = present(place.Journal()); err != nil {
		return o, err
	}
	if o.Database, err = present(place.Database()); err != nil {
		return o, err
	}
	o.WriterFence = ReadWriterFence(place)
	o.Selector = ReadSelector(place)
	if o.Selector.State == SelectorSelection {
		o.Selected, o.SelectedErr = identities(ctx, *o.Selector.Selection)
	}
	return o, nil
}

func present(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a store: %w", err)
	}
	return true, nil
}

// Verdict is who the authority is and which row of the table said so.
type Verdict struct {
	Row      string // the row of the table that applied
	Kind     authority.Kind
	Identity authority.Identity // empty when the row does not name one
	Blocked  bool
	Reason   string   // reason code when blocked
	Detail   string   // one clause for a person
	Findings []string // codes of what stands there without effect
	// Migration is the id in a frozen selector.
	Migration string
}

// Authority applies the table of docs/formats.md, "Who is the authority". It is pure.
func (o Observation) Authority() Verdict {
	switch {
	case o.WriterFence.State == WriterFenceUnreadable:
		return blocked("fence unreadable", "fence_unreadable", "the writer fence: "+o.WriterFence.Problem)
	case o.Selector.State == SelectorFrozen:
		v := blocked("selector frozen by loopx-migrate", "migration_frozen",
			"migration "+o.Selector.Frozen.MigrationID+" holds the goal frozen")
		v.Migration = o.Selector.Frozen.MigrationID
		return v
	case o.Selector.State == SelectorUnreadable:
		return blocked("selector unreadable", "selector_unreadable", "the selector: "+o.Selector.Problem)
	case o.WriterFence.State == WriterFenceAbsent:
		return o.legacy()
	case o.Selector.State == SelectorSelection:
		return o.selected()
	case o.Database:
		return blocked("fence engaged, no selector, a database", "selector_missing",
			"a SQLite database stands at LoopX's place and no selector says whether it counts")
	case o.Journal:
		return Verdict{Row: "fence engaged, no selector, a journal", Kind: authority.KindFile}
	}
	return blocked("fence engaged, no store", "authority_missing", "the writer fence is engaged and there is no store")
}

func blocked(row, reason, detail string) Verdict {
	return Verdict{Row: row, Blocked: true, Reason: reason, Detail: detail}
}

// legacy: without a writer fence the files before any store are the authority, and
// whatever else stands there has no effect yet.
func (o Observation) legacy() Verdict {
	v := Verdict{Row: "no fence", Kind: authority.KindLegacy}
	if o.Journal {
		v.Findings = append(v.Findings, "journal_not_authority")
	}
	if o.Database {
		v.Findings = append(v.Findings, "database_not_authority")
	}
	if o.Selector.State == SelectorSelection {
		v.Findings = append(v.Findings, "provider_preselected")
	}
	return v
}

func (o Observation) selected() Verdict {
	s := o.Selector.Selection
	name := string(s.Provider)
	if s.Provider == authority.KindFile && !o.Journal || s.Provider == authority.KindSQLite && !o.Database {
		return blocked("fence engaged, selector names "+name, "selected_store_missing",
			"the selector names a "+name+" store that is not there")
	}
	if o.SelectedErr != nil {
		reason := "selected_store_unreadable"
		if errors.Is(o.SelectedErr, authority.ErrMissing) {
			reason = "selected_store_missing"
		}
		return blocked("fence engaged, selector names "+name, reason, o.SelectedErr.Error())
	}
	if o.Selected != s.StoreIdentity {
		return blocked("fence engaged, selector names "+name, "selected_store_mismatch",
			fmt.Sprintf("the selector names %s, the store says %s", s.StoreIdentity, o.Selected))
	}
	return Verdict{Row: "fence engaged, selector names " + name, Kind: s.Provider, Identity: o.Selected}
}

package cutover

import (
	"context"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// ours reports whether the selector is frozen by this migration.
func ours(v fence.SelectorView, m *manifest.Manifest) bool {
	return v.State == fence.SelectorFrozen && v.Frozen.MigrationID == m.MigrationID
}

// selects reports whether the selector names a migration's target.
func selects(v fence.SelectorView, m *manifest.Manifest) bool {
	return v.State == fence.SelectorSelection && v.Selection.StoreIdentity == m.Target.Identity
}

// original reports whether the selector is what it was before the migration.
func original(v fence.SelectorView, m *manifest.Manifest) bool {
	return v.State == fence.SelectorAbsent && !m.Selector.Present || m.Selector.Present && string(v.Text) == m.Selector.Text
}

// selectorMoved refuses to touch a selector that somebody else has changed: LoopX may
// be working behind it.
func selectorMoved(v fence.SelectorView) error {
	refusal := refuse(KindUnproved, "selector_changed",
		"the selector is neither this migration's nor what it was before (%s): somebody changed it; nothing was changed now", v.State)
	refusal.Next = []string{"inspect"}
	return refusal
}

// frozenAs refuses a step behind the fence when the fence is not there.
func frozenAs(now seen, m *manifest.Manifest) error {
	if ours(now.observation.Selector, m) {
		return nil
	}
	refusal := refuse(KindUnproved, "fence_lost", "the goal is not frozen by migration %s any more (%s); nothing was changed", m.MigrationID, now.verdict.Row)
	refusal.Next = []string{CommandAbort}
	return refusal
}

// recordless is the refusal of every step of a Goal that is frozen by a migration of this
// tool whose record is not where it belongs: what was bound, and with it the way out,
// stands in the record alone. Nil where no such fence stands.
func (f *Flow) recordless(m *manifest.Manifest, v fence.SelectorView) *Refusal {
	if v.State != fence.SelectorFrozen || m != nil && m.MigrationID == v.Frozen.MigrationID {
		return nil
	}
	refusal := refuse(KindUnproved, "record_missing", "the fence of migration %s stands without its record: put %s back with everything that was in it; "+
		"until then nobody may write, and no command lifts the fence", v.Frozen.MigrationID, f.Place.Rel(f.Folder.Dir()))
	refusal.Next = []string{"status"} // once the record is back
	return refusal
}

// passes is an audit's proof that a history goes through a place that was bound.
type passes struct {
	through authority.Bookmark
	seen    authority.Revision
	whole   bool // it was read from its beginning, and not on from a bookmark behind the place
}

func (p *passes) row(row authority.Row) {
	p.whole = p.whole || row.Cursor == 1
	if row.Cursor == p.through.Cursor {
		p.seen = row.Revision
	}
}

// check refuses a history that was read from its beginning and does not pass through.
func (p *passes) check() error {
	if !p.whole || p.through.Cursor == 0 || p.seen == p.through.Revision {
		return nil
	}
	refusal := refuse(KindUnproved, "history_rewritten", "the history no longer passes through cursor %s as it did when it was planned", p.through.Cursor)
	refusal.Next = []string{CommandAbort}
	return refusal
}

// sourceStillThere proves, before the fence is lifted, that the source holds at least
// what was bound when it was frozen. Commits that came after it are kept.
func (f *Flow) sourceStillThere(ctx context.Context, w *work) error {
	if w.m.Phase == manifest.PhasePlanned || w.m.Source.Cursor == 0 {
		return nil // nothing was bound yet
	}
	return f.holdsThrough(ctx, f.source(w.m).home(AccessUntouched), w.m.Source)
}

// holdsThrough proves that a store holds what was bound, through the bound cursor.
func (f *Flow) holdsThrough(ctx context.Context, ref Ref, bound manifest.Binding) (err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	through := authority.NewLogicalHash()
	lineage, err := f.audit(ctx, store, nil, func(row authority.Row) error {
		if row.Cursor <= bound.Cursor {
			through.Add(row)
		}
		return nil
	})
	if err == nil && lineage.End.Cursor >= bound.Cursor && through.Digest() == bound.LogicalDigest && lineage.Identity == bound.Identity {
		return nil
	}
	refusal := refuse(KindUnproved, "store_not_as_bound", "the %s store does not hold what was bound through cursor %s; it was not made the authority", ref.Kind, bound.Cursor)
	refusal.Err = err
	return refusal
}

// newHolds are the holds against a head found behind the fence that nobody accepted.
func (f *Flow) newHolds(w *work, p proof) []Hold {
	if len(p.head) == 0 {
		return nil // no row came since the plan was made
	}
	var left []Hold
	for _, h := range headHolds(p.head, f.Place.GoalID(), p.lineage.Identity, f.now()) {
		if !acceptedAlready(w.m, h) {
			left = append(left, h)
		}
	}
	return left
}

func acceptedAlready(m *manifest.Manifest, h Hold) bool {
	for _, a := range m.Accepted {
		if h.Acceptable && a.Hold == h.Code && a.Record == h.Record {
			return true
		}
	}
	return false
}

// refrozen reports whether a promotion froze the Goal again because it turned out wrong.
func refrozen(m *manifest.Manifest) bool {
	return m.Promotion != nil && !m.Promotion.FullReread && m.Rollback == nil && len(m.Incidents) > 0
}

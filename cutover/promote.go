package cutover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// bothReadBack opens both stores at the places they were moved to, behind the frozen
// selector, and refuses unless each is exactly what was bound.
func (f *Flow) bothReadBack(ctx context.Context, w *work) error {
	if err := f.headIs(ctx, f.target(w.m).home(AccessUntouched), w.m.Target); err != nil {
		return err
	}
	return f.sourceStands(ctx, w)
}

// headIs refuses a store whose identity or head is not the bound one.
func (f *Flow) headIs(ctx context.Context, ref Ref, bound manifest.Binding) (err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	identity, err := store.Identity(ctx)
	if err != nil {
		return err
	}
	head, err := store.Load(ctx)
	if err != nil {
		return err
	}
	if identity != bound.Identity || head.Cursor != bound.Cursor || authority.DigestOf(head.Projection) != bound.HeadDigest {
		return refuse(KindUnproved, "read_back_differs", "the %s store at its final place is not the one that was verified", ref.Kind)
	}
	return nil
}

// published proves, through fresh handles as LoopX would open them, that the target
// is the authority, and records the promotion.
func (f *Flow) published(ctx context.Context, w *work) error {
	now, err := f.observe(ctx)
	if err != nil {
		return err
	}
	v := now.Authority()
	if w.m.Promotion != nil && !v.Blocked && v.Identity != w.m.Target.Identity {
		return f.movedOn(w, v.Row)
	}
	if v.Blocked || v.Kind != w.m.Target.Kind || v.Identity != w.m.Target.Identity {
		return refuse(KindUnproved, "authority_not_published", "after publication the authority reads as %q", v.Row)
	}
	if w.m.Promotion != nil {
		return nil // recorded before the step died
	}
	at := f.now()
	w.m.Phase = manifest.PhasePromoted
	w.m.Promotion = &manifest.Promotion{OperationID: w.request.OperationID, PublishedAt: at,
		StallMillis: max(0, at.Sub(w.m.Fence.FrozenAt).Milliseconds())}
	w.m.Authority = &manifest.Declared{Profile: string(w.m.Target.Kind) + "_v0", Identity: w.m.Target.Identity,
		Fields: w.m.Target.FieldManifest, OperationID: w.request.OperationID, At: at, SourceDigest: w.m.Source.LogicalDigest}
	retired, err := f.source(w.m).now(AccessUntouched)
	if err != nil {
		return err
	}
	w.m.Tripwires = []manifest.Tripwire{{Kind: w.m.Source.Kind, Identity: w.m.Source.Identity, Cursor: w.m.Source.Cursor,
		Revision: w.m.Source.Revision, Logical: w.m.Source.LogicalDigest, Where: f.where(retired)}}
	return f.save(w)
}

// rereadAll reads both whole histories again, which the fast path before the
// publication trusted in part. A difference freezes the Goal again and is recorded
// as an incident. The target may have grown meanwhile: it is compared through N.
func (f *Flow) rereadAll(ctx context.Context, w *work) error {
	if err := f.targetHolds(ctx, w); err != nil {
		return f.refreeze(w, err)
	}
	list, err := f.retiredWhole(ctx, w)
	if err != nil { // the authority is proved good; only what was retired is not
		return f.retiredLost(w, err)
	}
	w.m.Translation = &manifest.Revisions{Rule: revisionRule(w.m.Target),
		Count: uint64(w.m.Source.Cursor), Digest: authority.DigestOf(list)}
	if err := f.Folder.WriteTranslation(w.m.MigrationID, list); err != nil {
		return err
	}
	w.m.Promotion.FullReread = true
	w.facts["authority"] = string(w.m.Target.Kind)
	w.facts["store_identity"] = string(w.m.Target.Identity)
	w.facts["cursor"] = w.m.Target.Cursor.String()
	w.facts["outage_ms"] = strconv.FormatInt(w.m.Promotion.StallMillis, 10)
	return nil
}

// revisionRule says how the target's revisions follow from the cursors.
func revisionRule(target manifest.Binding) string {
	if target.Kind == authority.KindFile {
		return "file:<cursor>:<24 hex of SHA-256 over goal, previous revision, store identity and transaction>"
	}
	return string(target.Identity) + ":<cursor>"
}

// retiredWhole audits the retired source and returns the list of its revisions.
func (f *Flow) retiredWhole(ctx context.Context, w *work) (list []byte, err error) {
	ref, err := f.source(w.m).now(AccessUntouched)
	if err != nil {
		return nil, err
	}
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer closing(store, &err)
	var b bytes.Buffer
	lineage, err := f.audit(ctx, store, nil, func(row authority.Row) error {
		return json.NewEncoder(&b).Encode(struct {
			Cursor   string             `json:"cursor"`
			Revision authority.Revision `json:"revision"`
		}{row.Cursor.String(), row.Revision})
	})
	if err != nil {
		return nil, err
	}
	return b.Bytes(), sameEnd(w.m.Source, lineage)
}

// targetHolds audits the target and refuses unless its rows through N are the source's.
func (f *Flow) targetHolds(ctx context.Context, w *work) (err error) {
	store, err := f.Stores.Open(ctx, f.target(w.m).home(AccessLive))
	if err != nil {
		return err
	}
	defer closing(store, &err)
	through := authority.NewLogicalHash()
	lineage, err := f.audit(ctx, store, nil, func(row authority.Row) error {
		if row.Cursor <= w.m.Target.Cursor {
			through.Add(row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if lineage.End.Cursor < w.m.Target.Cursor || through.Digest() != w.m.Source.LogicalDigest {
		return refuse(KindUnproved, "reread_differs", "the target does not hold the source's history through cursor %s", w.m.Source.Cursor)
	}
	return nil
}

// proveBoth reads both whole histories before anything is moved. A cutover, whose
// stall must not depend on the history, does it before the fence instead.
func (f *Flow) proveBoth(ctx context.Context, w *work) error {
	m := w.snap.Manifest
	if m == nil || m.Phase != manifest.PhaseVerified || !ours(fence.ReadSelector(f.Place), m) {
		return nil // published before the step died
	}
	candidate, err := f.target(m).candidate(AccessUntouched)
	if err != nil {
		return err
	}
	if there, err := exists(candidate.Path); candidate.Path != "" && (err != nil || !there) {
		candidate = f.target(m).home(AccessUntouched) // moved before the step died
	}
	if err := f.holdsThrough(ctx, candidate, m.Target); err != nil {
		return err
	}
	source, err := f.source(m).now(AccessUntouched)
	if err != nil {
		return err
	}
	return f.holdsThrough(ctx, source, m.Source)
}

// refuseAfterIncident keeps what turned out to be wrong from being published again.
func refuseAfterIncident(m *manifest.Manifest) error {
	if !refrozen(m) {
		return nil
	}
	refusal := refuse(KindUnproved, "incident", "the target was found to differ after its publication and the goal was frozen; it is not published again")
	refusal.Next = []string{CommandAbort}
	return refusal
}

// nothingCommitted lets a promotion that turned out to be wrong be given up only while
// no commit would be lost with it.
func (f *Flow) nothingCommitted(ctx context.Context, w *work) (err error) {
	if !refrozen(w.m) {
		return nil
	}
	ref := f.target(w.m).home(AccessUntouched)
	if there, err := exists(ref.Path); ref.Path != "" && (err != nil || !there) {
		return err // it was set aside before the step died
	}
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	head, err := store.Load(ctx)
	if err == nil && head.Cursor > w.m.Target.Cursor {
		err = refuse(KindRefused, "commits_would_be_lost", "the target took commits after cursor %s before it was frozen again; export them first, nothing was changed", w.m.Target.Cursor)
	}
	return err
}

// movedOn closes a promotion that died after LoopX had taken the Goal elsewhere.
func (f *Flow) movedOn(w *work, row string) error {
	w.m.Incidents = append(w.m.Incidents, manifest.Incident{Code: "authority_moved_on", Cursor: w.m.Target.Cursor,
		Detail: "another store was the authority when the promotion was finished: " + row, At: f.now()})
	w.m.Promotion.FullReread = true
	w.facts["authority"] = "moved on: " + row
	return nil
}

// retiredLost closes a promotion whose target holds everything and whose retired source
// does not verify any more. The authority stays: it is the store that is proved.
func (f *Flow) retiredLost(w *work, found error) error {
	if kind := AsRefusal(found).Kind; kind == KindUnreachable || kind == KindInterrupted {
		return found
	}
	w.m.Incidents = append(w.m.Incidents, manifest.Incident{Code: "retired_store_lost", Cursor: w.m.Source.Cursor,
		Detail: "the retired source does not verify; the target holds all of it", At: f.now()})
	w.m.Promotion.FullReread = true
	w.facts["authority"] = string(w.m.Target.Kind)
	w.facts["retired"] = "does not verify: " + AsRefusal(found).Reason
	return nil
}

// refreeze stops all writing after a promotion that turned out to be wrong. Trouble
// that proves nothing (a store that could not be read just now) is only returned.
func (f *Flow) refreeze(w *work, found error) error {
	if kind := AsRefusal(found).Kind; kind == KindUnreachable || kind == KindInterrupted {
		return found
	}
	frozen := fence.Frozen{MigrationID: w.m.MigrationID, FenceID: w.m.Fence.ID, Original: w.m.Selector}
	if err := fence.Freeze(f.Place, frozen); err != nil {
		return err
	}
	w.m.Incidents = append(w.m.Incidents, manifest.Incident{Code: AsRefusal(found).Reason,
		Cursor: w.m.Source.Cursor, Detail: "the goal was frozen again after publication", At: f.now()})
	if err := f.save(w); err != nil {
		return err
	}
	return &Refusal{Kind: KindUnproved, Reason: "incident", Sentence: "the target was read again after publication and is not what was verified; the goal is frozen", Next: []string{CommandAbort}, Err: found}
}

// where names a store as it may be shared: relative to the runtime root, or its kind.
func (f *Flow) where(ref Ref) string {
	if ref.Quarantine != "" {
		return string(ref.Kind) + ":" + ref.Quarantine
	}
	if ref.Path == "" {
		return string(ref.Kind)
	}
	return f.Place.Rel(ref.Path)
}

// digestFile is SHA-256 and size of a file of any length.
func digestFile(path string) (d authority.Digest, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return d, 0, err
	}
	defer closing(file, &err)
	sum := sha256.New()
	size, err = io.Copy(sum, file)
	sum.Sum(d[:0])
	return d, size, err
}

package cutover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// bothReadBack opens both stores at the places they were moved to, behind the frozen
// selector, and refuses unless each is exactly what was bound.
func (f *Flow) bothReadBack(ctx context.Context, w *work) error {
	target := f.ref(w.m.Target.Kind, AccessUntouched)
	target.Identity = w.m.Target.Identity
	if err := f.headIs(ctx, target, w.m.Target); err != nil {
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
	if v.Blocked || v.Kind != w.m.Target.Kind || v.Identity != w.m.Target.Identity {
		return refuse(KindUnproved, "authority_not_published", "after publication the authority reads as %q", v.Row)
	}
	if w.m.Promotion != nil {
		return nil // recorded before the step died
	}
	at := f.now()
	w.m.Phase = manifest.PhasePromoted
	w.m.Promotion = &manifest.Promotion{OperationID: w.request.OperationID, PublishedAt: at,
		StallMillis: at.Sub(w.m.Fence.FrozenAt).Milliseconds()}
	w.m.Authority = &manifest.Declared{Profile: string(w.m.Target.Kind) + "_v0", Identity: w.m.Target.Identity,
		Fields: w.m.Target.FieldManifest, OperationID: w.request.OperationID, At: at, SourceDigest: w.m.Source.LogicalDigest}
	w.m.Tripwires = []manifest.Tripwire{{Kind: w.m.Source.Kind, Identity: w.m.Source.Identity, Cursor: w.m.Source.Cursor,
		Revision: w.m.Source.Revision, Logical: w.m.Source.LogicalDigest, Where: f.Place.Rel(f.retiredJournal(w.m.MigrationID))}}
	return f.save(w)
}

// rereadAll reads both whole histories again, which the fast path before the
// publication trusted in part. A difference freezes the Goal again and is recorded
// as an incident. The target may have grown meanwhile: it is compared through N.
func (f *Flow) rereadAll(ctx context.Context, w *work) error {
	list, err := f.retiredWhole(ctx, w)
	if err == nil {
		err = f.targetHolds(ctx, w)
	}
	if err != nil {
		return f.refreeze(w, err)
	}
	w.m.Translation = &manifest.Revisions{Rule: string(w.m.Target.Identity) + ":<cursor>",
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

// retiredWhole audits the retired source and returns the list of its revisions.
func (f *Flow) retiredWhole(ctx context.Context, w *work) (list []byte, err error) {
	ref := f.ref(w.m.Source.Kind, AccessUntouched)
	ref.Path = f.retiredJournal(w.m.MigrationID)
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
	ref := f.ref(w.m.Target.Kind, AccessLive)
	ref.Identity = w.m.Target.Identity
	store, err := f.Stores.Open(ctx, ref)
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
	return &Refusal{Kind: KindUnproved, Reason: "incident", Sentence: "both stores were read again after publication and differ; the goal is frozen", Next: []string{"status"}, Err: found}
}

// quarantineCandidate takes the candidate out of use and keeps it.
func (f *Flow) quarantineCandidate(ctx context.Context, w *work) error {
	if w.m.Target.Elsewhere {
		return nil // it stands where the operator wanted it; it never was in LoopX's place
	}
	to := filepath.Join(f.Folder.Quarantine(w.m.MigrationID), filepath.Base(f.Place.Database()))
	staged := filepath.Join(f.Folder.Staging(w.m.MigrationID), filepath.Base(f.Place.Database()))
	if there, err := exists(staged); err != nil {
		return err
	} else if !there {
		staged = f.Place.Database()
		if there, err := f.candidateInPlace(ctx, w); err != nil || !there {
			return f.listQuarantined(w, to, err)
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := moveOnce(staged+suffix, to+suffix); err != nil {
			return err
		}
	}
	return f.listQuarantined(w, to, nil)
}

// candidateInPlace reports whether what stands at LoopX's place is this candidate.
func (f *Flow) candidateInPlace(ctx context.Context, w *work) (_ bool, err error) {
	if there, err := exists(f.Place.Database()); err != nil || !there {
		return false, err
	}
	store, err := f.Stores.Open(ctx, f.ref(w.m.Target.Kind, AccessUntouched))
	if err != nil {
		return false, err
	}
	defer closing(store, &err)
	identity, err := store.Identity(ctx)
	return err == nil && identity == w.m.Target.Identity, err
}

// listQuarantined puts the candidate that was set aside on record.
func (f *Flow) listQuarantined(w *work, path string, err error) error {
	if err != nil {
		return err
	}
	w.facts["quarantine"] = f.Place.Rel(path)
	return f.list(w, manifest.Quarantined{Kind: w.m.Target.Kind, Identity: w.m.Target.Identity, Where: filepath.Base(path)})
}

// list puts a file of the quarantine on record, once, if it is there.
func (f *Flow) list(w *work, entry manifest.Quarantined) error {
	path := filepath.Join(f.Folder.Quarantine(w.m.MigrationID), entry.Where)
	digest, size, err := digestFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entry.Where = f.Place.Rel(path)
	for _, listed := range w.m.Quarantine {
		if listed.Where == entry.Where {
			return nil
		}
	}
	entry.SHA256, entry.Bytes, entry.Why, entry.At = digest, size, w.request.Command, f.now()
	w.m.Quarantine = append(w.m.Quarantine, entry)
	return nil
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

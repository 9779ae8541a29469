package cutover

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// RecordProof is what proving a manifest against both stores has shown.
type RecordProof struct {
	Manifest *manifest.Manifest
	Steps    int // of the chain that was proved
	// Documents counts the others of the record that were read: outcomes, earlier manifests.
	Documents int
	Sides     []SideProof
}

// SideProof is one side of it.
type SideProof struct {
	Side string // source or target
	Kind authority.Kind
	// Where the store stands, relative to the runtime root; "elsewhere" for a path of the operator's.
	Where string
	// RetainedPrefix is through which cursor the rows were recomputed and equal.
	RetainedPrefix authority.Cursor
	// Later counts the rows after it, which the store's own chain proves.
	Later uint64
	// Problem is empty for a side that agrees.
	Problem string
}

// ProveRecord proves the manifest: the chain of its steps, and both stores against
// what it bound. Rows 1 to N are recomputed and must have the bound logical digest;
// later ones, which LoopX wrote after a promotion, are audited and counted. A side
// that was not bound yet is left out. It changes nothing.
func (f *Flow) ProveRecord(ctx context.Context) (RecordProof, error) {
	snap, err := f.Folder.Load()
	if err != nil {
		return RecordProof{}, err
	}
	m := snap.Manifest
	if m == nil {
		refusal := refuse(KindRefused, "manifest_missing", "this goal was never migrated by this tool: there is no record to prove")
		refusal.Next = []string{"status"}
		return RecordProof{}, refusal
	}
	proof := RecordProof{Manifest: m, Steps: len(m.Steps)}
	if proof.Documents, err = f.Folder.Verify(); err != nil {
		return proof, err
	}
	for _, side := range []string{"source", "target"} {
		bound, ref, err := f.boundSide(m, side)
		if err != nil {
			return proof, err
		}
		if bound.Cursor == 0 {
			continue
		}
		found, err := f.proveSide(ctx, side, bound, ref)
		if err != nil {
			return proof, err
		}
		proof.Sides = append(proof.Sides, found)
	}
	for _, q := range m.Quarantine {
		found, err := f.proveQuarantined(ctx, m, q)
		if err != nil {
			return proof, err
		}
		proof.Sides = append(proof.Sides, found)
	}
	return proof, nil
}

// proveQuarantined reads what was set aside again: a file to the last byte, the rows in a
// database to the seal that was recorded.
func (f *Flow) proveQuarantined(ctx context.Context, m *manifest.Manifest, q manifest.Quarantined) (SideProof, error) {
	found := SideProof{Side: "quarantine", Kind: q.Kind, Where: q.Where}
	if id, rows := strings.CutPrefix(q.Where, string(q.Kind)+":"); rows {
		return f.proveRows(ctx, serverOf(f, m, q.Kind).quarantined(id), q, found)
	}
	digest, size, err := digestFile(filepath.Join(f.Place.Root(), filepath.FromSlash(q.Where)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found.Problem = "it is gone; it was removed by hand"
		return found, nil
	case err != nil:
		return found, err
	case digest != q.SHA256 || size != q.Bytes:
		found.Problem = "its bytes are not those that were set aside"
	}
	return found, nil
}

// serverOf is the side of a migration that is in a database server.
func serverOf(f *Flow, m *manifest.Manifest, kind authority.Kind) serverSide {
	if m.Target.Kind == kind {
		return serverSide{fileSide{f: f, m: m, b: m.Target}}
	}
	return serverSide{fileSide{f: f, m: m, b: m.Source}}
}

// proveRows audits what a database keeps set aside. The audit proves every row up to the
// last seal, and the record holds which seal that was, so that rows and seals that were
// rewritten together are seen as well.
func (f *Flow) proveRows(ctx context.Context, ref Ref, q manifest.Quarantined, found SideProof) (_ SideProof, err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return found, err
	}
	defer closing(store, &err)
	lineage, err := f.audit(ctx, store, nil, nil)
	switch class, _ := authority.ReasonOf(err); {
	case class == authority.ClassMissing:
		found.Problem = "it is gone; it was removed by hand"
		return found, nil
	case class == authority.ClassFailed:
		found.Problem = err.Error()
		return found, nil
	case err != nil:
		return found, err
	}
	at, seal, err := f.lastSeal(ctx, ref)
	found.RetainedPrefix = lineage.End.Cursor
	switch {
	case err != nil:
	case at != q.Cursor || lineage.End.Cursor != q.Cursor:
		found.Problem = "it ends at cursor " + lineage.End.Cursor.String() + " and was set aside at cursor " + q.Cursor.String()
	case seal != q.SHA256:
		found.Problem = "its rows and seals are not those that were set aside"
	}
	return found, err
}

// boundSide finds where a side stands now: at home, retired, a candidate, or set aside.
// Where a target was set aside, what stands at its home is another store.
func (f *Flow) boundSide(m *manifest.Manifest, name string) (manifest.Binding, Ref, error) {
	if name == "source" {
		ref, err := f.source(m).now(AccessUntouched)
		return m.Source, ref, err
	}
	target := f.target(m)
	ref, err := target.candidate(AccessUntouched)
	if m.Target.Kind == authority.KindPostgreSQL && (m.Phase == manifest.PhaseRolledBack || m.Phase == manifest.PhaseAborted) {
		server := serverOf(f, m, m.Target.Kind)
		return m.Target, server.quarantined(server.kept()), err
	}
	if err != nil || m.Target.Elsewhere || ref.Path == "" {
		return m.Target, ref, err
	}
	for _, path := range []string{ref.Path, filepath.Join(f.Folder.Quarantine(m.MigrationID), filepath.Base(ref.Path)), target.home(AccessUntouched).Path} {
		there, err := exists(path)
		if err != nil {
			return m.Target, ref, err
		}
		if there {
			ref.Path = path
			break
		}
	}
	return m.Target, ref, nil
}

// proveSide audits one store from its beginning and compares its rows through N with
// what was bound. Damage is a finding of the proof, not an error of it.
func (f *Flow) proveSide(ctx context.Context, side string, bound manifest.Binding, ref Ref) (_ SideProof, err error) {
	found := SideProof{Side: side, Kind: bound.Kind, Where: f.where(ref)}
	if bound.Elsewhere {
		found.Where = "elsewhere"
	}
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return found, err
	}
	defer closing(store, &err)
	through := authority.NewLogicalHash()
	lineage, err := f.audit(ctx, store, nil, func(row authority.Row) error {
		if row.Cursor <= bound.Cursor {
			through.Add(row)
			found.RetainedPrefix = row.Cursor
		}
		return nil
	})
	if class, _ := authority.ReasonOf(err); class == authority.ClassFailed || class == authority.ClassMissing {
		found.Problem = err.Error()
		return found, nil
	}
	if err != nil {
		return found, err
	}
	found.Later = uint64(max(lineage.End.Cursor, bound.Cursor) - bound.Cursor)
	switch {
	case lineage.Identity != bound.Identity:
		found.Problem = "it is another incarnation than the one that was bound"
	case lineage.End.Cursor < bound.Cursor:
		found.Problem = "it ends at cursor " + lineage.End.Cursor.String() + ", before the bound cursor " + bound.Cursor.String()
	case through.Digest() != bound.LogicalDigest:
		found.Problem = "its rows through cursor " + bound.Cursor.String() + " are not the ones that were bound"
	}
	return found, nil
}

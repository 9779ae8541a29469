package cutover

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// audit proves a store, from a bookmark if one is given, with signs of life.
func (f *Flow) audit(ctx context.Context, store History, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	const everyRows = 256
	return store.Audit(ctx, from, func(row authority.Row) error {
		if row.Cursor%everyRows == 0 {
			f.tell(Progress{Act: "verify", Arm: string(store.Kind()), Done: uint64(row.Cursor)})
		}
		if visit == nil {
			return nil
		}
		return visit(row)
	})
}

// auditAgain proves a store that was proved up to a bookmark. A store that stands
// otherwise now (LoopX's format upgrade rewrites a journal without changing what it
// says) is proved from the beginning instead; the caller compares what it says.
func (f *Flow) auditAgain(ctx context.Context, store History, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	lineage, err := f.audit(ctx, store, from, visit)
	if _, reason := authority.ReasonOf(err); reason == authority.ReasonRewritten {
		return f.audit(ctx, store, nil, visit)
	}
	return lineage, err
}

// proof is what an audit has proved of a store, and the record contract its head declares.
type proof struct {
	lineage authority.Lineage
	fields  authority.Digest
	head    authority.Canonical // the newest row that was read, empty when none was
}

// prove audits a store, from a bookmark if one is given, and sees what its head
// declares. From a bookmark at the end there is no new row to see it in: the earlier
// proof then still holds.
func (f *Flow) prove(ctx context.Context, store History, earlier *proof, through authority.Bookmark) (proof, error) {
	var from *authority.Bookmark
	if earlier != nil {
		from = &earlier.lineage.End
	}
	var last []byte
	pass := &passes{through: through}
	lineage, err := f.auditAgain(ctx, store, from, func(row authority.Row) error {
		pass.row(row)
		last = append(last[:0], row.Projection...)
		return nil
	})
	if err == nil {
		err = pass.check()
	}
	p := proof{lineage: lineage, fields: fieldManifest(last), head: last}
	if earlier != nil {
		p.lineage = joined(earlier.lineage, lineage)
		if len(last) == 0 {
			p.fields, p.head = earlier.fields, earlier.head
		}
	}
	return p, err
}

// readSource proves the source before any lock is taken, so that behind the fence
// only the tail is left to read.
func (f *Flow) readSource(ctx context.Context, w *work) error {
	if w.source != nil || w.files {
		return nil // proved while the plan was made; legacy files are read behind the fence only
	}
	p, err := f.proveRef(ctx, f.source(w.m).home(AccessUntouched), nil, w.m.Intent.Through)
	w.source = &p
	return err
}

// proveRef opens a store and proves it.
func (f *Flow) proveRef(ctx context.Context, ref Ref, earlier *proof, through authority.Bookmark) (p proof, err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return p, err
	}
	defer closing(store, &err)
	return f.prove(ctx, store, earlier, through)
}

// joined is the lineage of a whole history whose beginning was proved earlier. An
// audit from a bookmark counts only what it read.
func joined(before, tail authority.Lineage) authority.Lineage {
	if tail.Transactions == uint64(tail.End.Cursor) {
		return tail // it was read from the beginning after all
	}
	tail.Transactions += before.Transactions
	tail.Events += before.Events
	tail.Receipts += before.Receipts
	return tail
}

// sourceStands refuses to go on if the frozen source is not where it was bound.
func (f *Flow) sourceStands(ctx context.Context, w *work) (err error) {
	ref, err := f.source(w.m).now(AccessUntouched)
	if err != nil {
		return err
	}
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer closing(store, &err)
	lineage, err := f.auditAgain(ctx, store, &w.m.Source.End, nil)
	if err != nil {
		return err
	}
	return sameEnd(w.m.Source, lineage)
}

// bind puts down what was proved of one side.
func bind(kind authority.Kind, p proof) manifest.Binding {
	l := p.lineage
	return manifest.Binding{
		Kind: kind, Format: l.Format, Identity: l.Identity, Revision: l.End.Revision, Cursor: l.End.Cursor,
		LogicalDigest: l.Logical, HeadDigest: l.End.StateDigest, FieldManifest: p.fields,
		Transactions: l.Transactions, Events: l.Events, Receipts: l.Receipts, Bytes: l.Bytes, End: l.End,
	}
}

// proved is a binding as an earlier proof to go on from.
func proved(b manifest.Binding) *proof {
	return &proof{fields: b.FieldManifest, lineage: authority.Lineage{Format: b.Format, Identity: b.Identity, Transactions: b.Transactions,
		Events: b.Events, Receipts: b.Receipts, Bytes: b.Bytes, Logical: b.LogicalDigest, End: b.End}}
}

// fieldManifest is the digest of the record contract that a head declares, zero
// for a head without one.
func fieldManifest(projection authority.Canonical) authority.Digest {
	model := member(projection, "todo_read_model")
	if fields := member(model, "contract_fields"); fields != nil {
		return authority.DigestOf(fields)
	}
	return authority.Digest{}
}

// member returns a member of a canonical object, nil when there is none.
func member(object []byte, key string) []byte {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	for name, value := range canonical.Members(object) {
		if name == key {
			return value
		}
	}
	return nil
}

// copyInto brings the candidate to the end of the source.
func (f *Flow) copyInto(ctx context.Context, source History, ref Ref, copied *manifest.Copied) (_ authority.Lineage, err error) {
	if err := f.Stores.Suits(nearest(filepath.Dir(ref.Path))); err != nil {
		return authority.Lineage{}, err
	}
	candidate, err := f.Stores.Candidate(ctx, ref)
	if err != nil {
		return authority.Lineage{}, err
	}
	defer closing(candidate, &err)
	var from *authority.Bookmark
	if copied != nil {
		from = &copied.Bookmark
	}
	watch := func(row authority.Row) {
		f.tell(Progress{Act: "copy", Arm: string(ref.Kind), Done: uint64(row.Cursor)})
	}
	lineage, err := bootstrap.Copy(ctx, source, from, candidate, watch)
	if _, reason := authority.ReasonOf(err); reason == authority.ReasonRewritten {
		return bootstrap.Copy(ctx, source, nil, candidate, watch)
	}
	return lineage, err
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// nearest is the closest folder above a path that exists already.
func nearest(dir string) string {
	for {
		if there, err := exists(dir); err != nil || there || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

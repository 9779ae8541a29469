package cutover

import (
	"context"
	"errors"
	"iter"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

// Appender is a store that takes many transactions as one durable replace.
type Appender interface {
	Append(ctx context.Context, expected authority.Applied, rows iter.Seq2[authority.Transaction, error]) ([]authority.Revision, error)
}

// exportTail makes the store that carries everything, and proves it against the
// target, row by row and receipt by receipt.
func (f *Flow) exportTail(ctx context.Context, w *work) error {
	if err := f.retiredUntouched(ctx, w); err != nil {
		return err
	}
	export, err := f.source(w.m).export(ctx)
	if err != nil {
		return err
	}
	rows := targetRange{home: f.target(w.m).home(AccessUntouched), end: w.m.Rollback.RolledBackFrom.Cursor}
	if err := f.writeExport(ctx, w, export, rows); err != nil {
		return err
	}
	export.Access = AccessUntouched
	report, err := f.proveExport(ctx, w, export)
	if err != nil {
		return err
	}
	w.report = report
	digest, err := manifest.DigestOf(report)
	if err != nil {
		return err
	}
	if report.Verdict != parity.Qualified {
		return refuse(KindUnproved, "export_differs", "the export and the target differ; the target stays fenced and complete")
	}
	w.m.Rollback.Report = digest
	w.m.Rollback.Exported = uint64(w.m.Rollback.RolledBackFrom.Cursor - w.m.Source.Cursor)
	w.evidence["report"] = digest.String()
	w.m.Phase = manifest.PhaseExported
	return f.save(w)
}

// targetRange is the target where its rows are read, and through which cursor.
type targetRange struct {
	home Ref
	end  authority.Cursor
}

// writeExport brings the export to the end of a range. One that a dead run left, or that
// was begun ahead, is gone on with.
func (f *Flow) writeExport(ctx context.Context, w *work, export Ref, rows targetRange) (err error) {
	switch w.m.Source.Kind {
	case authority.KindLegacy:
		return f.writeFiles(ctx, w)
	case authority.KindSQLite, authority.KindPostgreSQL:
		return f.loadExport(ctx, w, export, rows)
	}
	journal, err := f.Stores.Open(ctx, export)
	if err != nil {
		return err
	}
	defer closing(journal, &err)
	head, err := journal.Load(ctx)
	if err != nil && !(f.rebuilds(w.m) && errors.Is(err, authority.ErrMissing)) {
		return err
	}
	if head.Cursor == rows.end {
		return nil
	}
	appender, able := journal.(Appender)
	if !able {
		return refuse(KindRefused, "source_cannot_append", "the %s store takes no bulk append", export.Kind)
	}
	revisions, err := appender.Append(ctx, authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, f.targetRows(ctx, w, rows, head.Cursor))
	if err != nil {
		return err
	}
	return exportedTo(head.Cursor+authority.Cursor(len(revisions)), rows.end)
}

// loadExport appends the tail to the copy of a database, in its own revisions.
func (f *Flow) loadExport(ctx context.Context, w *work, export Ref, rows targetRange) (err error) {
	candidate, err := f.Stores.Candidate(ctx, export)
	if err != nil {
		return err
	}
	defer closing(candidate, &err)
	at, _, err := candidate.Head(ctx)
	if err != nil {
		return err
	}
	for tx, err := range f.targetRows(ctx, w, rows, at) {
		if err != nil {
			return err
		}
		if err := candidate.Append(ctx, authority.Row{Transaction: tx, StateDigest: authority.DigestOf(tx.Projection)}); err != nil {
			return err
		}
		at = tx.Cursor
	}
	if err := candidate.Seal(ctx); err != nil {
		return err
	}
	return exportedTo(at, rows.end)
}

func exportedTo(got, end authority.Cursor) error {
	if got == end {
		return nil
	}
	return refuse(KindUnproved, "export_short", "the export ends at cursor %s, the target at %s", got, end)
}

// targetRows are the target's transactions after a cursor, proved as they pass. They are
// read from the nearest row that was proved before: the end of what was exported ahead, or
// that of the promotion, unless the export needs more.
func (f *Flow) targetRows(ctx context.Context, w *work, rows targetRange, after authority.Cursor) iter.Seq2[authority.Transaction, error] {
	return func(yield func(authority.Transaction, error) bool) {
		store, err := f.Stores.Open(ctx, rows.home)
		if err != nil {
			yield(authority.Transaction{}, err)
			return
		}
		_, err = f.auditAgain(ctx, store, w.provedBefore(after), func(row authority.Row) error {
			if row.Cursor > rows.end || row.Cursor > after && !yield(row.Transaction, nil) {
				return errEnough
			}
			return nil
		})
		if err = errors.Join(err, store.Close()); err != nil && !errors.Is(err, errEnough) {
			yield(authority.Transaction{}, err)
		}
	}
}

// provedBefore is the newest row of the target that is proved and not after a cursor, nil
// for none.
func (w *work) provedBefore(after authority.Cursor) *authority.Bookmark {
	if w.ahead != nil && w.ahead.target.lineage.End.Cursor <= after {
		return &w.ahead.target.lineage.End
	}
	if promoted := w.m.Target.End; promoted.Cursor <= after {
		return &promoted
	}
	return nil
}

var errEnough = errors.New("enough rows")

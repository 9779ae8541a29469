//go:build brokenimport

package bootstrap

import (
	"bytes"
	"context"
	"os"
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// BrokenEnv names the defect of an import in a build with the tag brokenimport.
const BrokenEnv = "LOOPX_MIGRATE_BROKEN_IMPORT"

// seen shows the source with the defect that the environment names. The import believes
// what it sees: its own proofs pass, and only a comparison with the source can tell.
func seen(source authority.Auditor) authority.Auditor {
	defect, known := defects[os.Getenv(BrokenEnv)]
	if !known {
		return source
	}
	return &broken{source, defect}
}

// middle is the row at which a defect strikes.
const middle = 7

// defects are ways to get an import wrong. Each is shown the rows in order and returns
// those that the import shall see instead; it may keep one back for later.
var defects = map[string]func(b *bench, row authority.Row) []authority.Row{
	"drops_a_row":    func(b *bench, row authority.Row) []authority.Row { return unless(row.Cursor == middle, row) },
	"stops_early":    func(b *bench, row authority.Row) []authority.Row { return unless(row.Cursor > middle, row) },
	"swaps_two_rows": swap,
	"repeats_a_row":  repeat,
	"renames_an_operation": func(b *bench, row authority.Row) []authority.Row {
		return at(row, func(r *authority.Row) { r.OperationID += "-again" })
	},
	"alters_a_receipt": func(b *bench, row authority.Row) []authority.Row {
		return at(row, func(r *authority.Row) { r.Receipts = marked(r.Receipts) })
	},
	"loses_a_receipt": func(b *bench, row authority.Row) []authority.Row {
		return at(row, func(r *authority.Row) { r.Receipts = []byte("[]") })
	},
	"alters_an_event": func(b *bench, row authority.Row) []authority.Row {
		return at(row, func(r *authority.Row) { r.Events = marked(r.Events) })
	},
	"keeps_an_old_state": stale,
	"turns_a_list_round": func(b *bench, row authority.Row) []authority.Row {
		return at(row, func(r *authority.Row) { r.Projection = turned(r.Projection) })
	},
}

// bench is what a defect remembers between rows.
type bench struct{ held, before *authority.Row }

func unless(drop bool, row authority.Row) []authority.Row {
	if drop {
		return nil
	}
	return []authority.Row{row}
}

func at(row authority.Row, spoil func(*authority.Row)) []authority.Row {
	if row.Cursor == middle {
		spoil(&row)
	}
	return []authority.Row{row}
}

func swap(b *bench, row authority.Row) []authority.Row {
	switch row.Cursor {
	case middle:
		b.held = kept(row)
		return nil
	case middle + 1:
		return []authority.Row{row, *b.held}
	}
	return []authority.Row{row}
}

func repeat(_ *bench, row authority.Row) []authority.Row {
	if row.Cursor != middle {
		return []authority.Row{row}
	}
	again := *kept(row)
	again.OperationID += "-repeated"
	return []authority.Row{row, again}
}

func stale(b *bench, row authority.Row) []authority.Row {
	before := b.before
	b.before = kept(row)
	if row.Cursor == middle {
		row.Projection = before.Projection
	}
	return []authority.Row{row}
}

func kept(row authority.Row) *authority.Row {
	row.Events, row.Projection, row.Receipts = slices.Clone(row.Events), slices.Clone(row.Projection), slices.Clone(row.Receipts)
	return &row
}

// marked adds a member to the first object of a list.
func marked(list authority.Canonical) authority.Canonical {
	text, err := canonical.Append(nil, bytes.Replace(list, []byte("[{"), []byte(`[{"zz_broken":true,`), 1))
	if err != nil {
		panic("bootstrap: " + err.Error()) // a list of no object, which no fixture has
	}
	return text
}

// turned puts the last Todo first.
func turned(projection authority.Canonical) authority.Canonical {
	for key, value := range canonical.Members(projection) {
		if key != "todos" {
			continue
		}
		todos := slices.Collect(canonical.Elements(value))
		slices.Reverse(todos)
		return bytes.Replace(projection, value, append(append([]byte{'['}, bytes.Join(todos, []byte{','})...), ']'), 1)
	}
	return projection
}

// broken is a source as a broken import sees it.
type broken struct {
	authority.Auditor
	defect func(*bench, authority.Row) []authority.Row
}

// Audit shows the spoilt rows, numbered anew, and sums them up as if they were the source's.
func (b *broken) Audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	sum := authority.NewLogicalHash()
	var cursor authority.Cursor
	var last authority.Row
	state := &bench{}
	lineage, err := b.Auditor.Audit(ctx, nil, func(row authority.Row) error {
		for _, spoilt := range b.defect(state, row) {
			cursor++
			spoilt.Cursor, spoilt.StateDigest = cursor, authority.DigestOf(spoilt.Projection)
			sum.Add(spoilt)
			last = spoilt
			if err := visit(spoilt); err != nil {
				return err
			}
		}
		return nil
	})
	lineage.Logical, lineage.Transactions = sum.Digest(), uint64(cursor)
	lineage.End = authority.Bookmark{Cursor: cursor, Revision: last.Revision, StateDigest: last.StateDigest, Logical: sum.State()}
	return lineage, err
}

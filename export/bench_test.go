package export_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/export"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// long is a history of a Goal with 100 Todos, as a SQLite store would number it.
func long(transactions int) *source {
	const identity = "sqlite:00112233445566778899aabbccddeeff"
	s := &source{goal: fixture.HistoryGoal, kind: authority.KindSQLite, identity: identity}
	for step := range fixture.History(1, transactions, 100, 200) {
		cursor := authority.Cursor(len(s.rows) + 1)
		s.rows = append(s.rows, rowOf(authority.Transaction{
			Cursor: cursor, Revision: authority.Revision(identity + ":" + cursor.String()), OperationID: step.OperationID,
			Events: step.Events, Receipts: step.Receipts, Projection: step.Projection,
		}))
	}
	return s
}

func BenchmarkWriteArchive(b *testing.B) {
	s, dir := long(1000), b.TempDir()
	for i := 0; b.Loop(); i++ {
		if _, err := export.WriteArchive(b.Context(), filepath.Join(dir, fmt.Sprint(i)), s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyArchive(b *testing.B) {
	path := filepath.Join(b.TempDir(), "a")
	if _, err := export.WriteArchive(b.Context(), path, long(1000)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := export.VerifyArchive(b.Context(), path); err != nil {
			b.Fatal(err)
		}
	}
}

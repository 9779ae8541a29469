package sqlitestore

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// dump is everything a database holds: the text of its schema, its versions, and every
// row, column by column, with types.
func dump(t testing.TB, path string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer requireClosed(t, db)
	var out []string
	for _, query := range []string{
		"SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid",
		"SELECT * FROM pragma_user_version, pragma_application_id, pragma_journal_mode, pragma_page_size, pragma_encoding, pragma_auto_vacuum",
		"SELECT * FROM metadata", "SELECT * FROM commits ORDER BY cursor",
		"SELECT * FROM checkpoints ORDER BY cursor", "SELECT * FROM head",
	} {
		out = append(out, rowsOf(t, db, query)...)
	}
	return out
}

func rowsOf(t testing.TB, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer requireClosed(t, rows)
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; rows.Next(); n++ {
		values := make([]any, len(names))
		dest := make([]any, len(names))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			out = append(out, fmt.Sprintf("%s row %d %s = %T %q", strings.Fields(query)[3], n, name, values[i], fmt.Sprint(values[i])))
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// requireSameDatabase compares two databases row by row and column by column.
func requireSameDatabase(t testing.TB, want, got string) {
	t.Helper()
	w, g := dump(t, want), dump(t, got)
	if len(w) != len(g) {
		t.Errorf("%d columns in all, want %d", len(g), len(w))
	}
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Fatalf("differs:\n got %.300s\nwant %.300s", g[i], w[i])
		}
	}
}

// execute runs statements by hand, as somebody else would.
func execute(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer requireClosed(t, db)
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

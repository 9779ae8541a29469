package witness

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// A store's answers and what is read without it are the same; a store that answers
// otherwise is found.
func TestStoresAnswerWhatTheyHold(t *testing.T) {
	dir := fixture.Path(t, "file-v1-small", "store")
	store, err := filestore.Open(filestore.Options{Dir: dir, GoalID: "goal-small"})
	if err != nil {
		t.Fatal(err)
	}
	r := reading(t, stored(t, "file-v1-small", "store"))
	check, err := Ask(context.Background(), r, store)
	if err != nil || check.Total != 0 || check.Compared < 100 {
		t.Errorf("%v, %d of %d differ: %v", err, check.Total, check.Compared, check.Findings)
	}
	lying := &liar{Reader: store}
	check, err = Ask(context.Background(), r, lying)
	if err != nil || check.Total != 1 || check.Findings[0].Field != "receipts" || check.Findings[0].OperationID != "op-004" {
		t.Errorf("a store that lies about one receipt: %v, %+v", err, check)
	}
}

// liar answers one receipt wrong.
type liar struct{ authority.Reader }

func (l *liar) Receipt(ctx context.Context, operation string) (authority.Receipt, error) {
	receipt, err := l.Reader.Receipt(ctx, operation)
	if operation == "op-004" {
		receipt.Receipts = authority.Canonical(`[{}]`)
	}
	return receipt, err
}

// The PostgreSQL dump that LoopX left, and everything planted in it.
func TestPostgreSQL(t *testing.T) {
	db := pgtest.New(t)
	loadDump(t, db)
	pool, err := pgstore.Server{DSN: db.DSN(pgtest.Admin)}.Database()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	history := PostgreSQL("postgresql", pool, "tenant-a", "goal-small")
	r := reading(t, history)
	before := db.Text(t, "select string_agg(c::text, '|' order by cursor) from loopx_control_plane.authority_commits c")
	want := fixture.Expected(t, "postgresql-v0-small")
	if r.header.revision != want.Load.ProviderRevision || r.Transactions() != uint64(len(want.CommitResults)) {
		t.Errorf("head %s after %d rows, LoopX %s", r.header.revision, r.Transactions(), want.Load.ProviderRevision)
	}
	c, err := Compare(context.Background(), reading(t, stored(t, "file-v1-small", "store")), r, 0)
	if err != nil || !c.Alike() {
		t.Errorf("the same history in a file journal: %v %+v", err, c)
	}
	proof, err := Prove(context.Background(), r)
	if err != nil || !proof.Holds() || len(proof.Planted)+len(proof.Unplanted) != len(everyPlanting) {
		t.Errorf("%v %+v", err, proof)
	}
	if after := db.Text(t, "select string_agg(c::text, '|' order by cursor) from loopx_control_plane.authority_commits c"); after != before {
		t.Error("planting changed the store")
	}
	if n := db.Text(t, "select count(*) from pg_class where relname like 'authority_%' and relpersistence = 't'"); n != "0" {
		t.Errorf("%s temporary tables are left", n)
	}
	var defect *Defect
	if _, err := Read(context.Background(), PostgreSQL("", pool, "tenant-b", "goal-small")); !errors.As(err, &defect) {
		t.Errorf("another tenant: %v", err)
	}
}

// loadDump plays pg_dump's text: statements, and the data of COPY.
func loadDump(t testing.TB, db *pgtest.Database) {
	t.Helper()
	conn := db.Connect(t, pgtest.Admin).PgConn()
	lines := strings.SplitAfter(string(fixture.Read(t, "postgresql-v0-small", "dump.sql")), "\n")
	var statement strings.Builder
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if statement.Len() == 0 && (line == "\n" || strings.HasPrefix(line, `\`) || strings.HasPrefix(line, "--")) {
			continue
		}
		statement.WriteString(line)
		if !strings.HasSuffix(line, ";\n") {
			continue
		}
		text := statement.String()
		statement.Reset()
		if !strings.HasPrefix(strings.TrimSpace(text), "COPY") {
			db.Exec(t, text)
			continue
		}
		end := i + 1
		for lines[end] != "\\.\n" {
			end++
		}
		if _, err := conn.CopyFrom(context.Background(), strings.NewReader(strings.Join(lines[i+1:end], "")), text); err != nil {
			t.Fatalf("%.80s: %v", text, err)
		}
		i = end
	}
}

// From package authority the witness takes types and constants, and calls nothing: what
// it called, it would believe.
func TestSharesTypesOnly(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := goparser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls(file) {
			t.Errorf("%s calls authority.%s", name, call)
		}
	}
}

// types may stand where a call stands: a conversion.
var conversions = map[string]bool{"Cursor": true, "Identity": true, "Format": true, "Revision": true, "Kind": true}

func calls(file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "authority" && !conversions[s.Sel.Name] {
			found = append(found, s.Sel.Name)
		}
		return true
	})
	return found
}

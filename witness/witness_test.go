package witness

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func inMemory() (*sql.DB, error) { return sql.Open("sqlite", ":memory:") }

// stored is the history in a fixture's folder.
func stored(t *testing.T, elem ...string) *History {
	t.Helper()
	dir := fixture.Path(t, elem...)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(path, ".sqlite"):
			return SQLite(elem[0], opened(t, path), inMemory)
		case strings.HasPrefix(e.Name(), "authority-store-"):
			h, err := FileJournal(elem[0], path, filepath.Join(dir, "store-identity"))
			if err != nil {
				t.Fatal(err)
			}
			return h
		case e.Name() == "archive.jsonl":
			h, err := Archive(elem[0], path)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
	}
	t.Fatalf("no store in %s", dir)
	return nil
}

func opened(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&immutable=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func reading(t *testing.T, h *History) *Reading {
	t.Helper()
	r, err := Read(context.Background(), h)
	if err != nil {
		t.Fatalf("%s: %v", h.Name, err)
	}
	return r
}

// The printed form of every document, number and string that LoopX printed.
func TestCanonicalFormIsLoopXs(t *testing.T) {
	type printed struct {
		Input     string `json:"input"`
		Canonical string `json:"canonical"`
		SHA256    string `json:"sha256"`
		Error     string `json:"error"`
	}
	for _, file := range []string{"documents", "numbers", "strings"} {
		compared := 0
		for _, c := range fixture.Lines[printed](t, "canonical", file+".jsonl") {
			v, err := parse(c.Input)
			if c.Canonical == "" && c.SHA256 == "" {
				if err == nil {
					t.Errorf("%s: %q was accepted; LoopX: %s", file, c.Input, c.Error)
				}
				continue
			}
			if err != nil || c.Canonical != "" && v.canonical() != c.Canonical || digest(v.canonical()) != c.SHA256 {
				t.Errorf("%s: %.80q: %v", file, c.Input, err)
			}
			compared++
		}
		if compared < 10 {
			t.Errorf("%s: only %d were compared", file, compared)
		}
	}
}

// Every delta that LoopX built leads where LoopX says, and so does ours.
func TestDeltasLeadWhereLoopXSays(t *testing.T) {
	type step struct {
		Previous string `json:"previous"`
		Next     string `json:"next"`
		Delta    string `json:"delta"`
		State    string `json:"state_digest"`
	}
	for i, c := range fixture.Lines[step](t, "canonical", "deltas.jsonl") {
		before, delta, after := must(t, c.Previous), must(t, c.Delta), must(t, c.Next)
		text := before.canonical()
		for _, d := range []*value{delta, difference(before, after)} {
			got, err := apply(before, d)
			if err != nil || digest(got.canonical()) != c.State {
				t.Errorf("line %d: %v", i+1, err)
			}
		}
		if again := must(t, c.Previous); again.canonical() != text {
			t.Errorf("line %d: the state before was changed", i+1)
		}
	}
}

func must(t *testing.T, text string) *value {
	t.Helper()
	v, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every store that LoopX wrote reads to the head, revisions and digests that LoopX answered.
func TestReadsWhatLoopXWrote(t *testing.T) {
	for _, name := range []string{"file-v0-small", "file-v0-traps", "file-v0-mixed", "file-v1-small", "file-v1-traps", "sqlite-v2-small", "sqlite-v2-traps",
		"migrated-file-v0-to-v1-small", "migrated-sqlite-v1-to-v2-small"} {
		r := reading(t, stored(t, name, "store"))
		want := fixture.Expected(t, name)
		if r.header.revision != want.Load.ProviderRevision || string(r.Identity()) != want.Identity.StoreIdentity {
			t.Errorf("%s: head %s of %s, LoopX %s of %s", name, r.header.revision, r.Identity(), want.Load.ProviderRevision, want.Identity.StoreIdentity)
		}
		if head := must(t, string(want.Load.Head)); head.canonical() != r.header.head.canonical() {
			t.Errorf("%s: another head", name)
		}
		for i, receipt := range want.Receipts {
			if receipt.Result.Status != "found" {
				continue
			}
			if got := r.receiptOf(string(receipt.OperationID)); got != digest(must(t, string(receipt.Result.Receipts)).canonical()) {
				t.Errorf("%s: receipt %d differs from LoopX's", name, i)
			}
		}
	}
}

// receiptOf is the digest of an operation's receipts.
func (r *Reading) receiptOf(operation string) string {
	for _, t := range r.rows {
		if t.operation == operation {
			return t.receipts
		}
	}
	return ""
}

// One history in five formats is one history: the same rows, the same logical digest.
func TestFormatsOfOneHistoryAreAlike(t *testing.T) {
	left := reading(t, stored(t, "goal-file-v0", "runtime", "authority", "file-v0"))
	for _, other := range []*History{stored(t, "goal-file-v1", "runtime", "authority", "file-v0"), stored(t, "archive-goal-file-v1")} {
		right := reading(t, other)
		c, err := Compare(context.Background(), left, right, 0)
		if err != nil || !c.Alike() || left.Logical != right.Logical {
			t.Errorf("%s: %v %+v", other.Name, err, c)
		}
	}
	if left.Logical != "cd2075b0a250924959e81297aa4efe078e0599505b12121a9bc359e6ea1e9a29" || left.Transactions() != 231 {
		t.Errorf("logical digest %s over %d rows", left.Logical, left.Transactions())
	}
}

// auditOnly are defects that LoopX's own reads pass over, and lenient those that only a
// stricter reader names; in both cases a witness must not pass them.
func TestFindsEveryDefect(t *testing.T) {
	// What is no defect of the history: which identity a caller expected.
	harmless := map[string]bool{"sqlite-v2--expected-identity-other": true}
	found := 0
	for _, format := range []string{"file-v0", "file-v1", "sqlite-v2"} {
		for _, d := range fixture.Defects(t, format) {
			err := readDefect(t, d)
			if d.Group == "tolerated" {
				if err != nil {
					t.Errorf("%s is tolerated: %v", d.Name, err)
				}
				continue
			}
			if err == nil && !harmless[d.Name] {
				t.Errorf("%s was passed: %s", d.Name, d.Defect)
			}
			found++
		}
	}
	if found < 50 {
		t.Errorf("only %d defects were looked at", found)
	}
}

func readDefect(t *testing.T, d fixture.Defect) error {
	t.Helper()
	dir := fixture.Path(t, d.Group, d.Name, "store")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var h *History
	err = errors.New("no store is there")
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasSuffix(path, ".sqlite") {
			h, err = SQLite(d.Name, opened(t, path), inMemory), nil
		} else if strings.HasPrefix(e.Name(), "authority-store-") {
			h, err = FileJournal(d.Name, path, filepath.Join(dir, "store-identity"))
		}
	}
	if err == nil {
		_, err = Read(context.Background(), h)
	}
	return err
}

// Each of LoopX's changed archives that LoopX refuses is refused here too.
func TestFindsEveryChangedArchive(t *testing.T) {
	type changed struct {
		Case    string `json:"case"`
		Exit    int    `json:"exit"`
		Archive string `json:"archive"`
	}
	refused := 0
	for _, c := range fixture.Lines[changed](t, "archive-tampered", "cases.jsonl") {
		_, err := Read(context.Background(), archive{c.Archive}.history(c.Case))
		if c.Exit != 0 && err == nil {
			t.Errorf("%s was accepted", c.Case)
		}
		if c.Exit != 0 {
			refused++
		}
	}
	if refused < 40 {
		t.Errorf("only %d changed archives were looked at", refused)
	}
}

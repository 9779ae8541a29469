//go:build interop

package interop

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/export"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

// archive runs a verb of LoopX's authority-archive, which must succeed with that status.
func (g goal) archive(status, verb string, flags ...string) answer {
	g.t.Helper()
	a := command(g.t, nil, g.loopxLine(append([]string{"authority-archive", verb}, flags...)...)...).done(g.t)
	if a.is("status") != status {
		g.t.Fatalf("%q answered %q, want %q: %s", a.argv, a.is("status"), status, a.text)
	}
	return a
}

// loopxToSQLite is LoopX's own migration of the Goal.
func (g goal) loopxToSQLite() {
	g.t.Helper()
	plan := filepath.Join(g.t.TempDir(), "plan.json")
	planned := g.archive("planned", "plan-migration", "--goal-id", goalID, "--plan", plan, "--provider", "sqlite")
	g.archive("migrated", "migrate", "--goal-id", goalID, "--plan", plan, "--plan-sha256", planned.is("plan_sha256"), "--execute")
}

func (g goal) fileSource() export.Source {
	g.t.Helper()
	store, err := filestore.Open(filestore.Options{
		Dir: filepath.Dir(g.journal()), GoalID: goalID, Existence: filestore.ExistingOnly, Access: filestore.ReadOnly,
	})
	must(g.t, err)
	return store
}

func (g goal) sqliteSource() export.Source {
	g.t.Helper()
	store, err := sqlitestore.Open(sqlitestore.Options{Path: g.database(), GoalID: goalID})
	must(g.t, err)
	g.t.Cleanup(func() { must(g.t, store.Close()) })
	return store
}

// sameArchive lets both sides write an archive of one store and prove the other's.
// It returns ours.
func (g goal) sameArchive(source export.Source) (path string, seal export.Seal) {
	g.t.Helper()
	dir := g.t.TempDir()
	path, theirs := filepath.Join(dir, "ours.jsonl"), filepath.Join(dir, "theirs.jsonl")
	seal, err := export.WriteArchive(g.t.Context(), path, source)
	must(g.t, err)
	g.archive("exported", "export", "--goal-id", goalID, "--archive", theirs)
	lineage, err := export.VerifyArchive(g.t.Context(), theirs)
	if err != nil || lineage.Logical != seal.Lineage.Logical {
		g.t.Fatalf("LoopX's archive: %+v, %v", lineage, err)
	}
	verified := g.archive("verified", "verify", "--archive", path)
	for field, want := range map[string]string{
		"archive_sha256": seal.SHA256.String(), "commits": seal.Cursor.String(), "source_provider": string(source.Kind()),
		"source_store_identity": string(seal.Identity), "source_provider_revision": string(seal.Revision),
	} {
		if got := verified.is("archive", field); got != want {
			g.t.Errorf("LoopX reads %s %q in our archive, its seal has %q", field, got, want)
		}
	}
	ours, err := os.ReadFile(path)
	must(g.t, err)
	same, err := os.ReadFile(theirs)
	must(g.t, err)
	if !bytes.Equal(ours, same) {
		g.t.Fatal("the archives are not the same bytes")
	}
	audited := g.archive("audited", "audit", "--goal-id", goalID, "--archive", path, "--archive-sha256", seal.SHA256.String())
	if got := audited.is("audit", "compared_commits"); got != seal.Cursor.String() {
		g.t.Fatalf("LoopX compared %s of %s commits", got, seal.Cursor)
	}
	return path, seal
}

// TestInteropArchive follows a Goal from file to SQLite and on, and has LoopX restore
// an archive of ours into a store of its own.
func TestInteropArchive(t *testing.T) {
	g := newGoal(t, "goal-file-v1")
	g.add("before").done(t)
	_, before := g.sameArchive(g.fileSource())
	g.loopxToSQLite()
	moved, after := g.sameArchive(g.sqliteSource())
	if after.Lineage.Logical != before.Lineage.Logical || after.Cursor != 232 {
		t.Errorf("%s rows with logical digest %s, before %s", after.Cursor, after.Lineage.Logical, before.Lineage.Logical)
	}
	g.loopx("todo", "add", "--role", "agent", "--text", "[P2] crane \u2028 \U0001F600 \\", "--task-class", "advancement_task").done(t)
	later, _ := g.sameArchive(g.sqliteSource())
	g.archive("audited", "audit", "--goal-id", goalID, "--archive", moved,
		"--archive-sha256", after.SHA256.String(), "--allow-newer-head")
	goesOn(t, later, after)
	g.archive("restored", "restore", "--goal-id", goalID, "--archive", moved, "--archive-sha256", after.SHA256.String(),
		"--destination", filepath.Join(t.TempDir(), "restored"), "--provider", "file", "--execute")
}

// goesOn proves that an archive continues another by one row.
func goesOn(t *testing.T, path string, before export.Seal) {
	t.Helper()
	archive, err := export.OpenArchive(path)
	must(t, err)
	rows := 0
	_, err = archive.Audit(t.Context(), &before.Lineage.End, func(authority.Row) error { rows++; return nil })
	must(t, err)
	must(t, archive.Close())
	if rows != 1 {
		t.Errorf("%d more rows", rows)
	}
}

// TestInteropTamperedArchives asks LoopX again what the fixture says it answered: for
// each archive it lets pass, and for one of each reason it gives.
func TestInteropTamperedArchives(t *testing.T) {
	type tampered struct {
		Case, Status, Reason, Archive string
		Base64                        string `json:"archive_base64"`
		Exit                          int
	}
	g := newGoal(t, "goal-file-v1")
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	asked := map[string]bool{}
	for _, c := range fixture.Lines[tampered](t, "archive-tampered", "cases.jsonl") {
		if asked[c.Reason] {
			continue
		}
		asked[c.Reason] = c.Reason != ""
		content := []byte(c.Archive)
		if c.Base64 != "" {
			var err error
			content, err = base64.StdEncoding.DecodeString(c.Base64)
			must(t, err)
		}
		must(t, os.WriteFile(path, content, 0o600))
		a := command(t, nil, g.loopxLine("authority-archive", "verify", "--archive", path)...)
		if a.exit != c.Exit || a.is("status") != c.Status || a.is("reason") != c.Reason {
			t.Errorf("%s: the fixture says %d %s %q: %s", c.Case, c.Exit, c.Status, c.Reason, a.text)
		}
	}
}

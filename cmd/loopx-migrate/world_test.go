//go:build faultinject

package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// world looks at a runtime root from outside. It shares no code with the flow, the
// fence or the stores: LoopX's rule of who accepts a write is written down a second
// time here, from docs/formats.md, and histories are read with encoding/json and SQL.
type world struct {
	t    testing.TB
	root string
	// database is the Goal's database on a server, nil when there is none.
	database *pgtest.Database
	// files is whether the Goal comes from the legacy files, prose what of them no command
	// may ever change.
	files bool
	prose string
}

// goalHash16 and goalHash are SHA-256 of the Goal's id, as LoopX names files by it.
var (
	goalHash   = fixture.SHA256([]byte(fixture.HistoryGoal))
	goalHash16 = goalHash[:16]
)

func (w world) journal() string {
	return filepath.Join(w.root, "authority", "file-v0", "authority-store-"+goalHash16+".json")
}

func (w world) sqlite() string {
	return filepath.Join(w.root, "authority", "sqlite-v0", "authority-"+goalHash+".sqlite")
}

func (w world) selector() string {
	return filepath.Join(w.root, "authority", "provider-"+goalHash+".json")
}

// accepts names the one store that a writer of LoopX would write to now, or "".
func (w world) accepts() string {
	fence := filepath.Join(w.root, "authority-transition", "file-v0", "legacy-writer-fence-"+goalHash16+".json")
	if _, err := os.Stat(fence); err != nil {
		if w.files {
			return "legacy" // the fence alone stops a writer of the files, whatever the selector says
		}
		return "" // LoopX 2.1.1: without a fence nobody writes
	}
	text, err := os.ReadFile(w.selector())
	_, journalErr := os.Stat(w.journal())
	_, databaseErr := os.Stat(w.sqlite())
	if os.IsNotExist(err) {
		if databaseErr != nil && journalErr == nil {
			return "file"
		}
		return ""
	}
	var s struct {
		Schema   string `json:"schema_version"`
		Provider string `json:"provider"`
		Identity string `json:"store_identity"`
	}
	if json.Unmarshal(text, &s) != nil || s.Schema != "loopx_local_authority_provider_v0" {
		return ""
	}
	if s.Provider == "sqlite" && databaseErr == nil && w.takesCommits(s.Identity) {
		return "sqlite"
	}
	if s.Provider == "file" && journalErr == nil && w.folderIdentity() == s.Identity {
		return "file"
	}
	if s.Provider == "postgresql" && w.database != nil && w.standing() == "open" {
		return "postgresql"
	}
	return ""
}

// folderIdentity is what the journals' folder says it is.
func (w world) folderIdentity() string {
	text, err := os.ReadFile(filepath.Join(w.root, "authority", "file-v0", "store-identity"))
	if err != nil {
		return ""
	}
	return string(text)
}

// standing is the state of the Goal's fence row; without one anybody writes.
func (w world) standing() string {
	return w.database.Text(w.t, `select coalesce((select state from loopx_control_plane.loopx_migrate_fences where goal_id = $1), 'open')`, fixture.HistoryGoal)
}

// rows are the operation ids on the server, in cursor order.
func (w world) rows() []string {
	text := w.database.Text(w.t, `select coalesce(string_agg(operation_id, chr(10) order by cursor), '') from loopx_control_plane.authority_commits where goal_id = $1`, fixture.HistoryGoal)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// takesCommits reports whether the database is the one that was selected and no
// trigger stands in the way of a commit.
func (w world) takesCommits(identity string) bool {
	db, err := sql.Open("sqlite", "file:"+w.sqlite()+"?mode=ro")
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	var found string
	var triggers int
	if err := db.QueryRow("select store_identity, (select count(*) from sqlite_master where type='trigger') from metadata").Scan(&found, &triggers); err != nil {
		w.t.Fatalf("the selected database cannot be read: %v", err)
	}
	return found == identity && triggers == 0
}

// operations are the operation ids of a journal or database, in cursor order.
func operations(t testing.TB, path string) []string {
	if strings.HasSuffix(path, ".sqlite") {
		return databaseOperations(t, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Committed []struct {
			Cursor      string `json:"cursor"`
			OperationID string `json:"operation_id"`
		} `json:"committed"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil // a torn file is no history
	}
	var ids []string
	for i, c := range doc.Committed {
		if c.Cursor != fmt.Sprint(i+1) {
			t.Fatalf("%s: row %d has cursor %s", filepath.Base(path), i+1, c.Cursor)
		}
		ids = append(ids, c.OperationID)
	}
	return ids
}

func databaseOperations(t testing.TB, path string) []string {
	copied := filepath.Join(t.TempDir(), "copy.sqlite") // a reader leaves files behind
	for _, suffix := range []string{"", "-wal"} {
		if text, err := os.ReadFile(path + suffix); err == nil {
			if err := os.WriteFile(copied+suffix, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	db, err := sql.Open("sqlite", copied)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("select cursor, operation_id from commits order by cursor")
	if err != nil {
		return nil // a candidate without a schema yet
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var cursor int
		var id string
		if err := rows.Scan(&cursor, &id); err != nil || cursor != len(ids)+1 {
			t.Fatalf("%s: row %d has cursor %d, %v", filepath.Base(path), len(ids)+1, cursor, err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// check fails unless every acknowledged operation is there once and nothing else is:
// in the store that accepts writes, or, while nobody accepts any, in some store.
func (w world) check(acknowledged []string) string {
	w.t.Helper()
	accepting := w.accepts()
	if w.files {
		w.checkFiles(accepting, acknowledged)
		return accepting
	}
	switch accepting {
	case "file":
		w.holds(w.journal(), acknowledged)
	case "sqlite":
		w.holds(w.sqlite(), acknowledged)
	case "postgresql":
		if got := w.rows(); !slices.Equal(got, acknowledged) {
			w.t.Fatalf("the server accepts writes and holds %d operations, %d were acknowledged", len(got), len(acknowledged))
		}
	default:
		w.somewhere(acknowledged)
	}
	return accepting
}

func (w world) holds(path string, acknowledged []string) {
	w.t.Helper()
	if got := operations(w.t, path); !slices.Equal(got, acknowledged) {
		w.t.Fatalf("%s accepts writes and holds %d operations, %d were acknowledged", filepath.Base(path), len(got), len(acknowledged))
	}
}

func (w world) somewhere(acknowledged []string) {
	w.t.Helper()
	found := w.database != nil && slices.Equal(w.rows(), acknowledged)
	err := filepath.WalkDir(w.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || found {
			return err
		}
		name := entry.Name()
		if strings.HasSuffix(name, ".sqlite") || strings.HasPrefix(name, "authority-store-") && strings.HasSuffix(name, ".json") {
			found = slices.Equal(operations(w.t, path), acknowledged)
		}
		return nil
	})
	if err != nil || !found {
		w.t.Fatalf("nobody accepts writes and no store holds all %d acknowledged operations (%v)", len(acknowledged), err)
	}
}

//go:build faultinject

package main

import (
	"database/sql"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// state is the legacy state file of a Goal that is in one; the project stands inside the
// runtime root, so that a copy of that is a copy of all.
func (w world) state() string { return filepath.Join(w.root, "project", "ACTIVE_GOAL_STATE.md") }

func (w world) leases() string {
	return filepath.Join(w.root, "goals", fixture.HistoryGoal, "task-leases")
}

// filesSituation lays out the legacy files of a Goal: LoopX's small fixture, in a state
// that can be promoted.
func filesSituation(t *testing.T, root string) *site {
	goal := func(text []byte) string {
		return strings.ReplaceAll(string(text), "demo-small", fixture.HistoryGoal)
	}
	state := goal(fixture.Read(t, "legacy", "small", "project", ".codex", "goals", "demo-small", "ACTIVE_GOAL_STATE.md"))
	state = strings.Replace(state, "\nadapter_id", "\nhandoff_mode: hard_lease\nadapter_id", 1)
	lease := goal(fixture.Read(t, "legacy", "small", "runtime", "goals", "demo-small", "task-leases", "todo_fce99541009e.json"))
	lease = strings.Replace(lease, `"status": "active"`, `"status": "released"`, 1)
	s := newSite(t, root, nil)
	s.world.files = true
	writeFile(t, s.world.state(), []byte(state))
	writeFile(t, filepath.Join(s.world.leases(), "todo_fce99541009e.json"), []byte(lease))
	s.acknowledged = todosOf(state)
	s.world.prose = proseOf(state)
	return s
}

var todoID = regexp.MustCompile(`todo_id=(todo_[a-z0-9_]+)`)

// todosOf are the ids in a state file, sorted.
func todosOf(state string) (ids []string) {
	for _, found := range todoID.FindAllStringSubmatch(state, -1) {
		ids = append(ids, found[1])
	}
	slices.Sort(ids)
	return ids
}

// proseOf is what of a state file belongs to no Todo.
func proseOf(state string) string {
	var prose strings.Builder
	for line := range strings.Lines(state) {
		if !strings.HasPrefix(line, "- [") && !strings.HasPrefix(line, "  <!-- loopx:todo") {
			prose.WriteString(line)
		}
	}
	return prose.String()
}

// growOnStore lets the promoted store have a new Todo and a new lease, so that there is
// something to bring back.
func (s *site) growOnStore(kind string) {
	s.t.Helper()
	store := s.opened(kind)
	defer store.Close()
	now, err := store.Load(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var head map[string]any
	if err := json.Unmarshal(now.Projection, &head); err != nil {
		s.t.Fatal(err)
	}
	todos := append(head["todos"].([]any), map[string]any{"schema_version": "todo_item_v0", "todo_id": "todo_zz_new", "role": "agent", "status": "open",
		"done": false, "text": "Made in the store", "archive_state": "active", "source_section": "Agent Todo", "task_class": "advancement_task"})
	lease := map[string]any{}
	for key, value := range head["leases"].([]any)[0].(map[string]any) {
		lease[key] = value
	}
	lease["todo_id"] = "todo_zz_new"
	head["todos"], head["leases"] = todos, append(head["leases"].([]any), lease)
	model := head["todo_read_model"].(map[string]any)
	model["todo_count"], model["records_sha256"] = len(todos), fixture.SHA256(fixture.Canonical(todos))
	if _, err := store.Commit(s.t.Context(), authority.CommitRequest{Expected: now.Revision, OperationID: "grown", Events: []byte("[]"),
		Projection: fixture.Canonical(head), Receipts: []byte("[]")}); err != nil {
		s.t.Fatal(err)
	}
	s.acknowledged = append(s.acknowledged, "todo_zz_new")
}

// checkFiles is check for a Goal whose source are the legacy files: every acknowledged
// Todo is in what accepts writes, or, while nobody does, in the files or some database;
// and whatever happened, the prose is what it was, in a whole file.
func (w world) checkFiles(accepting string, acknowledged []string) {
	w.t.Helper()
	state, err := os.ReadFile(w.state())
	if err != nil || proseOf(string(state)) != w.prose {
		w.t.Fatalf("the prose of the state file is not what it was (%v):\n%s", err, state)
	}
	inFiles := slices.Equal(todosOf(string(state)), acknowledged)
	switch accepting {
	case "legacy":
		if !inFiles {
			w.t.Fatalf("the files are the authority and hold %v, acknowledged were %v", todosOf(string(state)), acknowledged)
		}
		w.wholeLeases()
	case "sqlite":
		if got := todosIn(w.t, w.sqlite()); !slices.Equal(got, acknowledged) {
			w.t.Fatalf("the database is the authority and holds %v, acknowledged were %v", got, acknowledged)
		}
	case "file":
		if got := todosInJournal(w.t, w.journal()); !slices.Equal(got, acknowledged) {
			w.t.Fatalf("the journal is the authority and holds %v, acknowledged were %v", got, acknowledged)
		}
	case "postgresql":
		if got := w.todosOnServer(); !slices.Equal(got, acknowledged) {
			w.t.Fatalf("the server is the authority and holds %v, acknowledged were %v", got, acknowledged)
		}
	default:
		if !inFiles && !w.anyDatabase(acknowledged) {
			w.t.Fatalf("nobody accepts writes and nothing holds all of %v", acknowledged)
		}
	}
}

// wholeLeases: no lease file is cut.
func (w world) wholeLeases() {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.leases(), "todo_*.json"))
	if err != nil || len(paths) == 0 {
		w.t.Fatalf("no lease files: %v", err)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err != nil || !json.Valid(text) {
			w.t.Fatalf("%s is cut: %v", filepath.Base(path), err)
		}
	}
}

func (w world) anyDatabase(acknowledged []string) (found bool) {
	w.t.Helper()
	found = w.database != nil && slices.Equal(w.todosOnServer(), acknowledged)
	err := filepath.WalkDir(w.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".sqlite") && !found {
			found = slices.Equal(todosIn(w.t, path), acknowledged)
		}
		if name := filepath.Base(path); err == nil && strings.HasPrefix(name, "authority-store-") && strings.HasSuffix(name, ".json") && !found {
			found = slices.Equal(todosInJournal(w.t, path), acknowledged)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// todosIn are the ids in a database's head, sorted.
func todosIn(t testing.TB, path string) (ids []string) {
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
	var projection string
	if err := db.QueryRow("select projection from head").Scan(&projection); err != nil {
		return nil // a candidate without a head yet
	}
	return todosInHead(t, projection)
}

// todosOnServer are the ids in the head of the Goal on the server, sorted.
func (w world) todosOnServer() []string {
	w.t.Helper()
	return todosInHead(w.t, w.database.Text(w.t, `select coalesce((select head::text from loopx_control_plane.authority_heads where goal_id = $1), '{}')`, fixture.HistoryGoal))
}

// todosInJournal are the ids in the head that a journal in format v1 spells out, sorted;
// none in one that is torn.
func todosInJournal(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var journal struct {
		Head json.RawMessage `json:"head"`
	}
	if json.Unmarshal(text, &journal) != nil || len(journal.Head) == 0 {
		return nil
	}
	return todosInHead(t, string(journal.Head))
}

func todosInHead(t testing.TB, projection string) (ids []string) {
	t.Helper()
	var head struct {
		Todos []struct {
			ID string `json:"todo_id"`
		} `json:"todos"`
	}
	if err := json.Unmarshal([]byte(projection), &head); err != nil {
		t.Fatal(err)
	}
	for _, todo := range head.Todos {
		ids = append(ids, todo.ID)
	}
	slices.Sort(ids)
	return ids
}

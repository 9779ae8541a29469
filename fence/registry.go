package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// Registration is what LoopX's registry says of one Goal, with paths resolved.
type Registration struct {
	// Path is the registry itself, where LoopX locks it; empty when none was read.
	Path        string
	RuntimeRoot string // common_runtime_root, empty when the registry names none
	StateFile   string // the legacy state file, empty when the Goal names none
	Project     string // the Goal's repo
	// SharedState lists other Goals that name the same state file.
	SharedState []string
	// EventLogs are the paths of Todo event logs by the registry key that names them.
	EventLogs map[string]string
}

// RegistryError refuses a registry that cannot be used for a Goal.
type RegistryError struct {
	Reason string // registry_unreadable, goal_not_registered
	Detail string
}

// Error says what is wrong.
func (e *RegistryError) Error() string { return e.Detail + " (" + e.Reason + ")" }

type registryDocument struct {
	CommonRuntimeRoot string `json:"common_runtime_root"`
	Goals             []struct {
		ID        string `json:"id"`
		Repo      string `json:"repo"`
		StateFile string `json:"state_file"`
	} `json:"goals"`
}

// ReadRegistry reads LoopX's registry (spec: .loopx/registry.json of a project, or
// the shared copy) for one Goal. Keys it does not know are LoopX's own business.
func ReadRegistry(path, goal string) (Registration, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Registration{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Registration{}, &RegistryError{Reason: "registry_unreadable", Detail: "the registry cannot be read: " + cause(err)}
	}
	var doc registryDocument
	if err := json.Unmarshal(text, &doc); err != nil {
		return Registration{}, &RegistryError{Reason: "registry_unreadable", Detail: "the registry is not the JSON that LoopX writes"}
	}
	r := Registration{Path: resolve(path, "/"), RuntimeRoot: resolve(doc.CommonRuntimeRoot, filepath.Dir(filepath.Dir(path)))}
	found := false
	for _, g := range doc.Goals {
		if g.ID == goal {
			found = true
			r.Project = resolve(g.Repo, filepath.Dir(path))
			r.StateFile = resolve(g.StateFile, r.Project)
		}
	}
	if entry, ok := legacy.RegistryEntry(text, goal, r.Project); ok {
		r.EventLogs = entry.EventLogs
	}
	if !found {
		return Registration{}, &RegistryError{Reason: "goal_not_registered", Detail: fmt.Sprintf("the registry has no goal %q", goal)}
	}
	for _, g := range doc.Goals {
		if g.ID != goal && r.StateFile != "" && resolve(g.StateFile, resolve(g.Repo, filepath.Dir(path))) == r.StateFile {
			r.SharedState = append(r.SharedState, g.ID)
		}
	}
	return r, nil
}

// resolve makes a path absolute against a folder and follows its links as far as it exists.
func resolve(path, base string) string {
	if path == "" {
		return ""
	}
	if rest, home := strings.CutPrefix(path, "~/"); home {
		if dir, err := os.UserHomeDir(); err == nil {
			path = filepath.Join(dir, rest)
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// Remark is something found around a Goal that stands against a migration.
type Remark struct {
	Code   string
	Record string
	Detail string
}

// Around looks for what else is going on with a Goal: shadow capture that was not
// drained, unfinished migrations of LoopX's own, a second home of its state. The
// registration may be empty when no registry is given.
func Around(place authority.Place, registered Registration) ([]Remark, error) {
	var remarks []Remark
	for _, look := range []func(authority.Place) ([]Remark, error){shadowOutbox, shadowManagement, coldImports, localProvider} {
		found, err := look(place)
		if err != nil {
			return nil, err
		}
		remarks = append(remarks, found...)
	}
	for _, other := range registered.SharedState {
		remarks = append(remarks, Remark{Code: "state_file_shared", Record: other, Detail: "another goal names the same state file"})
	}
	second, err := secondHome(place, registered)
	return append(remarks, second...), err
}

// shadowOutbox: captured writes that were not drained build a second lineage.
func shadowOutbox(place authority.Place) ([]Remark, error) {
	var remarks []Remark
	for _, partition := range []string{"todos", "leases"} {
		names, err := list(filepath.Join(place.ShadowOutbox(), partition))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".prepared.json") || strings.HasSuffix(name, ".committed.json") {
				remarks = append(remarks, Remark{Code: "shadow_outbox_pending", Record: partition + "/" + name, Detail: "LoopX's shadow capture holds an entry; drain it with LoopX"})
			}
		}
	}
	return remarks, nil
}

func shadowManagement(place authority.Place) ([]Remark, error) {
	state, found, err := document(filepath.Join(place.ShadowManagement(), "state.json"))
	if err != nil || !found {
		return nil, err
	}
	switch status, _ := state["status"].(string); status {
	case "inactive":
		return nil, nil
	case "active":
		return []Remark{{Code: "shadow_capture_active", Record: "state.json", Detail: "LoopX's shadow capture of this goal is active"}}, nil
	default:
		return []Remark{{Code: "shadow_management_in_progress", Record: "state.json", Detail: fmt.Sprintf("LoopX's shadow management is %q", status)}}, nil
	}
}

func coldImports(place authority.Place) ([]Remark, error) {
	dir := filepath.Join(place.ShadowManagement(), "cold-imports")
	names, err := list(dir)
	if err != nil {
		return nil, err
	}
	completed := map[string]bool{}
	for _, name := range names {
		if base, ok := strings.CutSuffix(name, ".completed.json"); ok {
			completed[base] = true
		}
	}
	var remarks []Remark
	for _, name := range names {
		base, ok := strings.CutSuffix(name, ".json")
		if ok && !strings.HasSuffix(name, ".completed.json") && !completed[base] {
			remarks = append(remarks, Remark{Code: "cold_import_unfinished", Record: name, Detail: "LoopX's own import of this goal is not completed; finish it with LoopX"})
		}
	}
	return remarks, nil
}

func localProvider(place authority.Place) ([]Remark, error) {
	names, err := list(place.LocalProvider())
	if err != nil {
		return nil, err
	}
	var remarks []Remark
	for _, name := range names {
		record, found, err := document(filepath.Join(place.LocalProvider(), name, "recovery.json"))
		if err != nil {
			return nil, err
		}
		if !found || record["phase"] == "completed" {
			continue
		}
		if goal, named := record["goal_id"].(string); named && goal != place.GoalID() {
			continue
		}
		remarks = append(remarks, Remark{Code: "loopx_migration_unfinished", Record: name, Detail: "LoopX's own provider migration is not completed; finish it with LoopX"})
	}
	return remarks, nil
}

// secondHome: newer LoopX keeps state under .loopx/goals, older under .codex/goals.
// Only the registry's file counts; another copy is a trap.
func secondHome(place authority.Place, registered Registration) ([]Remark, error) {
	if registered.Project == "" || registered.StateFile == "" {
		return nil, nil
	}
	var remarks []Remark
	for _, home := range []string{".loopx", ".codex"} {
		path := filepath.Join(registered.Project, home, "goals", place.GoalID(), "ACTIVE_GOAL_STATE.md")
		if resolve(path, "/") == registered.StateFile {
			continue
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		remarks = append(remarks, Remark{Code: "second_state_file", Record: home + "/goals/" + place.GoalID() + "/ACTIVE_GOAL_STATE.md",
			Detail: "a second state file that the registry does not name, sha256 " + authority.DigestOf(text).String()})
	}
	return remarks, nil
}

// document reads a JSON object. One that is there and cannot be understood is an
// error: it may say that something is going on.
func document(path string) (map[string]any, bool, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, true, fmt.Errorf("%s is not a JSON object: %w", filepath.Base(path), err)
	}
	return fields, true, nil
}

func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

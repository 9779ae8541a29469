package legacy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Registered is what LoopX's registry says of a Goal beyond where its files are.
type Registered struct {
	// Agents are the registered agents, normalised as a claim is, without repeats: those
	// of coordination, of the Goal and of its spawn_policy, in that order.
	Agents []string
	// EventLogs are the paths of Todo event logs by the registry key that names them.
	EventLogs map[string]string
	// ShadowEnabled: coordination.runtime_shadow asks for capture into a shadow store.
	ShadowEnabled bool
}

// RegistryEntry picks a Goal out of a registry document (schema "0.1"; a release
// candidate wrote the number 1). project is the folder that relative paths belong to.
// ok is false when the document is no registry or names no such Goal.
func RegistryEntry(registry []byte, goal, project string) (entry Registered, ok bool) {
	var doc struct {
		Goals []map[string]json.RawMessage `json:"goals"`
	}
	if json.Unmarshal(registry, &doc) != nil {
		return entry, false
	}
	for _, g := range doc.Goals {
		var id string
		if json.Unmarshal(g["id"], &id) == nil && id == goal {
			return registered(g, project), true
		}
	}
	return entry, false
}

func registered(g map[string]json.RawMessage, project string) Registered {
	r := Registered{EventLogs: map[string]string{}}
	var coordination, spawn struct {
		Agents []any `json:"registered_agents"`
		Shadow struct {
			Enabled bool `json:"enabled"`
		} `json:"runtime_shadow"`
	}
	var own []any
	// What is not of the expected shape is as good as absent to LoopX too.
	_ = json.Unmarshal(g["coordination"], &coordination)
	_ = json.Unmarshal(g["registered_agents"], &own)
	_ = json.Unmarshal(g["spawn_policy"], &spawn)
	for _, item := range slices.Concat(coordination.Agents, own, spawn.Agents) {
		if name := agent(agentID(item)); name != "" && !slices.Contains(r.Agents, name) {
			r.Agents = append(r.Agents, name)
		}
	}
	r.ShadowEnabled = coordination.Shadow.Enabled
	for _, key := range []string{"state_event_log", "state_events_file", "event_log"} {
		var path string
		if json.Unmarshal(g[key], &path) == nil && strip(path) != "" {
			r.EventLogs[key] = under(project, strip(path))
		}
	}
	return r
}

// agentID takes an item of a list of agents: a name, or an object with one.
func agentID(item any) string {
	if name, is := item.(string); is {
		return name
	}
	fields, _ := item.(map[string]any)
	for _, key := range []string{"id", "agent_id", "name"} {
		if name, is := fields[key].(string); is && name != "" {
			return name
		}
	}
	return ""
}

func under(project, path string) string {
	if rest, home := strings.CutPrefix(path, "~/"); home {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(project, path)
}

package rehearsal

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// kept are the members of a Goal's registry entry that travel to a copy. All others may
// hold paths, and none of those may lead back to the source.
var kept = []string{"id", "domain", "status", "role", "parent_goal_id", "registered_agents", "spawn_policy", "execution_profile"}

// registryOf is a registry for a copy: the source's entry of the Goal with the copy's
// paths, and with the workload's agents among those that are registered.
func registryOf(source []byte, at copied, agents []string) ([]byte, error) {
	var doc struct {
		Schema json.RawMessage              `json:"schema_version"`
		Goals  []map[string]json.RawMessage `json:"goals"`
	}
	goal := at.place.GoalID()
	if err := json.Unmarshal(source, &doc); err != nil {
		return nil, &fence.RegistryError{Reason: "registry_unreadable", Detail: "the registry is not the JSON that LoopX writes"}
	}
	i := slices.IndexFunc(doc.Goals, func(g map[string]json.RawMessage) bool {
		var id string
		return json.Unmarshal(g["id"], &id) == nil && id == goal
	})
	if i < 0 {
		return nil, &fence.RegistryError{Reason: "goal_not_registered", Detail: "the registry has no goal " + goal}
	}
	entry := map[string]any{"repo": at.dir + "/project", "state_file": "ACTIVE_GOAL_STATE.md"}
	for _, key := range kept {
		if doc.Goals[i][key] != nil {
			entry[key] = doc.Goals[i][key]
		}
	}
	for key, path := range at.registration.EventLogs {
		entry[key] = path
	}
	registered, _ := legacy.RegistryEntry(source, goal, "/") // it was found just now
	for _, agent := range agents {
		if !slices.Contains(registered.Agents, agent) {
			registered.Agents = append(registered.Agents, agent)
		}
	}
	coordination := map[string]any{}
	var was map[string]json.RawMessage
	if json.Unmarshal(doc.Goals[i]["coordination"], &was) == nil {
		for _, key := range []string{"write_scope", "requires_parent_approval", "agent_model", "todo_lifecycle_authority"} {
			if was[key] != nil {
				coordination[key] = was[key]
			}
		}
	}
	coordination["registered_agents"] = registered.Agents
	entry["coordination"] = coordination
	schema := doc.Schema
	if schema == nil {
		schema = json.RawMessage(`"0.1"`)
	}
	return json.MarshalIndent(map[string]any{"schema_version": schema, "common_runtime_root": at.place.Root(), "goals": []any{entry}}, "", "  ")
}

// readRegistry reads the source's registry, where LoopX is to drive.
func (r *run) readRegistry() (err error) {
	if r.LoopX == nil {
		return nil
	}
	if r.loopxRegistry, err = os.ReadFile(r.LoopX.Registry); err != nil {
		return &fence.RegistryError{Reason: "registry_unreadable", Detail: "the registry cannot be read"}
	}
	return nil
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/cutover"
)

// headV0 is a coordination head of schema v0 with one Todo that nobody has taken.
const headV0 = `{"schema_version":"loopx_coordination_head_v0","goal_id":"` + demoGoal + `","handoff_mode":"hard_lease","authority_revision":0,
 "receipt_index":{},"receipt_retention":{"mode":"retain_all_v0"},
 "coordination":{"leases":{},"todos":{"todo_0":{"todo_revision":0,"status":"open","repository":"git:example.org/crane",
  "code_revision":"c0ffee","last_lease_epoch":0,"eligibility":{"authorization_projection_revision":1,
   "authorization_projection_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000",
   "allowed_agent_ids":["agent-0"],"dependencies_satisfied":true,"dependency_revision":1,"gates_open":true,"gate_revision":1}}}}}`

// ref is the store of the Goal that takes writes, opened for one.
func (g goalCopy) ref() cutover.Ref {
	kind := authority.Kind(g.run("inspect").fact("authority", "kind"))
	place, err := authority.NewPlace(g.root(), demoGoal)
	must(err == nil, "the disposable goal has no place")
	ref := ownRef(place, kind)
	ref.Access = cutover.AccessWrite
	return ref
}

// state commits one transaction that changes the state, as LoopX would.
func (g goalCopy) state(change func(head map[string]any)) {
	must(g.commitState(change) == nil, "the disposable goal does not take a commit")
}

func (g goalCopy) commitState(change func(map[string]any)) (err error) {
	store, err := g.l.e.stores.Open(g.l.ctx, g.ref())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	head, err := store.Load(g.l.ctx)
	if err != nil {
		return err
	}
	state := map[string]any{}
	numbers := json.NewDecoder(bytes.NewReader(head.Projection))
	numbers.UseNumber()
	if err := numbers.Decode(&state); err != nil {
		return err
	}
	change(state)
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	projection, err := canonical.Append(nil, text)
	if err != nil {
		return err
	}
	operation, err := g.l.e.mintOperation()
	if err != nil {
		return err
	}
	_, err = store.Commit(g.l.ctx, authority.CommitRequest{Expected: head.Revision, OperationID: operation,
		Events: []byte("[]"), Projection: projection, Receipts: []byte("[]")})
	return err
}

// coordinated is the Goal with a coordination head of schema v0, and the identity of its store.
func (l *climber) coordinated() (g goalCopy, store string) {
	g = l.goal()
	g.state(func(head map[string]any) {
		clear(head)
		must(json.Unmarshal([]byte(headV0), &head) == nil, "the head cannot be read")
	})
	return g, fmt.Sprint(g.run("inspect").store()["store_identity"])
}

func probeUpgradeHead(l *climber) standing {
	g, store := l.coordinated()
	before := g.loopxTree()
	g.answers(3, "head_schema_migration_required", "freeze", "--to", "sqlite:")
	g.answers(3, "store_lineage_mismatch", "upgrade-head", "--store-identity", "file:"+strings.Repeat("0", 32))
	must(g.loopxTree() == before, "a refusal changed LoopX's files")
	g.step("upgrade-head", "--store-identity", store)
	g.answers(3, "head_schema_current", "upgrade-head", "--store-identity", store)
	r := g.answers(0, "done", "inspect")
	must(r.store()["transactions"] == 233.0, "the store has %v transactions", r.store()["transactions"])
	return pass("one transaction; before it a migration is refused, after it nothing stands against one")
}

func probeRebind(l *climber) standing {
	g, store := l.coordinated()
	g.step("upgrade-head", "--store-identity", store)
	g.through("freeze --to sqlite:", "import", "compare", "promote")
	g.answers(3, "store_binding", "freeze", "--to", "file:")
	g.step("rebind")
	g.answers(0, "preview", "freeze", "--to", "file:")
	g.answers(3, "store_bound_already", "rebind")
	r := g.answers(0, "done", "inspect")
	must(r.store()["transactions"] == 234.0, "the store has %v transactions", r.store()["transactions"])
	return pass("one transaction; before it the next migration is held, after it not")
}

// ladderTodos are the sections of a state file with two Todos, in LoopX's grammar.
const ladderTodos = `## Agent Todo

- [ ] [P0] Grease the slew bearing of the tower
  <!-- loopx:todo todo_id=todo_fce99541009e status=open task_class=advancement_task updated_at=2026-09-01T06:00:00%2B00:00 -->
- [x] [P2] Weigh the counterweight blocks
  <!-- loopx:todo todo_id=todo_846ffcda7abf status=done task_class=advancement_task completion_continuation=no_followup no_followup=true completed_at=2026-09-01T06:00:00%2B00:00 updated_at=2026-09-01T06:00:00%2B00:00 -->
`

func (g goalCopy) stateFile() string {
	return filepath.Join(g.dir, "project", ".codex", "goals", demoGoal, "ACTIVE_GOAL_STATE.md")
}

func (g goalCopy) registry() string {
	return "--registry=" + filepath.Join(g.dir, "project", ".loopx", "registry.json")
}

// files is a Goal that was never in a store: two Todos in its state file.
func (l *climber) files() goalCopy {
	g := l.goal()
	g.remove(g.path("authority"))
	g.remove(g.path("authority-transition"))
	g.overwrite(g.stateFile(), func(text []byte) []byte {
		return bytes.Replace(text, []byte("## Agent Todo\n"), []byte(ladderTodos), 1)
	})
	return g
}

// text is what the state file holds.
func (g goalCopy) text() string {
	text, err := os.ReadFile(g.stateFile())
	must(err == nil, "the state file cannot be read")
	return string(text)
}

func probeAttested(l *climber) standing {
	g := l.files()
	before := g.tree()
	g.answers(3, "writers_not_stopped", "freeze", "--to", "sqlite:", g.registry())
	must(g.tree() == before, "it changed the goal")
	return pass("exit 3, writers_not_stopped")
}

// promotedFiles is a Goal of legacy files on SQLite.
func (l *climber) promotedFiles() goalCopy {
	g := l.files()
	g.step("freeze", "--to", "sqlite:", "--writers-stopped", g.registry())
	for _, step := range []string{"import", "compare", "promote"} {
		g.step(step, g.registry())
	}
	return g
}

// accepted are the flags that accept, one by one, every hold of a preview that may be accepted.
func (g goalCopy) accepted(command ...string) []string {
	holds, _ := g.run(command...).Facts["holds"].([]any)
	flags := []string{"--owner", "ladder", "--reason", "the goal is disposable"}
	for _, h := range holds {
		hold, _ := h.(map[string]any)
		must(hold["acceptable"] == true, "the hold %v cannot be accepted", hold["code"])
		flags = append(flags, "--accept", fmt.Sprintf("%v:%v", hold["code"], hold["record"]))
	}
	return flags
}

func probeFilesStory(l *climber) standing {
	g := l.promotedFiles()
	before := g.text()
	must(g.run("inspect", g.registry()).fact("authority", "kind") == "sqlite", "the authority is another")
	g.answers(0, "done", "probe-writer")
	g.step(append([]string{"rollback", g.registry()}, g.accepted("rollback", g.registry())...)...)
	must(g.run("inspect", g.registry()).fact("authority", "kind") == "legacy", "the files are not the authority again")
	must(g.text() == before, "the state file is another, and no Todo was changed")
	return pass("the files are the authority again, byte for byte")
}

func probeProject(l *climber) standing {
	g := l.promotedFiles()
	source := g.text()
	g.overwrite(g.stateFile(), func(text []byte) []byte {
		return bytes.Replace(text, []byte("Grease the slew bearing"), []byte("Paint the slew bearing"), 1)
	})
	g.step("project", g.registry())
	shown := g.text()
	must(strings.Contains(shown, "Grease the slew bearing of the tower") && !strings.Contains(shown, "Paint"), "the file does not show the head")
	prose, _, _ := strings.Cut(source, "## Agent Todo")
	must(strings.HasPrefix(shown, prose), "prose was changed")
	again := g.run("project", g.registry())
	must(again.Exit == 0 && again.Status == "nothing_to_do", "once more answered %d %s", again.Exit, again.Status)
	return pass("the head is shown again, prose kept its bytes")
}

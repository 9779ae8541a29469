package legacy

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// TestProjectionIsLoopXs: the whole head, byte for byte, is the one that LoopX's own
// import stored, where no class was guessed; only the mode is not changed by the way.
func TestProjectionIsLoopXs(t *testing.T) {
	for _, name := range []string{"small", "crlf", "bootstrapped", "empty"} {
		head, err := Inspect(keptOf(t, name), caseClock).Projection()
		if err != nil {
			t.Fatal(err)
		}
		m := members(head)
		m["handoff_mode"] = literal("hard_lease")
		if got, want := authority.DigestOf(object(m)).String(), decode[about](t, fixtures+"legacy-2.1.1/"+name+"/about.json").States[0]; got != want {
			t.Errorf("%s: digest %s, LoopX's %s", name, got, want)
		}
		if err := CheckHead(head); err != nil {
			t.Error(err)
		}
	}
}

// TestLeasesAreThoseLoopXImported: which leases travel, and how they are spelled.
func TestLeasesAreThoseLoopXImported(t *testing.T) {
	for _, name := range imported(t) {
		head, err := Inspect(keptOf(t, name), caseClock).Projection()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := members(head)["leases"], members(storedHead(t, name, "imported.json"))["leases"]; !bytes.Equal(got, want) {
			t.Errorf("%s: leases\n%s\nLoopX's\n%s", name, got, want)
		}
	}
}

// TestLeasesOutsideAreThoseOfTheModel: leases of archived or vanished Todos stay out.
func TestLeasesOutsideAreThoseOfTheModel(t *testing.T) {
	for _, name := range goals {
		model := decode[struct {
			Goal string `json:"goal_id"`
			Full struct {
				Excluded  []string `json:"excluded_lease_todo_ids"`
				Duplicate []string `json:"duplicate_todo_ids"`
			} `json:"full_text"`
		}](t, fixtures+"legacy/"+name+"/expected/model-projection.json")
		g := fixtureGoal(t, name, model.Goal)
		var outside, twice []string
		for _, f := range g.Findings {
			switch f.Code {
			case CodeLeaseOutside:
				outside = append(outside, f.TodoID)
			case CodeTodoIDTwice:
				twice = append(twice, f.TodoID)
			}
		}
		slices.Sort(twice)
		if !slices.Equal(outside, model.Full.Excluded) && len(outside)+len(model.Full.Excluded) > 0 {
			t.Errorf("%s: outside %v, the model %v", name, outside, model.Full.Excluded)
		}
		if name != "recreate" && !slices.Equal(slices.Compact(twice), model.Full.Duplicate) && len(twice)+len(model.Full.Duplicate) > 0 {
			t.Errorf("%s: twice %v, the model %v", name, twice, model.Full.Duplicate)
		}
	}
}

// fixtureGoal inspects a Goal of LoopX 0.5.1 with all its files.
func fixtureGoal(t testing.TB, name, goal string) *Goal {
	t.Helper()
	root, err := filepath.Abs(fixtures + "legacy/" + name + "/runtime")
	if err != nil {
		t.Fatal(err)
	}
	place, err := authority.NewPlace(root, goal)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Load(place, filepath.Join(root, "..", "project", ".codex", "goals", goal, "ACTIVE_GOAL_STATE.md"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return Inspect(files, caseClock)
}

// TestInspectOfFixtures: the holds of Goals with a known trap. Counts were taken with grep.
func TestInspectOfFixtures(t *testing.T) {
	fence := fixtureGoal(t, "fencetrap", "demo-fence")
	hidden := found(fence, CodeHiddenTodo)
	if len(hidden) != 41 { // 40 agent Todos behind the fence and the example before them
		t.Errorf("%d hidden Todos", len(hidden))
	}
	if _, err := fence.Projection(); !errors.As(err, new(*HoldError)) {
		t.Errorf("a backlog would be dropped: %v", err)
	}
	complex := fixtureGoal(t, "complex", "demo-complex")
	c := complex.Counts()
	if c.Active[RoleAgent]["open"] != 33 || c.Active[RoleUser]["open"] != 4 || c.Archived["done"] != 14 || c.Archived["deferred"] != 3 ||
		c.Outside != 6 || c.Leases["active"]+c.Leases["released"] != 25 {
		t.Errorf("%+v", c)
	}
	if got := len(found(complex, CodeArchivedDecision)); got != 2 || len(complex.Outside()) != 6 {
		t.Errorf("%d archived decisions without role, outside %d", got, len(complex.Outside()))
	}
	recreate := fixtureGoal(t, "recreate", "demo-recreate")
	expect(t, found(recreate, CodeTodoIDTwice), "todo_id_twice todo_6463dd6e56dc:19", "todo_id_twice todo_6463dd6e56dc:34")
}

// TestHostileFiles: what a crash or an editor leaves is named, and never read as little.
func TestHostileFiles(t *testing.T) {
	small := string(stateOf(t, "small"))
	for name, try := range map[string]struct{ state, code string }{
		"killed writer":       {"", CodeStateEmpty},
		"cut in front matter": {small[:40], CodeStateUnreadable},
		"cut before sections": {small[:strings.Index(small, "## User")], CodeSectionMissing},
		"byte order mark":     {"\ufeff" + small, CodeByteOrderMark},
		"not UTF-8":           {small + "\xff", CodeStateUnreadable},
		"open fence":          {strings.Replace(small, "## Agent Todo\n", "## Agent Todo\n```\n", 1), CodeHiddenTodo},
		"code that opens":     {strings.Replace(small, "## Agent Todo\n", "## Agent Todo\n``` `x`\n", 1) + "```\n", CodeHiddenTodo},
		"mode misspelled":     {strings.Replace(small, "---\n\n# A", "handoff_mode: Hard\n---\n\n# A", 1), CodeModeInvalid},
		"dashes in objective": {strings.Replace(strings.Replace(small, `"Small goal"`, `"one --- two"`, 1), "---\n\n# A", "handoff_mode: hard_lease\n---\n\n# A", 1), CodeModeDiffers},
		"a Todo without id":   {strings.Replace(small, "## Next", "- [ ] New\n\n## Next", 1), CodeTodoIDMissing},
		"no text":             {strings.Replace(small, "## Next", "- [ ]  \n  <!-- loopx:todo todo_id=todo_new -->\n\n## Next", 1), CodeTextEmpty},
		"stray marker":        {small + regionMarker(RoleAgent, "end") + "\n", CodeStateUnreadable},
	} {
		g := Inspect(Files{Goal: "demo-small", State: []byte(try.state)}, caseClock)
		f := slices.IndexFunc(g.Findings, func(f Finding) bool { return f.Code == try.code })
		if f < 0 || g.Findings[f].Weight != Blocking {
			t.Errorf("%s: %v", name, found(g))
		}
		if head, err := g.Projection(); err == nil {
			t.Errorf("%s: a projection %s", name, head)
		}
	}
}

// TestSecondSection: its Todos are read as LoopX lists them, and it is a hold.
func TestSecondSection(t *testing.T) {
	state := append(stateOf(t, "small"), "\n## Codex Todo\n\n- [ ] Further\n  <!-- loopx:todo todo_id=todo_further status=open -->\n"...)
	g := Inspect(Files{Goal: "demo-small", State: state}, caseClock)
	row := g.Listing.Rows[len(g.Listing.Rows)-1]
	if row.TodoID != "todo_further" || row.Index != 5 || row.Section != HeadingAgent {
		t.Errorf("%+v", row)
	}
	expect(t, found(g, CodeSectionRepeated), "section_repeated :37 agent")
}

func TestFilesDigestAndEventLog(t *testing.T) {
	dir := t.TempDir()
	place, err := authority.NewPlace(dir, "g")
	if err != nil {
		t.Fatal(err)
	}
	state, log := filepath.Join(dir, "ACTIVE_GOAL_STATE.md"), filepath.Join(dir, "events.jsonl")
	for _, path := range []string{state, log} {
		if err := os.WriteFile(path, []byte("## Agent Todo\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Load(place, state, map[string]string{"event_log": filepath.Join(dir, "none")})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, found(Inspect(files, caseClock)), "event_log_overrides :0 events.jsonl")
	before := files.Digest()
	files.Leases = []LeaseEntry{{Name: ".x.json.1.tmp", Regular: true}}
	if files.Digest() != before {
		t.Error("residue changes the digest")
	}
	files.Leases = []LeaseEntry{{Name: "todo_x.json", Regular: true}}
	if files.Digest() == before {
		t.Error("a lease does not change the digest")
	}
}

func TestRegistryEntry(t *testing.T) {
	entry, ok := RegistryEntry(readFile(t, fixtures+"legacy/small/project/.loopx/registry.json"), "demo-small", "/p")
	if !ok || !slices.Equal(entry.Agents, []string{"alice", "bob"}) || len(entry.EventLogs) != 0 || entry.ShadowEnabled {
		t.Errorf("%+v %v", entry, ok)
	}
	const text = `{"goals":[{"id":"g","event_log":"x/e.jsonl","registered_agents":[{"agent_id":"B B"},"a"],"coordination":{"registered_agents":["a"],"runtime_shadow":{"enabled":true}},"spawn_policy":{"registered_agents":[{"name":"c"},7]}}]}`
	entry, ok = RegistryEntry([]byte(text), "g", "/p")
	if !ok || !slices.Equal(entry.Agents, []string{"a", "b-b", "c"}) || entry.EventLogs["event_log"] != "/p/x/e.jsonl" || !entry.ShadowEnabled {
		t.Errorf("%+v %v", entry, ok)
	}
	if _, ok := RegistryEntry([]byte(text), "h", "/p"); ok {
		t.Error("a Goal that is not there")
	}
}

// TestContractIsLoopXs: the field list is the one that LoopX 2.1.1 stores, and the older
// list of the fixtures without what 2.1.1 added.
func TestContractIsLoopXs(t *testing.T) {
	var stored []string
	for _, field := range elements(members(members(storedHead(t, "small", "imported.json"))["todo_read_model"])["contract_fields"]) {
		stored = append(stored, text(field))
	}
	ours := LegacyContract().Fields
	if !slices.Equal(ours, stored) {
		t.Errorf("ours %v, LoopX's %v", ours, stored)
	}
	older := decode[[]string](t, fixtures+"legacy/contract_fields.json")
	if !slices.Equal(slices.DeleteFunc(ours, func(f string) bool { return f == "completion_receipt_id" }), older) {
		t.Error("the older list differs by more than completion_receipt_id")
	}
	if native := NativeContract(); len(native.Fields) != 68 || slices.Contains(native.Fields, "index") {
		t.Errorf("%v", native.Fields)
	}
}

// TestFieldsWriteWhatTheyRead: LoopX's spelling of every metadata value in the fixtures
// is ours, and each value reads back.
func TestFieldsWriteWhatTheyRead(t *testing.T) {
	seen := map[string]bool{}
	for _, state := range stateFiles(t) {
		l, err := Parse(state).Read(Later)
		if err != nil {
			continue
		}
		for _, row := range l.Rows {
			for _, token := range row.Tokens {
				key, value := readField(Later, token.Key, compact(unquote(token.Raw)))
				if value == nil || strings.Contains(string(state), "Agent%") || token.Raw == "todo_F5D18422761B" {
					continue
				}
				if canonical.Check(value) != nil {
					t.Errorf("%s=%s: not canonical: %s", token.Key, token.Raw, value)
				}
				written, ok := fieldOf(Later, key).token(value)
				if !ok || quote(written) != token.Raw {
					t.Errorf("%s=%s is written %s, %v", token.Key, token.Raw, quote(written), ok)
				}
				seen[key] = true
			}
		}
	}
	if len(seen) < 35 {
		t.Errorf("the fixtures show only %d keys", len(seen))
	}
}

// TestDeclarations: a declaration in a file of LoopX's has the digest of the same one in
// Markdown. The digest is that of the model beside the fixtures.
func TestDeclarations(t *testing.T) {
	const file = `{"schema_version":"loopx_todo_completion_validation_declaration_v0","declaration":{"validation_command":null,"validation_command_argv":["true","--x","a b","ü"],"validation_label":null,"validation_timeout_seconds":7}}`
	files := Files{Validations: []LeaseEntry{{Name: "todo_53e7b2ca7107.json", Regular: true, Bytes: []byte(file)}, {Name: "other.json", Bytes: []byte(`{}`)}, {Name: "blobs", Folder: true}}}
	known := files.Declarations()
	if len(known) != 1 || known[0].Digest() != "cb698b91b72f19c6e80ef4536c724b962ae9828d0490b98bccce6c1a417eb68a" {
		t.Errorf("%+v", known)
	}
}

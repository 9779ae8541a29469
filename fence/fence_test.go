package fence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

const goal = "harbour-crane"

func place(t *testing.T) authority.Place {
	t.Helper()
	root := filepath.Join(fixture.Copy(t, "goal-file-v0"), "runtime")
	p, err := authority.NewPlace(root, goal)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	identityA = authority.Identity("sqlite:0123456789abcdef0123456789abcdef")
	identityF = authority.Identity("file:b1ffed5e26ca4803b6b891a35b097114")
)

func selection(kind authority.Kind, id authority.Identity) SelectorView {
	return SelectorView{State: SelectorSelection, Selection: &Selection{Provider: kind, GoalID: goal, StoreIdentity: id}}
}

// The rows of the table in docs/formats.md, one by one.
func TestWhoIsTheAuthority(t *testing.T) {
	engaged := WriterFence{State: WriterFenceEngaged}
	absent, none := WriterFence{State: WriterFenceAbsent}, SelectorView{State: SelectorAbsent}
	frozen := SelectorView{State: SelectorFrozen, Frozen: &Frozen{MigrationID: "mig-1"}}
	missing := &authority.Error{Class: authority.ClassMissing}
	for name, c := range map[string]struct {
		o      Observation
		kind   authority.Kind
		reason string
	}{
		"no fence":                        {Observation{WriterFence: absent, Selector: none}, authority.KindLegacy, ""},
		"no fence, a journal":             {Observation{WriterFence: absent, Selector: none, Journal: true, Database: true}, authority.KindLegacy, ""},
		"no fence, a selection":           {Observation{WriterFence: absent, Selector: selection("sqlite", identityA)}, authority.KindLegacy, ""},
		"no fence, frozen":                {Observation{WriterFence: absent, Selector: frozen}, "", "migration_frozen"},
		"journal":                         {Observation{WriterFence: engaged, Selector: none, Journal: true}, authority.KindFile, ""},
		"nothing":                         {Observation{WriterFence: engaged, Selector: none}, "", "authority_missing"},
		"database and journal":            {Observation{WriterFence: engaged, Selector: none, Journal: true, Database: true}, "", "selector_missing"},
		"database only":                   {Observation{WriterFence: engaged, Selector: none, Database: true}, "", "selector_missing"},
		"selected":                        {Observation{WriterFence: engaged, Selector: selection("sqlite", identityA), Database: true, Selected: identityA}, authority.KindSQLite, ""},
		"selected file beside a database": {Observation{WriterFence: engaged, Selector: selection("file", identityF), Journal: true, Database: true, Selected: identityF}, authority.KindFile, ""},
		"selected, gone":                  {Observation{WriterFence: engaged, Selector: selection("sqlite", identityA), Journal: true}, "", "selected_store_missing"},
		"selected, empty":                 {Observation{WriterFence: engaged, Selector: selection("sqlite", identityA), Database: true, SelectedErr: missing}, "", "selected_store_missing"},
		"selected, another":               {Observation{WriterFence: engaged, Selector: selection("sqlite", identityA), Database: true, Selected: "sqlite:ffffffffffffffffffffffffffffffff"}, "", "selected_store_mismatch"},
		"selected, unreadable":            {Observation{WriterFence: engaged, Selector: selection("sqlite", identityA), Database: true, SelectedErr: errors.New("x")}, "", "selected_store_unreadable"},
		"frozen":                          {Observation{WriterFence: engaged, Selector: frozen, Journal: true, Database: true}, "", "migration_frozen"},
		"selector unreadable":             {Observation{WriterFence: engaged, Selector: SelectorView{State: SelectorUnreadable}, Journal: true}, "", "selector_unreadable"},
		"fence unreadable":                {Observation{WriterFence: WriterFence{State: WriterFenceUnreadable}, Selector: selection("sqlite", identityA), Database: true, Selected: identityA}, "", "fence_unreadable"},
	} {
		v := c.o.Authority()
		if v.Kind != c.kind || v.Reason != c.reason || v.Blocked != (c.reason != "") || v.Row == "" {
			t.Errorf("%s: %+v, want kind %q reason %q", name, v, c.kind, c.reason)
		}
	}
}

func TestObserveReadsAGoalMadeByLoopX(t *testing.T) {
	p := place(t)
	before := fixture.TreeHash(t, p.Root())
	o, err := Observe(context.Background(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := o.Authority(); v.Kind != authority.KindFile || o.WriterFence.ID != "legacy-writer-fence:promote-harbour-crane" {
		t.Errorf("verdict %+v, fence %+v", v, o.WriterFence)
	}
	if changed := before.Diff(fixture.TreeHash(t, p.Root())); len(changed) != 0 {
		t.Errorf("observing changed %v", changed)
	}
}

func TestSelectorsThatAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"not JSON":       "{",
		"a list":         "[]",
		"null":           "null",
		"no schema":      `{"provider":"sqlite"}`,
		"unknown schema": `{"schema_version":"loopx_local_authority_provider_v9","provider":"sqlite","goal_id":"harbour-crane","store_identity":"sqlite:0123456789abcdef0123456789abcdef"}`,
		"extra key":      `{"schema_version":"loopx_local_authority_provider_v0","provider":"sqlite","goal_id":"harbour-crane","store_identity":"sqlite:0123456789abcdef0123456789abcdef","x":1}`,
		"another goal":   `{"schema_version":"loopx_local_authority_provider_v0","provider":"sqlite","goal_id":"other","store_identity":"sqlite:0123456789abcdef0123456789abcdef"}`,
		"identity":       `{"schema_version":"loopx_local_authority_provider_v0","provider":"sqlite","goal_id":"harbour-crane","store_identity":"file:0123456789abcdef0123456789abcdef"}`,
		"provider":       `{"schema_version":"loopx_local_authority_provider_v0","provider":"nokv","goal_id":"harbour-crane","store_identity":"nokv:0123456789abcdef0123456789abcdef"}`,
		"no tenant":      `{"schema_version":"loopx_local_authority_provider_v0","provider":"postgresql","goal_id":"harbour-crane","store_identity":"postgresql:0123456789abcdef0123456789abcdef"}`,
		"frozen, other":  `{"schema_version":"loopx_migrate_frozen_selector_v1","goal_id":"other","migration_id":"m","fence_id":"f","original_selector":{"present":false}}`,
		"two documents":  `{"schema_version":"loopx_local_authority_provider_v0","provider":"sqlite","goal_id":"harbour-crane","store_identity":"sqlite:0123456789abcdef0123456789abcdef"} {}`,
	} {
		if v := parseSelector(goal, []byte(text)); v.State != SelectorUnreadable || v.Problem == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// The bytes are those that LoopX 2.1.1 wrote for this selection (docs/formats.md, 2).
func TestSelectionIsSpelledAsLoopXDoes(t *testing.T) {
	text, err := SelectionText(Selection{Provider: authority.KindSQLite, GoalID: goal, StoreIdentity: identityA})
	want := "{\n \"schema_version\": \"loopx_local_authority_provider_v0\",\n \"provider\": \"sqlite\",\n \"goal_id\": \"harbour-crane\",\n" +
		" \"store_identity\": \"sqlite:0123456789abcdef0123456789abcdef\"\n}\n"
	if err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
}

func TestFreezeAndRestore(t *testing.T) {
	odd := "{\"goal_id\":\"harbour-crane\",\"provider\":\"file\",\n\"schema_version\":\"loopx_local_authority_provider_v0\",\"store_identity\":\"" + string(identityF) + "\"}"
	for name, original := range map[string]string{"absent": "", "a selection in another spelling": odd} {
		p := place(t)
		if original != "" {
			put(t, p.Selector(), original)
		}
		before := fixture.TreeHash(t, p.Root())
		was := ReadSelector(p).Original()
		frozen := Frozen{MigrationID: "mig-1", FenceID: "fence-1", Original: was}
		for range 2 {
			if err := Freeze(p, frozen); err != nil {
				t.Fatal(err)
			}
		}
		v := ReadSelector(p)
		if v.State != SelectorFrozen || v.Frozen.MigrationID != "mig-1" || v.Original() != was {
			t.Errorf("%s: frozen reads %+v", name, v)
		}
		for range 2 {
			if err := Restore(p, v.Original()); err != nil {
				t.Fatal(err)
			}
		}
		if changed := before.Diff(fixture.TreeHash(t, p.Root())); len(changed) != 0 {
			t.Errorf("%s: after the restore differ %v", name, changed)
		}
	}
}

func TestWriterFences(t *testing.T) {
	cold := `{"schema_version":"loopx_cold_source_import_writer_fence_v0","state":"engaged","goal_id":"harbour-crane","fence_id":"cold-import:op","import_operation_id":"op","import_plan_sha256":"ab"}`
	born := `{"schema_version":"loopx_new_goal_writer_fence_v0","state":"engaged","goal_id":"harbour-crane","fence_id":"new-goal:op","creation_operation_id":"op","creation_identity_sha256":"ab","creation_completed":true}`
	for name, c := range map[string]struct {
		text  string
		state WriterFenceState
	}{
		"cold import":           {cold, WriterFenceEngaged},
		"new goal":              {born, WriterFenceEngaged},
		"cold import, more":     {strings.Replace(cold, `"state"`, `"x":1,"state"`, 1), WriterFenceUnreadable},
		"new goal, unfinished":  {strings.Replace(born, "true", "false", 1), WriterFenceUnreadable},
		"new goal, not boolean": {strings.Replace(born, "true", `"true"`, 1), WriterFenceUnreadable},
		"another goal":          {strings.Replace(cold, goal, "other", 1), WriterFenceUnreadable},
		"lifted":                {strings.Replace(cold, "engaged", "lifted", 1), WriterFenceUnreadable},
		"blank id":              {strings.Replace(cold, "cold-import:op", " cold ", 1), WriterFenceUnreadable},
		"unknown schema":        {strings.Replace(cold, "cold_source", "warm_source", 1), WriterFenceUnreadable},
		"empty":                 {"", WriterFenceUnreadable},
	} {
		p := place(t)
		put(t, p.WriterFence(), c.text)
		if f := ReadWriterFence(p); f.State != c.state {
			t.Errorf("%s: %+v", name, f)
		}
	}
	p := place(t)
	if err := os.Remove(p.WriterFence()); err != nil {
		t.Fatal(err)
	}
	if f := ReadWriterFence(p); f.State != WriterFenceAbsent {
		t.Errorf("removed: %+v", f)
	}
	if err := os.Mkdir(p.WriterFence(), 0o700); err != nil {
		t.Fatal(err)
	}
	if f := ReadWriterFence(p); f.State != WriterFenceUnreadable {
		t.Errorf("a folder: %+v", f)
	}
}

func TestAround(t *testing.T) {
	p := place(t)
	registered := Registration{}
	codes := func() string {
		remarks, err := Around(p, registered)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, r := range remarks {
			all = append(all, r.Code)
		}
		return strings.Join(all, " ")
	}
	if got := codes(); got != "" {
		t.Errorf("a quiet goal: %q", got)
	}
	outbox := filepath.Join(p.ShadowOutbox(), "todos", "0000000001-local-shadow-tx-x.prepared.json")
	put(t, outbox, "{}")
	put(t, filepath.Join(p.ShadowManagement(), "cold-imports", "aa.json"), "{}")
	put(t, filepath.Join(p.ShadowManagement(), "cold-imports", "bb.json"), "{}")
	put(t, filepath.Join(p.ShadowManagement(), "cold-imports", "bb.completed.json"), "{}")
	put(t, filepath.Join(p.ShadowManagement(), "state.json"), `{"status":"bootstrapping"}`)
	put(t, filepath.Join(p.LocalProvider(), "cc", "recovery.json"), `{"phase":"prepared","goal_id":"harbour-crane"}`)
	put(t, filepath.Join(p.LocalProvider(), "dd", "recovery.json"), `{"phase":"completed","goal_id":"harbour-crane"}`)
	put(t, filepath.Join(p.LocalProvider(), "ee", "recovery.json"), `{"phase":"prepared","goal_id":"other"}`)
	want := "shadow_outbox_pending shadow_management_in_progress cold_import_unfinished loopx_migration_unfinished"
	if got := codes(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	put(t, filepath.Join(p.LocalProvider(), "ff", "recovery.json"), `{`)
	if _, err := Around(p, registered); err == nil {
		t.Error("a record that cannot be read was passed over")
	}
}

func TestRegistry(t *testing.T) {
	root := fixture.Copy(t, "goal-file-v0")
	path := filepath.Join(root, "project", ".loopx", "registry.json")
	r, err := ReadRegistry(path, goal)
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(root, "project", ".codex", "goals", goal, "ACTIVE_GOAL_STATE.md")
	if r.RuntimeRoot != filepath.Join(root, "runtime") || r.StateFile != state {
		t.Errorf("%+v", r)
	}
	var refused *RegistryError
	if _, err := ReadRegistry(path, "another"); !errors.As(err, &refused) || refused.Reason != "goal_not_registered" {
		t.Errorf("another goal: %v", err)
	}
	put(t, filepath.Join(root, "project", ".loopx", "goals", goal, "ACTIVE_GOAL_STATE.md"), "x")
	p, err := authority.NewPlace(r.RuntimeRoot, goal)
	if err != nil {
		t.Fatal(err)
	}
	remarks, err := Around(p, r)
	if err != nil || len(remarks) != 1 || remarks[0].Code != "second_state_file" {
		t.Errorf("a second home: %+v %v", remarks, err)
	}
	put(t, path, "{")
	if _, err := ReadRegistry(path, goal); !errors.As(err, &refused) || refused.Reason != "registry_unreadable" {
		t.Errorf("broken: %v", err)
	}
}

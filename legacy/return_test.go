package legacy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// keptOf is what a freeze of an imported Goal keeps.
func keptOf(t testing.TB, name string) Files {
	t.Helper()
	goal := decode[about](t, fixtures+"legacy-2.1.1/"+name+"/about.json").Goal
	files := Files{Goal: goal, State: beforeImport(t, name)}
	paths, err := filepath.Glob(fixtures + "legacy-2.1.1/" + name + "/leases/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		files.Leases = append(files.Leases, LeaseEntry{Name: filepath.Base(path), Regular: true, Bytes: readFile(t, path)})
	}
	return files
}

// TestReturnOfAnUnchangedHead: the head that was imported comes back as the files it
// came from, byte for byte.
func TestReturnOfAnUnchangedHead(t *testing.T) {
	for _, name := range imported(t) {
		kept := keptOf(t, name)
		head, err := Inspect(kept, caseClock).Projection()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Return(kept, head, nil, caseClock)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(back.State, kept.State) || back.Leases != nil {
			t.Errorf("%s: the files changed", name)
		}
	}
}

// TestReturnOfLoopXsHead: the head that LoopX 2.1.1 stored, with the Todo it added,
// comes back as the file it imported and the new Todo's two lines.
func TestReturnOfLoopXsHead(t *testing.T) {
	for _, name := range imported(t) {
		t.Run(name, func(t *testing.T) {
			kept := keptOf(t, name)
			head := withMode(t, storedHead(t, name, "head.json"), kept)
			head = withoutGuesses(t, head, kept)
			back, err := Return(kept, head, nil, caseClock)
			if err != nil {
				t.Fatal(err)
			}
			if len(back.Added) != 1 || back.Rewritten != nil || back.Moved != nil || back.Leases != nil {
				t.Errorf("added %v, rewritten %v, moved %v, leases %v", back.Added, back.Rewritten, back.Moved, back.Leases)
			}
			var rest []string
			for text := range strings.Lines(string(back.State)) {
				if !strings.Contains(text, "Added after import") && !strings.Contains(text, back.Added[0]) {
					rest = append(rest, text)
				}
			}
			// A section that was empty gets a blank line behind its heading as well.
			if got := strings.ReplaceAll(strings.Join(rest, ""), "\n\n\n", "\n\n"); got != strings.ReplaceAll(string(kept.State), "\n\n\n", "\n\n") {
				t.Errorf("more than two lines were added:\n%s", back.State)
			}
		})
	}
}

// withMode gives a head the handoff mode of the file: LoopX's import changed it.
func withMode(t testing.TB, head authority.Canonical, kept Files) authority.Canonical {
	t.Helper()
	mode, _ := Parse(kept.State).HandoffMode(Later)
	m := members(head)
	m["handoff_mode"] = literal(mode)
	return object(m)
}

// withoutGuesses takes the classes out of a head that LoopX guessed when it imported.
func withoutGuesses(t testing.TB, head authority.Canonical, kept Files) authority.Canonical {
	t.Helper()
	stated := map[string]bool{}
	for _, row := range mustRead(t, kept.State, Later).Rows {
		stated[row.TodoID] = row.Fields["task_class"] != nil
	}
	return mutate(head, func(id string, m map[string][]byte) {
		if s, known := stated[id]; known && !s {
			delete(m, "task_class")
		}
	})
}

// mutate changes the records of a head and makes its read model right again.
func mutate(head authority.Canonical, change func(id string, m map[string][]byte)) authority.Canonical {
	h := members(head)
	var todos [][]byte
	for _, record := range elements(h["todos"]) {
		m := members(record)
		change(text(m["todo_id"]), m)
		todos = append(todos, object(m))
	}
	return withTodos(head, todos)
}

func withTodos(head authority.Canonical, todos [][]byte) authority.Canonical {
	h := members(head)
	slices.SortFunc(todos, func(a, b []byte) int {
		return canonical.CompareKeys(text(members(a)["todo_id"]), text(members(b)["todo_id"]))
	})
	made := members(NewHead("", "", array(todos), []byte("[]")))
	h["todos"], h["todo_read_model"] = made["todos"], made["todo_read_model"]
	return object(h)
}

// TestReturnAfterMutations: forty changes of every kind, many times over, come back as
// a file that is read as exactly the head; prose keeps its lines.
func TestReturnAfterMutations(t *testing.T) {
	kept := keptOf(t, "complex-roles")
	start, err := Inspect(kept, caseClock).Projection()
	if err != nil {
		t.Fatal(err)
	}
	prose := narrativeLines(kept.State)
	for seed := range uint64(15) {
		random := rand.New(rand.NewPCG(seed, 7))
		head := start
		for n := range 40 {
			head = mutateOnce(head, random, n)
		}
		back, err := Return(kept, head, nil, caseClock)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := map[string]record{}
		for _, row := range mustRead(t, back.State, Later).Rows {
			got[row.TodoID] = asRecord(t, row.Record())
		}
		for _, want := range elements(members(head)["todos"]) {
			w := asRecord(t, want)
			for _, field := range differences(w, got[w["todo_id"].(string)]) {
				if field != "index" && field != "source_section" {
					t.Errorf("seed %d %s %s: %v, the head has %v", seed, w["todo_id"], field, got[w["todo_id"].(string)][field], w[field])
				}
			}
			delete(got, w["todo_id"].(string))
		}
		if len(got) > 0 || !slices.Equal(narrativeLines(back.State), prose) {
			t.Errorf("seed %d: rows beyond the head %v, or prose changed", seed, got)
		}
	}
}

// narrativeLines are the lines of complex-roles that are no Todo's, blank ones left out.
func narrativeLines(state []byte) []string {
	var kept []string
	inSection := false
	for text := range strings.Lines(string(state)) {
		if strings.HasPrefix(text, "## ") {
			inSection = strings.Contains(text, "Todo") || strings.Contains(text, "Archive")
		}
		todo := strings.HasPrefix(text, "- [") || strings.HasPrefix(text, "  <!-- loopx:todo ")
		if strings.TrimSpace(text) != "" && !(inSection && todo) {
			kept = append(kept, text)
		}
	}
	return kept
}

// mutateOnce does to a head what an agent does.
func mutateOnce(head authority.Canonical, random *rand.Rand, n int) authority.Canonical {
	todos := elements(members(head)["todos"])
	i := random.IntN(len(todos))
	m := members(todos[i])
	switch random.IntN(7) {
	case 0:
		m["claimed_by"] = literal("agent-" + decimal(n))
	case 1:
		m["status"], m["done"] = literal("done"), boolean(true)
		m["evidence"] = literal("50% | a=b, <c> --> Ü")
	case 2:
		m["text"] = literal(fmt.Sprintf("[P%d] New text %d – ✓ <!-- x --> ```", n%5, n))
		priority, title := Priority(Later, text(m["text"]))
		m["priority"], m["title"] = literal(priority), literal(title)
	case 3:
		m["archive_state"], m["status"], m["done"] = literal("archive"), literal("done"), boolean(true)
	case 4:
		m["archive_state"], m["status"], m["done"] = literal("active"), literal("blocked"), boolean(false)
	case 5:
		delete(m, "note")
		m["successor_todo_ids"] = list([]string{"todo_next_" + decimal(n), "todo_abc"})
	default:
		id := fmt.Sprintf("todo_new_%03d", n)
		return withTodos(head, append(todos, object(map[string][]byte{"schema_version": literal(ItemLegacy), "todo_id": literal(id),
			"role": literal([]string{"user", "agent"}[n%2]), "status": literal("open"), "done": boolean(false), "text": literal("Made in the store"),
			"archive_state": literal("active"), "source_section": literal(HeadingAgent)})))
	}
	todos[i] = object(m)
	return withTodos(head, todos)
}

// TestLeaseFilesAreLoopXs: a record rendered is the file that LoopX wrote.
func TestLeaseFilesAreLoopXs(t *testing.T) {
	paths, err := filepath.Glob(fixtures + "legacy/*/runtime/goals/*/task-leases/*.json")
	if err != nil || len(paths) < 50 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		file := readFile(t, path)
		record, err := canonical.Append(nil, file)
		if err != nil {
			t.Fatal(err)
		}
		if got := renderLease(record); !bytes.Equal(got, file) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestReturnWritesChangedLeases(t *testing.T) {
	kept := keptOf(t, "complex-roles")
	kept.Leases = append(kept.Leases, LeaseEntry{Name: ".task-leases.lock", Regular: true, Bytes: []byte("{}")})
	head, err := Inspect(kept, caseClock).Projection()
	if err != nil {
		t.Fatal(err)
	}
	h := members(head)
	leases := elements(h["leases"])
	m := members(leases[0])
	m["version"], m["lease_epoch"], m["unknown_key"] = []byte("9"), []byte("8"), []byte(`{"a":[1]}`)
	leases[0] = object(m)
	h["leases"] = array(leases)
	back, err := Return(kept, object(h), nil, caseClock)
	if err != nil || len(back.Leases) != 1 || !bytes.Equal(back.State, kept.State) {
		t.Fatalf("%v %v", err, back.Leases)
	}
	lease, found := parseLease(kept.Goal, back.Leases[0])
	if found != nil || lease.Version() != 9 || lease.Epoch() != 8 || !strings.Contains(string(back.Leases[0].Bytes), `"unknown_key": {`) {
		t.Errorf("%+v %s", found, back.Leases[0].Bytes)
	}
}

func TestReturnRefusals(t *testing.T) {
	kept := keptOf(t, "complex-roles")
	head, err := Inspect(kept, caseClock).Projection()
	if err != nil {
		t.Fatal(err)
	}
	first := text(members(elements(members(head)["todos"])[0])["todo_id"])
	on := func(change func(m map[string][]byte)) authority.Canonical {
		return mutate(head, func(id string, m map[string][]byte) {
			if id == first {
				change(m)
			}
		})
	}
	lease := func(key, value string) authority.Canonical {
		h := members(head)
		leases := elements(h["leases"])
		m := members(leases[0])
		m[key] = []byte(value)
		leases[0] = object(m)
		h["leases"] = array(leases)
		return object(h)
	}
	mode := members(head)
	mode["handoff_mode"] = literal("soft_claim")
	todos := elements(members(head)["todos"])
	for reason, wrong := range map[string]authority.Canonical{
		"text_not_expressible":      on(func(m map[string][]byte) { m["text"] = literal("a\u2028b") }),
		"validation_missing":        on(func(m map[string][]byte) { m["completion_validation_required"] = boolean(true) }),
		"field_not_expressible":     on(func(m map[string][]byte) { m["claimed_by"] = literal("Not An Agent") }),
		"parity_mismatch":           on(func(m map[string][]byte) { m["done"], m["note"] = boolean(false), literal("open but done") }),
		"field_unknown":             on(func(m map[string][]byte) { m["colour"] = literal("red") }),
		"field_missing":             on(func(m map[string][]byte) { delete(m, "source_section") }),
		"records_mixed":             on(func(m map[string][]byte) { m["schema_version"] = literal(ItemNative) }),
		CodeTodoVanished:            withTodos(head, todos[1:]),
		CodeHeadMode:                object(mode),
		CodeLeaseBackwards:          lease("version", "0"),
		CodeLeaseActive:             lease("status", `"active"`),
		"lease_without_todo":        lease("todo_id", `"todo_nobody"`),
		"todo_order, so read model": append(bytes.Clone(head[:len(head)-1]), `,"todos":[]}`...),
	} {
		_, err := Return(kept, wrong, nil, caseClock)
		if err == nil || !strings.Contains(err.Error(), strings.Split(reason, ",")[0]) && !strings.Contains(reason, "read model") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	var broken *SyntaxError
	if _, err := Return(Files{Goal: kept.Goal, State: []byte("---\n")}, head, nil, caseClock); !errors.As(err, &broken) {
		t.Errorf("a cut file: %v", err)
	}
}

// TestReturnOfANativeHead: records that were born in a store have no place in a file;
// role and archive state give them one.
func TestReturnOfANativeHead(t *testing.T) {
	kept := keptOf(t, "complex-roles")
	head, err := Inspect(kept, caseClock).Projection()
	if err != nil {
		t.Fatal(err)
	}
	native := members(mutate(head, func(_ string, m map[string][]byte) {
		m["schema_version"], m["created_by"] = literal(ItemNative), []byte("null")
		delete(m, "index")
		delete(m, "source_section")
	}))
	model := members(native["todo_read_model"])
	model["schema_version"] = literal(DomainReadRecord)
	native["todo_read_model"] = object(model)
	back, err := Return(kept, object(native), nil, caseClock)
	if err != nil || !bytes.Equal(back.State, kept.State) || back.Findings == nil {
		t.Errorf("%v: the file changed, or the long text is not named: %v", err, back.Findings)
	}
}

package rehearsal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

var nine = time.Date(2026, 11, 3, 9, 0, 0, 0, time.UTC)

const head0 = `{"goal_id":"g","handoff_mode":"hard_lease","leases":[],"todo_read_model":{"contract_fields":[],"records_sha256":"","schema_version":"loopx_todo_domain_read_record_v0","todo_count":1},` +
	`"todos":[{"archive_state":"active","done":false,"role":"agent","status":"open","text":"old","todo_id":"todo_b"}]}`

// turns drives operations through a head and returns what each came to.
func turns(t *testing.T, operations ...Operation) (answers []string, projection authority.Canonical) {
	t.Helper()
	projection = authority.Canonical(head0)
	for i, o := range operations {
		o.ID = "op-" + string(rune('a'+i))
		step, err := decide("g", projection, o, nine.Add(time.Duration(i)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, step.refused)
		if step.refused == "" {
			projection = step.projection
		}
	}
	return answers, projection
}

// A lease that runs out goes to the next holder with the next epoch; the one before it
// can do nothing any more.
func TestLeaseTurnover(t *testing.T) {
	a := Operation{TodoID: "todo_b", Agent: "a", Key: "ka", TTL: 90}
	b := Operation{TodoID: "todo_b", Agent: "b", Key: "kb", TTL: 600}
	do := func(verb Verb, o Operation) Operation { o.Verb = verb; return o }
	answers, projection := turns(t, do(LeaseAcquire, a), do(LeaseAcquire, b), do(LeaseAcquire, b), do(LeaseRenew, a), do(LeaseRelease, a),
		do(Complete, a), do(LeaseRenew, b), do(Complete, b), do(LeaseAcquire, a), do(Note, a), do(Archive, a), do(Archive, a))
	want := []string{"", "lease_held", "", "lease_not_held", "lease_not_held", "lease_not_held", "", "", "todo_not_open", "", "", "todo_missing"}
	if strings.Join(answers, ",") != strings.Join(want, ",") {
		t.Fatalf("%v\nwant %v", answers, want)
	}
	h := headOf(projection)
	lease, todo := recordOf(h.leases.text["todo_b"]), recordOf(h.todos.text["todo_b"])
	for key, value := range map[string]string{"lease_epoch": "2", "version": "3", "owner": `"b"`, "status": `"released"`, "expires_at": `"2026-11-03T09:16:00Z"`} {
		if string(lease[key]) != value {
			t.Errorf("lease %s is %s, want %s", key, lease[key], value)
		}
	}
	if string(todo["done"]) != "true" || todo.text("archive_state") != "archive" || string(todo["text"]) != `"old"` {
		t.Errorf("the todo is %s", todo.bytes())
	}
}

// The read model of a head follows its records: the digest is worked out a second way.
func TestReadModelFollows(t *testing.T) {
	answers, projection := turns(t, Operation{Verb: Add, TodoID: "todo_a", Text: "first"}, Operation{Verb: Add, TodoID: "todo_a", Text: "twice"},
		Operation{Verb: LeaseAcquire, TodoID: "todo_a", Agent: "a", Key: "k", TTL: 600}, Operation{Verb: Claim, TodoID: "todo_a", Agent: "a"}, Operation{Verb: Claim, TodoID: "todo_a", Agent: "b"}, Operation{Verb: Note, TodoID: "todo_c", Text: "x"})
	if strings.Join(answers, ",") != ",todo_exists,,,claimed_by_another,todo_missing" {
		t.Fatalf("%q", answers)
	}
	text := string(projection)
	todos := text[strings.Index(text, `"todos":`)+len(`"todos":`) : len(text)-1]
	if !strings.Contains(text, `"records_sha256":"`+fixture.SHA256([]byte(todos))+`"`) || !strings.Contains(text, `"todo_count":2`) {
		t.Errorf("the read model does not describe %s", text)
	}
	if strings.Index(todos, "todo_a") > strings.Index(todos, "todo_b") {
		t.Errorf("out of order: %s", todos)
	}
}

func TestBuiltInWorkload(t *testing.T) {
	w := BuiltIn(authority.Canonical(head0), 60, nine)
	text, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadWorkload(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	back, err := again.Encode()
	if err != nil || !bytes.Equal(text, back) {
		t.Fatalf("read back it is another file (%v)", err)
	}
	facts, err := w.facts()
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []Verb{Add, Claim, LeaseAcquire, LeaseRenew, LeaseRelease, Complete, Archive, Replay, ContentConflict, RevisionConflict, Lag} {
		if facts.Operations[string(verb)] == 0 {
			t.Errorf("no %s in it", verb)
		}
	}
	answers, projection := turns(t, w.Operations[:6]...)
	if ids := activeLeases(projection); len(ids) != 1 {
		t.Fatalf("in the middle of a cycle: %v (%v)", ids, answers)
	}
	projection = authority.Canonical(head0)
	for i, o := range w.Operations {
		if !o.commits() {
			continue
		}
		step, err := decide("g", projection, o, w.at(i))
		if err != nil {
			t.Fatal(err)
		}
		if step.refused == "" {
			projection = step.projection
		}
	}
	if ids := activeLeases(projection); len(ids) != 0 {
		t.Errorf("it ends with active leases of %v", ids)
	}
}

func TestWorkloadsThatAreRefused(t *testing.T) {
	const header = `{"schema_version":"loopx_migrate_workload_v1","name":"w","begins_at":"2026-11-03T09:00:00Z"}` + "\n"
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"nothing":             {"", 1},
		"no header":           {`{"operation_id":"a","op":"note","todo_id":"t"}`, 1},
		"another version":     {strings.Replace(header, "_v1", "_v2", 1), 1},
		"no operation":        {header, 1},
		"an unknown verb":     {header + `{"operation_id":"a","op":"delete","todo_id":"t"}`, 2},
		"an unknown field":    {header + `{"operation_id":"a","op":"note","todo_id":"t","force":true}`, 2},
		"an id twice":         {header + `{"operation_id":"a","op":"note","todo_id":"t"}` + "\n" + `{"operation_id":"a","op":"note","todo_id":"t"}`, 3},
		"no todo":             {header + `{"operation_id":"a","op":"note"}`, 2},
		"a replay of nothing": {header + `{"operation_id":"a","op":"replay","of":"b"}`, 2},
		"a lag of nothing":    {header + `{"operation_id":"a","op":"lag","page":3}`, 2},
		"a lease for ever":    {header + `{"operation_id":"a","op":"lease_acquire","todo_id":"t","agent":"a","idempotency_key":"k"}`, 2},
		"a put of no record":  {header + `{"operation_id":"a","op":"todo_put","record":[]}`, 2},
		"half a line":         {header + `{"operation_id":"a"`, 2},
	} {
		_, err := ReadWorkload(strings.NewReader(c.text))
		var refused *WorkloadError
		if !errors.As(err, &refused) || refused.Line != c.line {
			t.Errorf("%s: %v, want line %d", name, err, c.line)
		}
	}
}

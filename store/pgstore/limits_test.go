package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// TestWhatJSONBRefuses is case 45: both places are named before anything is fenced.
func TestWhatJSONBRefuses(t *testing.T) {
	journal, err := filepath.Glob(filepath.Join(fixture.Case(t, "45-nul-and-what-jsonb-refuses"), "runtime", "authority", "file-v0", "authority-store-*.json"))
	if err != nil || len(journal) != 1 {
		t.Fatal(journal, err)
	}
	text, err := os.ReadFile(journal[0])
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Committed []struct {
			Cursor      string          `json:"cursor"`
			OperationID fixture.Text    `json:"operation_id"`
			Events      json.RawMessage `json:"events"`
			Projection  json.RawMessage `json:"projection"`
			Receipts    json.RawMessage `json:"receipts"`
		} `json:"committed"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var places []string
	for i, entry := range document.Committed {
		row := authority.Row{Transaction: authority.Transaction{Cursor: authority.Cursor(i + 1), OperationID: string(entry.OperationID),
			Events: form(t, entry.Events), Projection: form(t, entry.Projection), Receipts: form(t, entry.Receipts)}}
		for _, f := range CheckRow("t", "j-nul", row) {
			places = append(places, fmt.Sprintf("%s %s %s", f.Cursor, f.Code, f.Field))
		}
	}
	// The key's place is spelled with an escape, so that a terminal can show it.
	want := []string{`1 nul_character events[0]["\u0000k"]`, `1 nul_character receipts[0].out`}
	if !slices.Equal(places, want) {
		t.Errorf("named: %q, want %q", places, want)
	}
}

func form(t *testing.T, text []byte) authority.Canonical {
	t.Helper()
	made, err := canonical.Append(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestTrapsOfLoopX offers the trap transactions to a Goal of their own each, and compares
// with what LoopX's store said.
func TestTrapsOfLoopX(t *testing.T) {
	b := installed(t)
	answers := fixture.Decode[map[string]any](t, "postgresql-v0-small", "answers.json")
	asked := 0
	for _, trap := range fixture.Commits(t, "file-v0-traps") {
		id := string(canonical.AppendString(nil, string(trap.OperationID)))
		key := "trap " + strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`).Replace(id)
		want, known := answers[key].(map[string]any)
		if !known {
			t.Errorf("LoopX was not asked %s", key)
			continue
		}
		asked++
		s := b.store(t, freshGoal())
		_, err := s.Commit(t.Context(), authority.CommitRequest{OperationID: string(trap.OperationID), Events: trap.Events, Projection: trap.Projection, Receipts: trap.Receipts})
		if got := spoken(err, "applied"); !strings.HasPrefix(got, want["commit"].(string)) {
			t.Errorf("%s: commit %s, LoopX says %s", key, got, want["commit"])
		}
		head, err := s.Load(t.Context())
		if got := spoken(err, "loaded"); got != want["load"].(string) {
			t.Errorf("%s: load %s, LoopX says %s", key, got, want["load"])
		}
		if same := bytes.Equal(head.Projection, form(t, trap.Projection)); same != want["head_same_bytes"].(bool) {
			t.Errorf("%s: the head has the same bytes: %t", key, same)
		}
		audited(t, s)
	}
	if asked != 17 {
		t.Errorf("%d traps were offered", asked)
	}
}

// TestCheckRowAgreesWithTheServer: a row passes the check exactly if the server takes it.
func TestCheckRowAgreesWithTheServer(t *testing.T) {
	b := installed(t)
	o := b.candidate(b.operator, freshGoal())
	c := createCandidate(t, o)
	type document struct{ Canonical string }
	cursor := authority.Cursor(0)
	conn := b.Connect(t, b.operator)
	for _, d := range fixture.Lines[document](t, "canonical", "documents.jsonl") {
		if d.Canonical == "" {
			continue
		}
		row := authority.Row{Transaction: authority.Transaction{Cursor: cursor + 1, OperationID: fmt.Sprintf("op-%d", cursor),
			Events: []byte(`[]`), Projection: []byte(`{"document":` + d.Canonical + `}`), Receipts: []byte(`[]`)}}
		found := CheckRow(o.Tenant, o.GoalID, row)
		var server error
		if len(found) > 0 {
			_, server = conn.Exec(t.Context(), "SELECT $1::text::jsonb", string(row.Projection))
			if server == nil {
				t.Errorf("the check refuses %.200q (%v), the server takes it", row.Projection, found)
			}
			continue
		}
		if err := c.Append(t.Context(), row); err != nil {
			t.Fatalf("%.200q: %v", row.Projection, err)
		}
		cursor++
	}
	if err := c.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lineage := audited(t, b.store(t, o.GoalID)); lineage.End.Cursor != cursor {
		t.Errorf("%d rows passed, %s are there", cursor, lineage.End.Cursor)
	}
}

// TestLimits: size to the byte, ids to the index, and escapes that only look like NUL.
func TestLimits(t *testing.T) {
	row := func(id, projection string) authority.Row {
		return authority.Row{Transaction: authority.Transaction{Cursor: 1, OperationID: id, Events: []byte(`[]`), Projection: []byte(projection), Receipts: []byte(`[]`)}}
	}
	frame := len(`{"events":[],"next_projection":{"text":""},"operation_id":"op","receipts":[]}`)
	sized := func(n int) string { return `{"text":"` + string(bytes.Repeat([]byte{'x'}, n-frame)) + `"}` }
	for name, try := range map[string]struct {
		row  authority.Row
		want string
	}{
		"at capacity":           {row("op", sized(16<<20)), ""},
		"over capacity":         {row("op", sized(16<<20+1)), FindingSize},
		"a long id":             {row(strings.Repeat("i", 2700), `{}`), FindingKey},
		"a NUL in the id":       {row("o\x00p", `{}`), FindingNUL},
		"a surrogate in the id": {row("op\xed\xa0\x80", `{}`), FindingSurrogate},
		"a surrogate in a key":  {row("op", `{"a":{"\ud800":1}}`), FindingSurrogate},
		"a NUL deep down":       {row("op", `{"a":[1,{"b":["\\\u0000"]}]}`), FindingNUL},
		"an escaped backslash":  {row("op", `{"a":"\\u0000 \\ud800 \\\\u0000"}`), ""},
		"other escapes":         {row("op", `{"a":"\u0001\u001f\n\"\\"}`), ""},
	} {
		found := CheckRow("t", "g", try.row)
		code := ""
		if len(found) > 0 {
			code = found[0].Code
		}
		if code != try.want || len(found) > 1 {
			t.Errorf("%s: %v, want %q", name, found, try.want)
		}
	}
	b := installed(t)
	long := strings.Repeat("é", (indexBytes-len("tenant-a")-len("goal-long"))/2)
	if _, err := b.store(t, "goal-long").Commit(context.Background(), request(authority.Applied{}, long)); err != nil {
		t.Errorf("the longest id that the check lets pass: %v", err)
	}
}

package legacy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

const fixtures = "../testdata/fixtures/"

// goals are the Goals that LoopX 0.5.1 made.
var goals = []string{"bootstrapped", "complex", "crlf", "crlf-after-write", "edited-dup", "empty", "fencetrap", "recreate", "small", "soft"}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// one is the single file that matches a pattern.
func one(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

func stateOf(t testing.TB, goal string) []byte {
	t.Helper()
	return readFile(t, one(t, fixtures+"legacy/"+goal+"/project/.codex/goals/*/ACTIVE_GOAL_STATE.md"))
}

// caseState is the state file of a case, of the Goal named or the only one.
func caseState(t testing.TB, name string) []byte {
	t.Helper()
	return readFile(t, one(t, "../testdata/cases/"+name+"/goal/project/.codex/goals/*/ACTIVE_GOAL_STATE.md"))
}

func decode[T any](t testing.TB, path string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(readFile(t, path), &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return value
}

type record = map[string]any

// asRecord decodes what this package made, so that it can be held against LoopX's.
func asRecord(t testing.TB, text []byte) record {
	t.Helper()
	if err := canonical.Check(text); err != nil {
		t.Fatalf("not canonical: %v: %s", err, text)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func mustRead(t testing.TB, state []byte, reading Reading) *Listing {
	t.Helper()
	l, err := Parse(state).Read(reading)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// differences lists the fields by which two records differ, in order.
func differences(a, b record) []string {
	var names []string
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		x, _ := json.Marshal(a[name])
		y, _ := json.Marshal(b[name])
		return string(x) == string(y)
	})
}

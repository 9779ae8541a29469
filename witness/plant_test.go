package witness

import (
	"context"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

var everyPlanting = []string{"dropped_transaction", "swapped_transactions", "altered_receipt", "repeated_operation_id",
	"stale_projection", "missing_lease", "reordered_list", "edited_digest"}

// In every format each difference that is planted is found where it was made.
func TestFindsWhatItPlants(t *testing.T) {
	sqliteCopy, err := SQLite("", nil, inMemory).plant(context.Background(), goalHeader(t), goalRows(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sqliteCopy.close(); err != nil {
			t.Error(err)
		}
	})
	for _, h := range []*History{stored(t, "goal-file-v0", "runtime", "authority", "file-v0"),
		stored(t, "goal-file-v1", "runtime", "authority", "file-v0"), stored(t, "archive-goal-file-v1"), sqliteCopy} {
		proof, err := Prove(context.Background(), reading(t, h))
		if err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
		var names []string
		for _, p := range proof.Planted {
			names = append(names, p.Name)
			if !p.Found || p.FoundAt != p.Cursor {
				t.Errorf("%s: %+v", h.Name, p)
			}
		}
		if !slices.Equal(names, everyPlanting) || !proof.Clean || !proof.Holds() {
			t.Errorf("%s: planted %v, clean %v, not planted %v", h.Name, names, proof.Clean, proof.Unplanted)
		}
	}
}

func goalRows(t *testing.T) []*row {
	t.Helper()
	rows, err := reading(t, stored(t, "goal-file-v1", "runtime", "authority", "file-v0")).beginning(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func goalHeader(t *testing.T) header {
	t.Helper()
	h := reading(t, stored(t, "goal-file-v1", "runtime", "authority", "file-v0")).header
	h.identity = "sqlite:0123456789abcdef0123456789abcdef"
	return h
}

// A verifier that looks away is caught: with each check blinded, the plantings that
// belong to it are not found and the proof does not hold.
func TestABlindVerifierProvesNothing(t *testing.T) {
	r := reading(t, stored(t, "goal-file-v1", "runtime", "authority", "file-v0"))
	rows, err := r.beginning(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plantings {
		found, at, err := r.spoil(context.Background(), p, rows)
		if err != nil {
			t.Fatal(err)
		}
		if seen := p.judged(authority.Cursor(at), found); !seen.Found {
			t.Errorf("%s is not found: %v", p.name, found)
		}
		blind := slices.DeleteFunc(found, func(f Finding) bool { return f.Check == p.check })
		if judged := p.judged(authority.Cursor(at), blind); judged.Found {
			t.Errorf("%s counts as found without the check %s", p.name, p.check)
		}
	}
	missed := Proof{Clean: true, Planted: []Planted{{Name: "a", Found: true}, {Name: "b"}}}
	if missed.Holds() || (Proof{Clean: true}).Holds() || (Proof{Planted: []Planted{{Found: true}}}).Holds() {
		t.Error("a proof holds that missed one, planted none, or found differences in a clean copy")
	}
}

// The first differing field is named, and nothing of what stands there is shown.
func TestNamesTheField(t *testing.T) {
	for _, c := range []struct{ left, right, path, x, y string }{
		{`{"a":1}`, `{"a":2}`, ".a", "1", "2"},
		{`{"a":[1,{"b":"x"}]}`, `{"a":[1,{"b":"y"}]}`, ".a[1].b", `"x"`, `"y"`},
		{`{"a":[1]}`, `{"a":[1,2]}`, ".a[1]", "", "2"},
		{`{"2":0,"10":0}`, `{"2":1,"10":1}`, ".2", "0", "1"},
		{`{"Text of a person":1}`, `{}`, ".#" + digest("Text of a person")[:8], "1", ""},
		{`{"a":[]}`, `{"a":{}}`, ".a", "[]", "{}"},
	} {
		path, x, y := apart(must(t, c.left), must(t, c.right))
		printed := func(v *value) string {
			if v == nil {
				return ""
			}
			return v.canonical()
		}
		if path != c.path || printed(x) != c.x || printed(y) != c.y {
			t.Errorf("%s and %s part at %s with %s and %s", c.left, c.right, path, printed(x), printed(y))
		}
	}
}

package filestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

func openCase(t *testing.T, name, goal string) *filestore.Store {
	t.Helper()
	return open(t, filestore.Options{Dir: filepath.Join(fixture.Case(t, name), "runtime", "authority", "file-v0"), GoalID: goal})
}

// TestCases: journals whose rows verify only in LoopX's own canonical form.
func TestCases(t *testing.T) {
	for name, c := range map[string]struct {
		goal     string
		rows     uint64
		findings []string
	}{
		"36-journal-good-baseline":        {"j-good", 3, nil},
		"40-journal-of-the-next-format":   {"j-v1", 2, nil},
		"41-keys-that-look-like-integers": {"j-int", 1, nil},
		"43-numbers-in-three-languages":   {"j-num", 1, []string{authority.FindingSpelling, authority.FindingInexactInteger}},
		"47-proto-empty-and-twin-keys":    {"j-key", 1, []string{authority.FindingSpelling, authority.FindingDuplicateKey}},
		"51-long-history-many-pages":      {"j-big", 1000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lineage, err := openCase(t, name, c.goal).Audit(context.Background(), nil, nil)
			must(t, err)
			found := map[string]bool{}
			for _, finding := range lineage.Findings {
				found[finding.Code] = true
			}
			for _, code := range c.findings {
				if !found[code] {
					t.Errorf("no finding %s in %+v", code, lineage.Findings)
				}
			}
			if lineage.Transactions != c.rows || len(found) != len(c.findings) {
				t.Errorf("%d rows, findings %+v", lineage.Transactions, lineage.Findings)
			}
		})
	}
}

// Nine defects are refused in nine ways, each with its place.
func TestNineBrokenLineages(t *testing.T) {
	dir := filepath.Join(fixture.Case(t, "38-journal-lineage-broken-nine-ways"), "runtime", "authority", "file-v0")
	places := map[string]string{}
	for _, goal := range []string{"j-l1", "j-l2", "j-l3", "j-l4", "j-l5", "j-l6", "j-l7", "j-l8", "j-l9"} {
		_, err := open(t, filestore.Options{Dir: dir, GoalID: goal}).Audit(context.Background(), nil, nil)
		var e *authority.Error
		if !errors.As(err, &e) || e.Class != authority.ClassFailed || e.Field == "" {
			t.Errorf("%s: %v", goal, err)
			continue
		}
		place := e.Detail + " at " + e.Field
		if other, taken := places[place]; taken {
			t.Errorf("%s and %s are both refused for %s", goal, other, place)
		}
		places[place] = goal
	}
}

// An integer beyond 2^53 is found in LoopX's own spelling too, in both formats.
func TestInexactIntegerInCanonicalText(t *testing.T) {
	eachFormat(t, func(t *testing.T, format authority.Format) {
		store := open(t, filestore.Options{Dir: t.TempDir(), GoalID: "g", NewFormat: format})
		for projection, rows := range map[string]int{
			`{"a":9007199254740991,"b":"12345678901234567890"}`: 0,
			`{"a":12345678901234567000}`:                        1,
			`{"a":"x","b":[{"c":9007199254740994}]}`:            1,
		} {
			_, err := store.Append(context.Background(), authority.Applied{}, func(yield func(authority.Transaction, error) bool) {
				yield(authority.Transaction{OperationID: projection, Events: []byte("[]"), Projection: []byte(projection), Receipts: []byte("[]")}, nil)
			})
			must(t, err)
			lineage, err := store.Audit(context.Background(), &authority.Bookmark{}, nil)
			must(t, err)
			if len(lineage.Findings) != rows || rows == 1 && lineage.Findings[0].Code != authority.FindingInexactInteger {
				t.Errorf("%s: %+v", projection, lineage.Findings)
			}
			must(t, os.Remove(store.Path()))
		}
	})
}

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store"
)

const goal = fixture.HistoryGoal

// hash of the Goal id, as LoopX names files by it.
var hash = fixture.SHA256([]byte(goal))

func TestURLs(t *testing.T) {
	dir := t.TempDir()
	place, err := authority.NewPlace("/srv/loopx", goal)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"file:":                     "/srv/loopx/authority/file-v0/authority-store-" + hash[:16] + ".json",
		"sqlite:":                   "/srv/loopx/authority/sqlite-v0/authority-" + hash + ".sqlite",
		"file:" + dir:               filepath.Join(dir, "authority-store-"+hash[:16]+".json"),
		"sqlite:" + dir:             filepath.Join(dir, "authority-"+hash+".sqlite"),
		"sqlite:/not/there/":        "/not/there/authority-" + hash + ".sqlite",
		"sqlite:/not/there.db":      "/not/there.db",
		"sqlite:///not/there.db":    "/not/there.db",
		"file:/a/b.json":            "/a/b.json",
		"SQLite:/with%20as-it-is.x": "/with%20as-it-is.x",
	} {
		at, err := store.Parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		ref, err := at.Ref(goal, &place)
		if err != nil || ref.Path != want {
			t.Errorf("%s: %s, %v; want %s", url, ref.Path, err, want)
		}
		if at.Kind == authority.KindFile && ref.IdentityFile != filepath.Join(filepath.Dir(want), "store-identity") {
			t.Errorf("%s: identity at %s", url, ref.IdentityFile)
		}
	}
}

func TestRefusedURLs(t *testing.T) {
	for _, url := range []string{"", "nowhere", "/a/path", "mysql://u:secret@h/d", ":"} {
		_, err := store.Parse(url)
		var refusal *cutover.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != cutover.KindUsage || refusal.Reason != "store_url_invalid" {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is repeated: %v", err)
		}
	}
	at, err := store.Parse("sqlite:")
	if err != nil {
		t.Fatal(err)
	}
	var refusal *cutover.Refusal
	if _, err := at.Ref(goal, nil); !errors.As(err, &refusal) || refusal.Reason != "runtime_root_required" {
		t.Errorf("LoopX's own place without a root: %v", err)
	}
}

// TestOpenerLeavesNothing opens both kinds untouched, also where nothing is there.
func TestOpenerLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path, _ := fixture.FileV0(t, dir, goal, fixture.History(7, 5, 3, 40))
	before := fixture.TreeHash(t, dir)
	for _, ref := range []cutover.Ref{
		{Kind: authority.KindFile, Goal: goal, Path: path, IdentityFile: filepath.Join(dir, "store-identity")},
		{Kind: authority.KindFile, Goal: goal, Path: filepath.Join(dir, "absent.json"), IdentityFile: filepath.Join(dir, "absent")},
		{Kind: authority.KindSQLite, Goal: goal, Path: filepath.Join(dir, "absent.sqlite")},
	} {
		opened, err := store.Opener{}.Open(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		lineage, err := opened.Audit(t.Context(), nil, nil)
		if want := uint64(5); err != nil || ref.Path == path && lineage.Transactions != want {
			t.Errorf("%s: %d transactions, %v", ref.Path, lineage.Transactions, err)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	}
	fixture.Unchanged(t, dir, before)
}

// TestCandidateIsMadeOnceAndSettled: opened again it is the same one, another identity
// is refused, and settled it is one file.
func TestCandidateIsMadeOnceAndSettled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sqlite")
	ref := cutover.Ref{Kind: authority.KindSQLite, Goal: goal, Path: path, Identity: "sqlite:" + authority.Identity(strings.Repeat("1", 32))}
	for range 2 {
		candidate, err := store.Opener{}.Candidate(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := candidate.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := ref
	other.Identity = "sqlite:" + authority.Identity(strings.Repeat("2", 32))
	if _, err := (store.Opener{}).Candidate(t.Context(), other); err == nil {
		t.Error("a candidate of another identity was taken")
	} else if _, reason := authority.ReasonOf(err); reason != authority.ReasonForeignStore {
		t.Errorf("another identity: %v", err)
	}
	ref.Identity = ""
	if err := (store.Opener{}).Settle(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

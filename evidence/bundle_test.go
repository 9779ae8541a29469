package evidence

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// contents are a migration of two steps and a rehearsal.
func contents(t *testing.T) Contents {
	t.Helper()
	m := &manifest.Manifest{SchemaVersion: manifest.SchemaVersion, MigrationID: "mig-1", GoalID: "harbour-crane", Phase: manifest.PhasePromoted,
		Source: manifest.Binding{Kind: authority.KindFile, Identity: "file:00", Cursor: 231}, Target: manifest.Binding{Kind: authority.KindSQLite, Cursor: 231},
		Selector: manifest.Selector{Present: true, Text: `{"a note of":"a person"}`},
		Verdicts: []manifest.Verdict{{Cursor: 231, Passed: true, At: began}},
		Fence:    &manifest.Fence{ID: "loopx-migrate:mig-1", FrozenAt: began, Probes: []manifest.Probe{{By: "model", Arm: "file", Refused: true, Answer: "migration_frozen", At: began}}}}
	for i, command := range []string{"freeze", "promote"} {
		step := manifest.Step{Command: command, OperationID: "op-" + command, Principal: "os:root", StartedAt: began.Add(time.Duration(i) * time.Second), FinishedAt: began.Add(time.Duration(i)*time.Second + 400*time.Millisecond),
			Facts: map[string]string{"outage_ms": "57"}, Evidence: map[string]string{"plan": "00aa"}}
		if err := m.AddStep(step); err != nil {
			t.Fatal(err)
		}
	}
	earlier := *m
	earlier.MigrationID = "mig-0"
	return Contents{GoalID: "harbour-crane", MadeAt: began, Manifest: m, Earlier: []*manifest.Manifest{&earlier}, Rehearsal: passed(),
		Outcomes:    []manifest.Outcome{{SchemaVersion: manifest.OutcomeSchema, Command: "freeze", OperationID: "op-freeze", Sentence: "freeze is done", At: began}},
		Environment: Environment{Program: "loopx-migrate (devel)", Go: "go1.26", Platform: "linux/amd64", CPUs: 2}}
}

func written(t *testing.T) string {
	t.Helper()
	c := contents(t)
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	files = append(files, File{FilePage, []byte("<!doctype html><title>harbour-crane</title>\n")})
	if _, err := Write(dir, c.GoalID, c.MadeAt, files, Private{Texts: []string{"a note of a person"}}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestABundleChecksAsWritten(t *testing.T) {
	dir := written(t)
	checked, err := Verify(dir)
	if err != nil || checked.Steps != 4 || checked.Rehearsal != Passed || len(checked.Index.Entries) != 10 {
		t.Errorf("%v %+v", err, checked)
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil || bytes.Contains(text, []byte("person")) || !bytes.Contains(text, []byte(`"text":"sha256:`)) {
		t.Errorf("the selector's text is in the shared manifest: %v", err)
	}
}

// Every byte of every file: one that changed is refused and the file is named.
func TestAnyAlteredByteIsRefused(t *testing.T) {
	dir := written(t)
	tried := 0
	for _, name := range append(names(t, dir), indexName) {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 0x01
			overwrite(t, path, bad)
			refusedFor(t, dir, name)
			tried++
		}
		overwrite(t, path, good[:len(good)-1])
		refusedFor(t, dir, name)
		overwrite(t, path, append(bytes.Clone(good), '\n'))
		refusedFor(t, dir, name)
		overwrite(t, path, good)
	}
	if _, err := Verify(dir); err != nil || tried < 3000 {
		t.Errorf("after %d changes were taken back: %v", tried, err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	checked, err := Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range checked.Index.Entries {
		all = append(all, e.Name)
	}
	return all
}

func refusedFor(t *testing.T, dir, name string) {
	t.Helper()
	_, err := Verify(dir)
	var refused *BundleError
	if !errors.As(err, &refused) || refused.File != name {
		t.Fatalf("%s was changed: %v", name, err)
	}
}

func overwrite(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file that is missing, one too much, and one that is no file are named.
func TestFilesAreThoseOfTheIndex(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(dir string) error
	}{
		{"verdicts.json", func(dir string) error { return os.Remove(filepath.Join(dir, "verdicts.json")) }},
		{"index.json", func(dir string) error { return os.Remove(filepath.Join(dir, "index.json")) }},
		{"more.txt", func(dir string) error { return os.WriteFile(filepath.Join(dir, "more.txt"), nil, 0o600) }},
		{"earlier/x", func(dir string) error { return os.WriteFile(filepath.Join(dir, "earlier", "x"), nil, 0o600) }},
		{"link", func(dir string) error { return os.Symlink("plans.json", filepath.Join(dir, "link")) }},
		{"plans.json", func(dir string) error {
			path := filepath.Join(dir, "plans.json")
			return errors.Join(os.Rename(path, filepath.Join(filepath.Dir(dir), "p")), os.Symlink(filepath.Join(filepath.Dir(dir), "p"), path))
		}},
	} {
		dir := written(t)
		if err := c.do(dir); err != nil {
			t.Fatal(err)
		}
		refusedFor(t, dir, c.name)
	}
}

// What is changed and sealed again is refused for what it says.
func TestMeaningIsChecked(t *testing.T) {
	for name, c := range map[string]struct{ file, from, to string }{
		"a step":            {"manifest.json", `"outage_ms":"57"`, `"outage_ms":"50"`},
		"an earlier step":   {"earlier/mig-0.json", `"outage_ms":"57"`, `"outage_ms":"50"`},
		"a verdict":         {"verdicts.json", `"passed":true`, `"passed":false`},
		"a timing":          {"timings.json", `"duration_ms":400`, `"duration_ms":40`},
		"a probe":           {"probes.json", `"model"`, `"loopx"`},
		"a plan":            {"plans.json", `"00aa"`, `"00ab"`},
		"a rehearsal":       {"rehearsal.json", `"found":true`, `"found":false`},
		"another goal":      {"rehearsal.json", `"goal_id":"harbour-crane"`, `"goal_id":"harbour-crank"`},
		"another's":         {"manifest.json", `"goal_id":"harbour-crane"`, `"goal_id":"harbour-crank"`},
		"a manifest's more": {"manifest.json", `{"fence"`, `{"a":1,"fence"`},
	} {
		dir := written(t)
		var files []File
		for _, n := range names(t, dir) {
			content, err := os.ReadFile(filepath.Join(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			if n == c.file {
				changed := strings.Replace(string(content), c.from, c.to, 1)
				if changed == string(content) {
					t.Fatalf("%s: %s has no %s", name, n, c.from)
				}
				content = []byte(changed)
			}
			files = append(files, File{n, content})
		}
		_, err := Write(filepath.Join(t.TempDir(), "again"), "harbour-crane", began, files, Private{})
		var refused *BundleError
		if !errors.As(err, &refused) || refused.File != c.file {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWriteLeavesAFullFolderAlone(t *testing.T) {
	dir := t.TempDir()
	overwrite(t, filepath.Join(dir, "theirs"), []byte("x"))
	_, err := Write(dir, "g", began, []File{{"a.json", []byte("{}\n")}}, Private{})
	var full *NotEmptyError
	if !errors.As(err, &full) || full.Found != "theirs" {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

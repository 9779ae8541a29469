package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// blocks returns the fenced blocks of a language in a Markdown file.
func blocks(t *testing.T, path, language string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, part := range strings.Split(string(text), "```"+language+"\n")[1:] {
		body, _, closed := strings.Cut(part, "```")
		if !closed {
			t.Fatalf("%s: a block of %s has no end", path, language)
		}
		found = append(found, body)
	}
	return found
}

// The two commands of the README: the first is run here, as a newcomer would; the
// second is what CI runs, and runs this test.
func TestREADMECommands(t *testing.T) {
	root := fixture.Root(t)
	commands := blocks(t, filepath.Join(root, "README.md"), "sh")
	want := []string{"go run ./cmd/loopx-migrate demo\n", "make check\n"}
	if !slices.Equal(commands, want) {
		t.Fatalf("the README's commands are %q, want %q", commands, want)
	}
	cmd := exec.Command("sh", "-c", commands[0])
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "is the authority") {
		t.Errorf("%s: %v\n%s", commands[0], err, out)
	}
	ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil || !strings.Contains(string(ci), "\n"+commands[1]) {
		t.Errorf(".ci/run does not run the README's test command: %v", err)
	}
}

// ofOneRun is what differs from run to run in a preview; … stands for what the README cuts.
var ofOneRun = regexp.MustCompile(`(mig|op)-[0-9a-f]{16}|(sqlite|sha256):[0-9a-f…]+|provider-[0-9a-f…]+|--runtime-root=\S+`)

// The README's preview is what the program prints, line by line.
func TestREADMEPreviewIsReal(t *testing.T) {
	shown := blocks(t, filepath.Join(fixture.Root(t), "README.md"), "console")[0]
	_, shown, _ = strings.Cut(shown, "\n") // the command
	root := filepath.Join(fixture.Copy(t, "goal-file-v0"), "runtime")
	got := run(t, "--runtime-root="+root, "--goal-id=harbour-crane", "freeze", "--to", "sqlite:").stdout
	plain := func(text string) string {
		text = ofOneRun.ReplaceAllString(text, "#")
		return regexp.MustCompile(`(?m)^  \S*loopx-migrate\S* #`).ReplaceAllString(strings.TrimSpace(text), "  loopx-migrate #")
	}
	if plain(got) != plain(shown) {
		t.Errorf("the README shows\n%s\nthe program prints\n%s", plain(shown), plain(got))
	}
}

// Every internal link of the documentation leads somewhere.
func TestDocumentationLinks(t *testing.T) {
	root := fixture.Root(t)
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", filepath.Base(path), m[1], err)
			}
		}
	}
}

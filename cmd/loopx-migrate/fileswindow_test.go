//go:build faultinject

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// window are the effects of a freeze between the frozen selector and the writer fence,
// by their numbers: right behind the first, in the middle, right before the second.
func window(t *testing.T, from *site) []int {
	t.Helper()
	c := crossing{run: filesFreeze}
	names := undisturbed(t, c, from)
	at := func(part string) int {
		return 1 + slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, " rename ") && strings.Contains(name, part) })
	}
	selector, kept, fence := at("-> authority/provider-"), at("/files.json"), at("-> authority-transition/file-v0/legacy-writer-fence-")
	if selector == 0 || kept <= selector || fence <= kept {
		t.Fatalf("the freeze publishes at effect %d, keeps at %d and fences at %d", selector, kept, fence)
	}
	return []int{selector + 1, kept, fence}
}

// An old LoopX heeds only the writer fence, so that a freeze that dies before it, behind
// the frozen selector, has stopped no such writer. What that one writes then is in the
// import when the freeze is resumed, and in the files when it is given up.
func TestFilesWrittenBeforeTheFence(t *testing.T) {
	from := filesSituation(t, filepath.Join(t.TempDir(), "runtime"))
	for _, n := range window(t, from) {
		for _, way := range []string{"resume", "abort"} {
			s, _ := from.copy()
			line := s.line(filesFreeze...)
			if r := s.exec([]string{fmt.Sprintf("LM_FAULT=kill:%d", n)}, line); !r.killed {
				t.Fatalf("effect %d: exit %d %s", n, r.Exit, r.Sentence)
			}
			s.writeLikeAnOldLoopX()
			if s.truth(); s.world.accepts() != "legacy" {
				t.Fatalf("effect %d: %q accepts writes", n, s.world.accepts())
			}
			s.do(way)
			want := "legacy"
			if way == "resume" {
				for _, command := range []string{"import", "compare", "promote"} {
					s.do(command)
				}
				want = "sqlite"
			}
			if s.truth(); s.world.accepts() != want {
				t.Errorf("effect %d, %s: %q accepts writes, want %q", n, way, s.world.accepts(), want)
			}
			if _, err := os.Stat(s.world.selector()); way == "abort" && !os.IsNotExist(err) {
				t.Errorf("effect %d: after the abort a selector stands there: %v", n, err)
			}
		}
	}
}

// writeLikeAnOldLoopX adds a Todo to the state file, as nothing stops it.
func (s *site) writeLikeAnOldLoopX() {
	s.t.Helper()
	text, err := os.ReadFile(s.world.state())
	if err != nil {
		s.t.Fatal(err)
	}
	todo := "- [ ] Came in between\n  <!-- loopx:todo todo_id=todo_zz_between status=open task_class=advancement_task -->\n\n## Next Action"
	writeFile(s.t, s.world.state(), []byte(strings.Replace(string(text), "\n## Next Action", todo, 1)))
	s.acknowledged = append(slices.Clone(s.acknowledged), "todo_zz_between")
}

// A lease that is taken in that window stands against the freeze: it cannot be resumed,
// which it says, and given up it leaves the files as they are.
func TestFilesLeasedBeforeTheFence(t *testing.T) {
	from := filesSituation(t, filepath.Join(t.TempDir(), "runtime"))
	for _, n := range window(t, from) {
		s, _ := from.copy()
		line := s.line(filesFreeze...)
		s.exec([]string{fmt.Sprintf("LM_FAULT=kill:%d", n)}, line)
		path := filepath.Join(s.world.leases(), "todo_fce99541009e.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		taken := strings.NewReplacer(`"released"`, `"active"`, "2026-12-01T15:47:19Z", "2099-12-01T15:47:19Z").Replace(string(text))
		writeFile(t, path, []byte(taken))
		r := s.exec(nil, s.line("resume"))
		if r.Exit != 6 || r.ReasonCode != "lease_active" || r.Next == nil || !slices.Contains(r.Next.Argv, "abort") {
			t.Errorf("effect %d: resume ends with %d %s: %s, next %v", n, r.Exit, r.ReasonCode, r.Sentence, r.Next)
		}
		if s.world.accepts() != "legacy" {
			t.Errorf("effect %d: %q accepts writes", n, s.world.accepts())
		}
		s.do("abort")
		if after, err := os.ReadFile(path); err != nil || string(after) != taken || s.world.accepts() != "legacy" {
			t.Errorf("effect %d: after the abort the lease is %s, %v", n, after, err)
		}
		if s.truth().Facts.State == "unfinished" {
			t.Errorf("effect %d: after the abort something is unfinished", n)
		}
	}
}

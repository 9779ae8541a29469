package legacy

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

type about struct {
	Goal     string   `json:"goal_id"`
	Revision string   `json:"provider_revision"`
	States   []string `json:"state_digests"`
}

// storedHead is a projection that LoopX 2.1.1 stored, in canonical form.
func storedHead(t testing.TB, name, file string) authority.Canonical {
	t.Helper()
	head, err := canonical.Append(nil, readFile(t, fixtures+"legacy-2.1.1/"+name+"/"+file))
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// TestDisplayIsLoopXs: from the same file and head the bytes are those that LoopX wrote.
func TestDisplayIsLoopXs(t *testing.T) {
	for _, name := range imported(t) {
		t.Run(name, func(t *testing.T) {
			dir := fixtures + "legacy-2.1.1/" + name
			facts := decode[about](t, dir+"/about.json")
			head := storedHead(t, name, "head.json")
			if got := authority.DigestOf(head).String(); got != facts.States[1] {
				t.Fatalf("the fixture's head has digest %s, LoopX's %s", got, facts.States[1])
			}
			shown, err := Display(beforeImport(t, name), head, authority.Revision(facts.Revision), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := readFile(t, dir+"/display.md")
			if !bytes.Equal(shown.State, want) {
				t.Errorf("got\n%s\nLoopX's\n%s", shown.State, want)
			}
			again, err := Display(want, head, authority.Revision(facts.Revision), nil)
			if err != nil || again.Changed {
				t.Errorf("a second time: %v, changed %v", err, again.Changed)
			}
		})
	}
}

func TestWatermarks(t *testing.T) {
	marks, err := Watermarks(readFile(t, fixtures+"legacy-2.1.1/small/display.md"))
	if err != nil || len(marks) != 2 || marks[0].Role != RoleUser || marks[1].Role != RoleAgent ||
		marks[0].Records != "482dba33ef36841dd9f26629d40e06509484f0450dd5ba2fd74254ae5f5380f7" {
		t.Errorf("%v, %v", marks, err)
	}
	if marks, err := Watermarks(stateOf(t, "small")); err != nil || marks != nil {
		t.Errorf("before a projection: %v, %v", marks, err)
	}
}

func TestDisplayRefusals(t *testing.T) {
	head := storedHead(t, "small", "head.json")
	state := stateOf(t, "small")
	change := func(old, new string) authority.Canonical {
		changed := bytes.Replace(head, []byte(old), []byte(new), 1)
		if bytes.Equal(changed, head) {
			t.Fatalf("%s is not in the head", old)
		}
		return changed
	}
	for name, try := range map[string]struct {
		state    []byte
		head     authority.Canonical
		revision authority.Revision
		reason   string
	}{
		"no section":     {[]byte("# A file\n"), head, "sqlite:1", "section_missing"},
		"two sections":   {append(bytes.Clone(state), "## Agent Todo\n"...), head, "sqlite:1", "section_repeated"},
		"revision":       {state, head, "a b", "revision_invalid"},
		"decision id":    {state, change(`"granularity":"project"`, `"decision_id":"todo_abc","granularity":"project"`), "sqlite:1", "field_not_expressible"},
		"unknown field":  {state, change(`"action_kind":"test"`, `"action_kind":"test","colour":"red"`), "sqlite:1", "field_not_expressible"},
		"empty text":     {state, change(`"text":"[P0] Implement the parser"`, `"text":""`), "sqlite:1", "text_not_expressible"},
		"line in a text": {state, change(`"text":"[P0] Implement the parser"`, `"text":"[P0] Implement\nthe parser"`), "sqlite:1", "text_not_expressible"},
		"validation":     {state, change(`"done":false`, `"completion_validation_required":true,"completion_validation_sha256":"00","done":false`), "sqlite:1", "validation_missing"},
		"claim":          {state, change(`"claimed_by":"alice"`, `"claimed_by":"Alice"`), "sqlite:1", "field_not_expressible"},
		"title":          {state, change(`"title":"Implement the parser"`, `"title":"Another"`), "sqlite:1", "parity_mismatch"},
	} {
		_, err := Display(try.state, try.head, try.revision, nil)
		var refused *RenderError
		if !errors.As(err, &refused) || refused.Reason != try.reason {
			t.Errorf("%s: %v, want %s", name, err, try.reason)
		}
	}
}

func TestDisplayKeepsProseAndNamesWhatVanishes(t *testing.T) {
	before := beforeImport(t, "complex-roles")
	head := storedHead(t, "complex-roles", "head.json")
	lost := bytes.Replace(before, []byte("todo_4f9a1ed45576 status=done role=agent"), []byte("todo_4f9a1ed45577 status=done role=agent"), 1)
	shown, err := Display(lost, head, "sqlite:2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(shown.Vanished) != 1 || shown.Vanished[0].TodoID != "todo_4f9a1ed45577" {
		t.Errorf("vanished: %v", shown.Vanished)
	}
	for _, prose := range []string{"- Line with trailing spaces   \n- Tab\tseparated\n", "~~~text\n- [x] EXAMPLE-C tilde fence\n~~~\n"} {
		if !strings.Contains(string(shown.State), prose) {
			t.Errorf("prose is gone: %q", prose)
		}
	}
	if bytes.Contains(shown.State, []byte("todo_4f9a1ed45577")) {
		t.Error("it is still there")
	}
}

// TestReturnOverADisplay: a file that LoopX displayed and that shows the head already
// keeps every byte, what it says of itself included; one that is written has no
// watermark left, since the store it names is no longer the authority, and keeps the
// markers of its regions.
func TestReturnOverADisplay(t *testing.T) {
	for _, name := range []string{"small", "crlf"} {
		kept := keptOf(t, name)
		kept.State = readFile(t, fixtures+"legacy-2.1.1/"+name+"/display.md")
		head := withoutGuesses(t, withMode(t, storedHead(t, name, "head.json"), kept), kept)
		marks, err := Watermarks(kept.State)
		if err != nil || len(marks) == 0 {
			t.Fatalf("%s: watermarks %v, %v", name, marks, err)
		}
		back, err := Return(kept, head, nil, caseClock)
		if err != nil || !bytes.Equal(back.State, kept.State) {
			t.Errorf("%s: %v, an unchanged head gave\n%s", name, err, back.State)
		}
		changed := mutate(head, func(_ string, m map[string][]byte) { m["note"] = literal("changed") })
		if back, err = Return(kept, changed, nil, caseClock); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if marks, err := Watermarks(back.State); err != nil || len(marks) != 0 {
			t.Errorf("%s: watermarks %v, %v after a change", name, marks, err)
		}
		for _, marker := range []string{"role=user begin -->", "role=agent end -->"} {
			if bytes.Count(back.State, []byte(marker)) != bytes.Count(kept.State, []byte(marker)) {
				t.Errorf("%s: the markers changed:\n%s", name, back.State)
			}
		}
	}
}

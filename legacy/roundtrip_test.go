package legacy

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// stateFiles are all state files of the fixtures and cases.
func stateFiles(t testing.TB) [][]byte {
	t.Helper()
	var files [][]byte
	for _, root := range []string{fixtures + "legacy", fixtures + "legacy-2.1.1", "../testdata/cases"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			name := filepath.Base(path)
			if err == nil && (name == "ACTIVE_GOAL_STATE.md" || name == "display.md" || name == "before.md") {
				files = append(files, readFile(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 40 {
		t.Fatalf("only %d state files", len(files))
	}
	return files
}

func TestRoundTrip(t *testing.T) {
	for _, file := range stateFiles(t) {
		checkSpans(t, file)
	}
}

// checkSpans: joined the spans are the file, none is empty, none overlaps.
func checkSpans(t testing.TB, file []byte) {
	t.Helper()
	d := Parse(file)
	at := 0
	for _, s := range d.Spans() {
		if s.Start != at || s.End <= s.Start || s.Line < 1 {
			t.Fatalf("span %+v, expected to start at %d", s, at)
		}
		at = s.End
	}
	if at != len(file) || !bytes.Equal(d.Bytes(), file) {
		t.Fatalf("%d of %d bytes, or others", at, len(file))
	}
}

// TestSpans: what the spans of a small file are.
func TestSpans(t *testing.T) {
	const file = "---\na: b\n---\n# T\n\n## Agent Todo\nprose\n- [ ] One\n  more\n  <!-- loopx:todo todo_id=todo_one -->\n```\n- [ ] no\n```\n<!--\nx\n-->\n## End"
	want := []SpanKind{SpanFrontMatter, SpanProse, SpanHeading, SpanProse, SpanTodo, SpanContinuation, SpanMetadata, SpanFence, SpanComment, SpanHeading}
	spans := Parse([]byte(file)).Spans()
	if len(spans) != len(want) {
		t.Fatalf("%+v", spans)
	}
	for i, s := range spans {
		if s.Kind != want[i] || (s.Row == 0) != (i >= 4 && i <= 6) {
			t.Errorf("span %d: %+v", i, s)
		}
	}
}

// FuzzRoundTrip: whatever the bytes, the spans are the file; no reading fails in another
// way than by its own error; what can be carried over comes back as the same bytes.
func FuzzRoundTrip(f *testing.F) {
	for _, file := range stateFiles(f) {
		f.Add(file)
	}
	f.Add([]byte("- [ ] a\u2028## Agent Todo\r- [x]  \x1c  <!-- loopx:todo x=%ff%zz status=done -->"))
	clock := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, file []byte) {
		checkSpans(t, file)
		kept := Files{Goal: "g", State: file}
		g := Inspect(kept, clock)
		g.Counts()
		g.Outside()
		head, err := g.Projection()
		if err != nil {
			return
		}
		if err := CheckHead(head); err != nil {
			t.Fatalf("our own head: %v", err)
		}
		back, err := Return(kept, head, nil, clock)
		if err != nil {
			t.Fatalf("%v: %s", err, head)
		}
		if !bytes.Equal(back.State, file) {
			t.Fatalf("an unchanged head gave another file: %q", back.State)
		}
		fuzzReturn(t, kept, head, clock)
	})
}

// fuzzReturn changes every Todo of a head and adds one: either the way back is refused,
// or its files hold exactly that head. Return proves the prose; a line of the old file
// that is neither empty nor a Todo's must be in the new one.
func fuzzReturn(t *testing.T, kept Files, head authority.Canonical, clock time.Time) {
	changed := mutate(head, func(_ string, m map[string][]byte) {
		m["note"] = literal("changed")
		if text(m["role"]) == "user" {
			m["text"], m["archive_state"] = literal("moved"), literal("archive")
			delete(m, "priority")
			delete(m, "title")
		}
	})
	changed = withTodos(changed, append(elements(members(changed)["todos"]), object(map[string][]byte{"schema_version": literal(ItemLegacy),
		"todo_id": literal("todo_fresh"), "role": literal("user"), "status": literal("open"), "done": boolean(false), "text": literal("fresh"),
		"archive_state": literal("active"), "source_section": literal(HeadingUser)})))
	back, err := Return(kept, changed, nil, clock)
	if err != nil {
		var render *RenderError
		// A lone CR before a line that goes and a line feed after it would make one line
		// end of two; that is refused. Nothing else may change prose.
		lone := bytes.Contains(bytes.ReplaceAll(kept.State, []byte("\r\n"), nil), []byte("\r"))
		if errors.As(err, &render) && render.Reason == "prose_changed" && !lone {
			t.Fatalf("%v: %q", err, kept.State)
		}
		return
	}
	g := Inspect(Files{Goal: kept.Goal, State: back.State}, clock)
	again, err := g.Projection()
	if err != nil || len(elements(members(again)["todos"])) != len(elements(members(changed)["todos"])) {
		t.Fatalf("%v: %q", err, back.State)
	}
	if !bytes.Equal(members(Compatible(again))["todos"], members(Compatible(changed))["todos"]) {
		t.Fatalf("another head: %q", back.State)
	}
}

// TestReturnIntoRandomFiles: heads that changed go back into files as odd as they come.
func TestReturnIntoRandomFiles(t *testing.T) {
	clock := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	tried := 0
	for _, a := range answers[struct{ Text, Error string }](t, "documents.jsonl") {
		if a.Error != "" {
			continue
		}
		kept := Files{Goal: "g", State: identified(t, []byte(a.Text))}
		head, err := Inspect(kept, clock).Projection()
		if err != nil {
			continue
		}
		tried++
		fuzzReturn(t, kept, head, clock)
	}
	if tried < 200 {
		t.Errorf("only %d files could be carried over", tried)
	}
}

// identified gives each Todo of a file an id of its own.
func identified(t *testing.T, state []byte) []byte {
	t.Helper()
	e := editor{doc: Parse(state)}
	l, err := e.doc.Read(Later)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range l.Rows {
		last := row.parts[len(row.parts)-1].line
		e.after(last, []string{"  <!-- loopx:todo todo_id=todo_row" + decimal(i) + " -->"})
	}
	return e.apply()
}

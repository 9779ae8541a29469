package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// TestTablesFit: whatever stands in a table, on a terminal no line is wider than 80
// columns and nothing is lost; in a pipe each row is one line.
func TestTablesFit(t *testing.T) {
	cell := rapid.StringMatching(`[a-z_日é😀]{0,50}( [a-z/.-]{1,90}){0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 7).Draw(t, "columns")
		b := block{}
		if rapid.Bool().Draw(t, "head") {
			for range columns {
				b.head = append(b.head, rapid.StringMatching(`[a-z_]{1,12}`).Draw(t, "name"))
			}
		}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			r := row{failing: rapid.Bool().Draw(t, "failing")}
			for range columns {
				r.cells = append(r.cells, cell.Draw(t, "cell"))
			}
			b.rows = append(b.rows, r)
		}
		var fancy, plain bytes.Buffer
		if err := b.render(&fancy, true); err != nil {
			t.Fatal(err)
		}
		if err := b.render(&plain, false); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(fancy.String()) {
			if w := twwidth.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("%d columns:\n%s", w, fancy.String())
			}
		}
		if lines := strings.Count(plain.String(), "\n"); lines > len(b.rows)+1 {
			t.Fatalf("%d rows in %d lines:\n%s", len(b.rows), lines, plain.String())
		}
	})
}

func TestFailingRowsComeFirst(t *testing.T) {
	b := block{head: []string{"todo_id"}, rows: []row{{cells: []string{"a"}}, {cells: []string{"b"}, failing: true}, {cells: []string{"c"}}, {cells: []string{"d"}, failing: true}}}
	var out bytes.Buffer
	if err := b.render(&out, false); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(out.String()); !slices.Equal(got, []string{"todo_id", "b", "d", "a", "c"}) {
		t.Errorf("%v", got)
	}
}

// TestShellLine gives quoted words to a shell and reads them back.
func TestShellLine(t *testing.T) {
	word := rapid.StringMatching(`[ -~\n'"$\\é]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 5).Draw(t, "words")
		out, err := exec.Command("sh", "-c", "printf '%s\\0' "+shellLine(words)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
			t.Fatalf("%q became %q", words, got)
		}
	})
}

// TestPlainProgress: rate, done, total and time left, and silence while work is short.
func TestPlainProgress(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	m := &meter{out: &out, now: func() time.Time { return now }, mode: "plain"}
	for _, done := range []uint64{256, 1000, 2000} {
		m.watch(cutover.Progress{Act: "copy", Arm: "sqlite", Done: done, Total: 10000})
		now = now.Add(2 * time.Second)
	}
	if got, want := out.String(), "copy sqlite: 2000 of 10000 rows, 500 rows/s, 16s left\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWidthOfWrap: words that fit stay whole.
func TestWrap(t *testing.T) {
	if got := wrap("one two three", 7); got != "one two\nthree" {
		t.Errorf("%q", got)
	}
	if got := wrap("abcdefghij kl", 4); got != "abcd\nefgh\nij\nkl" {
		t.Errorf("%q", got)
	}
}

// A step proves one cursor, whatever else its facts name: a cutover copied through the
// same one that it ended at, an import may have copied less.
func TestProvedCursorIsOne(t *testing.T) {
	for want, facts := range map[string]map[string]string{
		"cursor 231": {"cursor": "231", "copied_through": "231"},
		"cursor 230": {"copied_through": "230"},
		"cursor 7":   {"cursor": "7"},
	} {
		b := provedBlock(&manifest.Manifest{Steps: []manifest.Step{{Command: "cutover", Facts: facts}}})
		if got := b.rows[0].cells[3]; got != want {
			t.Errorf("%v is shown as %q, want %q", facts, got, want)
		}
	}
}

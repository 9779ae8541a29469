package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store"
)

// object is what --output json printed, as far as tests look at it.
type object struct {
	Status     string `json:"status"`
	ReasonCode string `json:"reason_code"`
	Sentence   string `json:"sentence"`
	Exit       int    `json:"exit"`
	Facts      struct {
		Stores []struct {
			Kind         string              `json:"kind"`
			Verified     bool                `json:"verified"`
			Format       string              `json:"format"`
			Cursor       string              `json:"cursor"`
			Transactions int                 `json:"transactions"`
			Receipts     int                 `json:"receipts"`
			Findings     []authority.Finding `json:"findings"`
			Defect       map[string]any      `json:"defect"`
		} `json:"stores"`
		Holds       []cutover.Hold `json:"holds"`
		WriterFence struct {
			FenceID string `json:"fence_id"`
		} `json:"writer_fence"`
		Where    map[string]any    `json:"where"`
		Replayed bool              `json:"replayed"`
		Result   map[string]any    `json:"result"`
		Observed map[string]string `json:"observed_now"`
	} `json:"facts"`
	Next *struct {
		Argv []string `json:"argv"`
	} `json:"next"`
}

// ask runs a command with --output json and demands its exit status.
func ask(t *testing.T, exit int, args ...string) object {
	t.Helper()
	got := run(t, append([]string{"--output=json"}, args...)...)
	var o object
	if err := json.Unmarshal([]byte(got.stdout), &o); err != nil {
		t.Fatalf("%v: stdout is not one object: %v\n%s%s", args, err, got.stdout, got.stderr)
	}
	if got.exit != exit || o.Exit != exit {
		t.Fatalf("%v: exit %d (object says %d), want %d\n%s%s", args, got.exit, o.Exit, exit, got.stdout, got.stderr)
	}
	if got.stderr != "" {
		t.Errorf("%v: stderr is not empty: %s", args, got.stderr)
	}
	return o
}

// flags name the Goal of a case.
func flags(dir, goal string) []string {
	return []string{"--registry=" + filepath.Join(dir, "project", ".loopx", "registry.json"), "--goal-id=" + goal}
}

func with(flags []string, args ...string) []string {
	return append(append([]string{}, flags...), args...)
}

// engage makes a case's Goal a file Goal: an engaged writer fence as LoopX writes it
// and a journal of a few transactions.
func engage(t *testing.T, dir, goal string, transactions int) {
	t.Helper()
	writeFence(t, dir, goal)
	fixture.FileV0(t, filepath.Join(dir, "runtime", "authority", "file-v0"), goal, func(yield func(fixture.Step) bool) {
		for step := range fixture.History(1, transactions, 8, 60) {
			for _, text := range []*[]byte{&step.Events, &step.Projection, &step.Receipts} {
				*text = bytes.ReplaceAll(*text, []byte(`"goal_id":"`+fixture.HistoryGoal+`"`), []byte(`"goal_id":"`+goal+`"`))
			}
			if !yield(step) {
				return
			}
		}
	})
}

func writeFence(t *testing.T, dir, goal string) {
	t.Helper()
	place, err := authority.NewPlace(filepath.Join(dir, "runtime"), goal)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(map[string]string{
		"schema_version": "loopx_legacy_coordination_writer_fence_v0", "state": "engaged", "goal_id": goal, "fence_id": "test-fence",
		"source_version": "test", "source_projection_sha256": strings.Repeat("0", 64), "expected_shadow_provider_revision": "file:1:test",
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, place.WriterFence(), append(text, '\n'))
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// execute previews a command and runs the line that the preview printed.
func execute(t *testing.T, exit int, args ...string) object {
	t.Helper()
	preview := ask(t, 0, args...)
	if preview.Next == nil {
		t.Fatalf("%v: the preview printed no line to run next", args)
	}
	return ask(t, exit, preview.Next.Argv[2:]...) // after the program and --output=json
}

func TestCase30FenceWithoutCanonicalHead(t *testing.T) {
	dir := fixture.Case(t, "30-fence-without-canonical-head")
	before := fixture.TreeHash(t, dir)
	g := flags(dir, "half-goal")
	seen := ask(t, 6, with(g, "inspect")...)
	if seen.ReasonCode != "authority_missing" || seen.Facts.WriterFence.FenceID != "fence-1" {
		t.Errorf("inspect says %s and shows fence %q", seen.ReasonCode, seen.Facts.WriterFence.FenceID)
	}
	for _, command := range []string{"promote", "rollback", "abort"} {
		ask(t, 3, with(g, command)...)
	}
	ask(t, 6, with(g, "freeze", "--to", "sqlite:")...)
	fixture.Unchanged(t, dir, before)
}

func TestCase32RuntimeRootByAnotherName(t *testing.T) {
	dir := fixture.Case(t, "32-runtime-root-by-another-name")
	engage(t, dir, "root-goal", 5)
	g := flags(dir, "root-goal")
	execute(t, 0, with(g, "freeze", "--to=sqlite:", "--runtime-root="+filepath.Join(dir, "rt2"))...)
	var first string
	for _, root := range []string{"", "rt2", "./x/../runtime", "runtime"} {
		args := with(g, "status")
		if root != "" {
			args = append(args, "--runtime-root="+root)
		}
		cmd := exec.Command("loopx-migrate", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", root, err)
		}
		about, _, _ := strings.Cut(string(out), "\nnext:")
		if first == "" {
			first = about
		}
		if about != first || !strings.Contains(about, filepath.Join(dir, "runtime")+"\n") {
			t.Errorf("root %q: another answer\n%s", root, about)
		}
	}
	other := t.TempDir()
	if got := ask(t, 3, with(g, "inspect", "--runtime-root="+other)...); got.ReasonCode != "two_runtime_roots" {
		t.Errorf("a root beside the registry's: %s", got.ReasonCode)
	}
}

func TestCase35ShadowCaptureStillOpen(t *testing.T) {
	dir := fixture.Case(t, "35-shadow-capture-still-open")
	engage(t, dir, "out-goal", 5)
	before := fixture.TreeHash(t, dir)
	g := flags(dir, "out-goal")
	held := ask(t, 3, with(g, "freeze", "--to", "sqlite:")...)
	var records []string
	for _, h := range held.Facts.Holds {
		records = append(records, h.Record)
	}
	for _, entry := range []string{"todos/00000001.prepared.json", "todos/00000002.committed.json"} {
		if !strings.Contains(strings.Join(records, " "), entry) {
			t.Errorf("the entry %s is not named in %v", entry, records)
		}
	}
	fixture.Unchanged(t, dir, before)
	if err := os.RemoveAll(filepath.Join(dir, "runtime", "authority-shadow")); err != nil {
		t.Fatal(err)
	}
	execute(t, 0, with(g, "freeze", "--to", "sqlite:")...)
}

func TestCase36JournalGoodBaseline(t *testing.T) {
	dir := fixture.Case(t, "36-journal-good-baseline")
	g := flags(dir, "j-good")
	seen := ask(t, 0, with(g, "inspect")...)
	if s := seen.Facts.Stores[0]; s.Transactions != 3 || s.Receipts != 3 || s.Cursor != "3" || !s.Verified {
		t.Errorf("inspect: %+v", s)
	}
	target := "sqlite:" + filepath.Join(dir, "t.db")
	execute(t, 0, with(g, "import", "--from", "file:", "--to", target)...)
	ask(t, 0, with(g, "compare", "--left", "file:", "--right", target)...)
	sameRows(t, dir, filepath.Join(dir, "t.db"))
}

// sameRows compares the copy with the case's document as encoding/json reads it.
func sameRows(t *testing.T, dir, database string) {
	t.Helper()
	var document struct {
		Committed []fixture.Row `json:"committed"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "runtime", "authority", "file-v0", fixture.JournalName("j-good")))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	copied, err := store.Opener{}.Open(t.Context(), cutover.Ref{Kind: authority.KindSQLite, Goal: "j-good", Path: database})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}()
	page, err := copied.Scan(t.Context(), 1, 1)
	if err != nil || len(page.Transactions) != 1 || !page.HasMore || page.Next != 2 {
		t.Fatalf("scan after 1, limit 1: %+v, %v", page, err)
	}
	want := document.Committed[1]
	got := page.Transactions[0]
	for name, pair := range map[string][2][]byte{"events": {got.Events, want.Events}, "receipts": {got.Receipts, want.Receipts}, "projection": {got.Projection, want.Projection}} {
		if !sameJSON(t, pair[0], pair[1]) {
			t.Errorf("%s differ:\n%s\n%s", name, pair[0], pair[1])
		}
	}
	for _, row := range document.Committed {
		receipt, err := copied.Receipt(t.Context(), string(row.OperationID))
		if err != nil || receipt.Cursor.String() != row.Cursor || !sameJSON(t, receipt.Receipts, row.Receipts) {
			t.Errorf("receipt of %s: %+v, %v", row.OperationID, receipt, err)
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var left, right any
	if err := json.Unmarshal(a, &left); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &right); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(left) == fmt.Sprint(right)
}

func TestCase38JournalLineageBrokenNineWays(t *testing.T) {
	dir := fixture.Case(t, "38-journal-lineage-broken-nine-ways")
	before := fixture.TreeHash(t, dir)
	details := map[string]string{}
	for i := 1; i <= 9; i++ {
		goal := fmt.Sprintf("j-l%d", i)
		seen := ask(t, 3, with(flags(dir, goal), "inspect")...)
		if s := seen.Facts.Stores[0]; s.Verified || s.Defect["class"] != "failed" {
			t.Errorf("%s: %+v", goal, s)
		}
		reason := fmt.Sprintf("%v %v %v", seen.Facts.Where["detail"], seen.Facts.Where["cursor"], seen.Facts.Where["field"])
		if other, taken := details[reason]; taken {
			t.Errorf("%s and %s have one reason: %s", goal, other, reason)
		}
		details[reason] = goal
		if got := ask(t, 3, with(flags(dir, goal), "verify", "file:")...); got.ReasonCode == "store_missing" {
			t.Errorf("%s: verify says missing", goal)
		}
		ask(t, 3, with(flags(dir, goal), "import", "--from", "file:", "--to", "sqlite:"+filepath.Join(dir, "t.db"))...)
	}
	fixture.Unchanged(t, dir, before)
}

func TestCase40JournalOfTheNextFormat(t *testing.T) {
	dir := fixture.Case(t, "40-journal-of-the-next-format")
	seen := ask(t, 0, with(flags(dir, "j-v1"), "inspect")...)
	if s := seen.Facts.Stores[0]; s.Format != "file-v1" || s.Transactions != 2 || !s.Verified {
		t.Errorf("%+v", s)
	}
}

// TestCasesOfOddSpellings: journals that LoopX reads and other readers stumble over.
func TestCasesOfOddSpellings(t *testing.T) {
	for _, c := range []struct{ name, goal, finding string }{
		{"41-keys-that-look-like-integers", "j-int", ""},
		{"43-numbers-in-three-languages", "j-num", authority.FindingInexactInteger},
		{"47-proto-empty-and-twin-keys", "j-key", authority.FindingDuplicateKey},
	} {
		t.Run("Case"+c.name, func(t *testing.T) {
			dir := fixture.Case(t, c.name)
			seen := ask(t, 0, with(flags(dir, c.goal), "inspect")...)
			s := seen.Facts.Stores[0]
			if !s.Verified {
				t.Fatalf("%+v", s)
			}
			found := c.finding == ""
			for _, f := range s.Findings {
				found = found || f.Code == c.finding
			}
			if !found {
				t.Errorf("%s is not reported: %+v", c.finding, s.Findings)
			}
			execute(t, 0, with(flags(dir, c.goal), "import", "--from", "file:", "--to", "sqlite:"+filepath.Join(dir, "t.db"))...)
			ask(t, 0, with(flags(dir, c.goal), "compare", "--left", "file:", "--right", "sqlite:"+filepath.Join(dir, "t.db"))...)
		})
	}
}

func TestCase49HeadOfAnOlderContract(t *testing.T) {
	dir := fixture.Case(t, "49-head-of-an-older-contract")
	old := ask(t, 0, with(flags(dir, "j-old"), "inspect")...)
	if len(old.Facts.Holds) != 0 {
		t.Errorf("j-old is held: %+v", old.Facts.Holds)
	}
	if old.Next != nil || !strings.Contains(old.Sentence, "journal_not_authority") {
		t.Errorf("a freeze that journal_not_authority refuses: %q, next %v", old.Sentence, old.Next)
	}
	ask(t, 3, with(flags(dir, "j-old"), "freeze", "--to", "sqlite:")...)
	target := "sqlite:" + filepath.Join(dir, "t.db")
	execute(t, 0, with(flags(dir, "j-old"), "import", "--from", "file:", "--to", target)...)
	ask(t, 0, with(flags(dir, "j-old"), "compare", "--left", "file:", "--right", target)...)
	odd := ask(t, 3, with(flags(dir, "j-odd"), "inspect")...)
	if odd.ReasonCode != "contract_unknown" || odd.Facts.Holds[0].Record != "note" {
		t.Errorf("j-odd: %s %+v", odd.ReasonCode, odd.Facts.Holds)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

func TestCase28TwoFamiliesOfLocks(t *testing.T) {
	for family, hold := range map[string]func(*testing.T, string) (release func()){"kernel": holdKernel, "marker": holdMarker} {
		t.Run(family, func(t *testing.T) {
			dir := fixture.Case(t, "28-two-families-of-locks")
			engage(t, dir, "lock-goal", 5)
			state := filepath.Join(dir, "project", ".codex", "goals", "lock-goal", "ACTIVE_GOAL_STATE.md")
			g := append(flags(dir, "lock-goal"), "--lock-timeout=300ms")
			preview := ask(t, 0, with(g, "freeze", "--to", "sqlite:")...)
			release := hold(t, state)
			busy := ask(t, 7, preview.Next.Argv[2:]...)
			if busy.ReasonCode != "lock_timeout" || busy.Facts.Where["holder_pid"] != float64(os.Getpid()) {
				t.Errorf("%s, %v", busy.ReasonCode, busy.Facts.Where)
			}
			if got := ask(t, 0, with(g, "status")...); got.Status != "none" {
				t.Errorf("after a freeze that gave up, status is %s", got.Status)
			}
			if _, err := os.Stat(state + map[string]string{"kernel": ".lock", "marker": ".ts-effect.lock"}[family]); err != nil {
				t.Errorf("another process's lock file is gone: %v", err)
			}
			release()
			ask(t, 0, preview.Next.Argv[2:]...)
			if _, err := os.Stat(state + ".lock"); err != nil {
				t.Errorf("the .lock artifact did not stay: %v", err)
			}
		})
	}
}

// holdKernel takes the flock that LoopX's Python writers take.
func holdKernel(t *testing.T, state string) func() {
	file, err := os.OpenFile(state+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { file.Close() }
}

// holdMarker leaves the marker that LoopX's TypeScript writers leave.
func holdMarker(t *testing.T, state string) func() {
	path := state + ".ts-effect.lock"
	writeFile(t, path, fmt.Appendf(nil, `{"pid":%d,"token":"case-28"}`, os.Getpid()))
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func TestCase52DatabaseOfSomebodyElse(t *testing.T) {
	dir := fixture.Case(t, "52-database-of-somebody-else")
	g := flags(dir, "sq-own")
	details := map[string]string{}
	for _, name := range []string{"d1.db", "d3.db", "d4.db", "d5.db"} {
		before := fixture.TreeHash(t, dir)
		preview := ask(t, 0, with(g, "import", "--from", "file:", "--to", "sqlite:"+filepath.Join(dir, name))...)
		refused := ask(t, 3, preview.Next.Argv[2:]...)
		detail := fmt.Sprint(refused.Facts.Where["detail"])
		if other, taken := details[detail]; taken {
			t.Errorf("%s and %s have one reason: %s", name, other, detail)
		}
		details[detail] = name
		fixture.Unchanged(t, dir, before)
	}
	execute(t, 0, with(g, "import", "--from", "file:", "--to", "sqlite:"+filepath.Join(dir, "d2.db"))...)
}

// TestForeignDatabaseInTheWay: whatever stands at LoopX's own place holds a migration there.
func TestForeignDatabaseInTheWay(t *testing.T) {
	dir := fixture.Copy(t, "goal-file-v0")
	g := []string{"--runtime-root=" + filepath.Join(dir, "runtime"), "--goal-id=harbour-crane"}
	place, err := authority.NewPlace(filepath.Join(dir, "runtime"), "harbour-crane")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, place.Database(), []byte("hello\n"))
	// A database and no selector: LoopX refuses everything then, and so do we.
	if got := ask(t, 6, with(g, "freeze", "--to", "sqlite:")...); got.ReasonCode != "selector_missing" {
		t.Errorf("no selector: %s", got.ReasonCode)
	}
	expected := fixture.ExpectedGoal(t, "goal-file-v0")
	writeFile(t, place.Selector(), fmt.Appendf(nil, `{"schema_version":"loopx_local_authority_provider_v0","provider":"file","goal_id":"harbour-crane","store_identity":%q}`, expected.StoreIdentity))
	held := ask(t, 3, with(g, "freeze", "--to", "sqlite:")...)
	if held.ReasonCode != "target_in_the_way" {
		t.Errorf("a selector that names file: %s", held.ReasonCode)
	}
}

func TestCase56DatabaseCopiedWithoutItsWAL(t *testing.T) {
	dir := fixture.Case(t, "56-database-copied-without-its-wal")
	g := flags(dir, "wal-goal")
	database, other := filepath.Join(dir, "t.db"), filepath.Join(dir, "b.db")
	execute(t, 0, with(g, "import", "--from", "file:", "--to", "sqlite:"+database)...)
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if _, err := os.Stat(database + suffix); err == nil {
			t.Errorf("t.db%s is left behind", suffix)
		}
	}
	text, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, other, text)
	ask(t, 0, with(g, "compare", "--left", "file:", "--right", "sqlite:"+other)...)
	e := newEnv("loopx-migrate", os.Stdout, os.Stderr)
	applied, err := e.commitMark(t.Context(), cutover.Ref{Kind: authority.KindSQLite, Goal: "wal-goal", Path: database, Access: cutover.AccessWrite}, "later", "test_event_v1")
	if err != nil {
		t.Fatal(err)
	}
	behind := run(t, with(g, "compare", "--left", "sqlite:"+database, "--right", "sqlite:"+other)...)
	if behind.exit != 4 || !strings.Contains(behind.stdout, "cursor "+applied.Cursor.String()) {
		t.Errorf("exit %d; the missing cursor %s is not named:\n%s", behind.exit, applied.Cursor, behind.stdout)
	}
}

func TestCase59LibraryWithTheWALResetBug(t *testing.T) {
	linked := sqlitestore.Version()
	if !sqlitestore.AdmittedByLoopX(linked.Version) {
		t.Errorf("LoopX would not open what this build's SQLite %s writes", linked.Version)
	}
	got := run(t, "version", "--output", "json")
	var answer struct {
		Facts struct {
			SQLite struct {
				Version  string `json:"version"`
				SourceID string `json:"source_id"`
				Admitted bool   `json:"admitted_by_loopx"`
			} `json:"sqlite"`
		} `json:"facts"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatal(err)
	}
	if s := answer.Facts.SQLite; s.Version != linked.Version || len(s.SourceID) < 40 || !s.Admitted {
		t.Errorf("%+v", s)
	}
}

func TestCase75FlagsAfterTheArgument(t *testing.T) {
	dir := fixture.Case(t, "75-flags-after-the-argument")
	before := fixture.TreeHash(t, dir)
	g := flags(dir, "flag-goal")
	for _, args := range [][]string{
		{"promote", "flag-goal", g[0], "--dry-run"},
		{"promote", "flag-goal", g[0], "--execute"},
		with(g, "freeze", "extra", "--bundle", "x"),
		with(g, "freeze", "extra"),
		{"freeze", "--", "--goal"},
	} {
		if got := ask(t, 2, args...); got.Status != "usage" {
			t.Errorf("%v: %s", args, got.Status)
		}
	}
	fixture.Unchanged(t, dir, before)
}

func TestCase77TableForPeopleJSONForMachines(t *testing.T) {
	dir := fixture.Case(t, "77-table-for-people-json-for-machines")
	g := flags(dir, "tab-goal")
	if got := run(t, with(g, "inspect")...); got.exit != 0 || !strings.Contains(got.stdout, "legacy") {
		t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	ask(t, 0, with(g, "inspect")...)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	var complaint bytes.Buffer
	if exit := newEnv("loopx-migrate", full, &complaint).run(t.Context(), with(g, "inspect")); exit != 1 || complaint.Len() == 0 {
		t.Errorf("exit %d, %q", exit, complaint.String())
	}
}

func TestCase79StateInTheNewFolder(t *testing.T) {
	dir := fixture.Case(t, "79-state-in-the-new-folder")
	before := fixture.TreeHash(t, dir)
	second, err := os.ReadFile(filepath.Join(dir, "project", ".loopx", "goals", "two-homes", "ACTIVE_GOAL_STATE.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := ask(t, 3, with(flags(dir, "two-homes"), "inspect")...)
	if len(seen.Facts.Holds) != 1 {
		t.Fatalf("%+v", seen.Facts.Holds)
	}
	hold := seen.Facts.Holds[0]
	if hold.Code != "second_state_file" || !strings.HasPrefix(hold.Record, ".loopx/goals/") || !strings.Contains(hold.Detail, fixture.SHA256(second)) {
		t.Errorf("%+v", hold)
	}
	fixture.Unchanged(t, dir, before)
}

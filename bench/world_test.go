package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/perf"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// scratch holds programs and Goals of one run.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "loopx-migrate-bench-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(scratch); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// released is the program as it is given away; broken is it with the seam at which
// it can be made to wait.
var (
	released = sync.OnceValues(func() (string, error) {
		return build("loopx-migrate", "../cmd/loopx-migrate", "-trimpath", "-ldflags", "-s -w")
	})
	broken = sync.OnceValues(func() (string, error) {
		return build("loopx-migrate-broken", "../cmd/loopx-migrate", "-tags", "faultinject")
	})
)

func build(name, folder string, flags ...string) (string, error) {
	path := filepath.Join(scratch, name)
	said, err := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), folder)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build %s: %w\n%s", folder, err, said)
	}
	return path, err
}

func program(b *testing.B, get func() (string, error)) string {
	b.Helper()
	path, err := get()
	must(b, err)
	return path
}

// load is a history to be measured with.
type load struct {
	name   string
	format string // v0, v1, or respelled: v0 with blanks
	rows   int
	todos  int
	text   int // bytes of each Todo's text
}

// kib64 are rows of 64 KiB of which consecutive ones differ in one record.
func kib64(format string, rows int) load {
	return load{name: fmt.Sprintf("%s-%dx64KiB", format, rows), format: format, rows: rows, todos: 64, text: 550}
}

func (l load) steps() iter.Seq[fixture.Step] { return fixture.History(1, l.rows, l.todos, l.text) }

// goal is a runtime root with one Goal whose authority is its journal.
type goal struct {
	runtime string
	journal string
}

const fileDir = "authority/file-v0"

func goalAt(dir string) goal {
	runtime := filepath.Join(dir, "runtime")
	return goal{runtime: runtime, journal: filestore.DocumentPath(filepath.Join(runtime, fileDir), fixture.HistoryGoal)}
}

// newGoal lays out fixture goal-file-v0 with the journal of a load in place of its own.
func newGoal(b *testing.B, l load) goal {
	b.Helper()
	g := goalAt(fixture.Copy(b, "goal-file-v0"))
	dir := filepath.Dir(g.journal)
	must(b, os.RemoveAll(dir))
	must(b, os.Mkdir(dir, 0o700))
	switch l.format {
	case "v1":
		must(b, os.WriteFile(filestore.IdentityPath(dir), []byte(fixture.Identity), 0o600))
		g.append(b, l.steps())
	case "respelled":
		fixture.FileV0(b, dir, fixture.HistoryGoal, l.steps())
		respell(b, g.journal)
	default:
		fixture.FileV0(b, dir, fixture.HistoryGoal, l.steps())
	}
	return g
}

func respell(b *testing.B, path string) {
	b.Helper()
	text, err := os.Open(path)
	must(b, err)
	out, err := os.Create(path + ".respelled")
	must(b, err)
	_, err = io.Copy(fixture.Respelled(out), text)
	must(b, errors.Join(err, text.Close(), out.Close(), os.Rename(path+".respelled", path)))
}

// append commits rows to the journal as LoopX's writer would, at once.
func (g goal) append(b *testing.B, steps iter.Seq[fixture.Step]) {
	b.Helper()
	store, err := filestore.Open(filestore.Options{Dir: filepath.Dir(g.journal), GoalID: fixture.HistoryGoal})
	must(b, err)
	head, err := store.Load(b.Context())
	if !errors.Is(err, authority.ErrMissing) {
		must(b, err)
	}
	rows := func(yield func(authority.Transaction, error) bool) {
		for s := range steps {
			if !yield(authority.Transaction{OperationID: s.OperationID, Events: s.Events, Projection: s.Projection, Receipts: s.Receipts}, nil) {
				return
			}
		}
	}
	_, err = store.Append(b.Context(), authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, rows)
	must(b, err)
}

// copied is the same Goal in another folder.
func (g goal) copied(b *testing.B) goal {
	b.Helper()
	dir := b.TempDir()
	must(b, os.CopyFS(filepath.Join(dir, "runtime"), os.DirFS(g.runtime)))
	return goalAt(dir)
}

func (g goal) line(path string, words ...string) []string {
	return append([]string{path, "--runtime-root", g.runtime, "--goal-id", fixture.HistoryGoal, "--output", "json", "--progress", "none"}, words...)
}

// answer is what a command printed, as far as it is looked at.
type answer struct {
	Facts map[string]any `json:"facts"`
	Next  struct {
		Argv []string `json:"argv"`
	} `json:"next"`
}

// run runs a command line to its good end.
func run(b *testing.B, argv []string, environment ...string) (answer, perf.Cost) {
	b.Helper()
	var out bytes.Buffer
	process := exec.Command(argv[0], argv[1:]...)
	process.Env = append(os.Environ(), environment...)
	process.Stdout = &out
	cost, err := perf.Run(process)
	if err != nil {
		b.Fatalf("%v\n%s", err, out.String())
	}
	var said answer
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		b.Fatalf("%q: %v\n%s", argv, err, out.String())
	}
	return said, cost
}

// preview runs a command without --execute and returns the line that would do it.
func (g goal) preview(b *testing.B, words ...string) []string {
	b.Helper()
	said, _ := run(b, g.line(program(b, released), words...))
	if len(said.Next.Argv) == 0 {
		b.Fatalf("%q printed no line to run next", words)
	}
	return said.Next.Argv
}

// do previews a command and runs the line it prints, which alone is measured.
func (g goal) do(b *testing.B, words ...string) perf.Cost {
	b.Helper()
	_, cost := run(b, g.preview(b, words...))
	return cost
}

package filestore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// journals are the documents measured: 1,000 projections of 64 KiB, of which
// consecutive ones differ in one record.
var journals struct {
	sync.Once
	dir string
	err error
}

func journal(b *testing.B, name string) (dir string, size int64) {
	b.Helper()
	journals.Do(func() {
		journals.dir, journals.err = os.MkdirTemp("", "journals")
		if journals.err != nil {
			return
		}
		for _, name := range []string{"v0", "respelled", "v1"} {
			dir := filepath.Join(journals.dir, name)
			must(b, os.Mkdir(dir, 0o700))
			makeJournal(b, dir, name)
		}
	})
	must(b, journals.err)
	dir = filepath.Join(journals.dir, name)
	info, err := os.Stat(filestore.DocumentPath(dir, fixture.HistoryGoal))
	must(b, err)
	return dir, info.Size()
}

func makeJournal(b *testing.B, dir, name string) {
	b.Helper()
	makeJournalOf(b, dir, name, fixture.Steps(fixture.History(1, 1000, 80, 400)))
}

// makeJournalOf writes a journal in format v0, in v1, or in v0 respelled.
func makeJournalOf(b testing.TB, dir, name string, steps []fixture.Step) {
	b.Helper()
	if name == "v1" {
		must(b, os.WriteFile(filestore.IdentityPath(dir), []byte(fixture.Identity), 0o600))
		store := open(b, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal})
		_, err := store.Append(context.Background(), authority.Applied{}, func(yield func(authority.Transaction, error) bool) {
			for _, s := range steps {
				if !yield(authority.Transaction{OperationID: s.OperationID, Events: s.Events, Projection: s.Projection, Receipts: s.Receipts}, nil) {
					return
				}
			}
		})
		must(b, err)
		return
	}
	path, _ := fixture.FileV0(b, dir, fixture.HistoryGoal, slices.Values(steps))
	if name == "respelled" {
		respell(b, path)
	}
}

// processorTime reports the time of all processors per operation, which other
// programs on the machine do not disturb as they disturb the time of the clock.
func processorTime(b *testing.B) func() {
	b.Helper()
	spent := func() time.Duration {
		var usage syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := spent()
	return func() { b.ReportMetric(float64(spent()-before)/float64(b.N)/1e6, "cpu-ms/op") }
}

// BenchmarkSHA256 is the yardstick: Go's SHA-256 over the same file.
func BenchmarkSHA256(b *testing.B) {
	for _, name := range []string{"v0", "respelled", "v1"} {
		b.Run(name, func(b *testing.B) {
			dir, size := journal(b, name)
			b.SetBytes(size)
			defer processorTime(b)()
			for b.Loop() {
				file, err := os.Open(filestore.DocumentPath(dir, fixture.HistoryGoal))
				must(b, err)
				_, err = io.CopyBuffer(struct{ io.Writer }{sha256.New()}, struct{ io.Reader }{file}, make([]byte, 1<<20))
				must(b, errors.Join(err, file.Close()))
			}
		})
	}
}

func BenchmarkAudit(b *testing.B) {
	for _, name := range []string{"v0", "respelled", "v1"} {
		b.Run(name, func(b *testing.B) {
			dir, size := journal(b, name)
			b.SetBytes(size)
			defer processorTime(b)()
			for b.Loop() {
				store := open(b, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal}) // one that has proved nothing
				lineage, err := store.Audit(context.Background(), nil, nil)
				must(b, err)
				if lineage.Transactions != 1000 {
					b.Fatal(lineage)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	dir, size := journal(b, "v0")
	b.SetBytes(size)
	for b.Loop() {
		store := open(b, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal})
		_, err := store.Load(context.Background())
		must(b, err)
	}
}

// BenchmarkCommit appends one transaction to 66 MB.
func BenchmarkCommit(b *testing.B) {
	from, size := journal(b, "v0")
	dir := b.TempDir()
	must(b, os.CopyFS(dir, os.DirFS(from)))
	store := open(b, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal})
	head, err := store.Load(context.Background())
	must(b, err)
	b.SetBytes(size)
	expected, n := head.Revision, 0
	for b.Loop() {
		n++
		store = open(b, filestore.Options{Dir: dir, GoalID: fixture.HistoryGoal})
		applied, err := store.Commit(context.Background(), authority.CommitRequest{
			Expected: expected, OperationID: "bench-" + strconv.Itoa(n), Events: []byte("[]"), Projection: head.Projection, Receipts: []byte("[]"),
		})
		must(b, err)
		expected = applied.Revision
	}
}

//go:build faultinject

package filestore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// How the child ends.
const (
	statusApplied = iota
	_
	_
	statusFailed    // nothing was changed
	statusAmbiguous // perhaps something was
	statusOther
)

func init() {
	if dir := os.Getenv("FILESTORE_FAULT_DIR"); dir != "" {
		child = func() { os.Exit(runChild(dir, os.Getenv("FILESTORE_FAULT_VERB"))) }
	}
}

// childRows are what the child appends: one row or three.
var childRows = map[string]int{"commit": 1, "append": 3, "bootstrap": 1}

func childTransaction(n int) authority.Transaction {
	return authority.Transaction{
		OperationID: fmt.Sprintf("child-%d", n), Events: authority.Canonical("[]"),
		Projection: authority.Canonical(fmt.Sprintf(`{"n":%d}`, n)), Receipts: authority.Canonical(`[{"n":1}]`),
	}
}

func runChild(dir, verb string) int {
	store, err := filestore.Open(filestore.Options{Dir: dir, GoalID: "goal-small", NewFormat: authority.FormatFileV0})
	if err != nil {
		return statusOther
	}
	head, err := store.Load(context.Background())
	if class, _ := authority.ReasonOf(err); err != nil && class != authority.ClassMissing {
		return statusOther
	}
	if verb == "append" {
		_, err = store.Append(context.Background(), authority.Applied{Cursor: head.Cursor, Revision: head.Revision}, func(yield func(authority.Transaction, error) bool) {
			for n := range childRows[verb] {
				if !yield(childTransaction(n), nil) {
					return
				}
			}
		})
	} else {
		row := childTransaction(0)
		_, err = store.Commit(context.Background(), authority.CommitRequest{
			Expected: head.Revision, OperationID: row.OperationID, Events: row.Events, Projection: row.Projection, Receipts: row.Receipts,
		})
	}
	class, reason := authority.ReasonOf(err)
	switch {
	case err == nil:
		return statusApplied
	case class == authority.ClassAmbiguous && reason == authority.ReasonOutcomeUnknown:
		return statusAmbiguous
	case class == authority.ClassFailed:
		return statusFailed
	}
	return statusOther
}

func faultFolder(t *testing.T, verb string) string {
	t.Helper()
	if verb == "bootstrap" {
		return t.TempDir()
	}
	return filepath.Join(fixture.Copy(t, "file-v0-small"), "store")
}

// broken runs the child under a fault and returns how it ended and what it did.
func broken(t *testing.T, dir, verb, fault string) (syscall.WaitStatus, []string) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "FILESTORE_FAULT_DIR="+dir, "FILESTORE_FAULT_VERB="+verb,
		"LM_FAULT="+fault, "LM_FAULT_TRACE="+trace, "LM_FAULT_ROOT="+dir)
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(trace)
	must(t, err)
	return command.ProcessState.Sys().(syscall.WaitStatus), strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestOrderOfEffects is the order in which a commit makes itself durable: the
// lock, the temporary file whole and synced, the rename, the folder synced.
func TestOrderOfEffects(t *testing.T) {
	want := []string{"create", "write", "sync", "rename", "syncdir"}
	for _, verb := range []string{"commit", "append"} {
		status, trace := broken(t, faultFolder(t, verb), verb, "")
		if status.ExitStatus() != statusApplied {
			t.Fatalf("%s ended with %d", verb, status.ExitStatus())
		}
		var document []string
		for _, line := range trace {
			field := strings.Fields(line)
			if !strings.Contains(line, ".ts-effect.lock") {
				document = append(document, field[1])
			}
		}
		if strings.Join(document, " ") != strings.Join(want, " ") || !strings.Contains(trace[0], ".ts-effect.lock") {
			t.Errorf("%s:\n%s", verb, strings.Join(trace, "\n"))
		}
	}
}

// TestEveryEffectBroken: whatever effect is broken and however, the document is
// the old one or the new one, the child's answer is no lie, and a retry ends in
// the new one.
func TestEveryEffectBroken(t *testing.T) {
	for _, verb := range []string{"commit", "append", "bootstrap"} {
		_, trace := broken(t, faultFolder(t, verb), verb, "")
		for n := range trace {
			faults := []string{"kill:%d", "error:%d:ENOSPC", "lost:%d:EIO"}
			if strings.Contains(trace[n], " write ") {
				faults = append(faults, "torn:%d")
			}
			for _, fault := range faults {
				fault := fmt.Sprintf(fault, n+1)
				t.Run(verb+"/"+fault, func(t *testing.T) { breakOnce(t, verb, fault, trace[n]) })
			}
		}
	}
}

func breakOnce(t *testing.T, verb, fault, effect string) {
	t.Helper()
	dir := faultFolder(t, verb)
	old := transactionsIn(t, dir)
	status, _ := broken(t, dir, verb, fault)
	added := transactionsIn(t, dir) - old
	if added != 0 && added != childRows[verb] {
		t.Fatalf("%s: %d rows were added", effect, added)
	}
	switch {
	case status.Signaled():
	case status.ExitStatus() == statusApplied && added == 0, status.ExitStatus() == statusFailed && added != 0,
		status.ExitStatus() != statusApplied && status.ExitStatus() != statusFailed && status.ExitStatus() != statusAmbiguous:
		t.Errorf("%s: the child ended with %d, %d rows were added", effect, status.ExitStatus(), added)
	}
	if onDocument := verb != "bootstrap" && !strings.Contains(effect, ".ts-effect.lock"); onDocument && !status.Signaled() {
		ambiguous := strings.Contains(effect, "rename") || strings.Contains(effect, "syncdir")
		if (status.ExitStatus() == statusAmbiguous) != ambiguous {
			t.Errorf("%s: the child ended with %d", effect, status.ExitStatus())
		}
	}
	ageLocks(t, dir)
	again, _ := broken(t, dir, verb, "")
	if want := map[bool]int{true: statusApplied, false: statusOther}[added == 0]; want == statusApplied && again.ExitStatus() != want {
		t.Errorf("%s: the retry ended with %d", effect, again.ExitStatus())
	}
	if transactionsIn(t, dir) != old+childRows[verb] {
		t.Errorf("%s: %d rows after the retry, %d before", effect, transactionsIn(t, dir), old)
	}
}

// ageLocks makes lock files old enough that one without a readable owner is
// stale; LoopX's protocol gives it ten seconds.
func ageLocks(t *testing.T, dir string) {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(dir, "*.ts-effect.lock*"))
	must(t, err)
	old := time.Now().Add(-11 * time.Second)
	for _, lock := range locks {
		must(t, os.Chtimes(lock, old, old))
	}
}

func transactionsIn(t *testing.T, dir string) int {
	t.Helper()
	lineage, err := open(t, filestore.Options{Dir: dir, GoalID: "goal-small"}).Audit(context.Background(), nil, nil)
	must(t, err)
	return int(lineage.Transactions)
}

//go:build faultinject

package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// TestMain doubles as the process that a fault breaks. It prints how its operation ended.
func TestMain(m *testing.M) {
	folder := os.Getenv("SQLITESTORE_TEST_CHILD")
	if folder == "" {
		os.Exit(m.Run())
	}
	err := breakable[os.Getenv("SQLITESTORE_TEST_OPERATION")].run(filepath.Join(folder, "s", "d.sqlite"))
	class, reason := authority.ReasonOf(err)
	switch {
	case err == nil:
		fmt.Print("done")
	case class == "":
		fmt.Print(err)
	default:
		fmt.Printf("%s/%s", class, reason)
	}
	os.Exit(0)
}

const (
	faultGoal = "goal-fault"
	faultRows = 70
)

func faultOptions(path string) Options {
	return Options{Path: path, GoalID: faultGoal, Mode: ReadWrite, ExpectedIdentity: identitySmall, BusyWait: DefaultBusyWait}
}

// breakableOperation is an operation that a fault is put into.
type breakableOperation struct {
	effects string // in order, as a trace spells them
	prepare string // the operation that makes what this one needs
	run     func(path string) error
}

var breakable map[string]breakableOperation

func init() {
	breakable = map[string]breakableOperation{
		"load": {"mkdir s; commit install schema; syncdir s;" + strings.Repeat(" commit candidate batch;", 5) +
			" commit candidate checkpoint; sync s/d.sqlite; syncdir s", "", loadAll},
		"first commit": {"mkdir s; commit install schema; syncdir s; commit commit", "", commitNext},
		"commit":       {"commit commit", "load", commitNext},
		"engage":       {"commit engage fence", "load", engageFence},
		"lift":         {"commit lift fence", "engage", liftFence},
	}
}

// loadAll loads a candidate from wherever it stands and seals it.
func loadAll(path string) error {
	ctx := context.Background()
	o := CandidateOptions{Path: path, GoalID: faultGoal, Identity: identitySmall, BatchRows: 16}
	c, err := OpenCandidate(ctx, o)
	if errors.Is(err, authority.ErrMissing) {
		c, err = CreateCandidate(ctx, o)
	}
	if err != nil {
		return err
	}
	head, _, err := c.Head(ctx)
	for step := range fixture.History(3, faultRows, 3, 10) {
		if err == nil && authority.Cursor(step.Cursor) > head {
			err = c.Append(ctx, rowOfStep(step))
		}
	}
	if err == nil {
		err = c.Seal(ctx)
	}
	return errors.Join(err, c.Close())
}

func rowOfStep(step fixture.Step) authority.Row {
	return authority.Row{Transaction: authority.Transaction{
		Cursor: authority.Cursor(step.Cursor), OperationID: step.OperationID,
		Events: step.Events, Projection: step.Projection, Receipts: step.Receipts,
	}}
}

// commitNext commits one operation, unless its receipt is there, as a caller would that
// does not know whether it went through.
func commitNext(path string) error {
	ctx := context.Background()
	s, err := Open(faultOptions(path))
	if err != nil {
		return err
	}
	// Reads refuse a database whose making was interrupted, as LoopX's do; this finishes it.
	if _, err := s.Identity(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	if _, err = s.Receipt(ctx, "op-new"); err == nil || !errors.Is(err, authority.ErrMissing) {
		return errors.Join(err, s.Close())
	}
	head, err := s.Load(ctx)
	if err == nil || errors.Is(err, authority.ErrMissing) {
		_, err = s.Commit(ctx, authority.CommitRequest{Expected: head.Revision, OperationID: "op-new",
			Events: []byte(`[]`), Projection: []byte(`{"new":1}`), Receipts: []byte(`[{}]`)})
	}
	return errors.Join(err, s.Close())
}

func engageFence(path string) error {
	s, err := Open(faultOptions(path))
	if err != nil {
		return err
	}
	err = s.EngageFence(context.Background(), "fence-1", authority.Applied{Cursor: faultRows, Revision: revision(identitySmall, faultRows)})
	return errors.Join(err, s.Close())
}

func liftFence(path string) error {
	s, err := Open(faultOptions(path))
	if err != nil {
		return err
	}
	return errors.Join(s.LiftFence(context.Background(), "fence-1"), s.Close())
}

// breakAt runs an operation in a process of its own under a fault.
func breakAt(t *testing.T, name, folder, fault string) (said string, killed bool, trace []string) {
	t.Helper()
	tracePath := filepath.Join(t.TempDir(), "trace")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "SQLITESTORE_TEST_CHILD="+folder, "SQLITESTORE_TEST_OPERATION="+name,
		"LM_FAULT_TRACE="+tracePath, "LM_FAULT_ROOT="+folder, "LM_FAULT="+fault)
	out, err := command.Output()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tracePath)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // absent when there was no effect
		t.Fatal(err)
	}
	return string(out), command.ProcessState.Sys().(syscall.WaitStatus).Signaled(), strings.Split(strings.TrimSpace(string(text)), "\n")
}

// placeFor makes what the operation starts from, without faults.
func placeFor(t *testing.T, o breakableOperation) string {
	t.Helper()
	folder := t.TempDir()
	if o.prepare != "" {
		before := placeFor(t, breakable[o.prepare])
		if err := os.CopyFS(folder, os.DirFS(before)); err != nil {
			t.Fatal(err)
		}
		if said, _, _ := breakAt(t, o.prepare, folder, ""); said != "done" {
			t.Fatalf("prepare by %s: %s", o.prepare, said)
		}
	}
	return folder
}

func TestOrderOfEffects(t *testing.T) {
	for name, o := range breakable {
		said, _, trace := breakAt(t, name, placeFor(t, o), "")
		for i, line := range trace {
			_, trace[i], _ = strings.Cut(line, " ")
		}
		if got := strings.Join(trace, "; "); got != o.effects || said != "done" {
			t.Errorf("%s: %s, effects\n %s\nwant\n %s", name, said, got, o.effects)
		}
	}
}

// Each effect is broken in each way. What then stands is whole, one retry brings the
// operation to its end, and the end is the database of a run without fault.
func TestEveryEffectBroken(t *testing.T) {
	for name, o := range breakable {
		clean := placeFor(t, o)
		breakAt(t, name, clean, "")
		want := filepath.Join(clean, "s", "d.sqlite")
		for n, effect := range strings.Split(o.effects, "; ") {
			for _, fault := range []string{"kill:%d", "kill-after:%d", "error:%d:EIO", "error:%d:ENOSPC", "lost:%d:EIO"} {
				fault := fmt.Sprintf(fault, n+1)
				t.Run(name+"/"+fault, func(t *testing.T) {
					folder := placeFor(t, o)
					said, killed, _ := breakAt(t, name, folder, fault)
					requireBroken(t, effect, fault, said, killed)
					requireWhole(t, filepath.Join(folder, "s", "d.sqlite"))
					if said, _, _ := breakAt(t, name, folder, ""); said != "done" {
						t.Fatalf("retry: %s", said)
					}
					requireSameDatabase(t, want, filepath.Join(folder, "s", "d.sqlite"))
				})
			}
		}
	}
}

// requireBroken checks what the broken run said: a COMMIT that failed is never a plain
// failure, and nothing else is ambiguous.
func requireBroken(t *testing.T, effect, fault, said string, killed bool) {
	t.Helper()
	if strings.HasPrefix(fault, "kill") {
		if !killed {
			t.Errorf("%s: not killed, said %s", fault, said)
		}
		return
	}
	const unknown = "ambiguous/commit_outcome_unknown"
	inTransaction := strings.HasPrefix(effect, "commit ") && effect != "commit candidate checkpoint"
	if said == "done" || inTransaction != (said == unknown) {
		t.Errorf("%s at %s: said %s", fault, effect, said)
	}
}

// requireWhole audits what a fault left, without touching it.
func requireWhole(t *testing.T, path string) {
	t.Helper()
	o := faultOptions(path)
	o.Mode = Untouched
	who, _, err := tenantOf(context.Background(), o)
	if err != nil || who == nobody {
		if err != nil {
			t.Errorf("left behind: %v", err)
		}
		return
	}
	s := openStore(t, o)
	if _, err := s.Audit(context.Background(), nil, nil); err != nil {
		t.Errorf("left behind: %v", err)
	}
	requireClosed(t, s)
}

// Case 58: on a network file system nothing is made, and the refusal names it.
func TestNetworkFileSystems(t *testing.T) {
	ctx := context.Background()
	for kind, name := range map[string]string{
		"0x6969": "NFS", "0xff534d42": "SMB", "0xfe534d42": "SMB", "0x01021997": "9p", "0x65735546": "FUSE",
	} {
		t.Setenv("LM_TEST_FSTYPE", kind)
		folder := t.TempDir()
		path := filepath.Join(folder, "new", "d.sqlite")
		_, err := CreateCandidate(ctx, CandidateOptions{Path: path, GoalID: faultGoal, Identity: identitySmall})
		_, committing := openStore(t, faultOptions(path)).Commit(ctx, authority.CommitRequest{OperationID: "op",
			Events: []byte(`[]`), Projection: []byte(`{}`), Receipts: []byte(`[]`)})
		for _, err := range []error{err, committing, CheckFolder(filepath.Dir(path))} {
			e := requireRefusal(t, kind, err, authority.ClassFailed, authority.ReasonFileSystem, "file_system")
			if !strings.Contains(e.Detail, name) {
				t.Errorf("%s: %q does not name it", kind, e.Detail)
			}
		}
		if made, err := os.ReadDir(folder); err != nil || len(made) != 0 {
			t.Errorf("%s: made %v, %v", kind, made, err)
		}
	}
}

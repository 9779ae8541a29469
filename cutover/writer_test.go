package cutover_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store"
)

// TestMain lets the test binary be the writer of TestAWriterInEveryPhase as well.
func TestMain(m *testing.M) {
	if root := os.Getenv("LM_WRITER_ROOT"); root != "" {
		if err := writeUntilClosed(root); err != nil {
			fmt.Println("died", err)
			os.Exit(1)
		}
		return
	}
	if kind := os.Getenv("LM_FILES_WRITER"); kind != "" {
		if err := writeFilesUntilClosed(kind, os.Getenv("LM_FILES_ROOT"), os.Getenv("LM_FILES_STATE")); err != nil {
			fmt.Println("died", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pgtest.Main(m))
}

// writeUntilClosed commits through LoopX's protocol, one small transaction after the
// other, until its standard input is closed, and prints each answer: the maintenance
// lock first; under it fence and selector; then the store they name, and no other.
func writeUntilClosed(root string) error {
	place, err := authority.NewPlace(root, goal)
	if err != nil {
		return err
	}
	closed := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		close(closed)
	}()
	for n := 0; ; n++ {
		select {
		case <-closed:
			return nil
		default:
		}
		id := fmt.Sprintf("writer-%d", n)
		switch err := writeOnce(place, id); {
		case err == nil:
			fmt.Println("applied", id)
		case errors.Is(err, authority.ErrAmbiguous):
			return err
		default:
			fmt.Println("refused", id)
		}
	}
}

func writeOnce(place authority.Place, id string) (err error) {
	ctx := context.Background()
	lock, err := lockfile.AcquireMarker(ctx, place.MaintenanceLock(), 30*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	opener := store.Opener{Wait: 5 * time.Second}
	refs := map[authority.Kind]cutover.Ref{
		authority.KindFile:   {Kind: authority.KindFile, Goal: goal, Path: place.Journal(), IdentityFile: place.StoreIdentity(), Access: cutover.AccessWrite},
		authority.KindSQLite: {Kind: authority.KindSQLite, Goal: goal, Path: place.Database(), Access: cutover.AccessWrite},
	}
	observed, err := fence.Observe(ctx, place, func(ctx context.Context, selected fence.Selection) (authority.Identity, error) {
		s, err := opener.Open(ctx, refs[selected.Provider])
		if err != nil {
			return "", err
		}
		identity, err := s.Identity(ctx)
		return identity, errors.Join(err, s.Close())
	})
	if err != nil {
		return err
	}
	v := observed.Authority()
	if v.Blocked {
		return errors.New(v.Reason)
	}
	s, err := opener.Open(ctx, refs[v.Kind])
	if err != nil {
		return err
	}
	head, err := s.Load(ctx)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	_, err = s.Commit(ctx, authority.CommitRequest{Expected: head.Revision, OperationID: id, Events: []byte("[]"),
		Projection: head.Projection, Receipts: []byte(`[{"operation_id":"` + id + `"}]`)})
	return errors.Join(err, s.Close())
}

// A process that commits through LoopX's protocol in every phase of both directions:
// each of its commits is in the surviving store, or was refused to it.
func TestAWriterInEveryPhase(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.flow.LockWait = 30 * time.Second
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LM_WRITER_ROOT="+r.flow.Place.Root())
	stop, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "answers"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.underFire = true
	for range 2 {
		r.do(cutover.Request{Command: cutover.CommandImport, To: cutover.Target{Kind: authority.KindSQLite}})
		r.forward()
		r.waitFor(out.Name(), "applied")
		r.do(cutover.Request{Command: cutover.CommandRollback})
		r.waitFor(out.Name(), "applied")
	}
	r.do(cutover.Request{Command: cutover.CommandCutover, To: cutover.Target{Kind: authority.KindSQLite}, MaxStall: time.Minute})
	r.waitFor(out.Name(), "applied")
	if err := errors.Join(stop.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	applied, refused := answers(t, out.Name())
	if len(applied) < 3 || len(refused) < 3 {
		t.Fatalf("%d commits applied, %d refused: the writer did not meet every phase", len(applied), len(refused))
	}
	r.holdsExactly(authority.KindSQLite, applied)
}

// waitFor returns once the writer has got another answer of that kind.
func (r *rig) waitFor(path, answer string) {
	r.Helper()
	count := func() int {
		text, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		return strings.Count(string(text), answer)
	}
	before := count()
	for deadline := time.Now().Add(time.Minute); count() == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("no commit was %s within a minute", answer)
		}
	}
}

func answers(t *testing.T, path string) (applied, refused []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		answer, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch answer {
		case "applied":
			applied = append(applied, id)
		case "refused":
			refused = append(refused, id)
		default:
			t.Fatalf("the writer said %q", line)
		}
	}
	return applied, refused
}

// holdsExactly fails unless the store holds what LoopX's fixture holds and, after it,
// exactly these operations in this order.
func (r *rig) holdsExactly(kind authority.Kind, applied []string) {
	r.Helper()
	s := r.open(kind, cutover.AccessUntouched)
	view, err := s.View(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = errors.Join(view.Close(), s.Close()) }()
	all, err := view.Operations(context.Background())
	if err != nil || len(all) < 231 || !slices.Equal(all[231:], applied) {
		r.Fatalf("%d operations, %v; the writer was told of %d", len(all), err, len(applied))
	}
	if first := fixture.ExpectedGoal(r.T, "goal-file-v1").Receipts[230].OperationID; first != all[230] {
		r.Fatalf("row 231 is %q, LoopX has %q", all[230], first)
	}
}

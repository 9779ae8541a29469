//go:build faultinject

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

const (
	faultDSN  = "PGSTORE_FAULT_DSN"
	faultGoal = "PGSTORE_FAULT_GOAL"
	faultRows = 150
)

// TestFaultChild loads, releases and fences a candidate in a process that the fault kills.
// By itself it does nothing.
func TestFaultChild(t *testing.T) {
	if os.Getenv(faultDSN) == "" {
		return
	}
	if err := wholeLife(os.Getenv(faultDSN), os.Getenv(faultGoal)); err != nil {
		t.Fatal(err)
	}
}

// wholeLife does everything that commits, taking up whatever an earlier try left.
func wholeLife(dsn, goal string) error {
	ctx := context.Background()
	o := CandidateOptions{Server: Server{DSN: dsn}, Tenant: "tenant-a", GoalID: goal, CandidateID: "m1", BatchRows: 64}
	s, err := Open(Options{Server: o.Server, Tenant: o.Tenant, GoalID: goal, Mode: ReadWrite})
	if err != nil {
		return err
	}
	defer s.Close()
	now, err := s.Standing(ctx)
	if err != nil {
		return err
	}
	head, err := s.Load(ctx)
	if err != nil && !errors.Is(err, authority.ErrMissing) {
		return err
	}
	if now.State != FenceEngaged && head.Cursor <= faultRows && (now.State == FenceCandidate || head.Cursor == 0) {
		if err := loadAll(ctx, o); err != nil {
			return err
		}
		end := authority.Applied{Cursor: faultRows, Revision: authority.Revision(fmt.Sprintf("%s:%d", testIdentity, faultRows))}
		if err := s.ReleaseCandidate(ctx, o.CandidateID, end); err != nil {
			return err
		}
	}
	return fencedLife(ctx, s)
}

func fencedLife(ctx context.Context, s *Store) error {
	if now, err := s.Standing(ctx); err != nil || now.State == FenceOpen {
		head, err := s.Load(ctx)
		if err != nil {
			return err
		}
		on := authority.Applied{Cursor: head.Cursor, Revision: head.Revision}
		if on.Cursor == faultRows {
			if on, err = s.Commit(ctx, request(on, "op-after")); err != nil {
				return err
			}
		}
		if err := s.EngageFence(ctx, "fence-1", on); err != nil {
			return err
		}
	}
	id, err := s.SetAside(ctx, "fence-1")
	if err != nil {
		return err
	}
	_, err = s.BringBack(ctx, id)
	return err
}

func loadAll(ctx context.Context, o CandidateOptions) (err error) {
	c, err := OpenCandidate(ctx, o)
	if errors.Is(err, authority.ErrMissing) {
		c, err = CreateCandidate(ctx, o)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	have, _, err := c.Head(ctx)
	if err != nil {
		return err
	}
	for row := range historyRows(faultRows) {
		if row.Cursor <= have {
			continue
		}
		if err := c.Append(ctx, row); err != nil {
			return err
		}
	}
	return c.Seal(ctx)
}

// TestKilledAtEveryCommit kills the process before and after each COMMIT in turn. Taken up
// again by another, everything is there once, proved, and under the fence.
func TestKilledAtEveryCommit(t *testing.T) {
	b := installed(t)
	want := logicalOf(historyRows(faultRows))
	for _, kind := range []string{"kill", "kill-after"} {
		for n, killed := 1, true; killed; n++ {
			goal := freshGoal()
			child := exec.Command(os.Args[0], "-test.run", "^TestFaultChild$")
			child.Env = append(os.Environ(), faultDSN+"="+b.DSN(b.operator), faultGoal+"="+goal,
				fmt.Sprintf("LM_FAULT=%s:%d", kind, n), "LM_FAULT_OP=commit")
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			killed = errors.As(err, &exit) && exit.ExitCode() == -1
			if err != nil && !killed {
				t.Fatalf("%s:%d: %v\n%s", kind, n, err, out)
			}
			s := b.store(t, goal)
			if _, err := s.Audit(t.Context(), nil, nil); err != nil {
				t.Errorf("right after %s:%d: %v", kind, n, err)
			}
			// One that was set aside when it died is brought back first, as a resume does.
			bringBackAny(t, b, s)
			if err := wholeLife(b.DSN(b.operator), goal); err != nil {
				t.Fatalf("taken up after %s:%d: %v", kind, n, err)
			}
			lineage, err := s.Audit(t.Context(), nil, nil)
			if err != nil || lineage.End.Cursor != faultRows+1 {
				t.Errorf("after %s:%d it ends at %s, %v", kind, n, lineage.End.Cursor, err)
			}
			sum := authority.NewLogicalHash()
			_, err = s.Audit(t.Context(), nil, func(row authority.Row) error {
				if row.Cursor <= faultRows {
					sum.Add(row)
				}
				return nil
			})
			if err != nil || sum.Digest() != want {
				t.Errorf("after %s:%d the imported rows differ, %v", kind, n, err)
			}
			if _, engaged, err := s.Fence(t.Context()); !engaged || err != nil {
				t.Errorf("after %s:%d the fence stands %t, %v", kind, n, engaged, err)
			}
		}
	}
}

func bringBackAny(t *testing.T, b *bench, s *Store) {
	t.Helper()
	id := b.Text(t, "SELECT max(quarantine_id) FROM loopx_control_plane.loopx_migrate_quarantine WHERE goal_id = $1 AND restored_at IS NULL", s.GoalID())
	if id == "" {
		return
	}
	if _, err := s.BringBack(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

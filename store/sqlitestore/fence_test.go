package sqlitestore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

func TestFence(t *testing.T) {
	ctx := context.Background()
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	before := dump(t, path)
	s := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
	other := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
	requireHead(t, other, 12)
	head := authority.Applied{Cursor: 12, Revision: revision(identitySmall, 12)}

	err := s.EngageFence(ctx, "fence-1", authority.Applied{Cursor: 11, Revision: revision(identitySmall, 11)})
	if e := requireRefusal(t, "stale", err, authority.ClassConflict, authority.ReasonRevisionMismatch, ""); e.Current != head {
		t.Errorf("current %+v", e.Current)
	}
	requireRefusal(t, "quoted id", s.EngageFence(ctx, "x'); DROP TABLE head; --", head), authority.ClassFailed, ReasonFenceID, "fence_id")
	requireFence(t, s, "")
	for range 2 { // the same fence again is no error
		if err := s.EngageFence(ctx, "fence-1", head); err != nil {
			t.Fatal(err)
		}
	}
	requireFence(t, other, "fence-1")
	requireRefusal(t, "second", s.EngageFence(ctx, "fence-2", head), authority.ClassConflict, ReasonFenceHeld, "")
	requireRefusal(t, "lift by another", s.LiftFence(ctx, "fence-2"), authority.ClassConflict, ReasonFenceHeld, "")

	for name, store := range map[string]*Store{"same handle": s, "other handle": other} {
		requireRefusal(t, name, store.CheckCommit(ctx, nextOfSmall("op-013")), authority.ClassFailed, authority.ReasonTransactionFailed, "")
		_, err := store.Commit(ctx, nextOfSmall("op-013"))
		e := requireRefusal(t, name, err, authority.ClassFailed, authority.ReasonTransactionFailed, "")
		if e.Detail != sentenceTransaction || e.Err == nil || !strings.Contains(e.Err.Error(), "loopx_migrate_fence:fence-1") {
			t.Errorf("%s: %v does not name the fence", name, err)
		}
		requireHead(t, store, 12)
	}
	lineage, err := s.Audit(ctx, nil, nil)
	if err != nil || len(lineage.Findings) != 1 || lineage.Findings[0].Code != FindingFence {
		t.Errorf("audit of a fenced store: %+v, %v", lineage.Findings, err)
	}
	for range 2 {
		if err := s.LiftFence(ctx, "fence-1"); err != nil {
			t.Fatal(err)
		}
	}
	requireFence(t, other, "")
	if after := dump(t, path); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Error("lifting the fence left something behind")
	}
	if applied, err := other.Commit(ctx, nextOfSmall("op-013")); err != nil || applied.Cursor != 13 {
		t.Errorf("commit after lifting: %+v, %v", applied, err)
	}
}

func requireFence(t *testing.T, s *Store, want string) {
	t.Helper()
	id, engaged, err := s.Fence(context.Background())
	if err != nil || id != want || engaged != (want != "") {
		t.Errorf("fence %q %t, %v; want %q", id, engaged, err, want)
	}
}

// Every write to any of the three tables fails, not only LoopX's commit.
func TestFenceStopsEveryStatement(t *testing.T) {
	ctx := context.Background()
	path := databaseOf(t, "sqlite-v2-small", goalSmall)
	s := openStore(t, Options{Path: path, GoalID: goalSmall, Mode: ExistingOnly})
	if err := s.EngageFence(ctx, "f", authority.Applied{Cursor: 12, Revision: revision(identitySmall, 12)}); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"UPDATE head SET cursor = 11", "DELETE FROM head", "INSERT OR REPLACE INTO head SELECT * FROM head",
		"UPDATE commits SET receipts = '[]'", "DELETE FROM commits", "INSERT INTO commits SELECT 13, 'x', commit_digest, state_digest, NULL, delta, events, receipts FROM commits WHERE cursor = 12",
		"UPDATE checkpoints SET projection = '{}'", "DELETE FROM checkpoints", "INSERT INTO checkpoints SELECT 65, projection, projection_digest FROM checkpoints",
	} {
		err := s.write(ctx, "by hand", func(in *session) error { return in.exec(statement) })
		if err == nil || !strings.Contains(err.Error(), "loopx_migrate_fence:f") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	execute(t, path, "DROP TRIGGER loopx_migrate_fence_head_insert")
	_, _, err := s.Fence(ctx)
	requireRefusal(t, "half a fence", err, authority.ClassConflict, ReasonFenceHeld, "sqlite_master")
	if _, err := s.Audit(ctx, nil, nil); !errors.Is(err, authority.ErrFailed) {
		t.Errorf("audit of half a fence: %v", err)
	}
}

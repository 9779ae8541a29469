//go:build faultinject

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

var toSQLite = []string{"cutover", "--to", "sqlite:", "--max-stall", "1m"}

// between are crossings between the stores that the journal is not the source of. The Goal
// gets there by a cutover, and commits of its own before each way back.
var between = []crossing{
	{name: "promote-sqlite-server", server: true, sampled: true, setup: [][]string{toSQLite, toServer("freeze"), {"import"}, {"compare"}},
		run: unrehearsedPromote, ends: "postgresql", undo: "sqlite"},
	{name: "rollback-sqlite-server", server: true, sampled: true, setup: [][]string{toSQLite, toServer("cutover", "--max-stall", "1m")}, grow: "postgresql",
		run: []string{"rollback"}, ends: "sqlite", undo: "postgresql"},
	{name: "promote-server-sqlite", server: true, sampled: true, setup: [][]string{toServer("cutover", "--max-stall", "1m"), {"freeze", "--to", "sqlite:"}, {"import"}, {"compare"}},
		run: []string{"promote"}, ends: "sqlite", undo: "postgresql"},
	{name: "rollback-server-sqlite", server: true, sampled: true, setup: [][]string{toServer("cutover", "--max-stall", "1m"), toSQLite}, grow: "sqlite",
		run: []string{"rollback"}, ends: "postgresql", undo: "sqlite"},
	{name: "import-sqlite-file", sampled: true, setup: [][]string{toSQLite, {"freeze", "--to", "file:"}}, run: []string{"import"}, undo: "sqlite"},
	{name: "promote-sqlite-file", sampled: true, setup: [][]string{toSQLite, {"freeze", "--to", "file:"}, {"import"}, {"compare"}},
		run: []string{"promote"}, ends: "file", undo: "sqlite"},
	{name: "abort-sqlite-file", sampled: true, setup: [][]string{toSQLite, {"freeze", "--to", "file:"}, {"import"}, {"compare"}}, run: []string{"abort"}, ends: "sqlite"},
	{name: "rollback-sqlite-file", sampled: true, setup: [][]string{toSQLite, {"cutover", "--to", "file:", "--max-stall", "1m"}}, grow: "file",
		run: []string{"rollback"}, ends: "sqlite", undo: "file"},
	{name: "rollback-server-file", server: true, sampled: true, setup: [][]string{toServer("cutover", "--max-stall", "1m"), {"cutover", "--to", "file:", "--max-stall", "1m"}}, grow: "file",
		run: []string{"rollback"}, ends: "postgresql", undo: "file"},
}

// turns reports whether an effect changes what a store, the selector or the record says:
// a COMMIT, or a file that gets its name or loses it. Locks and outcomes are not among them.
func turns(effect string) bool {
	if strings.Contains(effect, ".lock") || strings.Contains(effect, "/outcomes/") {
		return false
	}
	return slices.ContainsFunc([]string{" commit ", " rename ", " link ", " remove "}, func(kind string) bool { return strings.Contains(effect, kind) })
}

// opened opens the store that accepts writes.
func (s *site) opened(kind string) cutover.History {
	s.t.Helper()
	ref := cutover.Ref{Kind: authority.Kind(kind), Goal: fixture.HistoryGoal, Access: cutover.AccessWrite}
	switch ref.Kind {
	case authority.KindSQLite:
		ref.Path = s.world.sqlite()
	case authority.KindFile:
		ref.Path, ref.IdentityFile = s.world.journal(), strings.TrimSuffix(s.world.journal(), "authority-store-"+goalHash16+".json")+"store-identity"
	case authority.KindPostgreSQL:
		ref.Server, ref.Tenant = serverURL(s.world.database), "harbour"
	}
	store, err := newEnv("loopx-migrate", nil, nil).stores.Open(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	return store
}

// growBy commits onto the store that accepts writes.
func (s *site) growBy(kind string, n int) {
	s.t.Helper()
	store := s.opened(kind)
	defer store.Close()
	for i := range n {
		now, err := store.Load(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		id := fmt.Sprintf("grown-%d", i)
		if _, err := store.Commit(s.t.Context(), authority.CommitRequest{Expected: now.Revision, OperationID: id, Events: []byte("[]"),
			Projection: now.Projection, Receipts: []byte(`[{"n":` + fmt.Sprint(i) + `}]`)}); err != nil {
			s.t.Fatal(err)
		}
		s.acknowledged = append(s.acknowledged, id)
	}
}

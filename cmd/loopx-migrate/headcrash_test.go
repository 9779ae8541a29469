//go:build faultinject

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// headSituation is a Goal in a file journal whose head is a coordination head of schema
// v0, and the identity of its store.
func headSituation(t *testing.T) (*site, string) {
	s := situation(t, crossing{run: []string{"inspect"}})
	if err := os.Remove(s.world.journal()); err != nil {
		t.Fatal(err)
	}
	head := map[string]any{"schema_version": "loopx_coordination_head_v0", "goal_id": fixture.HistoryGoal, "handoff_mode": "hard_lease", "authority_revision": 0,
		"receipt_index": map[string]any{}, "receipt_retention": map[string]any{"mode": "retain_all_v0"},
		"coordination": map[string]any{"leases": map[string]any{}, "todos": map[string]any{}}}
	store, err := filestore.Open(filestore.Options{Dir: filepath.Dir(s.world.journal()), GoalID: fixture.HistoryGoal})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Commit(t.Context(), authority.CommitRequest{OperationID: "seed", Events: []byte("[]"), Projection: fixture.Canonical(head), Receipts: []byte("[]")})
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	identity, err := os.ReadFile(filepath.Join(filepath.Dir(s.world.journal()), "store-identity"))
	if err != nil {
		t.Fatal(err)
	}
	s.acknowledged = []string{"seed"}
	return s, strings.TrimSpace(string(identity))
}

// Every durable effect of upgrade-head and rebind is broken: the transaction is there
// once or not at all, and the same command finishes and does nothing twice.
func TestEveryEffectOfAHeadChangeBroken(t *testing.T) {
	s, identity := headSituation(t)
	upgrade := []string{"upgrade-head", "--store-identity", identity}
	t.Run("upgrade-head", func(t *testing.T) { s.breakHeadChange(t, crossing{run: upgrade, ends: "file"}) })
	s.do(upgrade...)
	s.acknowledged = operations(t, s.world.journal())
	for _, command := range [][]string{{"freeze", "--to", "sqlite:"}, {"import"}, {"compare"}, {"promote"}} {
		s.do(command...)
	}
	t.Run("rebind", func(t *testing.T) { s.breakHeadChange(t, crossing{run: []string{"rebind"}, ends: "sqlite"}) })
}

func (s *site) breakHeadChange(t *testing.T, c crossing) {
	trace := filepath.Join(t.TempDir(), "trace")
	clean, drop := s.copy()
	defer drop()
	if r := clean.exec([]string{"LM_FAULT_TRACE=" + trace}, clean.line(c.run...)); r.Exit != 0 {
		t.Fatalf("undisturbed: %+v", r)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	effects := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, name := range effects {
		for _, fault := range c.faultsOf(i+1, name) {
			broken, drop := s.copy()
			line := broken.line(c.run...)
			broken.exec([]string{"LM_FAULT=" + fault}, line)
			if err := broken.onceOrNot(c, len(s.acknowledged)); err != nil {
				t.Errorf("%s at %q: %v", fault, name, err)
			}
			broken.again(c, line)
			if err := broken.onceOrNot(c, len(s.acknowledged)+1); err != nil {
				t.Errorf("%s at %q, then the same command again: %v", fault, name, err)
			}
			drop()
		}
	}
	if len(effects) < 10 {
		t.Errorf("only %d effects were seen", len(effects))
	}
}

// onceOrNot fails unless the store that accepts writes holds what was acknowledged and
// at most one transaction more, and no fewer than least.
func (s *site) onceOrNot(c crossing, least int) error {
	path := s.world.journal()
	if c.ends == "sqlite" {
		path = s.world.sqlite()
	}
	found := operations(s.t, path)
	if accepts := s.world.accepts(); accepts != c.ends {
		return fmt.Errorf("%q accepts writes", accepts)
	}
	more := len(found) - len(s.acknowledged)
	if len(found) < least || more > 1 || more == 1 && !strings.HasPrefix(found[len(found)-1], "loopx-migrate:"+c.run[0]+":") {
		return fmt.Errorf("the store holds %v", found)
	}
	return nil
}

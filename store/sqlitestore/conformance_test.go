package sqlitestore

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Kind: authority.KindSQLite,
		New: func(t testing.TB) authority.Store {
			return open(t, Options{Path: filepath.Join(t.TempDir(), DatabaseName("goal-any")), GoalID: "goal-any", Mode: ReadWrite})
		},
		Reopen: func(t testing.TB, store authority.Store) authority.Store {
			return open(t, store.(*Store).options)
		},
		Snapshot: func(t testing.TB, store authority.Store) fixture.Tree {
			return durableTree(t, store.(*Store).options.Path)
		},
		Rewrite: rewriteLast,
		Differences: storetest.Differences{
			// LoopX's SQLite store decodes the id where it decodes its own rows.
			InvalidReceiptID:        authority.ReasonProtocolViolation,
			ExpectedMustHaveShape:   true,
			CapacityBytes:           capacity,
			RefusesLoneSurrogateIDs: true,
		},
	})
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// durableTree is what the database holds, whichever of its files holds it. The files
// themselves differ by where the log was last emptied, which is no write.
func durableTree(t testing.TB, path string) fixture.Tree {
	t.Helper()
	if mark, err := look(path); err != nil || mark == (stamp{}) {
		return ""
	}
	return fixture.Tree(strings.Join(dump(t, path), "\n") + "\n")
}

// rewriteLast replaces the newest row by hand: same cursor and operation id, another
// state, every digest right.
func rewriteLast(t testing.TB, store authority.Store) {
	t.Helper()
	s := store.(*Store)
	o := s.options
	requireClosed(t, s)
	w := open(t, o)
	defer requireClosed(t, w)
	err := w.write(t.Context(), "forge", func(in *session) error {
		e, err := in.ending()
		if err != nil {
			return err
		}
		var before []byte
		if e.cursor > 1 {
			err = in.window(t.Context(), e.cursor-1, e.cursor-1, func(_ record, state []byte) error {
				before = append([]byte(nil), state...)
				return nil
			})
		}
		if err != nil {
			return err
		}
		d, err := newDeriver(before, e.last.parent)
		if err != nil {
			return err
		}
		row := newRow(in.identity, e.cursor, e.last.operationID, e.last.events, []byte(`{"forged":true}`), e.last.receipts)
		if err := d.derive(row); err != nil {
			return err
		}
		if err := in.moveHead(row); err != nil {
			return err
		}
		if covering(e.cursor) == e.cursor {
			err = in.exec("UPDATE checkpoints SET projection = ?, projection_digest = ? WHERE cursor = ?",
				string(row.projection), row.stateDigest.String(), int64(e.cursor))
		}
		if err != nil {
			return err
		}
		return in.exec("UPDATE commits SET commit_digest = ?, state_digest = ?, delta = ? WHERE cursor = ?",
			row.commit.String(), row.stateDigest.String(), string(row.delta), int64(e.cursor))
	})
	if err != nil {
		t.Fatal(err)
	}
}

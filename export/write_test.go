package export_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/export"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// refused writes to a fresh folder and fails unless that is refused and leaves nothing.
func refused(t *testing.T, s *source, reason authority.Reason, cursor authority.Cursor, field string) {
	t.Helper()
	dir := t.TempDir()
	_, err := export.WriteArchive(t.Context(), filepath.Join(dir, "archive.jsonl"), s)
	var refusal *authority.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v", err)
	}
	if refusal.Reason != reason || refusal.Cursor != cursor || refusal.Field != field {
		t.Errorf("%q at cursor %s field %q: %v", refusal.Reason, refusal.Cursor, refusal.Field, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

func TestWriteNeverOverwrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	for name, put := range map[string]func() error{
		"a file":        func() error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a broken link": func() error { return os.Symlink("nowhere", path) },
		"a folder":      func() error { return os.Mkdir(path, 0o700) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		before := fixture.TreeHash(t, filepath.Dir(path))
		_, err := export.WriteArchive(t.Context(), path, tiny(t))
		if _, reason := authority.ReasonOf(err); reason != export.ReasonExists || !errors.Is(err, fs.ErrExist) {
			t.Errorf("over %s: %v", name, err)
		}
		fixture.Unchanged(t, filepath.Dir(path), before)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWriteNeverOverwritesALateComer: the place is taken while the archive is written.
func TestWriteNeverOverwritesALateComer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	s := tiny(t)
	s.loaded = func() {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := export.WriteArchive(t.Context(), path, s)
	if class, reason := authority.ReasonOf(err); class != authority.ClassConflict || reason != export.ReasonExists || !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	alone(t, path)
}

func TestWriteIntoNoFolder(t *testing.T) {
	_, err := export.WriteArchive(t.Context(), filepath.Join(t.TempDir(), "none", "archive.jsonl"), tiny(t))
	if _, reason := authority.ReasonOf(err); reason != authority.ReasonWriteUnavailable || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestLaterCommitsAreLeftOut: the head at the beginning is where the archive ends.
func TestLaterCommitsAreLeftOut(t *testing.T) {
	s := trapsSQLite(t)
	all := s.rows
	s.rows = all[:40]
	s.loaded = func() { s.rows = all }
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	seal, err := export.WriteArchive(t.Context(), path, s)
	if err != nil || seal.Cursor != 40 || seal.Lineage.Transactions != 40 || seal.Revision != all[39].Revision {
		t.Errorf("%+v, %v", seal.Header, err)
	}
}

// TestHistoriesThatNoArchiveHolds: nothing is written, and the row at fault is named.
func TestHistoriesThatNoArchiveHolds(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		refused(t, &source{goal: "g", kind: authority.KindFile}, authority.ReasonNone, 0, "")
	})
	t.Run("state of another goal", func(t *testing.T) {
		s := tiny(t)
		s.rows[1] = rowOf(changed(s.rows[1], `{"goal_id":"other"}`))
		refused(t, s, authority.ReasonProtocolViolation, 2, "projection.goal_id")
	})
	t.Run("state of no goal", func(t *testing.T) {
		s := tiny(t)
		s.rows[2] = rowOf(changed(s.rows[2], `{}`))
		refused(t, s, authority.ReasonProtocolViolation, 3, "projection.goal_id")
	})
	t.Run("gap", func(t *testing.T) {
		s := tiny(t)
		s.rows = slices.Delete(s.rows, 1, 2)
		refused(t, s, authority.ReasonProtocolViolation, 3, "cursor")
	})
	t.Run("rewritten on the way", func(t *testing.T) {
		s := tiny(t)
		s.loaded = func() { s.rows[3] = rowOf(changed(s.rows[3], `{"goal_id":"goal-tiny"}`)) }
		refused(t, s, authority.ReasonRewritten, 4, "")
	})
	t.Run("another store on the way", func(t *testing.T) {
		s := tiny(t)
		s.loaded = func() { s.rows = s.rows[:3] }
		refused(t, s, authority.ReasonRewritten, 4, "")
	})
	t.Run("line over the limit", func(t *testing.T) {
		s := tiny(t)
		long := append([]byte(`{"goal_id":"goal-tiny","text":"`), make([]byte, 64<<20)...)
		for i := range long {
			if long[i] == 0 {
				long[i] = 'x'
			}
		}
		s.rows[3] = rowOf(changed(s.rows[3], string(long)+`"}`))
		refused(t, s, authority.ReasonCapacity, 4, "")
	})
	t.Run("revision of another row", func(t *testing.T) {
		s := tiny(t)
		s.rows[1].Revision = s.rows[2].Revision
		refused(t, s, authority.ReasonProtocolViolation, 2, "provider_revision")
	})
	t.Run("operation twice", func(t *testing.T) {
		s := trapsSQLite(t)
		s.rows[5].OperationID = s.rows[4].OperationID
		refused(t, s, authority.ReasonProtocolViolation, 6, "operation_id")
	})
}

func changed(row authority.Row, projection string) authority.Transaction {
	row.Projection = authority.Canonical(projection)
	return row.Transaction
}

// TestPostgreSQLRevisions: their count is a column of its own.
func TestPostgreSQLRevisions(t *testing.T) {
	const identity = "postgresql:00112233445566778899aabbccddeeff"
	s := tiny(t)
	s.kind, s.identity = authority.KindPostgreSQL, identity
	for i := range s.rows {
		s.rows[i].Revision = authority.Revision(identity + ":" + authority.Cursor(i+7).String())
	}
	if _, err := export.WriteArchive(t.Context(), filepath.Join(t.TempDir(), "a"), s); err != nil {
		t.Fatal(err)
	}
	s.rows[2].Revision = identity + ":0"
	refused(t, s, authority.ReasonProtocolViolation, 3, "provider_revision")
	s.rows[2].Revision = "postgresql:ff112233445566778899aabbccddeeff:9"
	refused(t, s, authority.ReasonProtocolViolation, 3, "provider_revision")
}

// TestWriteCancelled leaves nothing.
func TestWriteCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := tiny(t)
	s.loaded = cancel
	dir := t.TempDir()
	if _, err := export.WriteArchive(ctx, filepath.Join(dir, "a"), s); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// TestLoneSurrogates: Goal, operation and state may hold them; the revision of such a
// history is worked out here by concatenation.
func TestLoneSurrogates(t *testing.T) {
	const goal, literal = "g\xed\xa0\x80", `"g\ud800"`
	const identity = "file:00112233445566778899aabbccddeeff"
	projection := `{"goal_id":` + literal + `}`
	digest := fixture.SHA256([]byte(`{"goal_id":` + literal + `,"previous_provider_revision":null,"store_identity":"` + identity +
		`","transaction":{"cursor":"1","events":[],"operation_id":"\udfff","projection":` + projection + `,"receipts":[]}}`))
	s := &source{goal: goal, kind: authority.KindFile, identity: identity}
	s.rows = append(s.rows, rowOf(authority.Transaction{
		Cursor: 1, Revision: authority.Revision("file:1:" + digest[:24]), OperationID: "\xed\xbf\xbf",
		Events: authority.Canonical("[]"), Receipts: authority.Canonical("[]"), Projection: authority.Canonical(projection),
	}))
	if err := canonical.Check(s.rows[0].Projection); err != nil {
		t.Fatal(err)
	}
	seal, err := export.WriteArchive(t.Context(), filepath.Join(t.TempDir(), "a"), s)
	if err != nil || seal.Goal != goal {
		t.Errorf("%q, %v", seal.Goal, err)
	}
}

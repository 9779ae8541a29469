package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

func folder(t *testing.T) *Folder {
	t.Helper()
	root := filepath.Join(t.TempDir(), "a[b]*c?") // no pattern, whatever it looks like
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	place, err := authority.NewPlace(root, "goal")
	if err != nil {
		t.Fatal(err)
	}
	return Open(place)
}

func sample() *Manifest {
	m := &Manifest{SchemaVersion: SchemaVersion, MigrationID: "mig-1", GoalID: "goal", Phase: PhasePlanned,
		Source: Binding{Kind: authority.KindFile, Identity: "file:00"}, Target: Binding{Kind: authority.KindSQLite}}
	for _, op := range []string{"op-1", "op-2"} {
		step := Step{Command: "import", OperationID: op, Phase: PhasePlanned, Facts: map[string]string{"cursor": "3"},
			StartedAt: time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC), FinishedAt: time.Date(2026, 9, 1, 8, 0, 1, 0, time.UTC)}
		if err := m.AddStep(step); err != nil {
			panic(err)
		}
	}
	return m
}

func save(t *testing.T, f *Folder, old Snapshot, m *Manifest) Snapshot {
	t.Helper()
	snap, err := f.Save(old, m)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// Every byte of every document: one that changed is refused and the file is named.
func TestAnyChangedByteIsRefused(t *testing.T) {
	f := folder(t)
	save(t, f, Snapshot{}, sample())
	if err := f.SaveHost(Host{SchemaVersion: "loopx_migrate_host_v1", RuntimeRoot: "/r"}); err != nil {
		t.Fatal(err)
	}
	command := Command{Kind: "freeze", OperationID: "op-1", Principal: "os:x", GoalID: "goal"}
	outcome := Outcome{SchemaVersion: OutcomeSchema, Command: "freeze", OperationID: "op-1", Principal: "os:x", GoalID: "goal", Fingerprint: authority.DigestOf([]byte("x")), ReasonCode: "done"}
	if err := f.StoreOutcome(command, outcome); err != nil {
		t.Fatal(err)
	}
	if _, err := f.SaveGrants(authority.Digest{}, granted("os:x")); err != nil {
		t.Fatal(err)
	}
	readers := map[string]func() error{
		f.grantsPath():                          func() error { _, _, err := f.LoadGrants(); return err },
		filepath.Join(f.Dir(), "manifest.json"): func() error { _, err := f.Load(); return err },
		filepath.Join(f.Dir(), "host.json"):     func() error { _, err := f.LoadHost(); return err },
		f.outcomePath(command):                  func() error { _, err := f.Outcome(command); return err },
	}
	for path, read := range readers {
		if err := read(); err != nil {
			t.Fatalf("%s as written: %v", filepath.Base(path), err)
		}
		refusesEveryByte(t, path, read)
	}
}

func refusesEveryByte(t *testing.T, path string, read func() error) {
	t.Helper()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x01
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		var tampered *TamperedError
		if err := read(); !errors.As(err, &tampered) || tampered.File != filepath.Base(path) {
			t.Fatalf("%s with byte %d (%q) changed: %v", filepath.Base(path), i, good[i], err)
		}
	}
	if err := os.WriteFile(path, good[:len(good)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil {
		t.Errorf("%s without its last byte was accepted", filepath.Base(path))
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A step that is edited and sealed again does not follow from the one before.
func TestStepsAreChained(t *testing.T) {
	for name, edit := range map[string]func(m *Manifest){
		"a fact":       func(m *Manifest) { m.Steps[0].Facts["cursor"] = "4" },
		"a time":       func(m *Manifest) { m.Steps[1].FinishedAt = m.Steps[1].FinishedAt.Add(time.Second) },
		"one dropped":  func(m *Manifest) { m.Steps = m.Steps[1:] },
		"both swapped": func(m *Manifest) { m.Steps[0], m.Steps[1] = m.Steps[1], m.Steps[0] },
	} {
		m := sample()
		if err := m.VerifySteps(); err != nil {
			t.Fatal(err)
		}
		edit(m)
		if err := m.VerifySteps(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSaveIsCompareAndSet(t *testing.T) {
	f := folder(t)
	first := save(t, f, Snapshot{}, sample())
	m := *first.Manifest
	m.Phase = PhaseFrozen
	save(t, f, first, &m)
	if _, err := f.Save(first, &m); !errors.Is(err, ErrStale) {
		t.Errorf("a second save over the same snapshot: %v", err)
	}
}

// A new migration keeps the record of the one before.
func TestAnEarlierMigrationIsKept(t *testing.T) {
	f := folder(t)
	first := save(t, f, Snapshot{}, sample())
	next := &Manifest{SchemaVersion: SchemaVersion, MigrationID: "mig-2", GoalID: "goal", Phase: PhasePlanned}
	save(t, f, first, next)
	kept, err := f.LoadClosed("mig-1")
	if err != nil || kept.Digest != first.Digest {
		t.Errorf("closed manifest: %v, digest %v, want %v", err, kept.Digest, first.Digest)
	}
	if ids, err := f.Closed(); err != nil || len(ids) != 1 || ids[0] != "mig-1" {
		t.Errorf("closed migrations: %v %v", ids, err)
	}
}

func TestAnOutcomeIsStoredOnce(t *testing.T) {
	f := folder(t)
	c := Command{Kind: "freeze", OperationID: "op", Principal: "os:a", GoalID: "goal"}
	o := Outcome{SchemaVersion: OutcomeSchema, Command: "freeze", Fingerprint: authority.DigestOf([]byte("x")), OperationID: "op", Principal: "os:a", GoalID: "goal", Exit: 3}
	for _, reason := range []string{"first", "second"} {
		o.ReasonCode = reason
		if err := f.StoreOutcome(c, o); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.Outcome(c)
	if err != nil || got.ReasonCode != "first" {
		t.Errorf("outcome %+v, %v", got, err)
	}
	other := c
	other.Principal = "os:b"
	if got, err := f.Outcome(other); err != nil || got != nil {
		t.Errorf("the same id under another principal is another operation: %+v %v", got, err)
	}
}

func TestFingerprintCoversContentOnly(t *testing.T) {
	base := Command{Kind: "freeze", OperationID: "op-1", Principal: "os:a", GoalID: "g", Arguments: map[string]string{"to": "sqlite"}}
	digest := func(c Command) authority.Digest {
		d, err := c.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	retried := base
	retried.OperationID = "op-2"
	if digest(base) != digest(retried) {
		t.Error("the operation id is in the fingerprint")
	}
	for name, other := range map[string]Command{
		"kind":      {Kind: "import", Principal: "os:a", GoalID: "g", Arguments: base.Arguments},
		"principal": {Kind: "freeze", Principal: "os:b", GoalID: "g", Arguments: base.Arguments},
		"goal":      {Kind: "freeze", Principal: "os:a", GoalID: "h", Arguments: base.Arguments},
		"arguments": {Kind: "freeze", Principal: "os:a", GoalID: "g", Arguments: map[string]string{"to": "file"}},
	} {
		if digest(base) == digest(other) {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
}

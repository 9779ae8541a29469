package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// twoHandles: what one handle commits the other sees at once, and is held against it.
func twoHandles(t testing.TB, h Harness) {
	one := open(t, h)
	two := reopen(t, h, one)
	m := &model{}
	m.load(t, two)
	for i := range 6 {
		writer, reader := one, two
		if i%2 == 1 {
			writer, reader = two, one
		}
		stale := m.request(plain(fmt.Sprintf("op-stale-%d", i)))
		m.commit(t, writer, plain(fmt.Sprintf("op-%d", i)))
		m.reads(t, reader)
		if i > 0 {
			conflict(t, "a commit on what the other handle moved", commitError(reader, stale), authority.ReasonRevisionMismatch, m.current())
		}
		again := m.request(plain(fmt.Sprintf("op-%d", i)))
		conflict(t, "the id of the other handle's commit", commitError(reader, again), authority.ReasonOperationExists, m.current())
	}
	m.audit(t, two, nil)
	identity, err := one.Identity(context.Background())
	if err != nil {
		t.Fatalf("identity: %v", err)
	}
	if other, err := two.Identity(context.Background()); err != nil || other != identity {
		t.Fatalf("the two handles have identities %q and %q (%v)", identity, other, err)
	}
}

// committers is how many commit from one revision at the same time.
const committers = 16

func committersOneHandle(t testing.TB, h Harness) {
	store := open(t, h)
	race(t, store, func(int) authority.Store { return store })
}

func committersManyHandles(t testing.TB, h Harness) {
	store := open(t, h)
	var handles []authority.Store
	for range committers {
		handles = append(handles, reopen(t, h, store))
	}
	race(t, store, func(i int) authority.Store { return handles[i] })
}

// race lets all committers go at once, first on the empty store and then on a
// head: one is applied, every other gets a conflict that names that one.
func race(t testing.TB, store authority.Store, handle func(int) authority.Store) {
	m := &model{}
	for round := range 3 {
		rows := make([]row, committers)
		outcomes := make([]error, committers)
		applied := make([]authority.Applied, committers)
		var start, done sync.WaitGroup
		start.Add(1)
		for i := range committers {
			rows[i] = plain(fmt.Sprintf("op-%d-%d", round, i))
			request := m.request(rows[i])
			done.Go(func() {
				start.Wait()
				applied[i], outcomes[i] = handle(i).Commit(context.Background(), request)
			})
		}
		start.Done()
		done.Wait()
		m.oneWinner(t, rows, applied, outcomes)
		m.reads(t, store)
		for _, r := range rows {
			m.absent(t, store, r.operation)
		}
	}
	m.audit(t, store, nil)
}

func (m *model) oneWinner(t testing.TB, rows []row, applied []authority.Applied, outcomes []error) {
	t.Helper()
	winner := -1
	for i, err := range outcomes {
		if err == nil && winner >= 0 {
			t.Fatalf("both %q and %q were applied from one revision", rows[winner].operation, rows[i].operation)
		}
		if err == nil {
			winner = i
		}
	}
	if winner < 0 {
		t.Fatalf("no commit was applied: %v", errors.Join(outcomes...))
	}
	rows[winner].revision = applied[winner].Revision
	m.rows = append(m.rows, rows[winner])
	for i, err := range outcomes {
		if i != winner {
			conflict(t, "the commit that came too late", err, authority.ReasonRevisionMismatch, m.current())
		}
	}
}

// cancelled: a verb under a cancelled context answers with that and leaves no trace.
func cancelled(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	m.commit(t, store, plain("op-1"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	verbs := map[string]func() error{
		"identity": func() error { _, err := store.Identity(ctx); return err },
		"load":     func() error { _, err := store.Load(ctx); return err },
		"receipt":  func() error { _, err := store.Receipt(ctx, "op-1"); return err },
		"scan":     func() error { _, err := store.Scan(ctx, 0, 10); return err },
		"commit":   func() error { _, err := store.Commit(ctx, m.request(plain("op-2"))); return err },
		"check":    func() error { return store.CheckCommit(ctx, m.request(plain("op-2"))) },
		"audit":    func() error { _, err := store.(authority.Auditor).Audit(ctx, nil, nil); return err },
		"view":     func() error { _, err := store.(authority.Viewer).View(ctx); return err },
	}
	for name, verb := range verbs {
		err := verb()
		if class, _ := authority.ReasonOf(err); !errors.Is(err, context.Canceled) || class == "" {
			t.Fatalf("%s under a cancelled context: %v, want an *authority.Error that wraps context.Canceled", name, err)
		}
	}
	m.reads(t, store)
	m.absent(t, store, "op-2")
}

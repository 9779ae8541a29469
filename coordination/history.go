package coordination

import (
	"context"
	"strings"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// revisions counts, for a projection head, how often each Todo was touched. The record
// contract has no place for a revision, and every transaction names its targets; so the
// history itself is the counter, and it survives every migration byte for byte. What was
// counted is kept, so that only the first command of a process reads from the beginning.
type revisions struct {
	mu     sync.Mutex
	cursor authority.Cursor
	state  authority.Canonical // the projection at cursor
	count  map[string]int64
}

// pageOfRevisions is how many transactions are read at once.
const pageOfRevisions = 256

// upTo counts through a head and returns the counts as they are then.
func (x *revisions) upTo(ctx context.Context, store authority.Reader, head authority.Head) (func(id string) int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.count == nil {
		x.count = map[string]int64{}
	}
	// A head behind what was counted is one that others have moved since: its commit will
	// be a conflict, and then it is decided again.
	for x.cursor < head.Cursor {
		page, err := store.Scan(ctx, x.cursor, int(min(pageOfRevisions, head.Cursor-x.cursor)))
		if err != nil {
			return nil, err
		}
		for _, row := range page.Transactions {
			x.add(row)
		}
		if len(page.Transactions) == 0 {
			return nil, &HeadError{Reason: ReasonHeadCorruption, Path: "cursor", Detail: "the history ends before its head"}
		}
	}
	counted := make(map[string]int64, len(x.count))
	for id, n := range x.count {
		counted[id] = n
	}
	return func(id string) int64 { return counted[id] }, nil
}

// add counts one transaction. The one that brings a Todo in leaves it at revision 0.
func (x *revisions) add(row authority.Transaction) {
	touched, told := targets(row.Events)
	if !told || row.Cursor == 1 {
		touched = differing(x.state, row.Projection)
	}
	for id := range touched {
		if n, known := x.count[id]; known {
			x.count[id] = n + 1
		} else {
			x.count[id] = 0
		}
	}
	x.cursor, x.state = row.Cursor, row.Projection
}

// targets reads which Todos the events of a transaction name; told is false when one
// event names none, as those of LoopX's imports and promotions.
func targets(events authority.Canonical) (touched map[string]bool, told bool) {
	touched = map[string]bool{}
	for event := range canonical.Elements(events) {
		named := takeApart(event)["targets"]
		if canonical.Kind(named) != canonical.Array {
			return nil, false
		}
		told = true
		for _, target := range textsOf(named) {
			if _, id, found := strings.Cut(target, ":"); found {
				touched[id] = true
			}
		}
	}
	return touched, told
}

// differing names the Todos whose record or lease differs between two projections.
func differing(before, after authority.Canonical) map[string]bool {
	touched := map[string]bool{}
	for _, key := range []string{"todos", "leases"} {
		was := map[string]string{}
		for _, r := range recordsOf(takeApart(before)[key]) {
			was[r.id] = string(r.text)
		}
		for _, r := range recordsOf(takeApart(after)[key]) {
			if was[r.id] != string(r.text) {
				touched[r.id] = true
			}
		}
	}
	return touched
}

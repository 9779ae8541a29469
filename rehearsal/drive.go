package rehearsal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/evidence"
)

// work is what the operations of a workload came to in one arm.
type work struct {
	answers   []string // one an operation
	committed uint64
	took      map[Verb][]time.Duration
	growth    [][2]float64 // transactions, bytes
}

// hand drives a workload through one store.
type hand struct {
	goal  string
	store authority.Store
	base  authority.Cursor // where the store stood before
	watch func(done int)
	size  func() (int64, error) // of what the store keeps; nil where nobody can tell
	clock func() time.Time

	head   authority.Head
	behind authority.Revision // the head's revision before the last commit
	kept   map[string]authority.CommitRequest
	got    map[string]authority.Receipt
	work
}

// driveStore drives the whole workload. An error is trouble with the store; whatever a
// store answers to an operation is an answer.
func driveStore(ctx context.Context, h hand, w Workload) (work, error) {
	var err error
	if h.head, err = h.store.Load(ctx); err != nil {
		return h.work, err
	}
	h.base, h.behind = h.head.Cursor, h.head.Revision
	h.kept, h.got, h.took = map[string]authority.CommitRequest{}, map[string]authority.Receipt{}, map[Verb][]time.Duration{}
	wanted := map[string]bool{}
	for _, o := range w.Operations {
		wanted[o.Of] = true
	}
	for i, o := range w.Operations {
		began := h.clock()
		answer, err := h.one(ctx, o, w.done(i), wanted[o.ID])
		if err != nil {
			return h.work, fmt.Errorf("operation %s: %w", o.ID, err)
		}
		h.answers = append(h.answers, answer)
		h.took[o.Verb] = append(h.took[o.Verb], h.clock().Sub(began))
		if err := h.grown(i, len(w.Operations)); err != nil {
			return h.work, err
		}
		if h.watch != nil {
			h.watch(i + 1)
		}
	}
	return h.work, nil
}

// grown takes the size of the store now and then.
func (h *hand) grown(i, of int) error {
	const points = 20
	if every := max(1, of/points); h.size == nil || (i+1)%every != 0 {
		return nil
	}
	bytes, err := h.size()
	h.growth = append(h.growth, [2]float64{float64(h.head.Cursor), float64(bytes)})
	return err
}

func (h *hand) one(ctx context.Context, o Operation, at time.Time, keep bool) (string, error) {
	switch o.Verb {
	case Replay:
		return h.replay(ctx, o)
	case ContentConflict:
		request, there := h.kept[o.Of]
		if !there {
			return "nothing_to_repeat", nil
		}
		request.Expected, request.Receipts = h.head.Revision, []byte(`[{"schema_version":"loopx_migrate_rehearsal_other_content_v1"}]`)
		return h.must(ctx, request)
	case RevisionConflict:
		return h.must(ctx, authority.CommitRequest{Expected: h.behind, OperationID: o.ID, Events: []byte("[]"), Projection: h.head.Projection, Receipts: []byte("[]")})
	case Lag:
		return h.lag(ctx, o)
	}
	return h.commit(ctx, o, at, keep)
}

// commit decides from the head and commits. What the work refuses never meets the store.
func (h *hand) commit(ctx context.Context, o Operation, at time.Time, keep bool) (string, error) {
	next, err := decide(h.goal, h.head.Projection, o, at)
	if err != nil {
		return "", err
	}
	if next.refused != "" {
		return next.answer(), nil
	}
	request := authority.CommitRequest{Expected: h.head.Revision, OperationID: o.ID, Events: next.events, Projection: next.projection, Receipts: next.receipts}
	applied, err := h.store.Commit(ctx, request)
	if err != nil {
		return said(err)
	}
	h.committed++
	h.behind = h.head.Revision
	h.head = authority.Head{Cursor: applied.Cursor, Revision: applied.Revision, Projection: next.projection}
	if keep {
		h.kept[o.ID] = request
		if h.got[o.ID], err = h.store.Receipt(ctx, o.ID); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("applied +%d", applied.Cursor-h.base), nil
}

// replay offers an operation again as it was. Its receipt must be what it was.
func (h *hand) replay(ctx context.Context, o Operation) (string, error) {
	request, there := h.kept[o.Of]
	if !there {
		return "nothing_to_repeat", nil
	}
	request.Expected = h.head.Revision
	answer, err := h.must(ctx, request)
	if err != nil {
		return "", err
	}
	again, err := h.store.Receipt(ctx, o.Of)
	if err != nil {
		return said(err)
	}
	was := h.got[o.Of]
	if again.Cursor != was.Cursor || again.Revision != was.Revision || string(again.Receipts) != string(was.Receipts) {
		return answer + ", RECEIPT CHANGED", nil
	}
	return answer + ", same receipt", nil
}

// must offers a commit that has to be refused. One that goes through is an answer as well.
func (h *hand) must(ctx context.Context, request authority.CommitRequest) (string, error) {
	applied, err := h.store.Commit(ctx, request)
	if err != nil {
		return said(err)
	}
	if applied.Cursor > h.head.Cursor {
		h.behind, h.head = h.head.Revision, authority.Head{Cursor: applied.Cursor, Revision: applied.Revision, Projection: request.Projection}
		return "COMMITTED", nil
	}
	return fmt.Sprintf("replayed +%d", int64(applied.Cursor)-int64(h.base)), nil
}

// said is a store's answer as arms are compared by it. A store that could not be reached
// gave none.
func said(err error) (string, error) {
	class, reason := authority.ReasonOf(err)
	if class == "" || class == authority.ClassUnavailable || class == authority.ClassAmbiguous {
		return "", err
	}
	return string(class) + " " + string(reason), nil
}

// lag reads what came since, page by page, as a reader that was away does. Only rows of
// the workload are looked at: those before belong to each arm's own beginning.
func (h *hand) lag(ctx context.Context, o Operation) (string, error) {
	after := h.base
	if back := authority.Cursor(o.Rows); h.head.Cursor-h.base > back {
		after = h.head.Cursor - back
	}
	var seen []byte
	rows := 0
	for {
		page, err := h.store.Scan(ctx, after, o.Page)
		if err != nil {
			return said(err)
		}
		for _, row := range page.Transactions {
			rows++
			seen = fmt.Appendf(seen, "%d %q %s %s %s\n", row.Cursor-h.base, row.OperationID, row.Events, row.Receipts, authority.DigestOf(row.Projection))
		}
		if after = page.Next; !page.HasMore {
			return fmt.Sprintf("read %d rows sha256:%s", rows, authority.DigestOf(seen)), nil
		}
	}
}

// latencies are how long each kind of operation took.
func (w work) latencies(arm string) []evidence.Latency {
	var all []evidence.Latency
	for _, verb := range verbs {
		took := slices.Sorted(slices.Values(w.took[verb]))
		if len(took) == 0 {
			continue
		}
		at := func(percent int) int64 { return took[min(len(took)-1, len(took)*percent/100)].Microseconds() }
		all = append(all, evidence.Latency{Arm: arm, Operation: string(verb), Count: uint64(len(took)),
			P50Micros: at(50), P95Micros: at(95), P99Micros: at(99), MaxMicros: took[len(took)-1].Microseconds()})
	}
	return all
}

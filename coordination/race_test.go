package coordination_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// together runs n commands at once, each through a handle of its own.
func (r *rig) together(n int, request func(i int) coordination.Envelope) []coordination.Result {
	r.Helper()
	results := make([]coordination.Result, n)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		a := r.attach(r.place.handle(r))
		all.Go(func() {
			<-begin
			results[i] = a.Apply(context.Background(), request(i))
		})
	}
	close(begin)
	all.Wait()
	return results
}

// TestSameTodoRace: one winner; each loser gets a conflict that names the Todo's own
// revision, no receipt and no lease.
func TestSameTodoRace(t *testing.T) {
	everywhere(t, 1, func(r *rig) {
		results := r.together(5, func(i int) coordination.Envelope {
			return claimRequest(r.place.Goal, fmt.Sprintf("op-%d", i), i, 0, 0)
		})
		winner := -1
		for i, result := range results {
			if result.Outcome == coordination.Applied {
				if winner >= 0 {
					r.Fatal("two winners")
				}
				winner = i
				continue
			}
			refused(r, result, coordination.Conflict, coordination.ReasonStale)
			if result.Refusal.Field != "expected_todo_revision" {
				r.Errorf("the conflict names %s", result.Refusal.Field)
			}
			_, err := r.Store.Receipt(r.Context(), fmt.Sprintf("op-%d", i))
			if class, _ := authority.ReasonOf(err); class != authority.ClassMissing {
				r.Errorf("a loser has a receipt: %v", err)
			}
		}
		if winner < 0 {
			r.Fatal("no winner")
		}
		same(r, r.lease(0), map[string]any{"owner": agentID(winner), "lease_epoch": 1})
	})
}

// TestIndependentTodosFromOneRevision: both are applied, each receipt stands once.
func TestIndependentTodosFromOneRevision(t *testing.T) {
	everywhere(t, 2, func(r *rig) {
		first, second := claimRequest(r.place.Goal, "op-0", 0, 0, 0), claimRequest(r.place.Goal, "op-1", 1, 1, 0)
		raced := &overtaken{Store: r.Store, times: 1, by: func() { applied(r, r.attach(r.place.handle(r)).Apply(r.Context(), first)) }}
		result := r.attach(raced).Apply(r.Context(), second)
		applied(r, result)
		if result.Attempts != 2 {
			r.Errorf("%d attempts, want one that lost and one that did not", result.Attempts)
		}
		for i := range 2 {
			if got := r.receiptsOf(fmt.Sprintf("op-%d", i)); got != 1 {
				r.Errorf("receipt of op-%d stands %d times", i, got)
			}
			same(r, r.lease(i), map[string]any{"owner": agentID(i)})
		}
	})
}

// receiptsOf counts the receipts of an operation in the whole history.
func (r *rig) receiptsOf(operation string) int {
	r.Helper()
	page, err := r.Store.Scan(r.Context(), 0, 10000)
	must(r, err)
	n := 0
	for _, row := range page.Transactions {
		for _, receipt := range decoded(r, []byte(`{"all":`+string(row.Receipts)+`}`))["all"].([]any) {
			if receipt.(map[string]any)["operation_id"] == operation {
				n++
			}
		}
	}
	return n
}

// overtaken is a store before whose first commits somebody else commits.
type overtaken struct {
	authority.Store
	times int
	by    func()
}

func (o *overtaken) Commit(ctx context.Context, request authority.CommitRequest) (authority.Applied, error) {
	if o.times > 0 {
		o.times--
		o.by()
	}
	return o.Store.Commit(ctx, request)
}

// TestContentionSpendsTheBudget: others commit each time; the command ends as failed,
// and neither receipt nor state tells of it.
func TestContentionSpendsTheBudget(t *testing.T) {
	everywhere(t, 2, func(r *rig) {
		claim := r.must(claimRequest(r.place.Goal, "op-busy", 1, 1, 0))
		n := 0
		busy := &overtaken{Store: r.Store, times: 100, by: func() {
			n++
			r.must(renewRequest(r.place.Goal, fmt.Sprintf("op-renew-%d", n), 1, claim))
		}}
		a := r.attach(busy)
		a.Budget = 3
		result := a.Apply(r.Context(), claimRequest(r.place.Goal, "op-spent", 2, 0, 0))
		refused(r, result, coordination.Failed, coordination.ReasonBudget)
		if result.Attempts != 3 || n != 3 {
			r.Errorf("%d attempts, %d commits of others", result.Attempts, n)
		}
		if r.lease(0) != nil || r.receiptsOf("op-spent") != 0 {
			r.Error("a spent budget left a trace")
		}
	})
}

// TestTheTargetMovedInBetween: a rebase looks at the target again, and a fence that no
// longer matches is not tried a second time.
func TestTheTargetMovedInBetween(t *testing.T) {
	everywhere(t, 1, func(r *rig) {
		lost := r.attach(&overtaken{Store: r.Store, times: 9, by: func() { r.do(claimRequest(r.place.Goal, "op-first", 1, 0, 0)) }})
		result := lost.Apply(r.Context(), claimRequest(r.place.Goal, "op-second", 2, 0, 0))
		refused(r, result, coordination.Conflict, coordination.ReasonStale)
		if result.Attempts != 2 {
			r.Errorf("%d attempts", result.Attempts)
		}
		claim := r.do(claimRequest(r.place.Goal, "op-first", 1, 0, 0)).Receipt
		late := r.attach(&overtaken{Store: r.Store, times: 9, by: func() { r.do(releaseRequest(r.place.Goal, "op-release", 1, claim)) }})
		result = late.Apply(r.Context(), renewRequest(r.place.Goal, "op-late", 1, claim))
		refused(r, result, coordination.Conflict, coordination.ReasonStaleFence)
		if result.Attempts != 2 {
			r.Errorf("%d attempts with a fence that does not match", result.Attempts)
		}
	})
}

// TestConcurrentClaims: K claims on independent Todos all succeed, for K up to 16.
func TestConcurrentClaims(t *testing.T) {
	share(t)
	for _, kind := range kinds {
		for _, k := range []int{1, 2, 5, 16} {
			t.Run(fmt.Sprintf("%s/%d", kind, k), func(t *testing.T) {
				shape := []string{bound, projected}[k%2]
				if k == 16 {
					shape = projected
				}
				r := newRig(t, kind, shape, 16)
				for _, result := range r.together(k, func(i int) coordination.Envelope {
					return claimRequest(r.place.Goal, fmt.Sprintf("op-%d", i), i, i, 0)
				}) {
					applied(t, result)
				}
				head, err := r.Store.Load(t.Context())
				must(t, err)
				if int(head.Cursor) != k+1 {
					t.Errorf("%s transactions, want the seed and %d claims", head.Cursor, k)
				}
			})
		}
	}
}

// BenchmarkConcurrentClaims is the latency of one claim while K-1 others are on their
// way, on a head of 64 Todos: nanoseconds per claim as its caller waits for it.
func BenchmarkConcurrentClaims(b *testing.B) {
	share(b)
	for _, kind := range kinds {
		for _, k := range []int{1, 2, 4, 8, 16} {
			b.Run(fmt.Sprintf("%s/K=%d", kind, k), func(b *testing.B) { measureClaims(b, kind, k) })
		}
	}
}

func measureClaims(b *testing.B, kind authority.Kind, k int) {
	var waited, worst float64
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		r := newRig(b, kind, projected, 64)
		took := make([]float64, k)
		b.StartTimer()
		for _, result := range r.timed(k, took) {
			applied(b, result)
		}
		for _, ms := range took {
			waited += ms
			worst = max(worst, ms)
		}
		rounds++
	}
	b.ReportMetric(waited/float64(rounds*k), "ms/claim")
	b.ReportMetric(worst, "ms/worst")
}

// timed claims k Todos at once and notes how long each caller waited, in milliseconds.
func (r *rig) timed(k int, took []float64) []coordination.Result {
	results := make([]coordination.Result, k)
	handles := make([]*coordination.Authority, k)
	for i := range k {
		handles[i] = r.attach(r.place.handle(r))
	}
	var all sync.WaitGroup
	for i := range k {
		all.Go(func() {
			began := time.Now()
			results[i] = handles[i].Apply(context.Background(), claimRequest(r.place.Goal, fmt.Sprintf("op-%d", i), i, i, 0))
			took[i] = float64(time.Since(began)) / float64(time.Millisecond)
		})
	}
	all.Wait()
	return results
}

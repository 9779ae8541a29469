package coordination_test

import (
	"context"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// TestCommitsLostOnTheWay: a COMMIT, or its answer, is lost between the agent and a real
// server. What was answered is what is there, and the same command again ends well.
func TestCommitsLostOnTheWay(t *testing.T) {
	for name, fate := range map[string]pgtest.Fate{"request": pgtest.LoseCommit, "answer": pgtest.LoseAnswer, "connection": pgtest.Cut} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.New(t)
			_, err := pgstore.Install(context.Background(), pgstore.Server{DSN: db.DSN(pgtest.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
			must(t, err)
			r := &rig{TB: t, place: address{Kind: authority.KindPostgreSQL, Path: db.DSN(pgtest.Admin), Tenant: "tenant-a", Goal: "goal-proxy"}, shape: projected, clock: &clock{epochAt}}
			direct := r.place.handle(t)
			r.seed(direct, 1)
			r.Authority = r.attach(direct)
			proxy := pgtest.NewProxy(t, db.Cluster, func(n int) pgtest.Fate {
				if n == 1 {
					return fate
				}
				return pgtest.Deliver
			})
			far := r.place
			far.Path = db.URL(pgtest.Admin, proxy.Port())
			e := claimRequest(r.place.Goal, "op-claim", 1, 0, 0)
			result := r.attach(far.handle(t)).Apply(t.Context(), e)
			if proxy.Commits() == 0 {
				t.Fatal("no COMMIT passed the proxy")
			}
			_, err = direct.Receipt(t.Context(), "op-claim")
			proved, held := err == nil, r.lease(0) != nil
			if proved != held || proved != (result.Outcome == coordination.Applied) {
				t.Fatalf("answered %s, %v; receipt %v, state %v", result.Outcome, result.Refusal, proved, held)
			}
			again := r.do(e)
			if want := map[bool]coordination.Outcome{true: coordination.AlreadyApplied, false: coordination.Applied}[proved]; again.Outcome != want {
				t.Errorf("again: %s, %v, want %s", again.Outcome, again.Refusal, want)
			}
		})
	}
}

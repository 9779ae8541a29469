package coordination_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// head reads the newest head as plain values.
func (r *rig) head() map[string]any {
	r.Helper()
	head, err := r.Store.Load(r.Context())
	must(r, err)
	return decoded(r, head.Projection)
}

// lease is the lease record of a Todo, nil when there is none.
func (r *rig) lease(todo int) map[string]any {
	r.Helper()
	if r.shape == bound {
		lease, _ := at(r.head(), "coordination", "leases")[todoID(todo)].(map[string]any)
		return lease
	}
	return named(r.head()["leases"], todoID(todo))
}

func (r *rig) todo(todo int) map[string]any {
	r.Helper()
	if r.shape == bound {
		record, _ := at(r.head(), "coordination", "todos")[todoID(todo)].(map[string]any)
		return record
	}
	return named(r.head()["todos"], todoID(todo))
}

func named(records any, id string) map[string]any {
	for _, record := range records.([]any) {
		if record := record.(map[string]any); record["todo_id"] == id {
			return record
		}
	}
	return nil
}

// same compares facts with what a record says.
func same(t testing.TB, record map[string]any, facts map[string]any) {
	t.Helper()
	for key, want := range facts {
		if got := record[key]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v in %v", key, got, want, record)
		}
	}
}

// TestLifeOfALease follows one Todo through every verb, by counters worked out by hand.
func TestLifeOfALease(t *testing.T) {
	everywhere(t, 2, func(r *rig) {
		base := map[string]int64{bound: 0, projected: 1}[r.shape] // the seed is a transaction too
		claim := r.must(claimRequest(r.place.Goal, "op-claim", 1, 0, 0))
		if claim.LeaseEpoch != 1 || claim.TodoRevision != 1 || claim.AuthorityRevision != base+1 || claim.ExpiresAt != "2026-09-01T08:01:00Z" {
			r.Fatalf("claim %+v", claim)
		}
		r.clock.forward(30 * time.Second)
		renew := r.must(renewRequest(r.place.Goal, "op-renew", 1, claim))
		if renew.LeaseID != claim.LeaseID || renew.LeaseEpoch != 1 || renew.TodoRevision != 2 || renew.AuthorityRevision != base+2 || renew.ExpiresAt != "2026-09-01T08:01:30Z" {
			r.Fatalf("renew %+v", renew)
		}
		release := r.must(releaseRequest(r.place.Goal, "op-release", 1, claim))
		if release.TodoRevision != 3 || r.todo(0)["claimed_by"] != nil {
			r.Fatalf("release %+v", release)
		}
		r.releasedLease()
		second := r.must(claimRequest(r.place.Goal, "op-again", 2, 0, 3))
		if second.LeaseEpoch != 2 || second.LeaseID == claim.LeaseID {
			r.Fatalf("the watermark was lost: %+v", second)
		}
		r.clock.forward(61 * time.Second)
		reclaim := r.must(reclaimRequest(r.place.Goal, "op-reclaim", 3, 0))
		if reclaim.LeaseEpoch != 3 || reclaim.SupersededOwner != agentID(2) || reclaim.SupersededEpoch != 2 || reclaim.TodoRevision != 5 {
			r.Fatalf("reclaim %+v", reclaim)
		}
		done := r.must(completeRequest(r.place.Goal, "op-done", 3, reclaim, "todo_next"))
		if done.Continuation != "successor" || done.TodoRevision != 6 || done.AuthorityRevision != base+6 {
			r.Fatalf("complete %+v", done)
		}
		same(r, r.todo(0), map[string]any{"status": "done", "completion_continuation": "successor", "successor_todo_ids": []any{"todo_next"}})
		next := r.must(envelope(r.place.Goal, "op-next", 1, coordination.Command{Type: coordination.ClaimWork, TodoID: "todo_next",
			ExpectedRevision: revision(0), Preconditions: tokens(), TTLSeconds: 60}))
		if next.LeaseEpoch != 1 || next.TodoRevision != 1 {
			r.Fatalf("the successor begins at %+v", next)
		}
	})
}

// releasedLease wants the lease as each shape keeps it after a renewal and a release.
func (r *rig) releasedLease() {
	r.Helper()
	if r.shape == bound {
		if r.lease(0) != nil {
			r.Fatalf("the lease stands: %v", r.lease(0))
		}
		same(r, r.todo(0), map[string]any{"last_lease_epoch": 1})
		return
	}
	same(r, r.lease(0), map[string]any{"status": "released", "version": 2, "lease_epoch": 1, "acquire_ttl_seconds": 60, "owner": agentID(1),
		"acquired_at": "2026-09-01T08:00:00Z", "updated_at": "2026-09-01T08:00:30Z", "released_at": "2026-09-01T08:00:30Z",
		"expires_at": "2026-09-01T08:01:30Z", "schema_version": "task_lease_v0", "goal_id": r.place.Goal, "todo_id": todoID(0)})
}

// TestGraceWindow walks over the edges of a lease's end and of the window behind it.
func TestGraceWindow(t *testing.T) {
	everywhere(t, 1, func(r *rig) {
		grace, err := coordination.GraceSeconds(10)
		must(r, err)
		r.Grace = grace
		claim := r.must(claimRequest(r.place.Goal, "op-claim", 1, 0, 0))
		end := epochAt.Add(60 * time.Second)
		r.clock.at = end.Add(-time.Nanosecond)
		refused(r, r.do(reclaimRequest(r.place.Goal, "op-early", 2, 0)), coordination.Rejected, coordination.ReasonNotReclaimable)
		// The lease is in force for one nanosecond more. Its new end is cut to whole seconds.
		if renewed := r.must(renewRequest(r.place.Goal, "op-renew", 1, claim)); renewed.ExpiresAt != coordination.InstantOf(end.Add(59*time.Second)) {
			r.Fatalf("renewed to %s", renewed.ExpiresAt)
		}
		end = end.Add(59 * time.Second)
		for i, at := range []time.Time{end, end.Add(time.Nanosecond), end.Add(10*time.Second - time.Nanosecond)} {
			r.clock.at = at
			refused(r, r.do(renewRequest(r.place.Goal, fmt.Sprintf("op-renew-%d", i), 1, claim)), coordination.Rejected, coordination.ReasonNotActive)
			refused(r, r.do(reclaimRequest(r.place.Goal, fmt.Sprintf("op-reclaim-%d", i), 2, 0)), coordination.Rejected, coordination.ReasonNotReclaimable)
		}
		r.clock.at = end.Add(10 * time.Second)
		if got := r.must(reclaimRequest(r.place.Goal, "op-reclaim", 2, 0)); got.SupersededOwner != agentID(1) {
			r.Fatalf("reclaim %+v", got)
		}
	})
}

func TestGraceIsAFiniteNumber(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, -0.5, 1e300} {
		if _, err := coordination.GraceSeconds(bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	for _, bad := range []string{"true", "false", `"5"`, "null", "NaN", "-1", "1e400", "[5]", ""} {
		if _, err := coordination.ParseGrace([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	for _, good := range []string{"0", "2.5", "86400"} {
		if _, err := coordination.ParseGrace([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// TestASupersededHolderNeverWritesAgain: after a reclaim no verb takes the old fence, at
// any time, and after a release neither.
func TestASupersededHolderNeverWritesAgain(t *testing.T) {
	everywhere(t, 2, func(r *rig) {
		old := r.must(claimRequest(r.place.Goal, "op-claim", 1, 0, 0))
		r.clock.forward(time.Hour)
		current := r.must(reclaimRequest(r.place.Goal, "op-reclaim", 2, 0))
		released := r.must(claimRequest(r.place.Goal, "op-other", 1, 1, 0))
		r.must(releaseRequest(r.place.Goal, "op-free", 1, released))
		r.without(func() {
			for i, lease := range []coordination.Receipt{old, released} {
				for _, verb := range []func(string, string, int, coordination.Receipt) coordination.Envelope{renewRequest, releaseRequest,
					func(goal, op string, agent int, lease coordination.Receipt) coordination.Envelope {
						return completeRequest(goal, op, agent, lease)
					}} {
					refused(r, r.do(verb(r.place.Goal, fmt.Sprintf("op-late-%d", i), 1, lease)), coordination.Conflict, coordination.ReasonStaleFence)
				}
			}
			// The right fence in the wrong hands, and a right lease at a wrong epoch.
			refused(r, r.do(renewRequest(r.place.Goal, "op-thief", 1, current)), coordination.Rejected, coordination.ReasonNotHolder)
			wrong := current
			wrong.LeaseEpoch--
			refused(r, r.do(renewRequest(r.place.Goal, "op-epoch", 2, wrong)), coordination.Conflict, coordination.ReasonStaleFence)
		})
		if got := r.do(claimRequest(r.place.Goal, "op-claim", 1, 0, 0)); got.Authorization != coordination.AuthorizationSuperseded {
			r.Errorf("the old receipt says %s", got.Authorization)
		}
		r.must(completeRequest(r.place.Goal, "op-done", 2, current))
	})
}

// TestWriteScopesDoNotOverlap: two leases in force never cover one path; one that ended
// is in nobody's way.
func TestWriteScopesDoNotOverlap(t *testing.T) {
	everywhere(t, 3, func(r *rig) {
		scoped := func(op string, todo int, scopes ...string) coordination.Envelope {
			e := claimRequest(r.place.Goal, op, todo, todo, 0)
			e.Command.Scopes = scopes
			return e
		}
		r.must(scoped("op-0", 0, "docs/**", "src/a"))
		r.without(func() {
			for i, scopes := range [][]string{{"docs/x"}, {"lib", "src/a/deep"}, {"src"}, {"s*/a"}} {
				got := r.do(scoped(fmt.Sprintf("op-1-%d", i), 1, scopes...))
				refused(r, got, coordination.Rejected, coordination.ReasonScopeOverlap)
				if len(got.Refusal.Offenders) != 1 || got.Refusal.Offenders[0] != todoID(0) {
					r.Errorf("offenders %v", got.Refusal.Offenders)
				}
			}
		})
		r.must(scoped("op-2", 2, "src/b"))
		r.clock.forward(2 * time.Minute)
		r.must(scoped("op-1", 1, "docs/x"))
	})
}

// TestEvidence: pointer and class agree, and nothing but a pointer gets in.
func TestEvidence(t *testing.T) {
	everywhere(t, 1, func(r *rig) {
		claim := r.must(claimRequest(r.place.Goal, "op-claim", 1, 0, 0))
		with := func(op, pointer, digest, class string) coordination.Envelope {
			e := completeRequest(r.place.Goal, op, 1, claim)
			e.Command.Evidence = &coordination.Evidence{Pointer: pointer, Digest: digest, PrivacyClass: class}
			return e
		}
		r.without(func() {
			for i, bad := range [][3]string{
				{"artifact://public/run-1", zeros(1), "private"}, {"artifact://other/run-1", zeros(1), "public"},
				{"artifact://public/a/b", zeros(1), "public"}, {"artifact://public/run?x=1", zeros(1), "public"},
				{"https://host/run", zeros(1), "public"}, {"artifact://user:pw@public/run", zeros(1), "public"}, {"/home/a/run", zeros(1), "public"},
				{"artifact://public/run-1", "sha256:00", "public"}, {"artifact://public/run-1", zeros(1)[7:], "public"},
			} {
				refused(r, r.do(with(fmt.Sprintf("op-%d", i), bad[0], bad[1], bad[2])), coordination.Rejected, coordination.ReasonInvalid)
			}
		})
		got := r.must(with("op-done", "artifact://private/run-1", zeros(7), "private"))
		if got.Evidence == nil || got.Evidence.Digest != zeros(7) || got.Continuation != "no_followup" {
			r.Errorf("receipt %+v", got)
		}
		record := map[string]any{"status": "done", "no_followup": true, "evidence": "artifact://private/run-1"}
		if r.shape == bound {
			record["evidence"] = map[string]any{"pointer": "artifact://private/run-1", "digest": zeros(7), "privacy_class": "private"}
		}
		same(r, r.todo(0), record)
	})
}

// TestMutationEventIsLoopXs recomputes each digest of the event by a second way.
func TestMutationEventIsLoopXs(t *testing.T) {
	r := newRig(t, authority.KindFile, projected, 1)
	before, err := r.Store.Load(t.Context())
	must(t, err)
	r.must(claimRequest(r.place.Goal, "op-claim", 1, 0, 0))
	page, err := r.Store.Scan(t.Context(), 1, 1)
	must(t, err)
	row := page.Transactions[0]
	mutations := []any{map[string]any{"kind": "todo_upsert", "todo": r.todo(0)}, map[string]any{"kind": "lease_upsert", "lease": r.lease(0)}}
	want := fixture.Canonical([]any{map[string]any{"schema_version": "loopx_coordination_projection_mutation_event_v0", "goal_id": r.place.Goal,
		"operation_id": "op-claim", "mutation_kinds": []any{"lease_upsert", "todo_upsert"}, "targets": []any{"lease:" + todoID(0), "todo:" + todoID(0)},
		"mutation_sha256": fixture.SHA256(fixture.Canonical(mutations)), "previous_projection_sha256": fixture.SHA256(before.Projection),
		"next_projection_sha256": fixture.SHA256(row.Projection)}})
	if !bytes.Equal(row.Events, want) {
		t.Errorf("events\n%s\nwant\n%s", row.Events, want)
	}
	head := r.head()
	if !bytes.Equal(fixture.Canonical(head["todo_read_model"]), fixture.Canonical(readModel(head["todos"].([]any)))) {
		t.Errorf("read model %v", head["todo_read_model"])
	}
}

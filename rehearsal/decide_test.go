package rehearsal

import (
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// What LoopX 0.5.2 answered to the same operations in each handoff mode, with its codes in
// our words. "-" is an operation that it did.
func TestAnswersAreThoseOfLoopX(t *testing.T) {
	at := func(verb Verb, agent, key string) Operation {
		return Operation{Verb: verb, TodoID: "todo_b", Agent: agent, Key: key, TTL: 100000}
	}
	lapsed := func(o Operation) Operation { o.lapsed = true; return o }
	missing := func(o Operation) Operation { o.TodoID = "todo_missing"; return o }
	noted := func(agent, text string) Operation {
		return Operation{Verb: Note, TodoID: "todo_b", Agent: agent, Text: text}
	}
	table := []struct {
		what             string
		o                Operation
		hard, none, soft string
	}{
		{"claim without a lease", at(Claim, "s", ""), "lease_required", "-", "-"},
		{"renew without one", at(LeaseRenew, "s", "k"), "lease_not_active", "lease_not_active", "lease_forbidden"},
		{"release without one", at(LeaseRelease, "s", "k"), "unchanged", "unchanged", "unchanged"},
		{"complete under a lease that is not there", at(Complete, "s", "k"), "lease_required", "lease_not_active", "lease_not_active"},
		{"release of a missing todo", missing(at(LeaseRelease, "s", "k")), "unchanged", "unchanged", "unchanged"},
		{"acquire of a missing todo", missing(at(LeaseAcquire, "s", "k")), "todo_missing", "todo_missing", "todo_missing"},
		{"acquire", at(LeaseAcquire, "s", "kb"), "-", "-", "lease_forbidden"},
		{"again", at(LeaseAcquire, "s", "kb"), "unchanged", "unchanged", "lease_forbidden"},
		{"with another key", at(LeaseAcquire, "s", "kb2"), "lease_held", "lease_held", "lease_forbidden"},
		{"claim", at(Claim, "s", ""), "-", "unchanged", "unchanged"},
		{"claim again", at(Claim, "s", ""), "unchanged", "unchanged", "unchanged"},
		{"acquire by another", at(LeaseAcquire, "n", "kn"), "claimed_by_another", "claimed_by_another", "claimed_by_another"},
		{"claim by another", at(Claim, "n", ""), "claimed_by_another", "claimed_by_another", "claimed_by_another"},
		{"note by another", noted("n", "x"), "claimed_by_another", "claimed_by_another", "claimed_by_another"},
		{"complete without the key", at(Complete, "s", ""), "key_required", "key_required", "-"},
		{"with a wrong key", at(Complete, "s", "wrong"), "lease_not_held", "lease_not_held", "unchanged"},
		{"renew with a wrong key", at(LeaseRenew, "s", "wrong"), "lease_not_held", "lease_not_held", "lease_forbidden"},
		{"renew", at(LeaseRenew, "s", "kb"), "-", "-", "lease_forbidden"},
		{"renew what ran out", lapsed(at(LeaseRenew, "s", "kb")), "lease_not_active", "lease_not_active", "lease_forbidden"},
		{"complete under it", lapsed(at(Complete, "s", "kb")), "lease_required", "lease_not_active", "unchanged"},
		{"acquire with its key", lapsed(at(LeaseAcquire, "s", "kb")), "key_used", "key_used", "todo_not_open"},
		{"with a new key", lapsed(at(LeaseAcquire, "s", "kb3")), "-", "-", "todo_not_open"},
		{"release with a wrong key", at(LeaseRelease, "s", "kb"), "lease_not_held", "lease_not_held", "unchanged"},
		{"release", at(LeaseRelease, "s", "kb3"), "-", "-", "unchanged"},
		{"release again", at(LeaseRelease, "s", "kb3"), "unchanged", "unchanged", "unchanged"},
		{"acquire with the key of the released", at(LeaseAcquire, "s", "kb3"), "key_used", "key_used", "todo_not_open"},
		{"acquire", at(LeaseAcquire, "s", "kb4"), "-", "-", "todo_not_open"},
		{"complete", at(Complete, "s", "kb4"), "-", "-", "unchanged"},
		{"complete again", at(Complete, "s", "kb4"), "unchanged", "unchanged", "unchanged"},
		{"note on what is done", noted("s", "late"), "-", "-", "-"},
		{"the same note", noted("s", "late"), "unchanged", "unchanged", "unchanged"},
		{"acquire what is done", at(LeaseAcquire, "s", "kb5"), "todo_not_open", "todo_not_open", "todo_not_open"},
		{"archive", at(Archive, "", ""), "-", "-", "-"},
		{"note on what is archived", noted("s", "later"), "todo_missing", "todo_missing", "todo_missing"},
	}
	for mode, column := range map[string]func(i int) string{
		"hard_lease": func(i int) string { return table[i].hard },
		"legacy":     func(i int) string { return table[i].none },
		"soft_claim": func(i int) string { return table[i].soft },
	} {
		projection := authority.Canonical(strings.Replace(head0, "hard_lease", mode, 1))
		for i, c := range table {
			next, err := decide("g", projection, c.o, Workload{Begins: nine}.at(i))
			if err != nil {
				t.Fatal(err)
			}
			answer := next.refused
			if answer == "" {
				answer, projection = "-", next.projection
			}
			if want := column(i); answer != want {
				t.Errorf("%s, %d %s: %s, LoopX answered %s", mode, i, c.what, answer, want)
			}
		}
	}
}

// What an operation writes, as LoopX 0.5.2 wrote it: a renewal keeps for how long the lease
// was taken, a completion says that the Goal goes on, and the times of Markdown have an offset.
func TestRecordsAreThoseOfLoopX(t *testing.T) {
	head := strings.ReplaceAll(head0, "loopx_todo_domain_read_record_v0", "loopx_todo_canonical_read_record_v0")
	projection := authority.Canonical(head)
	for i, o := range []Operation{
		{Verb: LeaseAcquire, TodoID: "todo_b", Agent: "s", Key: "k", TTL: 600},
		{Verb: LeaseRenew, TodoID: "todo_b", Agent: "s", Key: "k", TTL: 90},
		{Verb: Complete, TodoID: "todo_b", Agent: "s", Key: "k"},
	} {
		next, err := decide("g", projection, o, Workload{Begins: nine}.at(i))
		if err != nil || next.refused != "" {
			t.Fatal(err, next.refused)
		}
		projection = next.projection
	}
	h := headOf(projection)
	lease, todo := recordOf(h.leases.text["todo_b"]), recordOf(h.todos.text["todo_b"])
	for key, value := range map[string]string{"acquire_ttl_seconds": "600", "version": "2", "lease_epoch": "1", "expires_at": `"2026-11-03T09:02:30Z"`, "released_at": `"2026-11-03T09:02:00Z"`} {
		if string(lease[key]) != value {
			t.Errorf("lease %s is %s, want %s", key, lease[key], value)
		}
	}
	for key, value := range map[string]string{"completion_continuation": "active_goal", "completed_at": "2026-11-03T09:02:00+00:00", "updated_at": "2026-11-03T09:02:00+00:00", "status": "done"} {
		if todo.text(key) != value {
			t.Errorf("todo %s is %s, want %s", key, todo[key], value)
		}
	}
}

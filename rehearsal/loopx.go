package rehearsal

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// loopxReasons are our words for LoopX's codes. A code that is not here is an answer of
// its own, and so a difference.
var loopxReasons = map[string]string{
	"todo_not_found":              refusedTodoMissing,
	"todo_not_open":               refusedNotOpen,
	"owner_conflicts_with_claim":  refusedClaimed,
	"todo_lease_conflict":         refusedLeaseHeld,
	"lease_cas_mismatch":          refusedNotHeld,
	"lease_not_active":            refusedNotActive,
	"handoff_mode_requires_lease": refusedNeedsLease,
	"handoff_mode_forbids_lease":  refusedForbidsLease,
	"idempotency_key_reuse":       refusedKeyUsed,
	"lease_fence_required":        refusedKeyMissing,
}

// refusedPlainly is the answer where LoopX gave no code: that it refused is compared, why is not.
const refusedPlainly = "refused"

// loopxHand drives a workload through the legacy files of a copy by LoopX's own command
// line, and learns what LoopX made of it: its ids, its times, which Todo it archived.
type loopxHand struct {
	*loopx
	clock func() time.Time
	watch func(done int)

	ids   map[string]string    // LoopX's Todo ids by the workload's
	until map[string]time.Time // when a lease runs out by the workload's time
	first string               // the agent that acts where the workload names none
	now   reading
	work
	lapsed, uncoded, elsewhere int
}

// reading is what the files of the copy say.
type reading struct {
	files legacy.Files
	head  head
}

func (h *loopxHand) read() (reading, error) {
	files, err := filesHand{at: h.at, clock: h.clock}.load()
	if err != nil {
		return reading{}, err
	}
	projection, err := legacy.Inspect(files, h.clock()).Projection()
	return reading{files, headOf(projection)}, err
}

// lease is the record in a lease file, of archived Todos as well.
func (r reading) lease(todo string) record {
	for _, entry := range r.files.Leases {
		if entry.Name == todo+".json" {
			text, err := canonical.Append(nil, entry.Bytes)
			if err != nil {
				return record{}
			}
			return recordOf(text)
		}
	}
	return record{}
}

// same reports whether two readings hold the same bytes: the state file and the records
// of leases, not the locks beside them.
func (r reading) same(other reading) bool {
	equal := func(a, b legacy.LeaseEntry) bool { return a.Name == b.Name && bytes.Equal(a.Bytes, b.Bytes) }
	return bytes.Equal(r.files.State, other.files.State) && slices.EqualFunc(r.records(), other.records(), equal)
}

func (r reading) records() []legacy.LeaseEntry {
	return slices.DeleteFunc(slices.Clone(r.files.Leases), func(e legacy.LeaseEntry) bool { return filepath.Ext(e.Name) != ".json" })
}

// drive drives the whole workload and returns it as LoopX did it.
func (h *loopxHand) drive(ctx context.Context, w Workload) (_ work, done Workload, err error) {
	h.ids, h.until, h.took = map[string]string{}, map[string]time.Time{}, map[Verb][]time.Duration{}
	h.first = w.agents()[0]
	done = w
	done.Operations = slices.Clone(w.Operations)
	if h.now, err = h.read(); err != nil {
		return h.work, done, err
	}
	for i := range done.Operations {
		o := &done.Operations[i]
		answer := "not_asked"
		if o.commits() {
			if answer, err = h.one(ctx, o, w.at(i)); err != nil {
				return h.work, done, fmt.Errorf("operation %s: %w", o.ID, err)
			}
		}
		if answer == "applied" {
			h.committed++
		}
		h.answers = append(h.answers, answer)
		if h.watch != nil {
			h.watch(i + 1)
		}
	}
	return h.work, done, nil
}

// one lets LoopX do an operation and learns what became of it.
func (h *loopxHand) one(ctx context.Context, o *Operation, at time.Time) (string, error) {
	named := o.TodoID
	if id, known := h.ids[named]; known {
		o.TodoID = id
	}
	o.at = h.clock().UTC().Truncate(time.Second)
	if h.cannot(*o) {
		return "not_asked", nil
	}
	giveBack, err := h.age(o, at)
	if err != nil {
		return "", err
	}
	began := h.clock()
	s, err := h.ask(ctx, h.line(*o, h.now)...)
	if err == nil && *s.OK && o.Verb == Archive {
		s, err = h.ask(ctx, append(h.line(*o, h.now), "--max-active-done", strconv.Itoa(max(0, *s.DoneBefore-1)), "--execute")...)
	}
	if err != nil {
		return "", err
	}
	ended := h.clock()
	if err := giveBack(); err != nil {
		return "", err
	}
	after, err := h.read()
	if err != nil {
		return "", err
	}
	h.took[o.Verb] = append(h.took[o.Verb], ended.Sub(began))
	before := h.now
	h.now = after
	if !*s.OK {
		return h.refused(s, before.same(after)), nil
	}
	if before.same(after) {
		return refusedNothing, nil
	}
	if o.Verb == Add {
		h.ids[named], o.TodoID = s.TodoID, s.TodoID
	}
	h.learn(o, at, before, window{began, ended})
	return "applied", nil
}

// cannot reports whether LoopX has no command for an operation as the files stand: it
// mints ids, and it archives what is done but not one Todo by name.
func (h *loopxHand) cannot(o Operation) bool {
	todo := recordOf(h.now.head.todos.text[o.TodoID])
	switch o.Verb {
	case Add:
		return len(todo) > 0
	case Archive:
		return string(todo["done"]) != "true" || todo.text("archive_state") == "archive"
	}
	return false
}

func (h *loopxHand) refused(s reply, untouched bool) string {
	answer := refusedPlainly
	switch code := s.code(); {
	case loopxReasons[code] != "":
		answer += " " + loopxReasons[code]
	case code != "":
		answer += " loopx:" + code
	default:
		h.uncoded++
	}
	if !untouched {
		answer += ", WROTE"
	}
	return answer
}

// line is the command line of an operation, without what every command has.
func (h *loopxHand) line(o Operation, now reading) []string {
	goal := []string{"--goal-id", h.at.place.GoalID()}
	todo := append(goal, "--todo-id", o.TodoID)
	version := strconv.FormatInt(now.lease(o.TodoID).number("version"), 10)
	lease := slices.Concat(todo, []string{"--owner", o.Agent, "--idempotency-key", o.Key})
	switch o.Verb {
	case Add:
		kind := []string{"--role", "agent", "--task-class", "advancement_task"}
		if o.Role == "user" {
			kind = []string{"--role", "user", "--task-class", "user_action", "--goal-bound"}
		}
		return slices.Concat([]string{"todo", "add"}, goal, kind, []string{"--text", o.Text})
	case Note:
		return slices.Concat([]string{"todo", "update"}, todo, []string{"--note", o.Text, "--agent-id", h.actor(o, now)})
	case Claim:
		return slices.Concat([]string{"todo", "claim"}, todo, []string{"--claimed-by", o.Agent, "--agent-id", o.Agent})
	case Complete:
		line := slices.Concat([]string{"todo", "complete"}, todo, []string{"--agent-id", h.actor(o, now)})
		if o.Key != "" {
			line = append(line, "--task-lease-idempotency-key", o.Key, "--task-lease-expected-version", version)
		}
		return line
	case Archive:
		return slices.Concat([]string{"todo", "archive-completed"}, goal, []string{"--role", recordOf(now.head.todos.text[o.TodoID]).text("role")})
	case LeaseAcquire:
		return slices.Concat([]string{"task-lease", "acquire"}, lease, []string{"--ttl-seconds", strconv.FormatInt(o.TTL, 10), "--write-scope", o.scope()})
	case LeaseRenew:
		return slices.Concat([]string{"task-lease", "renew"}, lease, []string{"--ttl-seconds", strconv.FormatInt(o.TTL, 10), "--expected-version", version})
	}
	return slices.Concat([]string{"task-lease", "release"}, lease, []string{"--expected-version", version})
}

// actor is who does an operation for which the workload names nobody: who claims the Todo.
func (h *loopxHand) actor(o Operation, now reading) string {
	if o.Agent != "" {
		return o.Agent
	}
	if by := recordOf(now.head.todos.text[o.TodoID]).text("claimed_by"); by != "" {
		return by
	}
	return h.first
}

// long is a time at which no lease of anybody runs any more, and which no clock gives.
const long = "2000-01-01T00:00:00Z"

// age lets a lease run out that has by the workload's time, and not yet by LoopX's clock.
// giveBack puts the time back where LoopX left it.
func (h *loopxHand) age(o *Operation, at time.Time) (giveBack func() error, err error) {
	nothing := func() error { return nil }
	lease := h.now.lease(o.TodoID)
	until, known := h.until[o.TodoID]
	if !known || until.After(at) || lease.text("status") != "active" {
		return nothing, nil
	}
	o.lapsed = true
	h.lapsed++
	path := filepath.Join(h.at.place.LeaseDir(), o.TodoID+".json")
	was := []byte(`"expires_at": "` + lease.text("expires_at") + `"`)
	put := func(text, from, to []byte) error {
		if !bytes.Contains(text, from) {
			return nil
		}
		return atomicfile.Replace(path, 0o600, bytes.Replace(text, from, to, 1))
	}
	aged := []byte(`"expires_at": "` + long + `"`)
	i := slices.IndexFunc(h.now.files.Leases, func(e legacy.LeaseEntry) bool { return e.Name == o.TodoID+".json" })
	giveBack = func() error {
		files, err := filesHand{at: h.at, clock: h.clock}.load()
		if err != nil {
			return err
		}
		for _, e := range files.Leases {
			if e.Name == o.TodoID+".json" {
				return put(e.Bytes, aged, was)
			}
		}
		return nil
	}
	return giveBack, put(h.now.files.Leases[i].Bytes, was, aged)
}

// window is when a command ran.
type window struct{ began, ended time.Time }

// holds reads a time that LoopX wrote. One that it cannot have meant for this operation
// is not learnt, and so is a difference.
func (w window) holds(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	early, late := w.began.Add(-time.Second), w.ended.Add(time.Second)
	return at.UTC(), err == nil && at.After(early) && at.Before(late)
}

// mintedFields are the fields of a Todo that LoopX makes up when it changes one.
var mintedFields = []string{"completion_turn_key", "completion_receipt_id", "last_actor_agent_id"}

// learn takes what only LoopX knows of an operation that it did.
func (h *loopxHand) learn(o *Operation, at time.Time, before reading, during window) {
	if o.Verb == Archive {
		h.learnMoved(o, before)
		return
	}
	was, is, lease := recordOf(before.head.todos.text[o.TodoID]), recordOf(h.now.head.todos.text[o.TodoID]), h.now.lease(o.TodoID)
	from := is.text("updated_at")
	switch o.Verb {
	case LeaseAcquire, LeaseRenew:
		from = lease.text("updated_at")
		h.until[o.TodoID] = at.Add(time.Duration(o.TTL) * time.Second)
	case LeaseRelease:
		from = lease.text("released_at")
	case Complete:
		if ended, held := during.holds(lease.text("released_at")); held {
			o.leaseAt = ended
		}
	}
	if wrote, held := during.holds(from); held {
		o.at = wrote
	}
	for _, key := range mintedFields {
		value := is.text(key)
		if value != "" && value != was.text(key) && (key != "last_actor_agent_id" || value == h.actor(*o, before)) {
			if o.minted == nil {
				o.minted = map[string]string{}
			}
			o.minted[key] = value
		}
	}
}

// learnMoved takes which Todo LoopX archived: the oldest that was done.
func (h *loopxHand) learnMoved(o *Operation, before reading) {
	var moved []string
	for _, id := range slices.Sorted(maps.Keys(h.now.head.todos.text)) {
		was, is := recordOf(before.head.todos.text[id]), recordOf(h.now.head.todos.text[id])
		if was.text("archive_state") != "archive" && is.text("archive_state") == "archive" {
			moved = append(moved, id)
		}
	}
	if len(moved) == 1 && moved[0] != o.TodoID {
		o.TodoID = moved[0]
		h.elsewhere++
	}
}

// notChecked are what of the workload LoopX's arm does not show.
func (h *loopxHand) notChecked() []evidence.NotChecked {
	all := []evidence.NotChecked{{What: "ids, times and turn keys of the workload",
		Why: "LoopX makes them up: it worked first, and the other arms repeated its work with them"}}
	for _, n := range []struct {
		count int
		what  string
		why   string
	}{
		{h.lapsed, "the running out of %d leases", "LoopX goes by its own clock: their expiry was set into the past in the copy's files, and put back behind the operation"},
		{h.elsewhere, "which of %d Todos was archived", "LoopX archives what was done first, not a Todo by name: the other arms archived the one that it took"},
		{h.uncoded, "why %d operations were refused", "LoopX gave no code: only that it refused was compared"},
	} {
		if n.count > 0 {
			all = append(all, evidence.NotChecked{What: fmt.Sprintf(n.what, n.count), Why: n.why})
		}
	}
	return all
}

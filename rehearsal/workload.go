package rehearsal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/evidence"
)

// WorkloadSchema names the shape of a workload file: JSON lines, the first of them a
// header, each other one an [Operation].
const WorkloadSchema = "loopx_migrate_workload_v1"

// Verb is what an operation does.
type Verb string

// The verbs. The first ones change a head; the last four ask a store what it makes of a
// caller who repeats himself, contradicts himself, comes late or is behind.
const (
	Add          Verb = "add"           // todo_id, text, role
	Note         Verb = "note"          // todo_id, text
	Claim        Verb = "claim"         // todo_id, agent
	LeaseAcquire Verb = "lease_acquire" // todo_id, agent, idempotency_key, ttl_seconds
	LeaseRenew   Verb = "lease_renew"   // the same
	LeaseRelease Verb = "lease_release" // todo_id, agent, idempotency_key
	Complete     Verb = "complete"      // the same; it releases the lease
	Archive      Verb = "archive"       // todo_id
	PutTodo      Verb = "todo_put"      // record: one that a history had
	PutLease     Verb = "lease_put"     // record

	Replay           Verb = "replay"            // of: the same operation again
	ContentConflict  Verb = "content_conflict"  // of: its id with other content
	RevisionConflict Verb = "revision_conflict" // a commit on a head that was left behind
	Lag              Verb = "lag"               // rows, page: a reader that is behind catches up
)

var verbs = []Verb{Add, Note, Claim, LeaseAcquire, LeaseRenew, LeaseRelease, Complete, Archive, PutTodo, PutLease,
	Replay, ContentConflict, RevisionConflict, Lag}

// Operation is one line of a workload.
type Operation struct {
	ID     string          `json:"operation_id"`
	Verb   Verb            `json:"op"`
	TodoID string          `json:"todo_id,omitempty"`
	Text   string          `json:"text,omitempty"`
	Role   string          `json:"role,omitempty"`
	Agent  string          `json:"agent,omitempty"`
	Key    string          `json:"idempotency_key,omitempty"`
	TTL    int64           `json:"ttl_seconds,omitempty"`
	Of     string          `json:"of,omitempty"`
	Rows   uint64          `json:"rows,omitempty"`
	Page   int             `json:"page,omitempty"`
	Record json.RawMessage `json:"record,omitempty"`

	learnt
}

// learnt is what LoopX made of an operation that it did first. The other arms repeat it
// that way; no file holds it.
type learnt struct {
	at      time.Time // when, by LoopX's clock; zero is the workload's own time
	leaseAt time.Time // when the lease ended, where that is another time
	// lapsed: the lease that stood on the Todo had run out by the workload's time, which
	// LoopX's clock does not show.
	lapsed bool
	minted map[string]string // fields of the Todo that LoopX makes up
}

// commits reports whether the operation is one that may commit.
func (o Operation) commits() bool {
	return !slices.Contains([]Verb{Replay, ContentConflict, RevisionConflict, Lag}, o.Verb)
}

// Workload is what is driven through every arm. Operation i happens i minutes after Begins.
type Workload struct {
	Name       string
	Origin     string // built_in, recorded or file
	Begins     time.Time
	Operations []Operation
}

// at is when an operation happens; every arm is told the same time.
func (w Workload) at(i int) time.Time { return w.Begins.Add(time.Duration(i) * time.Minute) }

// done is when an operation was done, which is another time where LoopX did it first.
func (w Workload) done(i int) time.Time {
	if at := w.Operations[i].at; !at.IsZero() {
		return at
	}
	return w.at(i)
}

type header struct {
	Schema string    `json:"schema_version"`
	Name   string    `json:"name"`
	Begins time.Time `json:"begins_at"`
}

// WorkloadError refuses a workload, with the line counted from 1.
type WorkloadError struct {
	Line   int
	Reason string
}

// Error names the line.
func (e *WorkloadError) Error() string { return fmt.Sprintf("workload, line %d: %s", e.Line, e.Reason) }

// Encode writes the workload as a file.
func (w Workload) Encode() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{WorkloadSchema, w.Name, w.Begins}); err != nil {
		return nil, err
	}
	for _, o := range w.Operations {
		if err := enc.Encode(o); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// ReadWorkload reads a file that Encode could have written. Unknown fields, unknown verbs,
// ids that stand twice and operations of operations that never were are a *WorkloadError.
func ReadWorkload(in io.Reader) (Workload, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	w := Workload{Origin: "file"}
	known := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			var h header
			if err := canonical.DecodeStrict(lines.Bytes(), &h); err != nil || h.Schema != WorkloadSchema || h.Name == "" || h.Begins.IsZero() {
				return w, &WorkloadError{n, "the header is {\"schema_version\":\"" + WorkloadSchema + "\",\"name\":...,\"begins_at\":...}"}
			}
			w.Name, w.Begins = h.Name, h.Begins.UTC()
			continue
		}
		var o Operation
		if err := canonical.DecodeStrict(lines.Bytes(), &o); err != nil {
			return w, &WorkloadError{n, "no operation: " + err.Error()}
		}
		if reason := o.wrong(known); reason != "" {
			return w, &WorkloadError{n, reason}
		}
		known[o.ID] = true
		w.Operations = append(w.Operations, o)
	}
	if err := lines.Err(); err != nil {
		return w, err
	}
	if len(w.Operations) == 0 {
		return w, &WorkloadError{1, "it has no operation"}
	}
	return w, nil
}

// wrong says what is wrong with an operation, given those before it.
func (o Operation) wrong(before map[string]bool) string {
	switch {
	case !slices.Contains(verbs, o.Verb):
		return "the verb " + string(o.Verb) + " is not known"
	case !canonical.ValidID(o.ID) || before[o.ID]:
		return "operation_id is not one, or stands twice"
	case (o.Verb == Replay || o.Verb == ContentConflict) && !before[o.Of]:
		return "of names no operation before it"
	case o.Verb == Lag && (o.Rows == 0 || o.Page < 1):
		return "lag needs rows and page"
	case (o.Verb == PutTodo || o.Verb == PutLease) && canonical.Kind(o.Record) != canonical.Object:
		return "record must be an object"
	case o.Verb == LeaseAcquire && (o.TTL <= 0 || o.Agent == "" || o.Key == ""):
		return "lease_acquire needs agent, idempotency_key and ttl_seconds"
	case o.commits() && o.Record == nil && o.TodoID == "":
		return "todo_id is missing"
	}
	return ""
}

// facts is the workload as evidence names it.
func (w Workload) facts() (evidence.Workload, error) {
	text, err := w.Encode()
	f := evidence.Workload{Name: w.Name, Origin: w.Origin, SHA256: authority.DigestOf(text), Operations: map[string]uint64{}}
	todos, leases := map[string]bool{}, map[string]bool{}
	for _, o := range w.Operations {
		f.Operations[string(o.Verb)]++
		if o.TodoID != "" {
			todos[o.TodoID] = true
		}
		if o.Verb == LeaseAcquire {
			leases[o.TodoID] = true
		}
	}
	f.Todos, f.Leases = uint64(len(todos)), uint64(len(leases))
	return f, err
}

// agents are those that act in the workload, in the order in which they come.
func (w Workload) agents() (all []string) {
	for _, o := range w.Operations {
		if o.Agent != "" && !slices.Contains(all, o.Agent) {
			all = append(all, o.Agent)
		}
	}
	if len(all) == 0 {
		return []string{"rehearsal"}
	}
	return all
}

// undrivable is the first operation for which LoopX has no command, empty without one.
func (w Workload) undrivable() string {
	for _, o := range w.Operations {
		if o.Verb == PutTodo || o.Verb == PutLease {
			return o.ID
		}
	}
	return ""
}

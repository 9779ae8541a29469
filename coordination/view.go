package coordination

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
)

// view is a head as commands see it, whichever of the two shapes it has: it reads a Todo,
// its lease and the counters, and it patches them, its own shape kept.
type view interface {
	goal() string
	binding() authority.Identity // empty where the shape knows none
	mode() Mode
	authorityRevision() int64
	todo(id string) (Todo, bool)
	standing() []Lease // every lease that was not released, expired ones too
	claimed() []string // ids of open Todos that are claimed
	patch(p patch) (Step, error)
}

// Todo is one Todo with its lease and everything that decides about it.
type Todo struct {
	ID         string
	Revision   int64
	Status     string // open or done; on a projection head also blocked, deferred, archived
	ClaimedBy  string
	Watermark  int64 // the epoch of its last lease
	Lease      Lease // its ID is empty when none stands
	Tokens     map[string]authority.Canonical
	Repository string
	Scopes     []string // scopes a lease must have
	UserGate   bool

	permits      func(agent string) bool
	gated        func(agent string) bool
	dependencies bool // satisfied
}

// holder is who has the Todo.
func (t Todo) holder() string {
	if t.ClaimedBy == "" {
		return t.Lease.Owner
	}
	return t.ClaimedBy
}

// Lease is a lease that was not released. It may have expired.
type Lease struct {
	TodoID     string
	ID         string
	Owner      string
	Epoch      int64
	ExpiresAt  Instant
	Scopes     []string
	Repository string
}

// active reports whether the lease is in force: its end lies strictly ahead.
func (l Lease) active(now time.Time) bool {
	end, ok := l.ExpiresAt.Time()
	return l.ID != "" && ok && end.After(now)
}

// look reads a head of either shape. A v0 head is refused, never read as current.
func (a *Authority) look(ctx context.Context, head authority.Head) (view, error) {
	switch takeApart(head.Projection).text("schema_version") {
	case SchemaV1:
		h, err := ParseCoordinationHead(head.Projection)
		if err != nil {
			return nil, err
		}
		return h, nil
	case SchemaV0:
		return nil, &HeadError{Reason: ReasonHeadMigration, Path: "schema_version", Detail: "upgrade the head first; a v0 head is never read as current"}
	case ProjectionSchema:
		h, err := readProjection(head)
		if err != nil {
			return nil, err
		}
		h.revisions, err = a.index.upTo(ctx, a.Store, head)
		return h, err
	}
	return nil, &HeadError{Reason: ReasonHeadSchema, Path: "schema_version", Detail: "no head that is known here"}
}

// Look reads one Todo with its lease, as a command would see it. An unknown Todo is a
// *Refusal with todo_unknown; other errors are *HeadError or the store's.
func (a *Authority) Look(ctx context.Context, id string) (Todo, error) {
	head, err := a.Store.Load(ctx)
	if err != nil {
		return Todo{}, err
	}
	v, err := a.look(ctx, head)
	if err != nil {
		return Todo{}, err
	}
	todo, known := v.todo(id)
	if !known {
		return todo, presence(false)
	}
	return todo, nil
}

// observedRevision is the authority revision of a head, 0 when it cannot be told.
func observedRevision(head authority.Head) int64 {
	if m := takeApart(head.Projection); m["authority_revision"] != nil {
		n, _ := integerOf(m["authority_revision"])
		return n
	}
	return int64(head.Cursor)
}

// Words of Result.Authorization.
const (
	AuthorizationActive     = "active"
	AuthorizationExpired    = "expired"
	AuthorizationSuperseded = "superseded"
)

// authorization says what the lease of a receipt is worth now.
func authorization(head authority.Head, r Receipt, now time.Time) string {
	if r.LeaseID == "" {
		return ""
	}
	lease := leaseIn(head.Projection, r.TodoID)
	switch {
	case lease.ID != r.LeaseID || lease.Epoch != r.LeaseEpoch:
		return AuthorizationSuperseded
	case lease.active(now):
		return AuthorizationActive
	}
	return AuthorizationExpired
}

// leaseIn finds the lease of a Todo that stands in a head of either shape.
func leaseIn(projection authority.Canonical, todo string) Lease {
	m := takeApart(projection)
	if m.text("schema_version") == ProjectionSchema {
		return projectionLease(recordOf(m["leases"], todo))
	}
	o := takeApart(takeApart(takeApart(m["coordination"])["leases"])[todo])
	epoch, _ := integerOf(o["lease_epoch"])
	return Lease{ID: o.text("lease_id"), Epoch: epoch, ExpiresAt: Instant(o.text("expires_at"))}
}

// Grace is how long after its end a lease is left alone: a finite time, never negative.
type Grace struct{ window time.Duration }

// GraceSeconds makes a grace window. A number that is not finite, negative, or beyond
// what a duration holds is refused as command_invalid.
func GraceSeconds(seconds float64) (Grace, error) {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0 || seconds > math.MaxInt64/float64(time.Second) {
		return Grace{}, rejected(ReasonInvalid, "grace_seconds", "not a finite number of seconds from 0")
	}
	return Grace{time.Duration(seconds * float64(time.Second))}, nil
}

// ParseGrace reads a grace window in seconds from JSON: a number, and neither a boolean
// nor a string that looks like one.
func ParseGrace(text []byte) (Grace, error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return Grace{}, rejected(ReasonInvalid, "grace_seconds", "not a number")
	}
	seconds, number := value.(float64)
	if !number {
		return Grace{}, rejected(ReasonInvalid, "grace_seconds", "not a number")
	}
	return GraceSeconds(seconds)
}

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/store"
)

// harbour is LoopX's own Goal of the fixtures, in its runtime root, and the flow over it.
type harbour struct {
	*testing.T
	flow *cutover.Flow
	ops  int
}

const (
	harbourGoal   = "harbour-crane"
	harbourTenant = "harbour"
)

func newHarbour(t *testing.T) *harbour {
	t.Helper()
	place, err := authority.NewPlace(filepath.Join(fixture.Copy(t, "goal-file-v1"), "runtime"), harbourGoal)
	must(t, err)
	h := &harbour{T: t}
	h.flow = &cutover.Flow{Place: place, Folder: manifest.Open(place), Stores: store.Opener{}, Clock: time.Now, Principal: "uid:1",
		LockWait: 5 * time.Second, Server: another(t), Probes: func(arm authority.Kind) fence.Prober { return lookout{place, arm} }}
	h.flow.Principal, err = cutover.Principal()
	must(t, err)
	return h
}

// lookout is a writer that looks who may write, before it tries.
type lookout struct {
	place authority.Place
	arm   authority.Kind
}

func (l lookout) Probe(ctx context.Context) (manifest.Probe, error) {
	o, err := fence.Observe(ctx, l.place, func(context.Context, fence.Selection) (authority.Identity, error) {
		return "", errors.New("it looks no further than the selector")
	})
	v := o.Authority()
	return manifest.Probe{By: "model", Arm: string(l.arm), Refused: v.Blocked, Answer: v.Reason, At: time.Now().UTC()}, err
}

// do previews and executes a step of the flow.
func (h *harbour) do(request cutover.Request) {
	h.Helper()
	h.ops++
	request.OperationID = fmt.Sprintf("step-%d", h.ops)
	preview, err := h.flow.Run(h.Context(), request)
	must(h, err)
	request.Execute, request.PlanDigest = true, preview.PlanDigest
	_, err = h.flow.Run(h.Context(), request)
	must(h, err)
}

// forward promotes the Goal to a store of a kind.
func (h *harbour) forward(kind authority.Kind) {
	h.Helper()
	freeze := cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: kind}}
	if kind == authority.KindPostgreSQL {
		freeze.To.Path, freeze.To.Tenant = h.flow.Server, harbourTenant
		freeze.Accept = []manifest.Accepted{{Hold: "needs_service_runtime", Record: harbourTenant, Owner: "ops", Reason: "the service runtime is there"}}
	}
	h.do(freeze)
	for _, command := range []string{cutover.CommandImport, cutover.CommandCompare, cutover.CommandPromote} {
		step := cutover.Request{Command: command}
		if command == cutover.CommandPromote && kind == authority.KindPostgreSQL {
			step.Accept = []manifest.Accepted{{Hold: "rehearsal_missing", Record: "postgresql", Owner: "ops", Reason: "it is a test"}}
		}
		h.do(step)
	}
}

// on runs work as an agent that opens the Goal's store of a kind anew.
func (h *harbour) on(kind authority.Kind, work func(a *coordination.Authority)) {
	h.Helper()
	ref := cutover.Ref{Kind: kind, Goal: harbourGoal, Path: h.flow.Place.Journal(), IdentityFile: h.flow.Place.StoreIdentity(), Access: cutover.AccessWrite}
	switch kind {
	case authority.KindSQLite:
		ref.Path = h.flow.Place.Database()
	case authority.KindPostgreSQL:
		ref = cutover.Ref{Kind: kind, Goal: harbourGoal, Server: h.flow.Server, Tenant: harbourTenant, Access: cutover.AccessWrite}
	}
	s, err := h.flow.Stores.Open(h.Context(), ref)
	must(h, err)
	work(&coordination.Authority{Store: s, Clock: (&clock{epochAt.AddDate(0, 1, 0)}).now})
	must(h, s.Close())
}

// TestReplayAcrossMigrations promotes LoopX's own Goal to SQLite and to PostgreSQL and rolls
// each back. Agents work before, between and after; every operation keeps its receipt, in
// whichever store the Goal is, and the counters go on where they were.
func TestReplayAcrossMigrations(t *testing.T) {
	h := newHarbour(t)
	var requests []coordination.Envelope
	var first []coordination.Result
	revisions := int64(0)
	work := func(label string) func(a *coordination.Authority) {
		return func(a *coordination.Authority) {
			t.Helper()
			for i, e := range requests {
				replayed(t, a.Apply(t.Context(), e), first[i])
			}
			do := func(e coordination.Envelope) coordination.Receipt {
				got := a.Apply(t.Context(), e)
				applied(t, got)
				requests, first = append(requests, e), append(first, got)
				return got.Receipt
			}
			claim := do(claimRequest(harbourGoal, "claim-"+label, 1, 0, revisions))
			do(renewRequest(harbourGoal, "renew-"+label, 1, claim))
			do(releaseRequest(harbourGoal, "release-"+label, 1, claim))
			if revisions += 3; claim.LeaseEpoch != revisions/3 {
				t.Fatalf("%s: epoch %d after %d commits on the Todo", label, claim.LeaseEpoch, revisions)
			}
		}
	}
	h.on(authority.KindFile, func(a *coordination.Authority) {
		create := envelope(harbourGoal, "create", 1, coordination.Command{Type: coordination.CreateTodo, TodoID: todoID(0),
			Set: tokens("text", `"grease the bearings"`, "role", `"agent"`)})
		got := a.Apply(t.Context(), create)
		applied(t, got)
		requests, first = append(requests, create), append(first, got)
	})
	h.on(authority.KindFile, work("before"))
	for _, kind := range []authority.Kind{authority.KindSQLite, authority.KindPostgreSQL} {
		h.forward(kind)
		h.on(kind, work("on-"+string(kind)))
		h.do(cutover.Request{Command: cutover.CommandRollback})
		h.on(authority.KindFile, work("back-from-"+string(kind)))
	}
}

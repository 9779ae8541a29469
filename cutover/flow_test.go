package cutover_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/store"
)

const goal = "harbour-crane"

// rig is a Goal made by LoopX and a flow over it.
type rig struct {
	*testing.T
	flow *cutover.Flow
	ops  int
	// underFire: another process writes, so that a preview cannot be seen to change nothing.
	underFire bool
	leased    bool // a test took a lease in the middle of something
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	r := &rig{T: t}
	r.moveTo(filepath.Join(fixture.Copy(t, name), "runtime"))
	return r
}

// moveTo makes a flow over the Goal at a runtime root.
func (r *rig) moveTo(root string) {
	r.Helper()
	place, err := authority.NewPlace(root, goal)
	if err != nil {
		r.Fatal(err)
	}
	principal, err := cutover.Principal()
	if err != nil {
		r.Fatal(err)
	}
	r.flow = &cutover.Flow{Place: place, Folder: manifest.Open(place), Stores: store.Opener{Wait: 2 * time.Second},
		Clock: time.Now, Principal: principal, LockWait: 2 * time.Second,
		Probes: func(arm authority.Kind) fence.Prober { return seesFrozen{place, arm} }}
}

// seesFrozen is a writer that looks before it writes, in this process. The command
// line's tests use a process of its own.
type seesFrozen struct {
	place authority.Place
	arm   authority.Kind
}

func (p seesFrozen) Probe(ctx context.Context) (manifest.Probe, error) {
	o, err := fence.Observe(ctx, p.place, func(context.Context, fence.Selection) (authority.Identity, error) {
		return "", errors.New("the model looks no further than the selector")
	})
	v := o.Authority()
	return manifest.Probe{By: "model", Arm: string(p.arm), Refused: v.Blocked, Answer: v.Reason, At: time.Now().UTC()}, err
}

// do previews and executes a command and returns what it answered.
func (r *rig) do(request cutover.Request) cutover.Result {
	r.Helper()
	result, err := r.try(request)
	if err != nil {
		report, _ := json.MarshalIndent(result.Report, "", " ")
		r.Fatalf("%s: %v\n%s", request.Command, err, report)
	}
	return result
}

func (r *rig) try(request cutover.Request) (cutover.Result, error) {
	r.Helper()
	r.ops++
	request.OperationID = fmt.Sprintf("op-%d", r.ops)
	run := r.flow.Run
	switch request.Command {
	case cutover.CommandResume:
		run = r.flow.Resume
	case cutover.CommandGrant, cutover.CommandRevoke:
		run = r.flow.ChangeGrants
	case cutover.CommandUpgradeHead, cutover.CommandRebind:
		run = r.flow.ChangeHead
	}
	before := r.tree()
	preview, err := run(context.Background(), request)
	if changed := before.Diff(r.tree()); len(changed) != 0 {
		r.Fatalf("the preview of %s changed %v", request.Command, changed)
	}
	if err != nil {
		return preview, err
	}
	request.Execute, request.PlanDigest = true, preview.PlanDigest
	for i, word := range preview.Next {
		if word == "--through" {
			if request.Through, err = authority.ParseCursor(preview.Next[i+1]); err != nil {
				r.Fatal(err)
			}
		}
	}
	return run(context.Background(), request)
}

func (r *rig) tree() fixture.Tree {
	r.Helper()
	if r.underFire {
		return ""
	}
	return fixture.TreeHash(r.T, r.flow.Place.Root())
}

func (r *rig) forward() {
	r.Helper()
	r.do(cutover.Request{Command: cutover.CommandFreeze, To: cutover.Target{Kind: authority.KindSQLite}})
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.do(cutover.Request{Command: cutover.CommandPromote})
	r.authority(authority.KindSQLite)
}

// authority fails unless that kind of store is the authority.
func (r *rig) authority(kind authority.Kind) {
	r.Helper()
	status, err := r.flow.Status(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	if status.Verdict.Kind != kind || status.Verdict.Blocked || len(status.Tripped) != 0 {
		r.Fatalf("authority %+v, tripped %v, want %s", status.Verdict, status.Tripped, kind)
	}
}

// open opens the store of a kind at LoopX's place.
func (r *rig) open(kind authority.Kind, access cutover.Access) cutover.History {
	r.Helper()
	ref := cutover.Ref{Kind: kind, Goal: r.flow.Place.GoalID(), Path: r.flow.Place.Journal(), IdentityFile: r.flow.Place.StoreIdentity(), Access: access}
	switch kind {
	case authority.KindSQLite:
		ref.Path = r.flow.Place.Database()
	case authority.KindPostgreSQL:
		ref = cutover.Ref{Kind: kind, Goal: r.flow.Place.GoalID(), Server: r.flow.Server, Tenant: tenant, Access: access}
	}
	s, err := r.flow.Stores.Open(context.Background(), ref)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// commits puts n transactions onto the store, each a small change of the head.
func (r *rig) commits(kind authority.Kind, name string, n int) {
	r.Helper()
	s := r.open(kind, cutover.AccessWrite)
	defer func() {
		if err := s.Close(); err != nil {
			r.Fatal(err)
		}
	}()
	for i := range n {
		head, err := s.Load(context.Background())
		if err != nil {
			r.Fatal(err)
		}
		id := fmt.Sprintf("%s-%d", name, i)
		note := strings.Replace(string(head.Projection), `"handoff_mode"`, fmt.Sprintf(`"case_%s":%d,"handoff_mode"`, name, i), 1)
		_, err = s.Commit(context.Background(), authority.CommitRequest{Expected: head.Revision, OperationID: id,
			Events:     []byte(`[{"schema_version":"case_event_v0","operation_id":"` + id + `"}]`),
			Projection: []byte(note), Receipts: []byte(`[{"operation_id":"` + id + `","n":` + fmt.Sprint(i) + `}]`)})
		if err != nil {
			r.Fatal(err)
		}
	}
}

// receipts are what LoopX's fixture says, asked of the store by operation id.
func (r *rig) receipts(kind authority.Kind, fixtureName string) {
	r.Helper()
	s := r.open(kind, cutover.AccessUntouched)
	view, err := s.View(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = errors.Join(view.Close(), s.Close()) }()
	var expected struct {
		Receipts []struct {
			OperationID string `json:"operation_id"`
			Cursor      string `json:"cursor"`
			SHA256      string `json:"receipts_sha256"`
		} `json:"receipts"`
	}
	if err := json.Unmarshal(fixture.Read(r.T, fixtureName, "expected.json"), &expected); err != nil || len(expected.Receipts) != 231 {
		r.Fatalf("%d receipts, %v", len(expected.Receipts), err)
	}
	for _, want := range expected.Receipts {
		got, err := view.Receipt(context.Background(), want.OperationID)
		if err != nil || got.Cursor.String() != want.Cursor || authority.DigestOf(got.Receipts).String() != want.SHA256 {
			r.Fatalf("receipt of %s: cursor %s digest %s, %v; LoopX has %+v", want.OperationID, got.Cursor, authority.DigestOf(got.Receipts), err, want)
		}
	}
}

func TestForwardAndBackFiveTimes(t *testing.T) {
	for _, name := range []string{"goal-file-v0", "goal-file-v1"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, name)
			for round := range 5 {
				r.forward()
				r.receipts(authority.KindSQLite, name)
				r.commits(authority.KindSQLite, fmt.Sprintf("round%d", round), 50)
				result := r.do(cutover.Request{Command: cutover.CommandRollback})
				if result.Facts["exported_transactions"] != "50" {
					t.Fatalf("exported %v", result.Facts)
				}
				r.authority(authority.KindFile)
				r.receipts(authority.KindFile, name)
				want := authority.Cursor(231 + 50*(round+1))
				head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background())
				if err != nil || head.Cursor != want {
					t.Fatalf("head at %s, %v; want %s", head.Cursor, err, want)
				}
			}
		})
	}
}

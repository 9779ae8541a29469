package cutover_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// executed runs a command as a pasted line would, whatever its preview said.
func (r *rig) executed(request cutover.Request, operation, plan string) (cutover.Result, error) {
	r.Helper()
	request.OperationID, request.Execute, request.PlanDigest = operation, true, plan
	run := r.flow.Run
	switch request.Command {
	case cutover.CommandResume:
		run = r.flow.Resume
	case cutover.CommandGrant, cutover.CommandRevoke:
		run = r.flow.ChangeGrants
	case cutover.CommandUpgradeHead, cutover.CommandRebind:
		run = r.flow.ChangeHead
	}
	return run(context.Background(), request)
}

// previewed is the digest of a command's plan, also of one that would be refused.
func (r *rig) previewed(request cutover.Request, operation string) string {
	r.Helper()
	request.OperationID = operation
	run := r.flow.Run
	switch request.Command {
	case cutover.CommandGrant, cutover.CommandRevoke:
		run = r.flow.ChangeGrants
	case cutover.CommandUpgradeHead, cutover.CommandRebind:
		run = r.flow.ChangeHead
	}
	result, err := run(context.Background(), request)
	if result.PlanDigest == "" {
		r.Fatalf("no preview of %s: %v", request.Command, err)
	}
	return result.PlanDigest
}

// outcomes lists the files of stored outcomes.
func (r *rig) outcomes() []string {
	r.Helper()
	paths, err := filepath.Glob(filepath.Join(r.flow.Folder.Dir(), "outcomes", "*.json"))
	if err != nil {
		r.Fatal(err)
	}
	return paths
}

const otherPlan = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// A decided refusal is an outcome: stored before it is answered, and the same again for
// the same command, with what is seen today beside it and the way to a new preview.
func TestDecidedRefusalsAreStoredAndReplayed(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r *rig)
		request cutover.Request
		plan    func(r *rig, request cutover.Request) string
		kind    cutover.Kind
		reason  string
	}{
		"3, wrong phase": {nil, cutover.Request{Command: cutover.CommandPromote}, nil, cutover.KindRefused, "wrong_phase"},
		"3, nothing to resume": {nil, cutover.Request{Command: cutover.CommandResume}, nil,
			cutover.KindRefused, "nothing_to_resume"},
		"3, a hold": {func(r *rig) { r.lease() }, freezeToSQLite(), (*rig).plan, cutover.KindRefused, "lease_active"},
		"3, less than asked for": {func(r *rig) { r.do(freezeToSQLite()); r.do(cutover.Request{Command: cutover.CommandImport}) },
			cutover.Request{Command: cutover.CommandCompare, Parity: cutover.ParityOptions{MinimumOperations: 100000}}, (*rig).plan,
			cutover.KindRefused, "insufficient_evidence"},
		"4, the arms differ": {func(r *rig) {
			r.do(freezeToSQLite())
			r.do(cutover.Request{Command: cutover.CommandImport})
			r.stranger(r.flow.Place.Journal())
		}, cutover.Request{Command: cutover.CommandCompare}, (*rig).plan, cutover.KindDiffers, "parity_differs"},
		"5, another plan": {nil, freezeToSQLite(), nil, cutover.KindConflict, "plan_changed"},
		"5, another plan of a grant": {nil, cutover.Request{Command: cutover.CommandGrant, Principal: "os:#54322"}, nil,
			cutover.KindConflict, "plan_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "goal-file-v1")
			if c.prepare != nil {
				c.prepare(r)
			}
			plan := otherPlan
			if c.plan != nil {
				plan = c.plan(r, c.request)
			}
			stored := len(r.outcomes())
			_, err := r.executed(c.request, "op-refused", plan)
			first := cutover.AsRefusal(err)
			if first.Kind != c.kind || first.Reason != c.reason || len(r.outcomes()) != stored+1 {
				t.Fatalf("kind %d, %v, %d outcomes", first.Kind, err, len(r.outcomes()))
			}
			before := r.tree()
			result, err := r.executed(c.request, "op-refused", plan)
			again := cutover.AsRefusal(err)
			if again.Kind != first.Kind || again.Reason != first.Reason || again.Sentence != first.Sentence || len(again.Holds) != len(first.Holds) {
				t.Errorf("the same command again: %v; first %v", again, first)
			}
			if result.Status != "replayed" || result.Observed["phase"] == "" || result.Observed["authority"] == "" || again.Next[0] != c.request.Command {
				t.Errorf("replayed as %+v, next %v", result, again.Next)
			}
			if changed := before.Diff(r.tree()); len(changed) != 0 {
				t.Errorf("a replay changed %v", changed)
			}
		})
	}
}

func (r *rig) plan(request cutover.Request) string {
	r.Helper()
	return r.previewed(request, "op-refused")
}

// Usage errors, locks that were not had, stores out of reach and outcomes that are not
// proved are no outcomes.
func TestPassingTroubleIsNeverStored(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	wants := func(kind cutover.Kind, reason string, err error) {
		t.Helper()
		if refusal := cutover.AsRefusal(err); refusal.Kind != kind || refusal.Reason != reason || len(r.outcomes()) != 0 {
			t.Errorf("kind %d, %v, %d outcomes; want %s and none", refusal.Kind, err, len(r.outcomes()), reason)
		}
	}
	_, err := r.executed(freezeToSQLite(), "", "")
	wants(cutover.KindUsage, "plan_required", err)

	plan := r.previewed(freezeToSQLite(), "op-locked")
	if err := os.MkdirAll(r.flow.Folder.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := lockfile.AcquireKernel(context.Background(), r.flow.Folder.OperatorLock(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	r.flow.LockWait = 1
	_, err = r.executed(freezeToSQLite(), "op-locked", plan)
	wants(cutover.KindUnreachable, "lock_timeout", err)
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	r.flow.LockWait = 2e9

	r.flow.Probes = broken
	request := freezeToSQLite()
	request.Through = 231
	_, err = r.executed(request, "op-dies", r.previewed(freezeToSQLite(), "op-dies"))
	wants(cutover.KindUnproved, "internal_error", err)

	// Its intent stands: what refuses the step now is no outcome of it either.
	put := r.backup(r.flow.Place.Journal())
	if err := os.Remove(r.flow.Place.Journal()); err != nil {
		t.Fatal(err)
	}
	_, err = r.executed(request, "op-dies", r.previewedOf("op-dies"))
	if refusal := cutover.AsRefusal(err); refusal.Kind != cutover.KindUnproved || len(r.outcomes()) != 0 {
		t.Errorf("without its source: %v, %d outcomes", err, len(r.outcomes()))
	}
	put()
}

// previewedOf is the plan digest of the step that died.
func (r *rig) previewedOf(operation string) string {
	r.Helper()
	intent := r.manifest().Intent
	if intent == nil || intent.OperationID != operation {
		r.Fatalf("no intent of %s stands: %+v", operation, intent)
	}
	return "sha256:" + intent.PlanDigest.String()
}

// The same operation id under another principal is another operation: another outcome,
// another step, another migration.
func TestSameIDUnderAnotherPrincipal(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	owner := r.flow.Principal
	r.do(cutover.Request{Command: cutover.CommandGrant, Principal: "os:#54322"})
	migrations := map[string]bool{}
	for _, principal := range []string{owner, "os:#54322"} {
		r.flow.Principal = principal
		request := freezeToSQLite()
		plan := r.previewed(request, "op-same")
		request.Through = 231
		result, err := r.executed(request, "op-same", plan)
		if err != nil || result.Status != "done" {
			t.Fatalf("%s: %v", principal, err)
		}
		migrations[result.MigrationID] = true
		if step := r.manifest().StepOf(principal, "op-same"); step == nil || step.FinishedBy != "" {
			t.Errorf("the step of %s: %+v", principal, step)
		}
		if again, err := r.executed(request, "op-same", plan); err != nil || again.Status != "replayed" || again.MigrationID != result.MigrationID {
			t.Errorf("%s again: %+v, %v", principal, again, err)
		}
		r.do(cutover.Request{Command: cutover.CommandAbort})
	}
	if len(migrations) != 2 {
		t.Errorf("migrations %v", migrations)
	}
}

// An operation that died between its record and its outcome is found in its record, also
// when that is an earlier one by now.
func TestOperationFoundInAnEarlierRecord(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	plan := r.previewed(freezeToSQLite(), "op-early")
	request := freezeToSQLite()
	request.Through = 231
	first, err := r.executed(request, "op-early", plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(r.outcomes()[0]); err != nil {
		t.Fatal(err)
	}
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.do(freezeToSQLite())
	now := r.digest()
	again, err := r.executed(request, "op-early", plan)
	if err != nil || again.MigrationID != first.MigrationID || again.Phase != manifest.PhaseFrozen || again.Facts["logical_digest"] != first.Facts["logical_digest"] {
		t.Errorf("%+v, %v", again, err)
	}
	if r.digest() != now {
		t.Error("the current record was changed")
	}
	if again, err = r.executed(request, "op-early", plan); err != nil || again.Status != "replayed" {
		t.Errorf("%+v, %v", again, err)
	}
}

// Whoever holds a grant finishes a step that another began; it stays that one's step.
func TestAnotherPrincipalResumes(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	owner := r.flow.Principal
	r.do(cutover.Request{Command: cutover.CommandGrant, Principal: "os:#54322"})
	r.dies(freezeToSQLite())
	r.flow.Principal = "os:#54323"
	r.refused(cutover.Request{Command: cutover.CommandResume}, cutover.KindRefused, "permission_denied")
	r.flow.Principal = "os:#54322"
	r.do(cutover.Request{Command: cutover.CommandResume})
	step := r.manifest().Steps[0]
	if step.Principal != owner || step.FinishedBy != "os:#54322" {
		t.Errorf("step of %s, finished by %s", step.Principal, step.FinishedBy)
	}
	r.flow.Principal = "os:#54323"
	r.refused(cutover.Request{Command: cutover.CommandImport}, cutover.KindRefused, "permission_denied")
}

// An outcome that the record contradicts, that is torn, or that is of a later format:
// refused, with the file as it was and no other place asked.
func TestOutcomesThatCannotBeTrusted(t *testing.T) {
	request := cutover.Request{Command: cutover.CommandImport}
	for name, spoil := range map[string]func(r *rig, command manifest.Command, o manifest.Outcome){
		"no such step": func(r *rig, command manifest.Command, o manifest.Outcome) {
			r.store(command, o)
		},
		"no such migration": func(r *rig, command manifest.Command, o manifest.Outcome) {
			o.MigrationID = "mig-0000000000000000"
			r.store(command, o)
		},
		"torn": func(r *rig, command manifest.Command, o manifest.Outcome) {
			r.store(command, o)
			path := r.outcomes()[1]
			if o, err := os.ReadFile(path); err != nil || !strings.Contains(string(o), "op-forged") {
				path = r.outcomes()[0]
			}
			if err := os.Truncate(path, 40); err != nil {
				r.Fatal(err)
			}
		},
		"a folder": func(r *rig, command manifest.Command, o manifest.Outcome) {
			before := r.outcomes()
			r.store(command, o)
			for _, path := range r.outcomes() {
				if !strings.Contains(strings.Join(before, " "), path) {
					if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
						r.Fatal(err)
					}
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "goal-file-v1")
			r.do(freezeToSQLite())
			plan := r.previewed(request, "op-forged")
			command := manifest.Command{Kind: request.Command, OperationID: "op-forged", Principal: r.flow.Principal, GoalID: goal,
				Arguments: map[string]string{"plan": plan, "place": "", "parity": "", "to": "", "tenant": "", "through": "0"}}
			fingerprint, err := command.Fingerprint()
			if err != nil {
				t.Fatal(err)
			}
			spoil(r, command, manifest.Outcome{SchemaVersion: manifest.OutcomeSchema, Command: request.Command, OperationID: "op-forged", GoalID: goal,
				Principal: r.flow.Principal, Fingerprint: fingerprint, MigrationID: r.manifest().MigrationID, ReasonCode: manifest.Done})
			before := r.tree()
			result, err := r.executed(request, "op-forged", plan)
			if refusal := cutover.AsRefusal(err); refusal.Kind != cutover.KindUnproved && refusal.Kind != cutover.KindUnreachable || result.Status != "" {
				t.Errorf("%+v, %v", result, err)
			}
			if changed := before.Diff(r.tree()); len(changed) != 0 {
				t.Errorf("changed %v", changed)
			}
		})
	}
}

func (r *rig) store(command manifest.Command, o manifest.Outcome) {
	r.Helper()
	if err := r.flow.Folder.StoreOutcome(command, o); err != nil {
		r.Fatal(err)
	}
}

// A grant that died between its effect and its outcome is found in its effect, and is
// given once.
func TestGrantThatDiedBeforeItsOutcome(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	request := cutover.Request{Command: cutover.CommandGrant, Principal: "os:#54322"}
	plan := r.previewed(request, "op-grant")
	if _, err := r.executed(request, "op-grant", plan); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(r.outcomes()[0]); err != nil { // as if it had died before it was stored
		t.Fatal(err)
	}
	other := request
	other.Principal = "os:#54323"
	if _, err := r.executed(other, "op-grant", plan); cutover.AsRefusal(err).Reason != "record_tampered" {
		t.Errorf("other content under the id: %v", err)
	}
	if result, err := r.executed(request, "op-grant", plan); err != nil || result.Status != "done" || result.Facts["change"] != "1" {
		t.Errorf("the same again: %+v, %v", result, err)
	}
	list, err := r.flow.Grants()
	if err != nil || len(list.Changes) != 1 || len(list.Holders) != 1 || list.Holders[0].Principal != "os:#54322" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Without a grant nothing of what is stored is said, and not one byte is added; grants
// that cannot be read or trusted are nobody's.
func TestDeniedWhateverIsStored(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	owner := r.flow.Principal
	r.do(cutover.Request{Command: cutover.CommandGrant, Principal: "role:operator"})
	r.flow.Principal = cutover.RolePrincipal("operator")
	request := freezeToSQLite()
	plan := r.previewed(request, "op-role")
	request.Through = 231
	first, err := r.executed(request, "op-role", plan)
	if err != nil {
		t.Fatal(err)
	}
	r.flow.Principal = owner
	r.do(cutover.Request{Command: cutover.CommandRevoke, Principal: "role:operator"})
	r.flow.Principal = "role:operator"
	other := request
	other.Through = 230
	before := r.tree()
	for _, asked := range []cutover.Request{request, other, {Command: cutover.CommandGrant, Principal: "os:#54322"}, {Command: cutover.CommandResume}} {
		result, err := r.executed(asked, "op-role", plan)
		if refusal := cutover.AsRefusal(err); refusal.Reason != "permission_denied" || refusal.Kind != cutover.KindRefused || result.Status != "" || len(result.Facts) != 0 {
			t.Errorf("%s: %+v, %v", asked.Command, result, err)
		}
	}
	if changed := before.Diff(r.tree()); len(changed) != 0 {
		t.Errorf("denials changed %v", changed)
	}
	r.flow.Principal = owner
	r.do(cutover.Request{Command: cutover.CommandGrant, Principal: "role:operator"})
	r.flow.Principal = "role:operator"
	again, err := r.executed(request, "op-role", plan)
	if err != nil || again.Status != "replayed" || again.Facts["logical_digest"] != first.Facts["logical_digest"] || again.Phase != manifest.PhaseFrozen {
		t.Errorf("after the grant's return: %+v, %v", again, err)
	}
	r.spoilGrants()
	if _, err := r.executed(request, "op-role", plan); cutover.AsRefusal(err).Reason != "record_tampered" {
		t.Errorf("by grants that cannot be trusted: %v", err)
	}
	r.flow.Principal = owner
	r.do(cutover.Request{Command: cutover.CommandAbort}) // the owner's grant stands in no document
	r.authority(authority.KindFile)
}

func (r *rig) spoilGrants() {
	r.Helper()
	path := filepath.Join(r.flow.Folder.Dir(), "grants.json")
	text, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, ' '), 0o600); err != nil {
		r.Fatal(err)
	}
}

package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

const tenant = "harbour"

// onServer gives the rig a database server of its own, installed, and the URL by which
// the operator reaches it.
func (r *rig) onServer() {
	r.Helper()
	db := pgtest.New(r.T)
	_, err := pgstore.Install(context.Background(), pgstore.Server{DSN: db.DSN(pgtest.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
	if err != nil {
		r.Fatal(err)
	}
	r.flow.Server = db.DSN(pgtest.Admin)
}

func toServer(r *rig, command string) cutover.Request {
	request := cutover.Request{Command: command, To: cutover.Target{Kind: authority.KindPostgreSQL, Path: r.flow.Server, Tenant: tenant},
		Accept: []manifest.Accepted{{Hold: "needs_service_runtime", Record: tenant, Owner: "ops", Reason: "the service runtime is there"}}}
	if command == cutover.CommandCutover {
		request.Accept = append(request.Accept, unrehearsed()...)
	}
	return request
}

// unrehearsed accepts a promotion into a server that nobody rehearsed: it is a test.
func unrehearsed() []manifest.Accepted {
	return []manifest.Accepted{{Hold: cutover.HoldRehearsalMissing, Record: "postgresql", Owner: "ops", Reason: "it is a test"}}
}

// forwardToServer promotes the Goal from wherever it is to the server.
func (r *rig) forwardToServer() {
	r.Helper()
	r.do(toServer(r, cutover.CommandFreeze))
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.do(cutover.Request{Command: cutover.CommandPromote, Accept: unrehearsed()})
	r.authority(authority.KindPostgreSQL)
}

func TestFileToPostgreSQLAndBack(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	for round := range 2 {
		r.forwardToServer()
		r.receipts(authority.KindPostgreSQL, "goal-file-v1")
		r.commits(authority.KindPostgreSQL, fmt.Sprintf("pg%d", round), 20)
		if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "20" {
			t.Fatalf("exported %s", got)
		}
		r.authority(authority.KindFile)
		r.receipts(authority.KindFile, "goal-file-v1")
		head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background())
		if want := authority.Cursor(231 + 20*(round+1)); err != nil || head.Cursor != want {
			t.Fatalf("head %s, %v, want %s", head.Cursor, err, want)
		}
	}
}

// What an import of a live source left in the server is this migration's own candidate,
// and in nobody's way.
func TestPreCopyToPostgreSQL(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	r.do(toServer(r, cutover.CommandImport))
	r.commits(authority.KindFile, "meanwhile", 3)
	request := toServer(r, cutover.CommandCutover)
	request.MaxStall = time.Minute
	r.do(request)
	r.authority(authority.KindPostgreSQL)
	r.receipts(authority.KindPostgreSQL, "goal-file-v1")
	r.do(onlyRollback())
	r.authority(authority.KindFile)
}

func TestSQLiteToPostgreSQLAndBack(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	r.forward()
	for round := range 2 {
		r.forwardToServer()
		r.commits(authority.KindPostgreSQL, fmt.Sprintf("pg%d", round), 5)
		r.do(onlyRollback())
		r.authority(authority.KindSQLite)
		r.receipts(authority.KindSQLite, "goal-file-v1")
		r.commits(authority.KindSQLite, fmt.Sprintf("lite%d", round), 5)
	}
}

func TestPostgreSQLToSQLiteAndBack(t *testing.T) {
	r := newRig(t, "goal-file-v0")
	r.onServer()
	r.forwardToServer()
	for round := range 2 {
		r.commits(authority.KindPostgreSQL, fmt.Sprintf("pg%d", round), 5)
		r.forward()
		r.receipts(authority.KindSQLite, "goal-file-v0")
		r.commits(authority.KindSQLite, fmt.Sprintf("lite%d", round), 5)
		if got := r.do(onlyRollback()).Facts["exported_transactions"]; got != "5" {
			t.Fatalf("exported %s", got)
		}
		r.authority(authority.KindPostgreSQL)
		r.receipts(authority.KindPostgreSQL, "goal-file-v0")
	}
}

func TestAbortsAndUndosOnTheServer(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	r.do(toServer(r, cutover.CommandFreeze))
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindFile)
	r.forwardToServer()
	r.commits(authority.KindPostgreSQL, "x", 2)
	good := r.flow.Probes
	r.flow.Probes = broken
	if _, err := r.try(onlyRollback()); cutover.AsRefusal(err).Kind != cutover.KindUnproved {
		t.Fatalf("a rollback without a probe: %v", err)
	}
	r.flow.Probes = good
	if err := r.write(authority.KindPostgreSQL); !errors.Is(err, authority.ErrFailed) {
		t.Fatalf("a commit on the fenced target: %v", err)
	}
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindPostgreSQL)
	r.commits(authority.KindPostgreSQL, "y", 2)
	r.do(onlyRollback())
	r.authority(authority.KindFile)
}

func TestServerWithoutTenant(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	r.onServer()
	request := toServer(r, cutover.CommandFreeze)
	request.To.Tenant = ""
	r.refused(request, cutover.KindUsage, "tenant_required")
}

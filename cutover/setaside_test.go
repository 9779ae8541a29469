package cutover_test

import (
	"context"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// onServerAsOperator is onServer with the role that an installation gives this tool: it
// owns nothing and is bound by row-level security.
func (r *rig) onServerAsOperator() *pgtest.Database {
	r.Helper()
	db := pgtest.New(r.T)
	operator := db.Role(r.T, "operator")
	_, err := pgstore.Install(context.Background(), pgstore.Server{DSN: db.DSN(pgtest.Admin)},
		pgstore.InstallOptions{Identity: pgstore.NewIdentity(), Operators: []string{operator}})
	if err != nil {
		r.Fatal(err)
	}
	r.flow.Server = db.DSN(operator)
	return db
}

// setAside is what the proof of the record says of the last store that was set aside.
func (r *rig) setAside() cutover.SideProof {
	r.Helper()
	proof, err := r.flow.ProveRecord(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	var last cutover.SideProof
	for _, side := range proof.Sides {
		if side.Side == "quarantine" && side.Kind == authority.KindPostgreSQL {
			last = side
		}
	}
	if last.Where == "" {
		r.Fatalf("the proof names nothing set aside on the server: %+v", proof.Sides)
	}
	for _, side := range proof.Sides {
		if last.Problem == "" && side.Problem != "" {
			r.Fatalf("an untouched %s has a problem: %+v", side.Side, side)
		}
	}
	return last
}

// asideEdits are what a superuser may do to rows that were set aside, how it is undone,
// and what must be said of it.
var asideEdits = []struct{ name, edit, undo, problem string }{
	{"receipt edited", `UPDATE @receipts SET receipt = jsonb_set(receipt, '{n}', '77') WHERE cursor = 233`,
		`UPDATE @receipts SET receipt = jsonb_set(receipt, '{n}', '1') WHERE cursor = 233`, "authority_receipts[0].receipt"},
	{"event removed", `CREATE TABLE kept AS SELECT * FROM @events WHERE cursor = 232; DELETE FROM @events WHERE cursor = 232`,
		`INSERT INTO @events SELECT * FROM kept; DROP TABLE kept`, "authority_events[0]"},
	{"middle row removed", `CREATE TABLE kept AS SELECT * FROM @commits WHERE cursor = 100; DELETE FROM @commits WHERE cursor = 100`,
		`INSERT INTO @commits SELECT * FROM kept; DROP TABLE kept`, "the row is missing"},
	{"seals rewritten with the rows", `CREATE TABLE kept AS SELECT * FROM @heads; CREATE TABLE kept_row AS SELECT * FROM @commits WHERE cursor = 233;
		CREATE TABLE kept_events AS SELECT * FROM @events WHERE cursor = 233; CREATE TABLE kept_receipts AS SELECT * FROM @receipts WHERE cursor = 233;
		CREATE TABLE kept_seal AS SELECT * FROM @seals WHERE cursor = 233;
		DELETE FROM @commits WHERE cursor = 233; DELETE FROM @events WHERE cursor = 233; DELETE FROM @receipts WHERE cursor = 233; DELETE FROM @seals WHERE cursor = 233;
		UPDATE @heads AS h SET cursor = c.cursor, provider_revision = c.provider_revision, head = c.projection, updated_at = s.head_updated_at
			FROM @commits AS c, @seals AS s WHERE c.cursor = 232 AND s.cursor = 232`,
		`DELETE FROM @heads; INSERT INTO @heads SELECT * FROM kept; INSERT INTO @commits SELECT * FROM kept_row; INSERT INTO @events SELECT * FROM kept_events;
		INSERT INTO @receipts SELECT * FROM kept_receipts; INSERT INTO @seals SELECT * FROM kept_seal;
		DROP TABLE kept, kept_row, kept_events, kept_receipts, kept_seal`, "ends at cursor 232"},
	{"all removed", `CREATE TABLE kept AS SELECT * FROM @; DELETE FROM @`, `INSERT INTO @ SELECT * FROM kept; DROP TABLE kept`, "it is gone"},
}

func TestWhatIsSetAsideOnTheServerIsProved(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	db := r.onServerAsOperator()
	r.forwardToServer()
	r.commits(authority.KindPostgreSQL, "pg", 2)
	r.do(onlyRollback())
	if found := r.setAside(); found.Problem != "" || found.RetainedPrefix != 233 {
		t.Fatalf("untouched: %+v", found)
	}
	for _, c := range asideEdits {
		sql := strings.NewReplacer("@heads", table("_heads"), "@commits", table("_commits"), "@events", table("_events"),
			"@receipts", table("_receipts"), "@seals", table("_seals"), "@", table(""))
		db.Exec(t, sql.Replace(c.edit))
		if found := r.setAside(); !strings.Contains(found.Problem, c.problem) {
			t.Errorf("%s: the proof says %q, want %q", c.name, found.Problem, c.problem)
		}
		db.Exec(t, sql.Replace(c.undo))
		if found := r.setAside(); found.Problem != "" {
			t.Fatalf("%s undone: %+v", c.name, found)
		}
	}
}

func table(suffix string) string { return "loopx_control_plane.loopx_migrate_quarantine" + suffix }

// A candidate that was given up is set aside too, and each of several is proved by itself.
func TestGivenUpCandidatesOnTheServerAreProved(t *testing.T) {
	r := newRig(t, "goal-file-v1")
	db := r.onServerAsOperator()
	for range 2 {
		r.do(toServer(r, cutover.CommandImport))
		r.do(cutover.Request{Command: cutover.CommandAbort})
		if found := r.setAside(); found.Problem != "" || found.RetainedPrefix != 231 {
			t.Fatalf("untouched: %+v", found)
		}
	}
	last := r.manifest().Quarantine[0].Where
	db.Exec(t, "UPDATE "+table("_commits")+" SET operation_id = 'other' WHERE cursor = 7 AND quarantine_id <> '"+strings.TrimPrefix(last, "postgresql:")+"'")
	if found := r.setAside(); found.Problem != "" {
		t.Errorf("an edit of another quarantine counts here: %+v", found)
	}
	db.Exec(t, "UPDATE "+table("_commits")+" SET operation_id = 'other' WHERE cursor = 7")
	if found := r.setAside(); !strings.Contains(found.Problem, "authority_commits.operation_id") {
		t.Errorf("an edited candidate: %+v", found)
	}
}

package page

import (
	"math"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
)

var began = time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC)

// sample is a rehearsal of three arms that passed, as long as one of production size is.
func sample() evidence.Contents {
	arms := []string{"legacy", "file", "sqlite", "postgresql"}
	digest := authority.DigestOf([]byte("head"))
	r := &evidence.Rehearsal{
		SchemaVersion: evidence.RehearsalSchema, RehearsalID: "reh-8d3c0a51be7f2204", GoalID: "harbour-crane", StartedAt: began, FinishedAt: began.Add(4*time.Minute + 12*time.Second), Result: evidence.Passed,
		Plan: evidence.RehearsedPlan{SourceKind: authority.KindFile, SourceIdentity: "file:b1ffed5e26ca4803b6b891a35b097114", Cursor: 3000, LogicalDigest: digest,
			Targets: []authority.Kind{authority.KindSQLite, authority.KindPostgreSQL}},
		Source: evidence.RehearsedSource{Format: authority.FormatFileV1, Transactions: 3000, Bytes: 61_300_000, TreeBefore: digest, TreeAfter: digest},
		Workload: evidence.Workload{Name: "production-scale", Origin: "built_in", SHA256: authority.DigestOf([]byte("w")), Todos: 2000, Leases: 300,
			Operations: map[string]uint64{"claim": 120, "lease_acquire": 90, "lease_renew": 60, "complete": 75, "archive": 40, "replay": 25, "conflict": 10}},
		WayBack: []evidence.WayBack{{Arm: "sqlite", Proved: true, DurationMillis: 6120, Exported: 420}, {Arm: "postgresql", Proved: true, DurationMillis: 14400, Exported: 420}},
		Stalls: []evidence.Stall{{Arm: "sqlite", Phase: "cutover", StartMillis: 66000, DurationMillis: 1840, PredictedMillis: 2100, BudgetMillis: 5000},
			{Arm: "postgresql", Phase: "cutover", StartMillis: 164000, DurationMillis: 4310, PredictedMillis: 3900, BudgetMillis: 5000}},
		Probes: []evidence.NamedProbe{{Phase: "freeze", Probe: manifest.Probe{By: "loopx", Arm: "file", Refused: true, Answer: "local_authority_selector_invalid", At: began}},
			{Phase: "rollback", Probe: manifest.Probe{By: "model", Arm: "postgresql", Refused: true, Answer: "migration_frozen", At: began}}},
		NotChecked: []evidence.NotChecked{{What: "quota, settlement, inbox, scheduler state", Why: "they stay with their own ledgers"},
			{What: "planted difference edited_digest on arm postgresql", Why: "the format keeps no digest"}},
		Environment: evidence.Environment{Program: "loopx-migrate (devel)", Revision: "f272ea9", Go: "go1.26", Platform: "linux/amd64", CPUs: 2, SQLite: "3.53.4", PostgreSQL: "15.14", LoopX: "2.1.1"},
	}
	for i, arm := range arms {
		a := evidence.RehearsedArm{Name: arm, Kind: authority.Kind(arm), Driver: "model", HeadDigest: digest, LogicalDigest: digest, Transactions: 3420, Events: 5210, Receipts: 3420,
			Cursor: 3420, ReceiptsCompared: 3420, RowsScanned: 3420, Bytes: 70_000_000 + int64(i)*9_000_000, Format: authority.Format(arm + "-v1")}
		if arm == "legacy" {
			a = evidence.RehearsedArm{Name: arm, Kind: authority.KindLegacy, Driver: "loopx", DriverVersion: "0.5.2", Projection: "loopx_migrate_legacy_v1", HeadDigest: digest}
		}
		r.Arms = append(r.Arms, a)
	}
	phases(r)
	verdicts(r)
	curvesOf(r)
	return evidence.Contents{GoalID: r.GoalID, MadeAt: began.Add(time.Hour), Rehearsal: r, Environment: r.Environment}
}

func phases(r *evidence.Rehearsal) {
	for _, arm := range []struct {
		name  string
		start int64
		pace  int64
	}{{"file", 0, 2}, {"sqlite", 14000, 4}, {"postgresql", 96000, 8}} {
		at := arm.start
		for _, p := range []struct {
			name string
			ms   int64
		}{{"clone", 900}, {"import", 6200}, {"cutover", 1500}, {"work", 3900}, {"compare", 4200}, {"rollback", 1500}} {
			r.Phases = append(r.Phases, evidence.Phase{Arm: arm.name, Name: p.name, StartMillis: at, DurationMillis: p.ms * arm.pace})
			at += p.ms*arm.pace + 40
		}
	}
}

func verdicts(r *evidence.Rehearsal) {
	for _, check := range []string{"head", "receipts", "identity", "scans", "lineage", "consumers", "source_untouched"} {
		r.Verdicts = append(r.Verdicts, evidence.CheckVerdict{By: "parity", Check: check, Arms: []string{"file", "sqlite", "postgresql"}, Outcome: parity.Equal, Compared: 3420})
	}
	r.Verdicts = append(r.Verdicts, evidence.CheckVerdict{By: "parity", Check: "head", Arms: []string{"legacy", "file"}, Outcome: parity.Differs, Compared: 2000, Total: 1, Accepted: 1,
		Differences: []parity.Difference{{Code: "field_differs", Arm: "legacy", TodoID: "todo_0001", Field: "todos[todo_0001].task_class"}}, Notes: []string{"through loopx_migrate_legacy_v1"}})
	r.Accepted = []evidence.AcceptedUse{{ID: "guessed-task-class", Owner: "maria", Used: 1}}
	for _, check := range []string{"head", "receipts", "order", "scans"} {
		r.Verdicts = append(r.Verdicts, evidence.CheckVerdict{By: "witness", Check: check, Arms: []string{"file", "sqlite"}, Outcome: parity.Equal, Compared: 3420})
	}
	for _, arm := range []string{"file", "sqlite", "postgresql"} {
		for i, name := range []string{"dropped_transaction", "swapped_transactions", "altered_receipt", "repeated_operation_id", "stale_projection", "missing_lease", "reordered_list", "edited_digest"} {
			if arm == "postgresql" && name == "edited_digest" {
				continue
			}
			r.Planted = append(r.Planted, evidence.Planted{Name: name, Arm: arm, Cursor: authority.Cursor(60 + i), Found: true, FoundBy: "order", FoundAt: authority.Cursor(60 + i)})
		}
	}
}

func curvesOf(r *evidence.Rehearsal) {
	for i, arm := range []string{"sqlite", "postgresql"} {
		rate := evidence.Series{Arm: arm, Name: "import_rate", X: "seconds", Y: "transactions per second"}
		growth := evidence.Series{Arm: arm, Name: "history_bytes", X: "transactions", Y: "bytes"}
		for n := range 40 {
			x := float64(n) * float64(1+i)
			rate.Points = append(rate.Points, [2]float64{x * 0.6, (1800 - 900*float64(i)) * (1 + 0.12*math.Sin(x/3))})
			growth.Points = append(growth.Points, [2]float64{float64(n) * 85, float64(n*n)*42_000/float64(i+2) + float64(n)*140_000})
		}
		r.Rates, r.Growth = append(r.Rates, rate), append(r.Growth, growth)
		r.Latencies = append(r.Latencies, evidence.Latency{Arm: arm, Operation: "commit", Count: 420, P50Micros: 2100 + int64(i)*1900, P95Micros: 5400 + int64(i)*3000, P99Micros: 11200 + int64(i)*7000, MaxMicros: 31000})
	}
	r.Latencies = append(r.Latencies, evidence.Latency{Arm: "file", Operation: "commit", Count: 420, P50Micros: 9100, P95Micros: 16400, P99Micros: 23100, MaxMicros: 40100})
}

// spoilt is the sample with everything wrong that can be.
func spoilt() evidence.Contents {
	c := sample()
	r := c.Rehearsal
	r.Verdicts[1].Outcome, r.Verdicts[1].Total = parity.Differs, 2
	r.Verdicts[1].Differences = []parity.Difference{{Code: "receipt_differs", Arm: "postgresql", Cursor: 2917, OperationID: "op-2917", Field: "receipts[0].targets"}}
	r.Verdicts[4].Outcome = parity.Failed
	r.Planted[3].Found = false
	r.Phases[5].Failed = true
	r.Probes[1].Refused = false
	r.Source.TreeAfter = authority.DigestOf([]byte("other"))
	r.Stalls[1].DurationMillis = 7100
	r.WayBack[1].Proved = false
	r.Result, r.Reasons = r.Judge()
	return c
}

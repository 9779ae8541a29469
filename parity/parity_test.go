package parity

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

const rows = 130 // over two checkpoints

func TestEqualArmsQualify(t *testing.T) {
	report := compare(t, Options{MinimumOperations: rows, RequireEventKinds: []string{"todo_upsert", "lease_upsert", "loopx_local_coordination_promotion_event_v0"}},
		history(authority.KindFile, rows), history(authority.KindSQLite, rows), history(authority.KindPostgreSQL, rows))
	if report.Verdict != Qualified {
		t.Errorf("verdict %s: %+v", report.Verdict, report.Checks)
	}
	for _, check := range report.Checks {
		if check.Outcome != Equal || check.Compared == 0 || len(check.Notes) > 0 {
			t.Errorf("check %s: %s after %d comparisons, notes %v", check.Name, check.Outcome, check.Compared, check.Notes)
		}
	}
	if report.Coverage.Operations != rows || report.Readable != "" || len(report.Arms) != 3 || *report.Arms[0].Logical != *report.Arms[2].Logical {
		t.Errorf("coverage %+v, arms %+v", report.Coverage, report.Arms)
	}
	// 129 mutations, each an event of one of two kinds.
	if n := report.Coverage.EventKinds["todo_upsert"] + report.Coverage.EventKinds["lease_upsert"]; n != rows-1 {
		t.Errorf("%d mutations among the events, want %d", n, rows-1)
	}
}

func TestCoverageGate(t *testing.T) {
	for name, options := range map[string]Options{
		"too few operations": {MinimumOperations: 11},
		"a kind not seen":    {RequireEventKinds: []string{"todo_upsert", "no_such_kind"}},
	} {
		report := compare(t, options, history(authority.KindFile, 10), history(authority.KindSQLite, 10))
		if report.Verdict != InsufficientEvidence {
			t.Errorf("%s: %s", name, report.Verdict)
		}
		if len(options.RequireEventKinds) > 0 && !slices.Equal(report.Coverage.MissingEventKinds, []string{"no_such_kind"}) {
			t.Errorf("missing kinds %v", report.Coverage.MissingEventKinds)
		}
	}
}

// planted is one difference, and the check that must find it.
type planted struct {
	spoil func(f *fake)
	check CheckName
	want  Difference
}

var plants = map[string]planted{
	"a row dropped in the middle": {func(f *fake) { f.rows = slices.Delete(f.rows, 69, 70); f.prove() },
		CheckLineage, Difference{Code: "cursor_not_contiguous", Arm: "b", Cursor: 71}},
	"a row dropped, as the other arm sees it": {func(f *fake) { f.rows = slices.Delete(f.rows, 69, 70); f.prove() },
		CheckScans, Difference{Code: "row_missing", Arm: "b", Cursor: 70, OperationID: "turn-000070"}},
	"the tail cut off": {func(f *fake) { f.rows = f.rows[:100]; f.prove() },
		CheckScans, Difference{Code: "row_missing", Arm: "b", Cursor: 101}},
	"a shorter history": {func(f *fake) { f.rows = f.rows[:100]; f.prove() },
		CheckLineage, Difference{Code: "lineage_differs", Field: "transactions"}},
	"two operations swapped": {func(f *fake) {
		f.rows[9].OperationID, f.rows[10].OperationID = f.rows[10].OperationID, f.rows[9].OperationID
		f.prove()
	}, CheckScans, Difference{Code: "row_differs", Cursor: 10, Field: "operation_id"}},
	"two operations swapped, by their receipts": {func(f *fake) {
		f.rows[9].OperationID, f.rows[10].OperationID = f.rows[10].OperationID, f.rows[9].OperationID
		f.prove()
	}, CheckReceipts, Difference{Code: "receipt_elsewhere", Cursor: 10, Field: "cursor"}},
	"a receipt's field altered": {func(f *fake) { f.edit(50, receipts, `"targets":["`, `"targets":["x`); f.prove() },
		CheckReceipts, Difference{Code: "row_differs", Cursor: 50, Field: "receipts[0].targets[0]"}},
	"an event altered": {func(f *fake) { f.edit(77, events, `mutation_event_v0`, `mutation_event_v1`); f.prove() },
		CheckScans, Difference{Code: "row_differs", Cursor: 77, Field: "events[0].schema_version"}},
	"a state altered in the middle": {func(f *fake) { f.edit(66, projection, `"priority":"P1"`, `"priority":"P2"`); f.prove() },
		CheckScans, Difference{Code: "row_differs", Cursor: 66, Field: "projection.todos[todo_0003].priority", TodoID: "todo_0003"}},
	"an operation id repeated": {func(f *fake) { f.rows[29].OperationID = f.rows[19].OperationID; f.prove() },
		CheckReceipts, Difference{Code: "receipt_not_of_row", Arm: "b", Cursor: 30, Field: "cursor"}},
	"a receipt that cannot be found": {func(f *fake) { delete(f.receipts, "turn-000033") },
		CheckReceipts, Difference{Code: "receipt_missing", Arm: "b", Cursor: 33, OperationID: "turn-000033"}},
	"a receipt index that answers something else": {func(f *fake) {
		f.receipts["turn-000034"] = authority.Receipt{Cursor: 34, Revision: f.rows[33].Revision, Receipts: authority.Canonical(`[]`)}
	}, CheckReceipts, Difference{Code: "receipt_not_of_row", Arm: "b", Cursor: 34, Field: "receipts[0]"}},
	"a receipt with another revision": {func(f *fake) {
		f.receipts["turn-000034"] = authority.Receipt{Cursor: 34, Revision: "x", Receipts: f.rows[33].Receipts}
	}, CheckReceipts, Difference{Code: "receipt_not_of_row", Arm: "b", Cursor: 34, Field: "provider_revision"}},
	"a stale head": {func(f *fake) { f.head = &f.rows[rows-3] },
		CheckLineage, Difference{Code: "head_not_the_end", Arm: "b", Cursor: rows - 2, Field: "cursor"}},
	"a head that is no row": {func(f *fake) {
		stale := f.rows[rows-1]
		stale.Projection = f.rows[rows-2].Projection
		f.head = &stale
	}, CheckLineage, Difference{Code: "head_not_the_end", Arm: "b", Field: "projection"}},
	"a revision that does not change": {func(f *fake) { f.rows[41].Revision = f.rows[40].Revision; f.prove() },
		CheckLineage, Difference{Code: "revision_not_new", Arm: "b", Cursor: 42}},
	"an identity of another incarnation": {func(f *fake) { f.identity = "sqlite:ffffffffffffffffffffffffffffffff" },
		CheckLineage, Difference{Code: "identity_differs", Arm: "b"}},
	"a list of operations that lacks one": {func(f *fake) { f.ids = f.ids[1:] },
		CheckLineage, Difference{Code: "operations_differ", Arm: "b"}},
	"a logical digest of something else": {func(f *fake) { f.lineage.Logical = authority.DigestOf(nil) },
		CheckLineage, Difference{Code: "lineage_differs", Field: "logical_sha256"}},
}

func TestPlantedDifferences(t *testing.T) {
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			spoiled := history(authority.KindSQLite, rows)
			plant.spoil(spoiled)
			mustCanonical(t, spoiled)
			report := compare(t, Options{}, history(authority.KindFile, rows), spoiled)
			if report.Verdict != Drifted {
				t.Errorf("verdict %s", report.Verdict)
			}
			has(t, report, plant.check, plant.want)

			three := compare(t, Options{}, history(authority.KindFile, rows), spoiled, history(authority.KindPostgreSQL, rows))
			want := plant.want
			want.Arm = "b"
			has(t, three, plant.check, want)
		})
	}
}

// TestPlantedHeads: differences of the newest state, found by the head's and by
// the consumers' check.
func TestPlantedHeads(t *testing.T) {
	last := func(change func(f *fake)) func(f *fake) { return func(f *fake) { change(f); f.prove() } }
	reverse := func(list [][]byte) [][]byte { slices.Reverse(list); return list }
	first := func(list [][]byte) [][]byte { return list[1:] }
	for name, plant := range map[string]struct {
		spoil            func(f *fake)
		head, consumers  Difference
		consumersUnmoved bool
	}{
		"a lease missing": {last(func(f *fake) { f.rebuild(rows, "leases", first) }),
			Difference{Code: "record_missing", Cursor: rows}, Difference{Code: "list_differs", Cursor: rows, Field: "leases[0]"}, false},
		"a Todo missing": {last(func(f *fake) { f.rebuild(rows, "todos", first) }),
			Difference{Code: "record_missing", TodoID: "todo_0001", Field: "todos[todo_0001]"}, Difference{Code: "list_differs"}, false},
		"leases in another order": {last(func(f *fake) { f.rebuild(rows, "leases", reverse) }),
			Difference{Code: "order_differs", Field: "leases[0].todo_id"}, Difference{Code: "list_differs", Field: "leases[0]"}, false},
		"Todos in another order": {last(func(f *fake) { f.rebuild(rows, "todos", reverse) }),
			Difference{Code: "order_differs", Field: "todos[0].todo_id"}, Difference{}, true},
		"another priority": {last(func(f *fake) { f.edit(rows, projection, `"priority":"P1"`, `"priority":"P0"`) }),
			Difference{Code: "record_differs", TodoID: "todo_0003", Field: "todos[todo_0003].priority"}, Difference{Code: "list_differs"}, false},
		"a gate opened": {last(func(f *fake) { f.edit(rows, projection, `"global_gate":true`, `"global_gate":false`) }),
			Difference{Code: "record_differs", TodoID: "todo_0006", Field: "todos[todo_0006].global_gate"}, Difference{Code: "list_differs", Field: "gates[todo_0006].global_gate", TodoID: "todo_0006"}, false},
		"a monitor's cadence": {last(func(f *fake) { f.edit(rows, projection, `"cadence":"daily"`, `"cadence":"weekly"`) }),
			Difference{Code: "record_differs", TodoID: "todo_0010"}, Difference{Code: "list_differs", Field: "monitors[todo_0010].cadence"}, false},
		"an archived Todo's status": {last(func(f *fake) {
			f.edit(rows, projection, `"archive_state":"archive"`, `"archive_state":"active"`)
		}), Difference{Code: "record_differs", Field: "todos[todo_0014].archive_state"}, Difference{Code: "list_differs", Field: "archive[0]", TodoID: "todo_0014"}, false},
		"the handoff mode": {last(func(f *fake) {
			f.edit(rows, projection, `"handoff_mode":"hard_lease"`, `"handoff_mode":"soft_claim"`)
		}), Difference{Code: "field_differs", Field: "handoff_mode"}, Difference{Code: "list_differs", Field: "handoff_mode[#e3b0c442].handoff_mode"}, false},
		"a lease's owner": {last(func(f *fake) { f.edit(rows, projection, `"owner":"agent-south"`, `"owner":"agent-north"`) }),
			Difference{Code: "record_differs"}, Difference{Code: "list_differs"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			spoiled := history(authority.KindSQLite, rows)
			plant.spoil(spoiled)
			mustCanonical(t, spoiled)
			report := compare(t, Options{}, history(authority.KindFile, rows), spoiled)
			has(t, report, CheckHead, plant.head)
			if plant.consumersUnmoved {
				if check := report.Check(CheckConsumers); check.Outcome != Equal {
					t.Errorf("a list sorted by its reader differs: %+v", check)
				}
				return
			}
			has(t, report, CheckConsumers, plant.consumers)
			if report.Readable == "" {
				t.Error("no readable diff")
			}
		})
	}
}

// TestPagesOfOtherSizes: a store that errs at one page size only, or in its refusals.
func TestPagesOfOtherSizes(t *testing.T) {
	for name, plant := range map[string]struct {
		scan func(authority.Page, authority.Cursor, int, error) (authority.Page, error)
		want Difference
	}{
		"has_more at the last full page": {func(p authority.Page, after authority.Cursor, limit int, err error) (authority.Page, error) {
			p.HasMore = p.HasMore || len(p.Transactions) == limit && limit == 7
			return p, err
		}, Difference{Code: "has_more_wrong", Arm: "b", Cursor: rows - 7}},
		"a page of two holds one": {func(p authority.Page, after authority.Cursor, limit int, err error) (authority.Page, error) {
			if limit == 2 && len(p.Transactions) == 2 {
				p.Transactions, p.Next = p.Transactions[:1], p.Next-1
			}
			return p, err
		}, Difference{Code: "page_length_wrong", Arm: "b"}},
		"another row at page size one": {func(p authority.Page, after authority.Cursor, limit int, err error) (authority.Page, error) {
			if limit == 1 && after == rows/2 {
				p.Transactions[0].Events = authority.Canonical(`[]`)
			}
			return p, err
		}, Difference{Code: "row_differs", Cursor: rows/2 + 1, Field: "events[0]"}},
		"a wrong next cursor": {func(p authority.Page, after authority.Cursor, limit int, err error) (authority.Page, error) {
			if limit == 1 {
				p.Next++
			}
			return p, err
		}, Difference{Code: "next_cursor_wrong", Arm: "b"}},
		"beyond the head is empty": {func(p authority.Page, after authority.Cursor, limit int, err error) (authority.Page, error) {
			if _, reason := authority.ReasonOf(err); reason == authority.ReasonScanRange {
				return authority.Page{Next: after}, nil
			}
			return p, err
		}, Difference{Code: "refusal_differs", Arm: "b", Cursor: rows + 1}},
		"limit zero": {func(p authority.Page, after authority.Cursor, limit int, err error) (authority.Page, error) {
			if limit == 0 {
				return authority.Page{Next: after}, nil
			}
			return p, err
		}, Difference{Code: "refusal_differs", Arm: "b"}},
	} {
		spoiled := history(authority.KindSQLite, rows)
		spoiled.scan = plant.scan
		t.Run(name, func(t *testing.T) {
			has(t, compare(t, Options{}, history(authority.KindFile, rows), spoiled), CheckScans, plant.want)
		})
	}
}

func TestAbsentIDFound(t *testing.T) {
	spoiled := history(authority.KindSQLite, 5)
	every := anyReceipt{spoiled}
	report, err := Compare(context.Background(), []Arm{history(authority.KindFile, 5).arm("a"), {Name: "b", View: every}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, report, CheckReceipts, Difference{Code: "receipt_unexpected", Arm: "b"})
}

// anyReceipt finds a receipt under every id.
type anyReceipt struct{ *fake }

func (v anyReceipt) Receipt(ctx context.Context, id string) (authority.Receipt, error) {
	if receipt, err := v.fake.Receipt(ctx, id); err == nil {
		return receipt, nil
	}
	return authority.Receipt{Cursor: 1, Revision: v.rows[0].Revision, Receipts: authority.Canonical(`[]`)}, nil
}

func TestKnownIDTaken(t *testing.T) {
	a, b := history(authority.KindFile, 9), history(authority.KindSQLite, 9)
	lax := b.arm("b")
	lax.CheckCommit = func(_ context.Context, request authority.CommitRequest) error {
		if request.OperationID == "turn-000005" {
			return nil
		}
		return b.known(context.Background(), request)
	}
	report, err := Compare(context.Background(), []Arm{a.arm("a"), lax}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, report, CheckIdentity, Difference{Code: "known_id_not_refused", Arm: "b", Cursor: 5, OperationID: "turn-000005"})
}

// TestReadOnlyHandleProvesNothing: a store that will not judge a commit fails the check.
func TestReadOnlyHandleProvesNothing(t *testing.T) {
	a, b := history(authority.KindFile, 9).arm("a"), history(authority.KindSQLite, 9)
	a.CheckCommit = func(context.Context, authority.CommitRequest) error {
		return b.refuse(authority.ClassFailed, authority.ReasonWriteUnavailable)
	}
	report, err := Compare(context.Background(), []Arm{a, b.arm("b")}, Options{})
	check := report.Check(CheckIdentity)
	if err != nil || report.Verdict != Drifted || check.Outcome != Failed || check.Differences[0].Code != "known_id_not_judged" {
		t.Errorf("%v, verdict %s, %+v", err, report.Verdict, check)
	}
	if report.Check(CheckLineage).Outcome != Equal {
		t.Error("the other checks must go on")
	}
}

func TestSourceTouched(t *testing.T) {
	a, b := history(authority.KindFile, 9).arm("a"), history(authority.KindSQLite, 9).arm("b")
	n := byte(0)
	a.Digest = func(context.Context) (authority.Digest, error) { n++; return authority.Digest{n}, nil }
	report, err := Compare(context.Background(), []Arm{a, b}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, report, CheckSourceUntouched, Difference{Code: "arm_changed", Arm: "a"})
}

func TestUnreadableArmIsFailure(t *testing.T) {
	b := history(authority.KindSQLite, 9)
	b.load = b.refuse(authority.ClassUnavailable, authority.ReasonConnectionUnavailable)
	report, err := Compare(context.Background(), []Arm{history(authority.KindFile, 9).arm("a"), b.arm("b")}, Options{})
	if !errors.Is(err, authority.ErrUnavailable) || report.Verdict != Drifted || report.Check(CheckHead).Outcome != Failed {
		t.Errorf("error %v, verdict %s, head %+v", err, report.Verdict, report.Check(CheckHead))
	}
	empty := history(authority.KindSQLite, 0)
	report = compare(t, Options{}, history(authority.KindFile, 9), empty)
	has(t, report, CheckHead, Difference{Code: "arm_empty", Arm: "b"})
	for _, check := range report.Checks {
		if check.Outcome == Equal && check.Name != CheckSourceUntouched {
			t.Errorf("check %s is equal beside an empty arm", check.Name)
		}
	}
}

func TestInterruptedNeverQualifies(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	b := history(authority.KindSQLite, 200)
	calls := 0
	b.scan = func(p authority.Page, _ authority.Cursor, _ int, err error) (authority.Page, error) {
		if calls++; calls == 2 {
			cancel()
		}
		return p, err
	}
	report, err := Compare(ctx, []Arm{history(authority.KindFile, 200).arm("a"), b.arm("b")}, Options{})
	if !errors.Is(err, context.Canceled) || report.Verdict == Qualified {
		t.Errorf("error %v, verdict %s", err, report.Verdict)
	}
}

func TestWindow(t *testing.T) {
	a, b := history(authority.KindFile, rows), history(authority.KindSQLite, rows)
	b.rows = b.rows[:100]
	b.prove()
	report := compare(t, Options{Through: 100}, a, b)
	if report.Verdict != Qualified || report.Coverage.Operations != 100 || *report.Arms[0].Head != *report.Arms[1].Head {
		t.Errorf("a prefix: %s, %+v", report.Verdict, report.Checks)
	}
	b = history(authority.KindSQLite, rows)
	b.edit(90, events, "mutation_event_v0", "mutation_event_v1")
	b.prove()
	if report = compare(t, Options{After: 90}, a, b); report.Coverage.Operations != 40 {
		t.Errorf("the tail after 90 has %d operations", report.Coverage.Operations)
	}
	has(t, compare(t, Options{After: 89}, a, b), CheckScans, Difference{Code: "row_differs", Cursor: 90})
}

func TestHeadOnlyArm(t *testing.T) {
	store := history(authority.KindSQLite, rows)
	head := store.rows[rows-1].Projection
	legacy := Arm{Name: "legacy", Projection: "loopx_migrate_legacy_v1", Head: func(context.Context) (authority.Canonical, error) { return head, nil }}
	report, err := Compare(context.Background(), []Arm{legacy, store.arm("sqlite")}, Options{})
	if err != nil || report.Verdict != Qualified {
		t.Fatalf("%v, verdict %s, %+v", err, report.Verdict, report.Checks)
	}
	if check := report.Check(CheckHead); len(check.Notes) != 1 || !strings.Contains(check.Notes[0], "loopx_migrate_legacy_v1") {
		t.Errorf("the report does not name the compatibility projection: %v", check.Notes)
	}
	if report.Check(CheckScans).Outcome != NotCompared || report.Check(CheckConsumers).Outcome != Equal {
		t.Errorf("checks %+v", report.Checks)
	}
}

// TestReportIsPrivate: no text of a record and no path gets into the JSON.
func TestReportIsPrivate(t *testing.T) {
	spoiled := history(authority.KindSQLite, rows)
	spoiled.edit(rows, projection, `"text":"`, `"text":"SECRET `)
	spoiled.edit(rows-1, projection, `"todos":[{`, `"todos":[{"SECRET key":1,`)
	spoiled.prove()
	report := compare(t, Options{}, history(authority.KindFile, rows), spoiled)
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"SECRET", "trolley", "/a/path"} {
		if strings.Contains(string(text), word) {
			t.Errorf("the report holds %q:\n%s", word, text)
		}
	}
	if !strings.Contains(report.Readable, "SECRET") {
		t.Errorf("the readable diff does not show the difference:\n%s", report.Readable)
	}
}

func TestArmsThatMakeNoComparison(t *testing.T) {
	a := history(authority.KindFile, 1).arm("a")
	head := Arm{Name: "h", Head: func(context.Context) (authority.Canonical, error) { return nil, nil }}
	for name, arms := range map[string][]Arm{
		"one": {a}, "twice the same name": {a, a}, "four": {a, a, a, a}, "no journal": {head, {Name: "g", Head: head.Head}}, "neither": {a, {Name: "x"}},
	} {
		if _, err := Compare(context.Background(), arms, Options{}); !errors.Is(err, ErrArms) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package cutover

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// capacity is the largest commit LoopX's SQLite store takes, in bytes of its
// canonical request (docs/formats.md, "Limits").
const capacity = 16 << 20

// unholdable names what the target cannot hold exactly of one transaction.
func (f *Flow) unholdable(target PlanSide, row authority.Row) []Hold {
	if target.Kind == authority.KindSQLite {
		return unholdableInSQLite(row)
	}
	var holds []Hold
	for _, found := range f.Stores.Unholdable(Ref{Kind: target.Kind, Goal: f.Place.GoalID(), Tenant: target.Tenant}, row) {
		holds = append(holds, Hold{Code: found.Code, Record: row.OperationID, Cursor: found.Cursor, Detail: found.Field + ": " + found.Detail})
	}
	return holds
}

func unholdableInSQLite(row authority.Row) []Hold {
	var holds []Hold
	if bytes.ContainsAny([]byte(row.OperationID), "\xed") && loneSurrogate(row.OperationID) {
		holds = append(holds, Hold{Code: "operation_id_not_unicode", Record: fmt.Sprintf("%q", row.OperationID), Cursor: row.Cursor,
			Detail: "a lone surrogate in an operation id cannot be stored in SQLite"})
	}
	const keys = len(`{"events":,"expected_provider_revision":"sqlite:00000000000000000000000000000000:18446744073709551615","next_projection":,"operation_id":"","receipts":}`)
	if size := keys + len(row.Events) + len(row.Projection) + len(row.Receipts) + len(row.OperationID); size > capacity {
		holds = append(holds, Hold{Code: "commit_too_large", Record: row.OperationID, Cursor: row.Cursor,
			Detail: fmt.Sprintf("about %d bytes; LoopX's SQLite store takes %d", size, capacity)})
	}
	return holds
}

func loneSurrogate(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] == 0xED && text[i+1] >= 0xA0 {
			return true
		}
	}
	return false
}

// headHolds looks for open work, and for what breaks the record contract, in the
// newest state of a store. Todos are named by id only.
func headHolds(projection authority.Canonical, goal string, store authority.Identity, now time.Time) []Hold {
	if coordinationHead(projection) {
		return coordinationHolds(projection, goal, store, now)
	}
	var holds []Hold
	if text(member(projection, "goal_id")) != goal {
		holds = append(holds, Hold{Code: "head_of_another_goal", Record: text(member(projection, "goal_id")), Detail: "the head names another goal"})
	}
	if member(projection, "store_binding") != nil {
		holds = append(holds, Hold{Code: "store_binding", Record: text(member(projection, "store_binding")), Detail: "a head of this shape is bound to no store; nothing here can rebind it"})
	}
	if mode := text(member(projection, "handoff_mode")); mode != "hard_lease" {
		holds = append(holds, Hold{Code: "handoff_mode", Record: mode, Detail: "promotion covers hard_lease; the mode is never changed by the way"})
	}
	todos, todoHolds := todoHolds(member(projection, "todos"))
	holds = append(holds, todoHolds...)
	holds = append(holds, leaseHolds(member(projection, "leases"), todos, now)...)
	return append(holds, contractHolds(projection)...)
}

func todoHolds(list []byte) (map[string]bool, []Hold) {
	ids := map[string]bool{}
	var holds []Hold
	for i, todo := range elements(list) {
		id := text(member(todo, "todo_id"))
		switch {
		case id == "":
			holds = append(holds, Hold{Code: "todo_without_id", Record: fmt.Sprintf("todos[%d]", i), Detail: "a Todo has no id"})
		case ids[id]:
			holds = append(holds, Hold{Code: "todo_id_twice", Record: id, Detail: "two Todos have one id"})
		}
		ids[id] = true
	}
	return ids, holds
}

// leaseHolds: a lease that is active is open work. One that has expired and still
// says active may be accepted by name, since LoopX never writes the expiry.
func leaseHolds(list []byte, todos map[string]bool, now time.Time) []Hold {
	var holds []Hold
	for _, lease := range elements(list) {
		id := text(member(lease, "todo_id"))
		if !todos[id] {
			holds = append(holds, Hold{Code: "lease_without_todo", Record: id, Detail: "a lease names a Todo that is not there"})
		}
		if text(member(lease, "status")) != "active" {
			continue
		}
		expires, err := time.Parse(time.RFC3339, text(member(lease, "expires_at")))
		if err == nil && !expires.After(now) {
			holds = append(holds, Hold{Code: "lease_expired_still_active", Record: id, Acceptable: true, Detail: "the lease has expired and is still marked active"})
			continue
		}
		holds = append(holds, Hold{Code: "lease_active", Record: id, Detail: "release or complete it first"})
	}
	return holds
}

// contractHolds refuses a head whose declared field list is none that LoopX released,
// and names the fields that make the difference.
func contractHolds(projection authority.Canonical) []Hold {
	model := member(projection, "todo_read_model")
	if model == nil {
		return []Hold{{Code: "read_model_missing", Record: "todo_read_model", Detail: "the head declares no record contract"}}
	}
	var declared []string
	for _, field := range elements(member(model, "contract_fields")) {
		declared = append(declared, text(field))
	}
	missing := legacy.ContractGap(declared, text(member(model, "schema_version")))
	if len(missing) == 0 {
		return nil
	}
	return []Hold{{Code: "contract_unknown", Record: strings.Join(missing, ","), Detail: "contract_fields is no list that LoopX released; these are missing or unknown"}}
}

func elements(list []byte) [][]byte {
	if len(list) == 0 || list[0] != '[' {
		return nil
	}
	var all [][]byte
	for element := range canonical.Elements(list) {
		all = append(all, element)
	}
	return all
}

// text is a canonical JSON string's value, empty for anything else.
func text(literal []byte) string {
	if len(literal) == 0 || literal[0] != '"' {
		return ""
	}
	value, err := canonical.ParseString(literal)
	if err != nil {
		return ""
	}
	return value
}

// holds gathers every named reason why the step may not run now.
func (f *Flow) holds(ctx context.Context, p Plan, found liveSource) ([]Hold, error) {
	holds := found.oversized
	if len(found.head) > 0 {
		holds = append(holds, headHolds(found.head, p.GoalID, found.lineage.Identity, f.now())...)
	}
	source := manifest.Binding{Kind: p.Source.Kind, Identity: p.Source.Identity, Tenant: p.Source.Tenant}
	goes := manifest.Binding{Kind: p.Target.Kind, Tenant: p.Target.Tenant}
	if p.Phase == manifest.PhasePlanned { // what an earlier import of this migration left in a server is its own candidate
		goes.Identity = p.Target.Identity
	}
	taken, err := f.side(&manifest.Manifest{MigrationID: p.MigrationID, Source: source}, goes).taken(ctx)
	if err != nil {
		return nil, err
	}
	if taken != "" && !p.Target.Elsewhere {
		holds = append(holds, Hold{Code: "target_in_the_way", Record: taken,
			Detail: "a store stands at the target's place already; nothing is ever overwritten"})
	}
	need := 3 * uint64(max(found.lineage.Bytes, 1<<20))
	free, err := freeSpace(f.Folder.Dir())
	if err != nil {
		return nil, err
	}
	if free < need {
		holds = append(holds, Hold{Code: "no_space", Record: f.Place.Rel(f.Folder.Dir()),
			Detail: "candidate and way back need three times the size of the source"})
	}
	if err := f.Stores.Suits(nearest(f.Folder.Dir())); err != nil {
		holds = append(holds, Hold{Code: "file_system_unsuitable", Record: f.Place.Rel(f.Folder.Dir()), Detail: firstLine(err)})
	}
	if p.Target.Kind == authority.KindPostgreSQL {
		holds = append(holds, Hold{Code: "needs_service_runtime", Record: p.Target.Tenant, Acceptable: true,
			Detail: "LoopX's plain command line cannot open PostgreSQL; the goal then needs LoopX's service runtime"})
	}
	if p.Target.Kind == authority.KindFile && len(found.head) > 0 {
		long, err := f.journalTooLong(ctx, f.side(&manifest.Manifest{}, source).home(AccessUntouched), manifest.Binding{Kind: authority.KindFile, Identity: p.Target.Identity}, found.longest)
		if err != nil {
			return nil, err
		}
		holds = append(holds, long...)
	}
	around, err := f.around()
	if err != nil {
		return nil, err
	}
	holds = append(holds, around...)
	sortHolds(holds)
	return holds, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// freeSpace is what a place has left for this user, in bytes.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(nearest(dir), &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", filepath.Base(dir), err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}

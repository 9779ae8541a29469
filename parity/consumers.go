package parity

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// entry is one line of a consumer's list: a Todo id and the fields the consumer reads.
type entry struct {
	id     string
	fields []byte // a canonical object
}

// lists are what the consumers of a head see, by name of the list.
type lists map[string][]entry

// Fields that a consumer reads, in code-point order.
var (
	todoFields    = []string{"archive_state", "blocks_agent", "bound_agent", "done", "excluded_agents", "goal_bound", "priority", "resume_ready", "resume_when", "role", "status", "task_class", "title", "unblocks_todo_id"}
	claimFields   = []string{"bound_agent", "claimed_by", "excluded_agents"}
	leaseFields   = []string{"acquire_ttl_seconds", "acquired_at", "expires_at", "idempotency_key", "lease_epoch", "owner", "released_at", "status", "version", "write_scopes"}
	archiveFields = []string{"completed_at", "status", "superseded_by"}
	gateFields    = []string{"blocks_agent", "decision_outcome", "decision_scope", "decision_scope_outcomes", "global_gate", "required_decision_scopes", "status", "unblocks_todo_id"}
	monitorFields = []string{"cadence", "consecutive_no_change", "expires_at", "last_checked_at", "material_change", "material_change_generation", "max_no_change_before_replan", "monitor_effect_id", "next_due_at", "result_hash", "status", "target_key", "watch_only"}
	modelFields   = []string{"contract_fields", "records_sha256", "schema_version", "todo_count"}
)

// compareConsumers compares what the readers of a Goal see at the head: Todo
// lists by role and status in order of priority, claims, leases, archive, gates,
// monitors, handoff mode, and the read model that goes with them.
func (c *comparison) compareConsumers(context.Context) {
	if c.broken {
		c.skip(CheckConsumers, "not every arm has a head that can be read")
		return
	}
	seen := make([]lists, len(c.sides))
	names := map[string]bool{}
	for i, s := range c.sides {
		seen[i] = consumersOf(s.head.Projection)
		if seen[i] == nil {
			c.skip(CheckConsumers, fmt.Sprintf("the head of arm %s has no list of Todos; it is compared by its bytes alone", s.Name))
			return
		}
		for name := range seen[i] {
			names[name] = true
		}
		c.modelMatches(s)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.checks[CheckConsumers].Compared++
		c.compareList(name, seen)
	}
}

// compareList compares one list over all arms and reports its first difference.
func (c *comparison) compareList(name string, seen []lists) {
	printed := make([][]byte, len(seen))
	for i := range seen {
		printed[i] = printList(seen[i][name])
	}
	left, right := apart(printed)
	if left < 0 {
		return
	}
	a, b := seen[left][name], seen[right][name]
	d := Difference{Code: "list_differs", Arm: oddOf(c.sides, printed), Cursor: c.sides[left].head.Cursor,
		Values: map[string]string{c.sides[left].Name: valueOf(printed[left]), c.sides[right].Name: valueOf(printed[right])}}
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && a[i].id == b[i].id && bytes.Equal(a[i].fields, b[i].fields) {
			continue
		}
		d.Field, d.TodoID = where(name, i, a, b)
		break
	}
	c.differs(CheckConsumers, d)
}

// where names the first difference of two lists at an index.
func where(name string, i int, a, b []entry) (field, todo string) {
	switch {
	case i >= len(a):
		return fmt.Sprintf("%s[%d]", name, i), b[i].id
	case i >= len(b) || a[i].id != b[i].id:
		return fmt.Sprintf("%s[%d]", name, i), a[i].id
	}
	return joined(name+"["+segment(a[i].id)+"]", firstDifference(a[i].fields, b[i].fields).path), a[i].id
}

func printList(list []entry) []byte {
	out := []byte{'['}
	for _, e := range list {
		out = canonical.AppendString(out, e.id)
		out = append(append(out, ':'), e.fields...)
		out = append(out, ',')
	}
	return append(out, ']')
}

// modelMatches notes a read model that does not describe the records beside it.
// LoopX's stores never judge it, so alone it is no difference.
func (c *comparison) modelMatches(s *side) {
	if !s.described {
		c.note(CheckConsumers, fmt.Sprintf("%s: the read model of arm %s does not describe its records", authority.FindingReadModel, s.Name))
	}
}

// describesRecords reports whether the read model of a head is that of its records.
func describesRecords(head []byte) bool {
	todos := member(head, "todos")
	model := member(head, "todo_read_model")
	count := strconv.Itoa(len(elements(todos)))
	return text(model, "records_sha256") == authority.DigestOf(todos).String() && string(member(model, "todo_count")) == count
}

// consumersOf reads the lists out of a projection; nil when it has no list of Todos.
func consumersOf(head []byte) lists {
	todos := member(head, "todos")
	if canonical.Kind(todos) != canonical.Array {
		return nil
	}
	seen := lists{
		"handoff_mode":    {{fields: pick(head, "handoff_mode")}},
		"todo_read_model": {{fields: pick(member(head, "todo_read_model"), modelFields...)}},
	}
	for _, todo := range inOrder(todos) {
		seen.todo(todo)
	}
	for lease := range canonical.Elements(member(head, "leases")) {
		seen.add("leases", lease, leaseFields)
	}
	return seen
}

func (l lists) add(name string, record []byte, fields []string) {
	l[name] = append(l[name], entry{todoID(record), pick(record, fields...)})
}

// todo files one Todo under every list it belongs to.
func (l lists) todo(todo []byte) {
	if text(todo, "archive_state") == "archive" {
		l.add("archive", todo, archiveFields)
	} else {
		l.add("todos:"+segment(text(todo, "role"))+":"+segment(text(todo, "status")), todo, todoFields)
	}
	if member(todo, "claimed_by") != nil {
		l.add("claims", todo, claimFields)
	}
	class := text(todo, "task_class")
	if class == "user_gate" || class == "blocker" || string(member(todo, "global_gate")) == "true" || member(todo, "decision_scope") != nil {
		l.add("gates", todo, gateFields)
	}
	if class == "continuous_monitor" || member(todo, "target_key") != nil || member(todo, "cadence") != nil {
		l.add("monitors", todo, monitorFields)
	}
}

// pick prints the named members of an object, those that are there.
func pick(object []byte, names ...string) []byte {
	out := []byte{'{'}
	for _, name := range names {
		value := member(object, name)
		if value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(canonical.AppendString(out, name), ':')
		out = append(out, value...)
	}
	return append(out, '}')
}

// inOrder sorts Todos as a list shows them: by priority, then by index, then by
// id in code points.
func inOrder(todos []byte) [][]byte {
	all := elements(todos)
	slices.SortStableFunc(all, func(a, b []byte) int {
		return cmp.Or(
			cmp.Compare(rank(text(a, "priority")), rank(text(b, "priority"))),
			cmp.Compare(index(a), index(b)),
			canonical.CompareKeys(todoID(a), todoID(b)))
	})
	return all
}

// rank orders priorities as LoopX does: P0 to P4 by their digit, also when more
// text follows, and everything else behind.
func rank(priority string) int {
	if len(priority) >= 2 && priority[0] == 'P' && priority[1] >= '0' && priority[1] <= '4' {
		return int(priority[1] - '0')
	}
	return 50
}

func index(todo []byte) int {
	n, err := strconv.Atoi(string(member(todo, "index")))
	if err != nil {
		return math.MaxInt
	}
	return n
}

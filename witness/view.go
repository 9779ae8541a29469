package witness

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Checks of legacy files against the head of a store.
const (
	CheckTodos  = "files_todos"
	CheckLeases = "files_leases"
	CheckPlaces = "files_places" // the order in which active Todos stand in their section
	CheckMode   = "files_mode"
)

// FilesProjection names what of a head legacy files can show: docs/legacy.md, section 6.
const FilesProjection = "loopx_migrate_legacy_v1"

// view is a head in the projection FilesProjection.
type view struct {
	goal, mode    string
	todos, leases map[string]*value
	active        map[string]bool
	order         map[string][]string // of active Todos, by role
	left          map[string]bool     // fields of Todos that nobody judges
}

func newView(goal string) view {
	return view{goal: goal, todos: map[string]*value{}, leases: map[string]*value{}, active: map[string]bool{}, order: map[string][]string{}, left: map[string]bool{}}
}

func (v view) leave(id, field string) { v.left[id+" "+field] = true }

// record is a Todo as its lines have it, and the fields this reader is not sure of.
func (t *todoRow) record(role string) (_ *value, unsure []string) {
	state := "active"
	if t.archived {
		state = "archive"
	}
	members := map[string]*value{}
	for key, v := range t.fields {
		if !strings.HasPrefix(key, "validation_") {
			members[key] = v
		}
	}
	members["role"], members["status"], members["text"], members["archive_state"] = newText(role), newText(t.status), newText(t.text), newText(state)
	members["done"] = &value{kind: truth, printed: strconv.FormatBool(t.status == "done" || t.status == "deferred")}
	unsure = slices.Sorted(maps.Keys(t.unsure))
	if sum, sure := t.validation(); sum != "" {
		members["completion_validation_required"], members["completion_validation_sha256"] = &value{kind: truth, printed: "true"}, newText(sum)
		if !sure {
			unsure = append(unsure, "completion_validation_required", "completion_validation_sha256")
		}
	}
	return newObject(members), unsure
}

// validation is the digest of a private declaration, which stands for it in a record.
func (t *todoRow) validation() (sum string, sure bool) {
	members, any := map[string]*value{}, false
	sure = true
	for _, key := range []string{"validation_command", "validation_command_argv", "validation_label", "validation_timeout_seconds"} {
		v := t.fields[key]
		any = any || v != nil || t.unsure[key]
		sure = sure && !t.unsure[key]
		members[key] = textOrNull(v.string0())
		if v == nil || key == "validation_command" || key == "validation_label" {
			continue
		}
		parsed, err := parse(v.str)
		if err != nil || key == "validation_command_argv" && parsed.kind != list || key == "validation_timeout_seconds" && parsed.kind != number {
			sure = false
			continue
		}
		members[key] = parsed
	}
	if !any {
		return "", true
	}
	return digest(newObject(members).canonical()), sure
}

// unseen are the members of a record that legacy files do not carry.
var unseen = []string{"index", "source_section", "schema_version", "resume_condition", "resume_ready", "created_by", "completion_result", "handoff_note",
	"completion_validation_revision", "completion_validation_revision_history"}

var label = expression(`^_B_*\[([Pp][0-4](?:(?:-|_B_)[^\]]*)?)\](.+)$`)

// carried is a record without what files do not carry. A priority label in the text
// counts where the record has none of its own.
func carried(record *value) *value {
	members := map[string]*value{}
	for key, v := range record.members {
		empty := v.kind == null || v.kind == list && len(v.list) == 0
		if !empty && !slices.Contains(unseen, key) {
			members[key] = v
		}
	}
	found := label().FindStringSubmatch(record.string("text"))
	if found == nil {
		return newObject(members)
	}
	if members["priority"] == nil {
		members["priority"] = newText(strings.ToUpper(found[1]))
	}
	if members["title"] == nil {
		members["title"] = newText(squeezed(found[2]))
	}
	return newObject(members)
}

// viewOf is the view of a store's head.
func viewOf(head *value) view {
	v := newView(head.string("goal_id"))
	v.mode = head.string("handoff_mode")
	places := map[string]int{}
	for _, todo := range head.elements("todos") {
		id := todo.string("todo_id")
		v.todos[id] = carried(todo)
		v.active[id] = todo.string("archive_state") != "archive"
		if at := todo.member("index"); v.active[id] && at != nil && at.kind == number {
			places[id], _ = strconv.Atoi(at.canonical())
			role := todo.string("role")
			v.order[role] = append(v.order[role], id)
		}
	}
	for _, ids := range v.order {
		slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(places[a], places[b]) })
	}
	for _, lease := range head.elements("leases") {
		if id := lease.string("todo_id"); v.active[id] || v.todos[id] == nil {
			v.leases[id] = lease
		}
	}
	return v
}

// CompareFiles holds legacy files against the head of a store, through the projection
// FilesProjection. The order of the Todos is compared as far as the records of the head
// know their place; without two that do, the check CheckPlaces is missing.
func CompareFiles(files *FilesReading, store *Reading) Comparison {
	return Comparison{Left: files.Name, Right: store.Name(), Checks: compareViews(files.view, viewOf(store.header.head), store.header.cursor)}
}

// AskFiles holds the head that the rest of this program made of legacy files against
// what was read here: one check, of all that CompareFiles looks at.
func AskFiles(files *FilesReading, head authority.Canonical) (Check, error) {
	all := Check{Name: CheckAnswers}
	made, err := parse(string(head))
	if err != nil {
		return all, err
	}
	for _, check := range compareViews(files.view, viewOf(made), 0) {
		all.Compared, all.Total = all.Compared+check.Compared, all.Total+check.Total
		all.Findings = append(all.Findings, check.Findings...)
	}
	return all, nil
}

func compareViews(files, head view, cursor uint64) []Check {
	c := viewing{cursor: authority.Cursor(cursor)}
	c.begin(CheckMode)
	c.same("goal_id", newText(files.goal), newText(head.goal))
	c.same("handoff_mode", newText(files.mode), newText(head.mode))
	c.begin(CheckTodos)
	c.records("todos", files.todos, head.todos, files.left)
	c.begin(CheckLeases)
	c.records("leases", files.leases, head.leases, nil)
	c.begin(CheckPlaces)
	for _, role := range []string{"user", "agent"} {
		c.places(role, files.order[role], head.order[role])
	}
	return slices.DeleteFunc(c.checks, func(check Check) bool { return check.Compared == 0 })
}

type viewing struct {
	cursor authority.Cursor
	checks []Check
}

func (c *viewing) begin(name string) { c.checks = append(c.checks, Check{Name: name}) }

// same compares two values and names the first member where they part.
func (c *viewing) same(at string, a, b *value) {
	check := &c.checks[len(c.checks)-1]
	check.Compared++
	if a != nil && b != nil && a.canonical() == b.canonical() {
		return
	}
	if a != nil && b != nil {
		var path string
		path, a, b = apart(a, b)
		at += path
	}
	if check.Total++; len(check.Findings) < listed {
		check.Findings = append(check.Findings, Finding{Check: check.Name, Cursor: c.cursor, Field: at, Left: shown(a), Right: shown(b)})
	}
}

// records compares the records of both sides by id, and how many there are.
func (c *viewing) records(kind string, a, b map[string]*value, left map[string]bool) {
	count := func(records map[string]*value) *value { return newText(strconv.Itoa(len(records))) }
	ids := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		x, y := a[id], b[id]
		for key := range left {
			if of, field, _ := strings.Cut(key, " "); of == id && x != nil && y != nil {
				x, y = x.with(field, nil), y.with(field, nil)
			}
		}
		c.same(place(kind, id), x, y)
	}
	c.same(kind, count(a), count(b))
}

// places compares the order of those Todos that both sides know a place of.
func (c *viewing) places(role string, a, b []string) {
	only := func(ids, in []string) *value {
		there := map[string]bool{}
		for _, id := range in {
			there[id] = true
		}
		var kept []*value
		for _, id := range ids {
			if there[id] {
				kept = append(kept, newText(id))
			}
		}
		return newList(kept)
	}
	if x, y := only(a, b), only(b, a); len(x.list) > 1 {
		c.same("places."+role, x, y)
	}
}

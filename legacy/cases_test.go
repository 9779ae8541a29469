package legacy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// caseClock is a time at which the leases "until 2099" run and those of 2026-09 do not.
var caseClock = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// caseGoal inspects a fresh copy of a case.
func caseGoal(t *testing.T, name, goal string) *Goal {
	t.Helper()
	dir := fixture.Case(t, name)
	return inspectAt(t, dir, goal)
}

func inspectAt(t *testing.T, dir, goal string) *Goal {
	t.Helper()
	place, err := authority.NewPlace(filepath.Join(dir, "runtime"), goal)
	if err != nil {
		t.Fatal(err)
	}
	before := fixture.TreeHash(t, dir)
	files, err := Load(place, filepath.Join(dir, "project", ".codex", "goals", goal, "ACTIVE_GOAL_STATE.md"), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := Inspect(files, caseClock)
	if fixture.TreeHash(t, dir) != before {
		t.Error("looking changed the files")
	}
	return g
}

// found lists findings as "code todo-or-file:line key".
func found(g *Goal, codes ...string) []string {
	var lines []string
	for _, f := range g.Findings {
		if len(codes) > 0 && !slices.Contains(codes, f.Code) {
			continue
		}
		about := f.TodoID
		if f.File != "" {
			about = f.File
		}
		lines = append(lines, strings.TrimRight(f.Code+" "+about+":"+decimal(f.Line)+" "+f.Key, " "))
	}
	return lines
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// blocked lists the holds that nobody can accept.
func blocked(g *Goal) []string {
	var codes []string
	for _, f := range g.Holds() {
		if f.Weight == Blocking {
			codes = append(codes, f.Code+" "+f.TodoID+f.File)
		}
	}
	return codes
}

func texts(g *Goal) map[string]string {
	m := map[string]string{}
	for _, r := range g.Listing.Rows {
		m[r.TodoID] = r.Text
	}
	return m
}

// peer holds the rows of one Goal against the file peer-bf27af77.json of a case.
func peer(t *testing.T, name string, l *Listing) {
	t.Helper()
	answers := decode[map[string]map[string][]record](t, "../testdata/cases/"+name+"/peer-bf27af77.json")
	for _, byRole := range answers {
		rows := map[string]*Row{}
		for i := range l.Rows {
			if !l.Rows[i].Archived {
				rows[string(l.Rows[i].Role)+l.Rows[i].TodoID] = &l.Rows[i]
			}
		}
		n := 0
		for _, listed := range byRole {
			for _, r := range listed {
				n++
				row := rows[r["role"].(string)+r["todo_id"].(string)]
				if row == nil {
					t.Errorf("no row %v", r["todo_id"])
					continue
				}
				ours := asRecord(t, row.Record())
				for field, value := range r {
					if ours[field] != value && !isDeclared(field, row, ours, r) {
						t.Errorf("%s %s: %v, LoopX's %v", row.TodoID, field, ours[field], value)
					}
				}
			}
		}
		if n != len(rows) {
			t.Errorf("%d active rows, LoopX lists %d", len(rows), n)
		}
	}
}

func TestCase01WrappedTodoAndMetadata(t *testing.T) {
	g := caseGoal(t, "01-wrapped-todo-and-metadata", "wrap-goal")
	peer(t, "01-wrapped-todo-and-metadata", g.Listing)
	got := texts(g)
	for id, want := range map[string]string{"todo_wrap_a": "Collect the numbers from both hosts and put them in one table",
		"todo_wrap_b": "Write the note then send it", "todo_wrap_c": "Check the tab case"} {
		if got[id] != want {
			t.Errorf("%s: %q", id, got[id])
		}
	}
	expect(t, found(g, CodeKeyRepeated), "metadata_key_repeated todo_wrap_c:20 status")
	expect(t, blocked(g))
}

func TestCase02TodosInsideFencesAndComments(t *testing.T) {
	g := caseGoal(t, "02-todos-inside-fences-and-comments", "fence-goal")
	if got := texts(g); len(got) != 1 || got["todo_real"] != "The real one" {
		t.Errorf("rows: %v", got)
	}
	peer(t, "02-todos-inside-fences-and-comments", mustRead(t, g.Files.State, Release051))
	expect(t, found(g, CodeLookAlike), "look_alike :5 front_matter", "look_alike todo_fenced:17 fence",
		"look_alike todo_a3eb8bb17ff0:23 fence", "look_alike todo_b8186a0140da:27 comment")
	expect(t, blocked(g))
}

func TestCase04ArchivedRowsWithoutRoleOrIndex(t *testing.T) {
	g := caseGoal(t, "04-archived-rows-without-role-or-index", "sparse-goal")
	peer(t, "04-archived-rows-without-role-or-index", g.Listing)
	var archived []Row
	for _, r := range g.Listing.Rows {
		if r.Archived {
			archived = append(archived, r)
		}
	}
	if len(archived) != 2 || archived[0].Index != 1 || archived[1].Index != 2 || archived[0].Section != "Work archive (2026)" ||
		archived[0].Role != RoleUnknown || archived[1].TodoID != "" {
		t.Errorf("archived: %+v", archived)
	}
	expect(t, found(g, CodeArchivedRole, CodeArchivedIdentity), "archived_without_role todo_s_old:21", "archived_without_identity :23")
	if outside := g.Outside(); len(outside) != 2 {
		t.Errorf("outside: %v", outside)
	}
	head, err := g.Projection()
	if err != nil || len(elements(members(head)["todos"])) != 2 {
		t.Errorf("%v %s", err, head)
	}
}

func TestCase06LineBreaksPythonKnows(t *testing.T) {
	g := caseGoal(t, "06-line-breaks-python-knows", "split-goal")
	peer(t, "06-line-breaks-python-knows", g.Listing)
	expect(t, found(g, CodeTextCut, CodeTextBroken), "text_cut_at_line_break todo_l_a:11", "text_cut_at_line_break todo_l_b:14",
		"text_cut_at_line_break todo_l_c:17", "line_break_in_text todo_l_d:20")
	for _, f := range g.Findings {
		if f.Code == CodeTextCut && breakAt(g.Files.State, f.Offset) == 0 {
			t.Errorf("offset %d is no line break", f.Offset)
		}
	}
}

func TestCase07AgentIDWithOddWhitespace(t *testing.T) {
	g := caseGoal(t, "07-agent-id-with-odd-whitespace", "space-goal")
	peer(t, "07-agent-id-with-odd-whitespace", g.Listing)
	expect(t, found(g, CodeValueAltered), "metadata_value_altered todo_w_ax:12 claimed_by", "metadata_value_altered todo_w_bx:14 claimed_by",
		"metadata_value_altered todo_w_cx:16 claimed_by", "metadata_value_altered todo_w_dx:18 claimed_by")
}

func TestCase08SameIDUnderTwoRoles(t *testing.T) {
	g := caseGoal(t, "08-same-id-under-two-roles", "twin-goal")
	peer(t, "08-same-id-under-two-roles", g.Listing)
	expect(t, found(g, CodeTodoIDTwice), "todo_id_twice todo_twin:11", "todo_id_twice todo_twin:16")
	if head, err := g.Projection(); err == nil {
		t.Errorf("a projection: %s", head)
	}
}

func TestCase12ArchivedRevocationMustTravel(t *testing.T) {
	g := caseGoal(t, "12-archived-revocation-must-travel", "revoke-goal")
	peer(t, "12-archived-revocation-must-travel", g.Listing)
	head, err := g.Projection()
	if err != nil {
		t.Fatal(err)
	}
	todos := elements(members(head)["todos"])
	if len(todos) != 3 {
		t.Fatalf("%d Todos", len(todos))
	}
	no := asRecord(t, todos[0])
	if no["todo_id"] != "todo_r_no" || no["role"] != "user" || no["decision_outcome"] != "reject" || no["archive_state"] != "archive" {
		t.Errorf("%v", no)
	}
	expect(t, blocked(g))
}

func TestCase14UnknownAndInvalidMetadata(t *testing.T) {
	g := caseGoal(t, "14-unknown-and-invalid-metadata", "meta-goal")
	peer(t, "14-unknown-and-invalid-metadata", g.Listing)
	expect(t, found(g, CodeKeyUnknown, CodeValueInvalid, CodeKeyRepeated, CodeValueAltered),
		"metadata_key_unknown todo_x_new:12 future_field", "metadata_value_invalid todo_x_bad:14 status",
		"metadata_value_invalid todo_x_bad:14 action_kind", "metadata_key_repeated todo_x_dup:16 claimed_by")
	for _, f := range g.Findings {
		if (f.Code == CodeKeyUnknown || f.Code == CodeValueInvalid) && (f.Weight != Acceptable || f.Value == "") {
			t.Errorf("%+v", f)
		}
	}
}

func TestCase16PriorityTypedAgainstLabel(t *testing.T) {
	g := caseGoal(t, "16-priority-typed-against-label", "prio-goal")
	peer(t, "16-priority-typed-against-label", g.Listing)
	var order []string
	for _, r := range g.Listing.Rows {
		order = append(order, r.TodoID)
	}
	if !slices.Equal(order, []string{"todo_q_ax", "todo_q_bx", "todo_q_cx", "todo_q_dx", "todo_q_ex"}) {
		t.Errorf("order %v", order)
	}
}

func TestCase17TextLongerThan500(t *testing.T) {
	g := caseGoal(t, "17-text-longer-than-500", "long-goal")
	peer(t, "17-text-longer-than-500", g.Listing)
	head, err := g.Projection()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{900, 500} {
		text, _ := asRecord(t, elements(members(head)["todos"])[i])["text"].(string)
		if n := len([]rune(text)); n != want || strings.HasSuffix(text, "…") {
			t.Errorf("text %d has %d characters", i, n)
		}
	}
	expect(t, found(g, CodeTextOver500), "text_over_500 todo_long_a:11")
}

func TestCase19BrokenRegionMarkers(t *testing.T) {
	for goal, want := range map[string]string{"rg-a": "state_file_unreadable :9 region_unterminated",
		"rg-b": "state_file_unreadable :14 region_mismatched", "rg-c": "state_file_unreadable :14 region_foreign_content"} {
		g := caseGoal(t, "19-broken-region-markers", goal)
		expect(t, found(g), want)
		if g.Listing != nil {
			t.Errorf("%s: a partial list", goal)
		}
		if _, err := g.Projection(); err == nil {
			t.Errorf("%s: a projection", goal)
		}
	}
}

func TestCase21LeaseFromBeforeEpochAndTTL(t *testing.T) {
	g := caseGoal(t, "21-lease-from-before-epoch-and-ttl", "oldlease-goal")
	expect(t, blocked(g))
	if len(g.Leases) != 2 {
		t.Fatalf("%d leases", len(g.Leases))
	}
	for i, lease := range g.Leases {
		m := asRecord(t, lease.Record)
		_, epoch := m["lease_epoch"]
		_, ttl := m["acquire_ttl_seconds"]
		if lease.Epoch() != 1 || epoch || ttl {
			t.Errorf("%+v", m)
		}
		if _, schema := m["schema_version"]; schema != (i == 0) {
			t.Errorf("schema filled in: %+v", m)
		}
	}
}

func TestCase23LeaseExpiredButActiveStatus(t *testing.T) {
	g := caseGoal(t, "23-lease-expired-but-active-status", "exp-goal")
	expect(t, found(g, CodeLeaseActive, CodeLeaseExpired), "lease_active todo_ex_run.json:0", "lease_expired_still_active todo_ex_old.json:0")
	for _, f := range g.Holds() {
		if f.Value != "run-1" || strings.Contains(f.Detail, "run-1") {
			t.Errorf("the key stands in %q, and the host's own value is %q", f.Detail, f.Value)
		}
		for _, fact := range []string{"key sha256:4e65d3fbe8ad", "2026-11-01T00:00:00Z", "owner agent-"} {
			if !strings.Contains(f.Detail, fact) {
				t.Errorf("%s does not say %s", f.Detail, fact)
			}
		}
	}
	expect(t, blocked(g), "lease_active todo_ex_runtodo_ex_run.json")
}

func TestCase25LeaseFolderWithStrangers(t *testing.T) {
	dir := fixture.Case(t, "25-lease-folder-with-strangers")
	leases := filepath.Join(dir, "runtime", "goals", "dir-goal", "task-leases")
	if err := os.Symlink("/etc/hostname", filepath.Join(leases, "todo_dr_link.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(leases, "todo_dr_upper.JSON"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := inspectAt(t, dir, "dir-goal")
	expect(t, found(g, CodeLeaseResidue, CodeLeaseStranger, CodeLeaseMalformed, CodeLeaseTodoDiffers, CodeLeaseNotRegular),
		"lease_residue .todo_dr_ok.json.140213.tmp:0", "lease_stranger .task-leases.lock:0", "lease_stranger todo_dr_upper.JSON:0",
		"lease_malformed todo_dr_bad.json:0", "lease_todo_differs todo_dr_wrong.json:0 todo_id", "lease_not_regular todo_dr_link.json:0")
	if len(blocked(g)) != 3 || len(g.Leases) != 1 {
		t.Errorf("%v, leases %v", blocked(g), g.Leases)
	}
}

func TestCase27OverlappingScopesAlreadyThere(t *testing.T) {
	g := caseGoal(t, "27-overlapping-scopes-already-there", "scope-goal")
	expect(t, found(g, CodeLeaseOverlap), "lease_scopes_overlap todo_sc_a.json:0 todo_sc_b")
	if len(g.Leases) != 3 {
		t.Errorf("%d leases", len(g.Leases))
	}
}

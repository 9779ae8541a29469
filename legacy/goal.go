package legacy

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Goal is what the legacy files of a Goal say, with everything that stands against
// carrying it over.
type Goal struct {
	Files    Files
	Document *Document
	// Listing is the reading Later; nil when the state file cannot be read.
	Listing  *Listing
	Leases   []Lease // by Todo id; files that are no lease are in Findings
	Findings []Finding
	Clock    time.Time // against which leases were judged
}

// Inspect judges the files. It never fails: what cannot be read is a finding.
func Inspect(files Files, now time.Time) *Goal {
	g := &Goal{Files: files, Document: Parse(files.State), Clock: now}
	g.inspectState()
	g.Leases, g.Findings = appendLeases(g.Findings, files)
	active := g.activeIDs()
	for _, lease := range g.Leases {
		if f := judgeLease(lease, now); f != nil {
			g.Findings = append(g.Findings, *f)
		}
		if g.Listing != nil && !active[lease.TodoID] {
			g.note(Finding{Code: CodeLeaseOutside, File: lease.File, TodoID: lease.TodoID,
				Detail: "its Todo is archived or gone; the file stays where it is and keeps its epoch"})
		}
	}
	g.Findings = append(g.Findings, overlaps(g.Leases)...)
	for _, log := range files.EventLogs {
		if log.Size > 0 {
			g.note(Finding{Code: CodeEventLog, Weight: Blocking, Key: log.Name,
				Detail: "a Todo event log overrides the Markdown; LoopX has retired it and refuses"})
		}
	}
	return g
}

func appendLeases(findings []Finding, files Files) ([]Lease, []Finding) {
	leases, found := parseLeases(files.Goal, files.Leases)
	findings = append(findings, found...)
	for _, e := range files.LifecycleFences {
		if code, detail := judgeLifecycleFence(e); code != "" {
			findings = append(findings, Finding{Code: code, Weight: Blocking, File: ".lifecycle-fences/" + e.Name, Detail: detail})
		}
	}
	return leases, findings
}

// judgeLifecycleFence: a receipt task_lease_fence_receipt_v0 that is not closed is a
// writer between its lease and its Todo.
func judgeLifecycleFence(e LeaseEntry) (code, detail string) {
	if residueName.MatchString(e.Name) || lockName.MatchString(e.Name) {
		return "", ""
	}
	var receipt struct {
		State string `json:"state"`
	}
	switch err := json.Unmarshal(e.Bytes, &receipt); {
	case err != nil || receipt.State == "":
		return CodeLeaseFenceReadable, "a lifecycle fence that cannot be read"
	case receipt.State == "closed":
		return "", ""
	}
	return CodeLeaseFenceHeld, "a writer holds a lease for a change that is not finished: " + receipt.State
}

func (g *Goal) note(f Finding) { g.Findings = append(g.Findings, f) }

func (g *Goal) activeIDs() map[string]bool {
	ids := map[string]bool{}
	if g.Listing == nil {
		return ids
	}
	for i := range g.Listing.Rows {
		if row := &g.Listing.Rows[i]; !row.Archived {
			ids[row.TodoID] = true
		}
	}
	return ids
}

// Holds are the findings that stand against a migration, those that can be accepted
// by name among them.
func (g *Goal) Holds() []Finding {
	return slices.DeleteFunc(slices.Clone(g.Findings), func(f Finding) bool { return f.Weight == Note })
}

// Counts is how many Todos and leases there are.
type Counts struct {
	Active   map[Role]map[string]int // by role and status
	Archived map[string]int          // by status
	Outside  int                     // archived rows that no head can have
	Leases   map[string]int          // by status
}

// Counts counts. Of a file that cannot be read there are none.
func (g *Goal) Counts() Counts {
	c := Counts{Active: map[Role]map[string]int{RoleUser: {}, RoleAgent: {}}, Archived: map[string]int{}, Leases: map[string]int{}}
	for _, lease := range g.Leases {
		c.Leases[lease.Status()]++
	}
	if g.Listing == nil {
		return c
	}
	for i := range g.Listing.Rows {
		row := &g.Listing.Rows[i]
		switch {
		case !row.Archived:
			c.Active[row.Role][row.Status]++
		case row.enters():
			c.Archived[row.Status]++
		default:
			c.Archived[row.Status]++
			c.Outside++
		}
	}
	return c
}

// enters reports whether a row can be in a head: an archived one needs an identity
// and a role.
func (r *Row) enters() bool {
	_, known := r.RoleKnown()
	return known && r.TodoID != ""
}

// HoldError refuses a projection of files that something blocks.
type HoldError struct{ Holds []Finding }

// Error names the first reason.
func (e *HoldError) Error() string {
	f := e.Holds[0]
	text := "legacy files cannot be carried over: " + f.Code
	if f.TodoID != "" {
		text += " " + f.TodoID
	}
	if f.Line > 0 {
		text += " line " + decimal(f.Line)
	}
	if more := len(e.Holds) - 1; more > 0 {
		text += " and " + decimal(more) + " more"
	}
	return text
}

// Projection is the head that a store gets. Its Todos are every active one and every
// archived one that has an identity and a role, its leases those of active Todos, each
// list by id in code points; records are of LegacyContract, leases verbatim. A blocking
// finding of any kind refuses it, with a *HoldError; acceptable ones are the caller's.
func (g *Goal) Projection() (authority.Canonical, error) {
	blocking := slices.DeleteFunc(g.Holds(), func(f Finding) bool { return f.Weight < Blocking || leaseLiveness(f.Code) })
	if len(blocking) > 0 {
		return nil, &HoldError{Holds: blocking}
	}
	mode, _ := g.Document.HandoffMode(Later)
	var rows []*Row
	for i := range g.Listing.Rows {
		if row := &g.Listing.Rows[i]; row.enters() {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int { return canonical.CompareKeys(a.TodoID, b.TodoID) })
	var todos, leases [][]byte
	for _, row := range rows {
		todos = append(todos, row.Record())
	}
	active := g.activeIDs()
	for _, lease := range g.Leases {
		if active[lease.TodoID] {
			leases = append(leases, lease.Record)
		}
	}
	return NewHead(g.Files.Goal, mode, array(todos), array(leases)), nil
}

// leaseLiveness: an active lease holds a freeze, but a head can be read beside it.
func leaseLiveness(code string) bool {
	return code == CodeLeaseActive || code == CodeLeaseExpired || code == CodeLeaseExpiry
}

// NewHead makes a head in the shape that LoopX's import gives it, from a canonical list
// of legacy records and one of leases, both in order.
func NewHead(goal, mode string, todos, leases authority.Canonical) authority.Canonical {
	contract := LegacyContract()
	names := make([][]byte, len(contract.Fields))
	for i, name := range contract.Fields {
		names[i] = literal(name)
	}
	model := object(map[string][]byte{"schema_version": literal(contract.ReadRecord), "contract_fields": array(names),
		"records_sha256": literal(authority.DigestOf(todos).String()), "todo_count": []byte(decimal(len(elements(todos))))})
	return object(map[string][]byte{
		"schema_version":   literal("loopx_coordination_runtime_shadow_projection_v0"),
		"source_authority": literal("legacy_markdown_and_task_lease"),
		"partitions":       []byte(`{"leases":null,"todos":null}`),
		"goal_id":          literal(goal), "handoff_mode": literal(mode),
		"todos": todos, "leases": leases, "todo_read_model": model,
	})
}

// Outside lists, one by one, the archived rows that no head has: they stay verbatim in
// the file.
func (g *Goal) Outside() []Row {
	if g.Listing == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.Listing.Rows), func(r Row) bool { return r.enters() })
}

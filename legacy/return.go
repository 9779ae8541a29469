package legacy

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Returned are the legacy files of a head.
type Returned struct {
	State []byte
	// Leases are the lease files to write; every other file of the folder stays.
	Leases []LeaseEntry
	// Findings are what the operator has to accept, none of them blocking.
	Findings []Finding
	// Added, Rewritten and Moved name the Todos whose lines changed; all others keep
	// theirs byte for byte.
	Added, Rewritten, Moved []string
}

// Codes of findings of the way back.
const (
	CodeTodoVanished   = "todo_vanished"         // the head lacks a Todo that was imported
	CodeLeaseVanished  = "lease_vanished"        // the head lacks a lease that was imported
	CodeLeaseBackwards = "lease_went_backwards"  // version or epoch is lower than in the file
	CodeFieldNotHeld   = "field_not_in_markdown" // Key is lost with the way back
	CodeHeadForeign    = "head_of_another_goal"  //
	CodeHeadMode       = "handoff_mode_differs"  // the mode is never changed by the way
)

// Return makes legacy files out of a head and the files that were kept at the freeze:
// a Todo that did not change keeps its bytes, one that did gets a new Todo and metadata
// line, a new one goes to the end of its section; rows that never entered a head, prose,
// fences and comments keep their bytes. Tokens of metadata that LoopX does not know stay
// on their line. known are the private declarations of this host, beside those in kept.
//
// The result was read again: its Todos and leases are those of the head, its prose is
// that of kept. It refuses before anything else if something cannot be expressed, with
// a *HoldError, *RenderError, *RecordError or *SyntaxError. Clock is now.
func Return(kept Files, head authority.Canonical, known []Validation, now time.Time) (Returned, error) {
	if err := CheckHead(head); err != nil {
		return Returned{}, err
	}
	e, err := newEditor(kept, head, known)
	if err != nil {
		return Returned{}, err
	}
	e.now = now
	findings := e.judge()
	blocking := slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Weight < Blocking })
	if len(blocking) > 0 {
		return Returned{}, &HoldError{Holds: blocking}
	}
	if err := e.plan(); err != nil {
		return Returned{}, err
	}
	r := e.out
	r.State, r.Findings = e.apply(), findings
	if r.Leases, err = e.leases(); err != nil {
		return Returned{}, err
	}
	if err := e.prove(r); err != nil {
		return Returned{}, err
	}
	return r, nil
}

// editor turns one state file into that of a head.
type editor struct {
	kept    Files
	doc     *Document
	listing *Listing
	rows    map[string]*Row // those that can be in a head, by id
	head    map[string][]byte
	records [][]byte // in display order
	known   []Validation
	now     time.Time

	edits []edit
	fresh map[Role][]string // lines of new Todos by section role
	out   Returned
}

// edit replaces bytes of the file. Edits at one place apply in the order they were made.
type edit struct {
	start, end int
	text       string
}

func newEditor(kept Files, head authority.Canonical, known []Validation) (*editor, error) {
	e := &editor{kept: kept, doc: Parse(kept.State), head: members(head), rows: map[string]*Row{}, fresh: map[Role][]string{}}
	var err error
	if e.listing, err = e.doc.Read(Later); err != nil {
		return nil, err
	}
	for i := range e.listing.Rows {
		if row := &e.listing.Rows[i]; row.enters() {
			e.rows[row.TodoID] = row
		}
	}
	e.known = append(validations(e.listing.Rows), known...)
	e.records = inDisplayOrder(elements(e.head["todos"]))
	return e, nil
}

// judge finds what stands against the way back before anything is rendered.
func (e *editor) judge() []Finding {
	var findings []Finding
	if goal := text(e.head["goal_id"]); goal != e.kept.Goal {
		findings = append(findings, Finding{Code: CodeHeadForeign, Weight: Blocking, Key: "goal_id", Detail: "the head is that of another Goal"})
	}
	if mode, _ := e.doc.HandoffMode(Later); mode != text(e.head["handoff_mode"]) {
		findings = append(findings, Finding{Code: CodeHeadMode, Weight: Blocking, Key: "handoff_mode", Detail: "the front matter has another mode than the head"})
	}
	present := map[string]bool{}
	for _, record := range e.records {
		m := members(record)
		present[text(m["todo_id"])] = true
		findings = append(findings, judgeRecord(m)...)
	}
	for _, id := range slices.SortedFunc(maps.Keys(e.rows), canonical.CompareKeys) {
		if !present[id] {
			findings = append(findings, Finding{Code: CodeTodoVanished, Weight: Blocking, TodoID: id, Line: e.rows[id].Line, Detail: "it was imported and the head has it no more; nothing here deletes a Todo"})
		}
	}
	return append(findings, e.judgeLeases()...)
}

// judgeRecord names the fields of a record that are lost on the way.
func judgeRecord(m map[string][]byte) []Finding {
	var findings []Finding
	lost := func(key string) {
		findings = append(findings, Finding{Code: CodeFieldNotHeld, Weight: Acceptable, TodoID: text(m["todo_id"]), Key: key, Detail: "Markdown has no place for this field"})
	}
	for _, key := range slices.Sorted(maps.Keys(unheld)) {
		if !absent(m[key]) {
			lost(key)
		}
	}
	if revision := string(m["completion_validation_revision"]); revision != "" && revision != "0" && revision != "null" {
		lost("completion_validation_revision")
	}
	if !absent(m["completion_validation_revision_history"]) {
		lost("completion_validation_revision_history")
	}
	if n := len([]rune(text(m["text"]))); n > textLimit {
		findings = append(findings, Finding{Code: CodeTextOver500, Weight: Acceptable, TodoID: text(m["todo_id"]), Key: "text", Detail: "the text has " + decimal(n) + " characters; LoopX's views cut it at 500"})
	}
	return findings
}

// judgeLeases: none runs, none is gone, none is older than its file.
func (e *editor) judgeLeases() []Finding {
	files, _ := parseLeases(e.kept.Goal, e.kept.Leases)
	before := map[string]Lease{}
	for _, lease := range files {
		before[lease.TodoID] = lease
	}
	var findings []Finding
	present := map[string]bool{}
	for _, lease := range e.headLeases() {
		present[lease.TodoID] = true
		if f := judgeLease(lease, e.now); f != nil {
			findings = append(findings, *f)
		}
		if old, had := before[lease.TodoID]; had && (lease.Version() < old.Version() || lease.Epoch() < old.Epoch()) {
			findings = append(findings, Finding{Code: CodeLeaseBackwards, Weight: Blocking, File: lease.File, TodoID: lease.TodoID, Detail: "version or epoch would go backwards"})
		}
	}
	for _, lease := range files {
		if row := e.rows[lease.TodoID]; row != nil && !row.Archived && !present[lease.TodoID] {
			findings = append(findings, Finding{Code: CodeLeaseVanished, Weight: Blocking, File: lease.File, TodoID: lease.TodoID, Detail: "it was imported and the head has it no more"})
		}
	}
	return findings
}

func (e *editor) headLeases() []Lease {
	var leases []Lease
	for _, record := range elements(e.head["leases"]) {
		id := text(members(record)["todo_id"])
		leases = append(leases, Lease{File: id + ".json", TodoID: id, Record: record})
	}
	return leases
}

// leases renders the lease files that change.
func (e *editor) leases() ([]LeaseEntry, error) {
	var files []LeaseEntry
	for _, lease := range e.headLeases() {
		if !leaseName.MatchString(lease.File) {
			return nil, &RenderError{Reason: "field_not_expressible", TodoID: lease.TodoID, Field: "todo_id"}
		}
		i := slices.IndexFunc(e.kept.Leases, func(k LeaseEntry) bool { return k.Name == lease.File })
		if i >= 0 {
			if before, err := canonical.Append(nil, e.kept.Leases[i].Bytes); err == nil && bytes.Equal(before, lease.Record) {
				continue
			}
		}
		rendered := LeaseEntry{Name: lease.File, Regular: true, Bytes: renderLease(lease.Record)}
		if again, found := parseLease(e.kept.Goal, rendered); found != nil || !bytes.Equal(again.Record, lease.Record) {
			return nil, &RenderError{Reason: "parity_mismatch", TodoID: lease.TodoID, Field: "leases"}
		}
		files = append(files, rendered)
	}
	return files, nil
}

// leaseKeys are the keys of a lease in the order in which LoopX writes them.
var leaseKeys = []string{"schema_version", "goal_id", "todo_id", "owner", "idempotency_key", "write_scopes", "write_repository",
	"acquire_ttl_seconds", "version", "lease_epoch", "acquired_at", "updated_at", "expires_at", "status", "released_at"}

// renderLease writes a record as LoopX does: two blanks of indent and a final newline.
// Keys that this tool does not know follow by code point.
func renderLease(record []byte) []byte {
	m := members(record)
	keys := slices.DeleteFunc(slices.Clone(leaseKeys), func(key string) bool { return m[key] == nil })
	for _, key := range slices.SortedFunc(maps.Keys(m), canonical.CompareKeys) {
		if !slices.Contains(leaseKeys, key) {
			keys = append(keys, key)
		}
	}
	var flat []byte
	for _, key := range keys {
		flat = append(canonical.AppendString(append(flat, ','), key), ':')
		flat = append(flat, m[key]...)
	}
	flat[0] = '{'
	var out bytes.Buffer
	if err := json.Indent(&out, append(flat, '}'), "", "  "); err != nil {
		return nil // the proof that reads it again refuses an empty file
	}
	return append(out.Bytes(), '\n')
}

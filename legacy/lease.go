package legacy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// Lease is one record task_lease_v0 as a file holds it. Nothing is filled in: what an
// older LoopX did not write stays absent from Record.
type Lease struct {
	File   string // name in the lease folder
	TodoID string
	Record authority.Canonical // the whole record, unknown keys included
}

func (l Lease) text(key string) string { return text(members(l.Record)[key]) }

// Status is active or released; an expired lease stays active in its file.
func (l Lease) Status() string { return l.text("status") }

// Owner is the agent that has it.
func (l Lease) Owner() string { return l.text("owner") }

// Epoch is the fencing generation: 1 when the record, being old, has none.
func (l Lease) Epoch() int64 { return l.number("lease_epoch", 1) }

// Version is the record's own counter, 0 when it has none.
func (l Lease) Version() int64 { return l.number("version", 0) }

func (l Lease) number(key string, missing int64) int64 {
	n, err := strconv.ParseInt(string(members(l.Record)[key]), 10, 64)
	if err != nil {
		return missing
	}
	return n
}

// Expires is when an active lease ends; ok is false when the record does not say it
// in a form that can be read.
func (l Lease) Expires() (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, l.text("expires_at"))
	return at, err == nil
}

// Scopes are the paths it may write.
func (l Lease) Scopes() []string {
	var scopes []string
	for _, scope := range elements(members(l.Record)["write_scopes"]) {
		scopes = append(scopes, text(scope))
	}
	return scopes
}

var (
	leaseName    = pattern(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*\.json$`)
	residueName  = pattern(`^\..+\.[0-9]+\.tmp$`)
	lockName     = pattern(`\.lock(\.incidents\.jsonl)?$|\.ts-effect\.lock`)
	companyNames = []string{".lifecycle-operations", ".lifecycle-fences"}
)

// parseLeases reads a lease folder. Only a plain file with LoopX's kind of name is a
// lease; each other thing is named, and none is followed.
func parseLeases(goal string, entries []LeaseEntry) ([]Lease, []Finding) {
	var leases []Lease
	var findings []Finding
	for _, e := range entries {
		code, weight, detail := judgeEntry(e)
		if code != "" {
			findings = append(findings, Finding{Code: code, Weight: weight, File: e.Name, Detail: detail})
			continue
		}
		lease, found := parseLease(goal, e)
		if found != nil {
			findings = append(findings, *found)
			continue
		}
		leases = append(leases, lease)
	}
	slices.SortFunc(leases, func(a, b Lease) int { return canonical.CompareKeys(a.TodoID, b.TodoID) })
	return leases, findings
}

// judgeEntry says what a thing in the lease folder is; "" is a lease.
func judgeEntry(e LeaseEntry) (code string, weight Weight, detail string) {
	switch {
	case slices.Contains(companyNames, e.Name) && e.Folder, lockName.MatchString(e.Name):
		return CodeLeaseStranger, Note, "LoopX's own lock or lifecycle folder; it is no lease"
	case residueName.MatchString(e.Name):
		return CodeLeaseResidue, Note, "left by a writer that died; LoopX ignores it"
	case !strings.HasSuffix(e.Name, ".json"):
		return CodeLeaseStranger, Note, "not a lease by its name; it is left alone"
	case !e.Regular:
		return CodeLeaseNotRegular, Blocking, "a link or a folder under a lease's name is not followed"
	case !leaseName.MatchString(e.Name):
		return CodeLeaseName, Blocking, "no name that LoopX gives to a lease"
	}
	return "", Note, ""
}

func parseLease(goal string, e LeaseEntry) (Lease, *Finding) {
	refuse := func(code, key, detail string) (Lease, *Finding) {
		return Lease{}, &Finding{Code: code, Weight: Blocking, File: e.Name, TodoID: strings.TrimSuffix(e.Name, ".json"), Key: key, Detail: detail}
	}
	value, err := canonical.Append(nil, e.Bytes)
	if err != nil || canonical.Kind(value) != canonical.Object {
		return refuse(CodeLeaseMalformed, "", "not a whole JSON object")
	}
	lease := Lease{File: e.Name, Record: value, TodoID: strings.TrimSuffix(e.Name, ".json")}
	m := members(value)
	switch {
	case lease.text("todo_id") != lease.TodoID:
		return refuse(CodeLeaseTodoDiffers, "todo_id", "the record names another Todo than its file")
	case lease.text("goal_id") != goal:
		return refuse(CodeLeaseGoalDiffers, "goal_id", "the record names another Goal")
	case m["schema_version"] != nil && lease.text("schema_version") != "task_lease_v0":
		return refuse(CodeLeaseSchema, "schema_version", "no schema that this tool knows")
	case lease.Status() != "active" && lease.Status() != "released":
		return refuse(CodeLeaseStatus, "status", "neither active nor released")
	}
	for _, key := range []string{"version", "lease_epoch", "acquire_ttl_seconds"} {
		if m[key] != nil && canonical.Kind(m[key]) != canonical.Number {
			return refuse(CodeLeaseNumber, key, "not a number")
		}
	}
	if unsafeNumber(value) {
		return refuse(CodeLeaseNumber, "", "a number that is no integer below 2^53")
	}
	return lease, nil
}

var safeInteger = pattern(`^-?[0-9]{1,15}$`)

// unsafeNumber reports whether canonical text holds a number that two languages may
// take differently.
func unsafeNumber(value []byte) bool {
	switch canonical.Kind(value) {
	case canonical.Number:
		return !safeInteger.MatchString(string(value))
	case canonical.Array:
		return slices.ContainsFunc(elements(value), unsafeNumber)
	case canonical.Object:
		for _, member := range members(value) {
			if unsafeNumber(member) {
				return true
			}
		}
	}
	return false
}

// judgeLease says why a lease holds a migration, nil when it does not. Expiry is never
// written by LoopX, and an expired worker may still run.
func judgeLease(l Lease, now time.Time) *Finding {
	if l.Status() != "active" {
		return nil
	}
	// An agent proves itself with its idempotency key, so that what may be shared has a digest of it.
	key := l.text("idempotency_key")
	f := &Finding{Code: CodeLeaseActive, Weight: Blocking, File: l.File, TodoID: l.TodoID, Value: key}
	who := "owner " + l.Owner() + ", key sha256:" + authority.DigestOf([]byte(key)).String()[:12] + ", expires " + l.text("expires_at") +
		", clock " + now.UTC().Format(time.RFC3339)
	f.Detail = "still running, release or complete it first: " + who
	at, ok := l.Expires()
	switch {
	case !ok:
		f.Code, f.Detail = CodeLeaseExpiry, "active, and its end cannot be read: "+who
	case !at.After(now):
		f.Code, f.Weight, f.Detail = CodeLeaseExpired, Acceptable, "expired and still marked active: "+who
	}
	return f
}

// overlaps names the pairs of active leases that may write the same path.
func overlaps(leases []Lease) []Finding {
	var findings []Finding
	for i, a := range leases {
		for _, b := range leases[i+1:] {
			if a.Status() != "active" || b.Status() != "active" || otherRepository(a, b) || !coordination.ScopesOverlap(a.Scopes(), b.Scopes()) {
				continue
			}
			findings = append(findings, Finding{Code: CodeLeaseOverlap, File: a.File, TodoID: a.TodoID, Key: b.TodoID,
				Detail: "active leases of two Todos may write the same path; both are carried"})
		}
	}
	return findings
}

func otherRepository(a, b Lease) bool {
	x, y := a.text("write_repository"), b.text("write_repository")
	return x != "" && y != "" && x != y
}

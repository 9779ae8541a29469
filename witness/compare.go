package witness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Checks of a comparison, in the order of a report.
const (
	CheckHead     = "head"     // the newest state
	CheckReceipts = "receipts" // of every operation id of either side
	CheckOrder    = "order"    // which operation stands at which cursor
	CheckScans    = "scans"    // events and projection of every row
)

// Finding is one place where two histories differ.
type Finding struct {
	Check       string
	Cursor      authority.Cursor
	OperationID string
	// Field is the JSON path of the first difference there. Keys that are no plain
	// names are shown by the start of their SHA-256.
	Field string
	// Left and Right are SHA-256 of what stands there, or "absent".
	Left, Right string
}

// Check is what one check found.
type Check struct {
	Name     string
	Compared uint64
	Total    uint64    // of all findings
	Findings []Finding // the first of them
}

// Comparison is two histories held against each other.
type Comparison struct {
	Left, Right string // names of the arms
	Checks      []Check
}

// Alike reports whether no check found anything and something was compared.
func (c Comparison) Alike() bool {
	for _, check := range c.Checks {
		if check.Total > 0 || check.Compared == 0 {
			return false
		}
	}
	return len(c.Checks) > 0
}

// listed is how many findings of a check are listed; all are counted.
const listed = 20

// Compare holds two histories against each other, rows 1 to through of the left one
// against all of the right one; through 0 is all of both. Provider revisions belong to
// one store and are not compared.
func Compare(ctx context.Context, left, right *Reading, through uint64) (Comparison, error) {
	rows := left.rows
	if through > 0 && through < uint64(len(rows)) {
		rows = rows[:through]
	}
	p := pairing{ctx: ctx, left: left, right: right, l: rows, r: right.rows, checks: map[string]*Check{}}
	for _, name := range []string{CheckHead, CheckReceipts, CheckOrder, CheckScans} {
		p.checks[name] = &Check{Name: name}
	}
	p.heads()
	p.receipts()
	p.rows()
	c := Comparison{Left: left.Name(), Right: right.Name()}
	for _, name := range []string{CheckHead, CheckReceipts, CheckOrder, CheckScans} {
		c.Checks = append(c.Checks, *p.checks[name])
	}
	return c, p.err
}

type pairing struct {
	ctx         context.Context
	left, right *Reading
	l, r        []trace
	checks      map[string]*Check
	err         error
}

func (p *pairing) heads() {
	l, r := p.l[len(p.l)-1], p.r[len(p.r)-1]
	p.same(CheckHead, "projection", l, r, l.projection, r.projection, func(t *row) *value { return t.projection })
}

// receipts asks both sides for every operation id that either has.
func (p *pairing) receipts() {
	byID := func(rows []trace) map[string]trace {
		of := map[string]trace{}
		for _, t := range rows {
			of[t.operation] = t
		}
		return of
	}
	l, r := byID(p.l), byID(p.r)
	for _, t := range p.l {
		other, there := r[t.operation]
		if !there {
			p.find(CheckReceipts, Finding{Cursor: authority.Cursor(t.cursor), OperationID: t.operation, Left: "present", Right: "absent"})
			continue
		}
		p.same(CheckReceipts, "receipts", t, other, t.receipts, other.receipts, func(t *row) *value { return t.receipts })
	}
	for _, t := range p.r {
		if _, there := l[t.operation]; !there {
			p.find(CheckReceipts, Finding{Cursor: authority.Cursor(t.cursor), OperationID: t.operation, Left: "absent", Right: "present"})
		}
	}
}

// rows goes through both in step.
func (p *pairing) rows() {
	for i := range max(len(p.l), len(p.r)) {
		p.checks[CheckOrder].Compared++
		if i >= len(p.l) || i >= len(p.r) {
			p.find(CheckOrder, Finding{Cursor: authority.Cursor(i) + 1, Left: presence(p.l, i), Right: presence(p.r, i)})
			continue
		}
		l, r := p.l[i], p.r[i]
		if l.operation != r.operation {
			p.find(CheckOrder, Finding{Cursor: authority.Cursor(i) + 1, OperationID: l.operation, Field: "operation_id", Left: digest(l.operation), Right: digest(r.operation)})
			continue
		}
		p.same(CheckScans, "events", l, r, l.events, r.events, func(t *row) *value { return t.events })
		p.same(CheckScans, "projection", l, r, l.projection, r.projection, func(t *row) *value { return t.projection })
	}
}

func presence(rows []trace, i int) string {
	if i < len(rows) {
		return "present"
	}
	return "absent"
}

// same compares two digests and names the first field where they differ.
func (p *pairing) same(check, part string, l, r trace, a, b string, of func(*row) *value) {
	p.checks[check].Compared++
	if a == b {
		return
	}
	f := Finding{Cursor: authority.Cursor(l.cursor), OperationID: l.operation, Field: part, Left: a, Right: b}
	if p.checks[check].Total == 0 && p.err == nil {
		p.err = p.locate(&f, l.cursor, r.cursor, of)
	}
	p.find(check, f)
}

// locate reads both rows again, whole.
func (p *pairing) locate(f *Finding, l, r uint64, of func(*row) *value) error {
	a, err := p.left.rowAt(p.ctx, l)
	if err != nil || a == nil {
		return err
	}
	b, err := p.right.rowAt(p.ctx, r)
	if err != nil || b == nil {
		return err
	}
	path, x, y := apart(of(a), of(b))
	f.Field, f.Left, f.Right = f.Field+path, shown(x), shown(y)
	return nil
}

func shown(v *value) string {
	if v == nil {
		return "absent"
	}
	return digest(v.canonical())
}

func (p *pairing) find(check string, f Finding) {
	c := p.checks[check]
	f.Check = check
	if c.Total++; len(c.Findings) < listed {
		c.Findings = append(c.Findings, f)
	}
}

// apart is the path to the first difference of two values, and what stands there.
func apart(a, b *value) (path string, x, y *value) {
	switch {
	case a.kind == object && b.kind == object:
		keys := append(a.keys(), b.keys()...)
		slices.SortStableFunc(keys, func(k, l string) int { return cmp.Or(cmp.Compare(index(k), index(l)), cmp.Compare(k, l)) })
		for _, key := range keys {
			x, y := a.members[key], b.members[key]
			if x == nil || y == nil {
				return "." + plain(key), x, y
			}
			if x.canonical() != y.canonical() {
				path, x, y := apart(x, y)
				return "." + plain(key) + path, x, y
			}
		}
	case a.kind == list && b.kind == list:
		for i := range max(len(a.list), len(b.list)) {
			if i >= len(a.list) || i >= len(b.list) {
				return "[" + strconv.Itoa(i) + "]", element(a.list, i), element(b.list, i)
			}
			if a.list[i].canonical() != b.list[i].canonical() {
				path, x, y := apart(a.list[i], b.list[i])
				return "[" + strconv.Itoa(i) + "]" + path, x, y
			}
		}
	}
	return "", a, b
}

func element(elements []*value, i int) *value {
	if i < len(elements) {
		return elements[i]
	}
	return nil
}

// plain is a key, or the start of its digest where it could be somebody's text.
func plain(key string) string {
	for _, r := range key {
		if !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z') {
			return "#" + digest(key)[:8]
		}
	}
	return key
}

// String is one line: check, cursor, operation and field.
func (f Finding) String() string {
	return fmt.Sprintf("%s: cursor %d, operation %s, field %s: %.12s and %.12s", f.Check, f.Cursor, f.OperationID, f.Field, f.Left, f.Right)
}

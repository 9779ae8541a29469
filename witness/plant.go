package witness

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
)

// errNoDigest: the format keeps no digest that could be edited.
var errNoDigest = errors.New("the format keeps no digest")

// Planted is a difference that was made on purpose on a copy, and what was found of it.
type Planted struct {
	Name   string
	Cursor authority.Cursor // where it was made
	Found  bool
	// FoundBy, FoundAt and Field are the check that found it, and where.
	FoundBy string
	FoundAt authority.Cursor
	Field   string
}

// Unplanted is a difference that could not be made, and why: it proves nothing.
type Unplanted struct{ Name, Why string }

// Proof is what the verifier showed of itself.
type Proof struct {
	Arm string
	// Through is how many rows the copies hold.
	Through authority.Cursor
	// Clean: a copy in which nothing was planted is alike. Without that, finding
	// something in the others would prove nothing.
	Clean     bool
	Planted   []Planted
	Unplanted []Unplanted
}

// Holds reports whether the copy without a difference is alike and every planted
// difference was found where it was made.
func (p Proof) Holds() bool {
	for _, planted := range p.Planted {
		if !planted.Found {
			return false
		}
	}
	return p.Clean && len(p.Planted) > 0
}

// planting is a way to spoil a copy. spoil changes the rows, which it may, and returns
// the cursor it touched, or 0 where there is nothing to spoil.
type planting struct {
	name  string
	check string // which check has to find it
	field string // how the field they name has to begin
	spoil func(rows []*row) ([]*row, uint64)
}

var plantings = []planting{
	{"dropped_transaction", CheckOrder, "", dropOne},
	{"swapped_transactions", CheckOrder, "", swapTwo},
	{"altered_receipt", CheckReceipts, "receipts[0].", alterReceipt},
	{"repeated_operation_id", "identity", "", repeatID},
	{"stale_projection", CheckHead, "projection", staleProjection},
	{"missing_lease", CheckHead, "projection.leases", dropLease},
	{"reordered_list", CheckHead, "projection.todos", reorder},
	{"edited_digest", "chain", "", nil},
}

// Limits of a copy: enough rows to cross checkpoints, little enough to be held.
const (
	copiedRows  = 130
	copiedBytes = 24 << 20
)

// Prove plants known differences on copies of the history's beginning, in its own format,
// and looks for each as for any other. The history itself is only read.
func Prove(ctx context.Context, r *Reading) (Proof, error) {
	proof := Proof{Arm: r.Name()}
	if r.history.plant == nil {
		return proof, errors.New("this history cannot be copied")
	}
	rows, err := r.beginning(ctx)
	if err != nil {
		return proof, err
	}
	proof.Through = authority.Cursor(len(rows))
	found, err := r.look(ctx, rows, rows, 0)
	if err != nil {
		return proof, err
	}
	proof.Clean = len(found) == 0
	for _, p := range plantings {
		if err := r.try(ctx, p, rows, &proof); err != nil {
			return proof, fmt.Errorf("planting %s: %w", p.name, err)
		}
	}
	return proof, nil
}

// beginning are the first rows, as many as a copy holds.
func (r *Reading) beginning(ctx context.Context) ([]*row, error) {
	var rows []*row
	size := 0
	err := r.history.read(ctx, new(header), func(t *row) error {
		rows = append(rows, t)
		if size += len(t.projection.canonical()); len(rows) == copiedRows || size > copiedBytes && len(rows) > 4 {
			return errEnough
		}
		return ctx.Err()
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return rows, err
}

// try plants one difference and looks for it.
func (r *Reading) try(ctx context.Context, p planting, rows []*row, proof *Proof) error {
	found, at, err := r.spoil(ctx, p, rows)
	switch {
	case errors.Is(err, errNoDigest):
		proof.Unplanted = append(proof.Unplanted, Unplanted{p.name, err.Error()})
	case err != nil:
		return err
	case at == 0:
		proof.Unplanted = append(proof.Unplanted, Unplanted{p.name, "the copied rows have nothing to spoil that way"})
	default:
		proof.Planted = append(proof.Planted, p.judged(authority.Cursor(at), found))
	}
	return nil
}

// spoil makes a spoilt copy and returns what is found of it, and the cursor it was
// spoilt at, 0 where there was nothing to spoil.
func (r *Reading) spoil(ctx context.Context, p planting, rows []*row) (found []Finding, at uint64, err error) {
	if p.spoil == nil {
		at = uint64(middle(rows)) + 1
		found, err = r.look(ctx, rows, rows, at)
		return found, at, err
	}
	spoilt, at := p.spoil(duplicate(rows))
	if at == 0 {
		return nil, 0, nil
	}
	through := rows
	if p.check == CheckHead {
		through = rows[:at] // the spoilt row is the copy's head
	}
	found, err = r.look(ctx, through, spoilt, 0)
	return found, at, err
}

// judged looks for the finding that names what was planted.
func (p planting) judged(at authority.Cursor, found []Finding) Planted {
	planted := Planted{Name: p.name, Cursor: at}
	for _, f := range found {
		if f.Cursor == at && f.Check == p.check && len(f.Field) >= len(p.field) && f.Field[:len(p.field)] == p.field {
			planted.Found, planted.FoundBy, planted.FoundAt, planted.Field = true, f.Check, f.Cursor, f.Field
			return planted
		}
	}
	return planted
}

// look makes a copy, reads it, and returns all that is wrong with it beside the first rows.
func (r *Reading) look(ctx context.Context, through, spoilt []*row, edited uint64) (_ []Finding, err error) {
	copied, err := r.history.plant(ctx, r.header, spoilt, edited)
	if err != nil {
		return nil, err
	}
	if copied.close != nil {
		defer func() { err = errors.Join(err, copied.close()) }()
	}
	reading, err := Read(ctx, copied)
	var defect *Defect
	if errors.As(err, &defect) {
		return []Finding{{Check: defect.Check, Cursor: defect.Cursor, OperationID: defect.OperationID, Field: defect.Field}}, nil
	}
	if err != nil {
		return nil, err
	}
	comparison, err := Compare(ctx, r, reading, uint64(len(through)))
	var found []Finding
	for _, check := range comparison.Checks {
		found = append(found, check.Findings...)
	}
	return found, err
}

func duplicate(rows []*row) []*row {
	copies := make([]*row, len(rows))
	for i, t := range rows {
		c := *t
		copies[i] = &c
	}
	return copies
}

func middle(rows []*row) int { return len(rows) / 2 }

func dropOne(rows []*row) ([]*row, uint64) {
	if len(rows) < 2 {
		return rows, 0
	}
	i := middle(rows)
	return append(rows[:i:i], rows[i+1:]...), uint64(i) + 1
}

func swapTwo(rows []*row) ([]*row, uint64) {
	if len(rows) < 2 {
		return rows, 0
	}
	i := middle(rows)
	rows[i-1], rows[i] = rows[i], rows[i-1]
	return rows, uint64(i)
}

// alterReceipt changes the last member of the first receipt that has one.
func alterReceipt(rows []*row) ([]*row, uint64) {
	for n := range rows {
		t := rows[(middle(rows)+n)%len(rows)]
		if len(t.receipts.list) == 0 {
			continue
		}
		first := t.receipts.list[0]
		keys := first.keys()
		if len(keys) == 0 {
			continue
		}
		altered := first.with(keys[len(keys)-1], newText("altered"))
		t.receipts = newList(append([]*value{altered}, t.receipts.list[1:]...))
		return rows, t.cursor
	}
	return rows, 0
}

func repeatID(rows []*row) ([]*row, uint64) {
	if len(rows) < 2 {
		return rows, 0
	}
	i := middle(rows)
	rows[i].operation = rows[i-1].operation
	return rows, uint64(i) + 1
}

// staleProjection ends the copy at a row whose state is that of the row before.
func staleProjection(rows []*row) ([]*row, uint64) {
	for i := len(rows) - 1; i > 0; i-- {
		if rows[i].projection.canonical() != rows[i-1].projection.canonical() {
			rows[i].projection = rows[i-1].projection
			return rows[:i+1], uint64(i) + 1
		}
	}
	return rows, 0
}

// dropLease ends the copy at a row that has leases, and takes the first of them away.
func dropLease(rows []*row) ([]*row, uint64) {
	for i := len(rows) - 1; i >= 0; i-- {
		if leases := rows[i].projection.elements("leases"); len(leases) > 0 {
			rows[i].projection = rows[i].projection.with("leases", newList(leases[1:]))
			return rows[:i+1], uint64(i) + 1
		}
	}
	return rows, 0
}

// reorder ends the copy at a row with two Todos, and swaps the last two of them.
func reorder(rows []*row) ([]*row, uint64) {
	for i := len(rows) - 1; i >= 0; i-- {
		todos := rows[i].projection.elements("todos")
		n := len(todos)
		if n < 2 || todos[n-1].canonical() == todos[n-2].canonical() {
			continue
		}
		var swapped []*value
		swapped = append(swapped, todos[:n-2]...)
		swapped = append(swapped, todos[n-1], todos[n-2])
		rows[i].projection = rows[i].projection.with("todos", newList(swapped))
		return rows[:i+1], uint64(i) + 1
	}
	return rows, 0
}

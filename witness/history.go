package witness

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Defect is what stands against one history by itself.
type Defect struct {
	Check       string // chain, order, identity, head or format
	Cursor      authority.Cursor
	OperationID string
	Field       string
	Detail      string
}

// Error names check, cursor and field.
func (d *Defect) Error() string {
	s := "the witness found in check " + d.Check
	if d.Cursor != 0 {
		s += ", cursor " + strconv.FormatUint(uint64(d.Cursor), 10)
	}
	if d.Field != "" {
		s += ", field " + d.Field
	}
	return s + ": " + d.Detail
}

// row is one transaction as it was read.
type row struct {
	cursor     uint64
	revision   string
	operation  string
	events     *value
	receipts   *value
	projection *value
}

func (r *row) defect(check, field, format string, args ...any) error {
	return &Defect{Check: check, Cursor: authority.Cursor(r.cursor), OperationID: r.operation, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// History is a place where a history is kept, and how it is read there. It is made by
// [FileJournal], [SQLite], [PostgreSQL] or [Archive] and read by [Read].
type History struct {
	Name string // of the arm, in what is reported
	Kind authority.Kind
	// read walks all rows in cursor order and proves each by the format's own chain.
	read func(ctx context.Context, h *header, visit func(*row) error) error
	// plant gives a history in the same format, a disposable copy, that holds these
	// rows, and a digest that was edited where that is asked for.
	plant func(ctx context.Context, h header, rows []*row, edited uint64) (*History, error)
	// close gives up what a copy holds; nil where there is nothing.
	close func() error
}

// header is what stands beside the rows.
type header struct {
	format   authority.Format
	goal     string
	identity string
	cursor   uint64
	revision string
	head     *value
	bytes    int64
}

// trace is what is kept of a row: digests, by which it is compared.
type trace struct {
	cursor                       uint64
	operation                    string
	events, receipts, projection string
	receiptCount, eventCount     int
}

// Reading is a history that was read to its end and proved by its own chain.
type Reading struct {
	history *History
	header  header
	rows    []trace
	// Logical is the logical digest of package authority, worked out a second time.
	Logical string
}

// Name is that of the arm.
func (r *Reading) Name() string { return r.history.Name }

// Transactions counts the rows.
func (r *Reading) Transactions() uint64 { return uint64(len(r.rows)) }

// Format is the physical format that was found.
func (r *Reading) Format() authority.Format { return r.header.format }

// Identity is the incarnation of the store.
func (r *Reading) Identity() authority.Identity { return authority.Identity(r.header.identity) }

var errEnough = errors.New("enough was read")

// Read reads a history to its end. What stands against it is a *Defect.
func Read(ctx context.Context, h *History) (*Reading, error) {
	r := &Reading{history: h}
	ids := map[string]uint64{}
	logical := newLogical()
	var last *row
	err := h.read(ctx, &r.header, func(t *row) error {
		if t.cursor != uint64(len(r.rows))+1 {
			return t.defect("order", "cursor", "it should be %d", len(r.rows)+1)
		}
		if before, twice := ids[t.operation]; twice {
			return t.defect("identity", "operation_id", "it stands at cursor %d as well", before)
		}
		ids[t.operation] = t.cursor
		if err := t.shaped(); err != nil {
			return err
		}
		r.rows = append(r.rows, traced(t))
		logical.add(t, r.rows[len(r.rows)-1].projection)
		last = t
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	if last == nil {
		return nil, &Defect{Check: "format", Detail: "there is no transaction"}
	}
	r.Logical = logical.digest()
	return r, r.header.closes(last)
}

func traced(t *row) trace {
	return trace{cursor: t.cursor, operation: t.operation, events: digest(t.events.canonical()), receipts: digest(t.receipts.canonical()),
		projection: digest(t.projection.canonical()), receiptCount: len(t.receipts.list), eventCount: len(t.events.list)}
}

// shaped refuses a row whose parts are not of the kind they must be.
func (r *row) shaped() error {
	for _, part := range []struct {
		name string
		v    *value
		kind byte
	}{{"events", r.events, list}, {"receipts", r.receipts, list}, {"projection", r.projection, object}} {
		if part.v == nil || part.v.kind != part.kind {
			return r.defect("format", part.name, "it has another shape")
		}
	}
	for _, name := range []struct {
		field string
		of    []*value
	}{{"events", r.events.list}, {"receipts", r.receipts.list}} {
		for _, element := range name.of {
			if element.kind != object {
				return r.defect("format", name.field, "it holds what is no object")
			}
		}
	}
	if !isID(r.operation) || !isID(r.revision) {
		return r.defect("format", "operation_id", "it or the revision is empty, or begins or ends with a blank")
	}
	return nil
}

// isID reports whether a text is an id: not empty, and what JavaScript's trim leaves as it is.
func isID(s string) bool {
	const blanks = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
	return s != "" && strings.Trim(s, blanks) == s
}

// closes holds the header against the last row.
func (h *header) closes(last *row) error {
	switch {
	case h.cursor != last.cursor:
		return last.defect("head", "cursor", "the head is at %d", h.cursor)
	case h.revision != last.revision:
		return last.defect("head", "provider_revision", "the head has another")
	case h.head == nil || h.head.canonical() != last.projection.canonical():
		return last.defect("head", "projection", "the head is not the last row's")
	}
	return nil
}

// rowAt reads one row again, whole.
func (r *Reading) rowAt(ctx context.Context, cursor uint64) (found *row, err error) {
	err = r.history.read(ctx, new(header), func(t *row) error {
		if t.cursor == cursor {
			found = t
			return errEnough
		}
		return ctx.Err()
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// cursorText reads a cursor: decimal, from 1, no leading zero.
func cursorText(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is no cursor", s)
	}
	return n, nil
}

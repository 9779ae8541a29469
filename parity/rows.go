package parity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// met is one cursor of the walk: the row of every journal there, nil where it has none.
type met struct {
	cursor authority.Cursor
	sides  []*side
	rows   []*authority.Transaction
}

// walkRows goes through the histories once, all arms in step.
func (c *comparison) walkRows(ctx context.Context) {
	journals := c.journals()
	if c.broken || len(journals) < 2 {
		for _, name := range []CheckName{CheckReceipts, CheckScans} {
			c.skip(name, "fewer than two journals that can be read")
		}
		return
	}
	var streams []*stream
	for _, s := range journals {
		s.operations.sum = sha256.New()
		streams = append(streams, &stream{side: s, after: c.options.After, through: c.options.Through, limit: rowsFor(len(s.head.Projection), walkBytes)})
	}
	previous := make([]authority.Transaction, len(streams))
	for i := range previous {
		previous[i].Cursor = c.options.After
	}
	for {
		fillAll(ctx, streams)
		if c.stopped(streams) {
			return
		}
		cursor, found := lowest(streams)
		if !found {
			return
		}
		m := takeRows(streams, cursor)
		c.chained(m, previous)
		c.compareRow(ctx, m)
		if c.broken {
			return
		}
	}
}

// stopped records what ended a stream before its time.
func (c *comparison) stopped(streams []*stream) bool {
	for _, s := range streams {
		if s.broken != "" {
			c.differs(CheckScans, Difference{Code: s.broken, Arm: s.Name, Cursor: s.after})
			s.broken = ""
		}
		if c.unread(CheckScans, s.side, s.err) {
			return true
		}
	}
	return false
}

func takeRows(streams []*stream, cursor authority.Cursor) met {
	m := met{cursor: cursor}
	for _, s := range streams {
		row := s.peek()
		if row != nil && row.Cursor == cursor {
			s.next++
			s.operations.add(row.OperationID)
		} else {
			row = nil
		}
		m.sides, m.rows = append(m.sides, s.side), append(m.rows, row)
	}
	return m
}

// chained holds each row against the one before it in its own arm.
func (c *comparison) chained(m met, previous []authority.Transaction) {
	for i, row := range m.rows {
		if row == nil {
			continue
		}
		code := ""
		switch {
		case row.Cursor != previous[i].Cursor+1:
			code = "cursor_not_contiguous"
		case row.Revision == "" || row.Revision == previous[i].Revision:
			code = "revision_not_new"
		}
		if code != "" {
			c.differs(CheckLineage, Difference{Code: code, Arm: m.sides[i].Name, Cursor: row.Cursor, OperationID: row.OperationID,
				Values: map[string]string{m.sides[i].Name: previous[i].Cursor.String() + " then " + row.Cursor.String()}})
		}
		previous[i] = authority.Transaction{Cursor: row.Cursor, Revision: row.Revision}
	}
	c.checks[CheckLineage].Compared++
}

// compareRow compares one cursor over all arms and asks for its receipts.
func (c *comparison) compareRow(ctx context.Context, m met) {
	c.checks[CheckScans].Compared++
	alike := c.sameRow(m)
	known := true
	asked := map[string]bool{}
	for i, row := range m.rows {
		if row == nil || asked[row.OperationID] {
			continue
		}
		asked[row.OperationID] = true
		if !c.sameReceipts(ctx, m, row.OperationID) {
			known = false
		}
		if i == 0 && alike && known {
			c.lived(row)
		}
	}
}

// rowFields are the fields of a row that every store must hold alike; provider
// revisions belong to one store and are not among them.
var rowFields = []struct {
	name  string
	check CheckName
	of    func(*authority.Transaction) []byte
}{
	{"operation_id", CheckScans, func(t *authority.Transaction) []byte { return canonical.AppendString(nil, t.OperationID) }},
	{"events", CheckScans, func(t *authority.Transaction) []byte { return t.Events }},
	{"projection", CheckScans, func(t *authority.Transaction) []byte { return t.Projection }},
	{"receipts", CheckReceipts, func(t *authority.Transaction) []byte { return t.Receipts }},
}

func (c *comparison) sameRow(m met) bool {
	alike := true
	if missing, odd := m.missing(); len(missing) > 0 {
		c.differs(CheckScans, Difference{Code: "row_missing", Arm: odd, Cursor: m.cursor, OperationID: m.operation(), Values: m.presence()})
		alike = false
	}
	for _, field := range rowFields {
		values := make([][]byte, len(m.rows))
		for i, row := range m.rows {
			if row != nil {
				values[i] = field.of(row)
			}
		}
		if !c.sameValues(m, field.name, field.check, "row_differs", values) {
			alike = false
		}
	}
	return alike
}

// sameValues compares the arms that have a value and reports the first field
// that differs between the odd arm and another one.
func (c *comparison) sameValues(m met, name string, check CheckName, code string, values [][]byte) bool {
	left, right := apart(values)
	if left < 0 {
		return true
	}
	d := Difference{Code: code, Arm: oddOf(m.sides, values), Cursor: m.cursor, OperationID: m.operation()}
	if c.wanted(check) {
		where := firstDifference(values[left], values[right])
		d.Field, d.TodoID, d.Values = joined(name, where.path), where.todo, map[string]string{}
		d.Values[m.sides[left].Name], d.Values[m.sides[right].Name] = valueOf(where.left), valueOf(where.right)
		c.show(m.sides[left].Name, m.sides[right].Name, where)
	}
	c.differs(check, d)
	return false
}

// show keeps the first readable diff.
func (c *comparison) show(left, right string, where place) {
	if c.readable == "" {
		c.readable = readable(left, right, where.recordLeft, where.recordRight)
	}
}

func joined(name, path string) string {
	if path == "" || path[0] == '[' {
		return name + path
	}
	return name + "." + path
}

// apart finds two arms that have different values, -1 when there are none. With
// three arms the second is the odd one.
func apart(values [][]byte) (left, right int) {
	var there []int
	for i, value := range values {
		if value != nil {
			there = append(there, i)
		}
	}
	for n := 1; n < len(there); n++ {
		if bytes.Equal(values[there[0]], values[there[n]]) {
			continue
		}
		if len(there) == 3 && bytes.Equal(values[there[1]], values[there[2]]) {
			return there[1], there[0]
		}
		return there[0], there[n]
	}
	return -1, -1
}

// oddOf names the one arm of three that has another value than the two others.
func oddOf(sides []*side, values [][]byte) string {
	if len(values) != 3 {
		return ""
	}
	for i := range values {
		j, k := (i+1)%3, (i+2)%3
		same := func(a, b int) bool {
			return (values[a] == nil) == (values[b] == nil) && bytes.Equal(values[a], values[b])
		}
		if same(j, k) && !same(i, j) {
			return sides[i].Name
		}
	}
	return ""
}

// missing lists the arms without a row here, and names the one at fault: the
// only one that lacks it, or of three the only one that has it.
func (m met) missing() (lacking []string, odd string) {
	var having []string
	for i, row := range m.rows {
		if row == nil {
			lacking = append(lacking, m.sides[i].Name)
		} else {
			having = append(having, m.sides[i].Name)
		}
	}
	switch {
	case len(lacking) == 1:
		odd = lacking[0]
	case len(having) == 1:
		odd = having[0]
	}
	return lacking, odd
}

func (m met) presence() map[string]string {
	values := map[string]string{}
	for i, row := range m.rows {
		values[m.sides[i].Name] = "present"
		if row == nil {
			values[m.sides[i].Name] = "absent"
		}
	}
	return values
}

func (m met) operation() string {
	for _, row := range m.rows {
		if row != nil {
			return row.OperationID
		}
	}
	return ""
}

// chainedIDs hashes operation ids in order, so that a list of them can be
// compared without being held.
type chainedIDs struct {
	sum   hash.Hash
	count uint64
}

func (ids *chainedIDs) add(id string) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(id)))
	ids.sum.Write(size[:])
	ids.sum.Write([]byte(id))
	ids.count++
}

// String is the number of ids and a digest over them in order.
func (ids *chainedIDs) String() string {
	return strconv.FormatUint(ids.count, 10) + " ids, chained " + authority.Digest(ids.sum.Sum(nil)).String()[:16]
}

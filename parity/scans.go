package parity

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
)

// tryPages asks for pages of several sizes from the start, the middle and the
// end. Each page must keep the rules by itself and hold the same rows on all arms.
func (c *comparison) tryPages(ctx context.Context) {
	journals := c.journals()
	if c.broken || len(journals) < 2 {
		return
	}
	n := journals[0].end
	for _, s := range journals {
		n = min(n, s.end)
	}
	c.rowsAlike = c.checks[CheckScans].Outcome == Equal && c.checks[CheckReceipts].Outcome == Equal
	row := 1
	for _, s := range journals {
		row = max(row, len(s.head.Projection))
	}
	sizes := c.options.PageSizes
	if sizes == nil {
		sizes = []int{1, 2, 7, 64}
	}
	for _, size := range sizes {
		if size > 1 && size > rowsFor(row, pageBytes) {
			c.note(CheckScans, fmt.Sprintf("pages of %d rows would hold more than %d bytes of one arm and were left out", size, pageBytes))
			continue
		}
		for _, after := range startsOf(n, size) {
			c.comparePage(ctx, journals, after, size)
		}
	}
}

// startsOf gives the places that a page of a size is asked from: start, middle
// and the last full page; for small pages also one row before the end, and the
// end. The middle of large pages stands behind a checkpoint, so that a store of
// deltas does not replay twice what is read at all sizes anyway.
func startsOf(n authority.Cursor, size int) []authority.Cursor {
	last := authority.Cursor(0)
	if authority.Cursor(size) < n {
		last = n - authority.Cursor(size)
	}
	middle := n / 2
	if size >= checkpointRows {
		middle -= middle % checkpointRows
	}
	starts := []authority.Cursor{0, middle, last}
	if n > 0 && size < checkpointRows {
		starts = append(starts, n-1, n)
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}

func (c *comparison) comparePage(ctx context.Context, journals []*side, after authority.Cursor, limit int) {
	c.checks[CheckScans].Compared++
	pages := make([]authority.Page, len(journals))
	for i, s := range journals {
		page, err := s.View.Scan(ctx, after, limit)
		if c.unread(CheckScans, s, err) {
			return
		}
		c.pageRules(s, page, after, limit)
		pages[i] = page
	}
	for row := range limit {
		m := met{cursor: after + authority.Cursor(row+1), sides: journals, rows: make([]*authority.Transaction, len(journals))}
		found := false
		for i, page := range pages {
			if row < len(page.Transactions) {
				m.rows[i], found = &page.Transactions[row], true
			}
		}
		if !found {
			return
		}
		if c.rowsAlike && !m.missingBeyondEnd() {
			c.sameRow(m)
		}
	}
}

// missingBeyondEnd: an arm whose history is shorter lacks the row by right here;
// that it is shorter was said by the walk.
func (m met) missingBeyondEnd() bool {
	for i, row := range m.rows {
		if row == nil && m.sides[i].end < m.cursor {
			return true
		}
	}
	return false
}

// pageRules holds a page against the rules of scanCommitted, with the head that
// the arm itself has.
func (c *comparison) pageRules(s *side, page authority.Page, after authority.Cursor, limit int) {
	want := min(uint64(limit), uint64(s.end-min(after, s.end)))
	next := after + authority.Cursor(want)
	code, got := "", ""
	switch {
	case uint64(len(page.Transactions)) != want:
		code, got = "page_length_wrong", strconv.Itoa(len(page.Transactions))
	case page.Next != next:
		code, got = "next_cursor_wrong", page.Next.String()
	case page.HasMore != (next < s.end):
		code, got = "has_more_wrong", strconv.FormatBool(page.HasMore)
	default:
		for i, row := range page.Transactions {
			if row.Cursor != after+authority.Cursor(i+1) {
				code, got = "page_out_of_order", row.Cursor.String()
			}
		}
	}
	if code != "" {
		c.differs(CheckScans, Difference{Code: code, Arm: s.Name, Cursor: after,
			Values: map[string]string{s.Name: got, "limit": strconv.Itoa(limit)}})
	}
}

// tryRefusals asks for scans that every store must refuse, and for the empty
// page at the head.
func (c *comparison) tryRefusals(ctx context.Context) {
	journals := c.journals()
	if c.broken || len(journals) < 2 {
		return
	}
	for _, s := range journals {
		for _, try := range []struct {
			after authority.Cursor
			limit int
			want  authority.Reason
		}{
			{s.end, 1, authority.ReasonNone},
			{s.end + 1, 1, authority.ReasonScanRange},
			{s.end + 1000, 7, authority.ReasonScanRange},
			{0, 0, authority.ReasonInvalidScan},
			{0, -1, authority.ReasonInvalidScan},
			{s.end + 1, 0, authority.ReasonInvalidScan},
		} {
			c.checks[CheckScans].Compared++
			_, err := s.View.Scan(ctx, try.after, try.limit)
			want := "ok"
			if try.want != authority.ReasonNone {
				want = string(authority.ClassFailed) + "/" + string(try.want)
			}
			if got := answerOf(err); got != want {
				c.differs(CheckScans, Difference{Code: "refusal_differs", Arm: s.Name, Cursor: try.after,
					Values: map[string]string{s.Name: got, "wanted": want, "limit": strconv.Itoa(try.limit)}})
			}
		}
	}
}

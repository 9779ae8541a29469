package parity

import (
	"context"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
)

// How much of one arm a page holds: of the walk, which is over all rows, and of the
// other sizes, which are larger so that few have to be left out.
const (
	walkBytes = 4 << 20
	pageBytes = 8 << 20
)

// checkpointRows is the distance of checkpoints in LoopX's delta formats; a page
// of whole runs makes a store replay nothing twice.
const checkpointRows = 64

// rowsFor is how many rows of a size make a page of so many bytes.
func rowsFor(rowBytes, bytes int) int {
	rows := min(max(bytes/(rowBytes+1), 1), 1024)
	if rows > checkpointRows {
		rows -= rows % checkpointRows
	}
	return rows
}

// stream is one arm walked from page to page.
type stream struct {
	*side
	after   authority.Cursor
	through authority.Cursor // 0 without bound
	limit   int
	page    []authority.Transaction
	next    int
	ended   bool
	broken  string // the rule of a scan that the last page broke
	err     error
}

// peek is the next row, or nil at the end.
func (s *stream) peek() *authority.Transaction {
	if s.next < len(s.page) {
		return &s.page[s.next]
	}
	return nil
}

// fill fetches a page when the last one is used up.
func (s *stream) fill(ctx context.Context) {
	if s.next < len(s.page) || s.ended {
		return
	}
	s.page, s.next = nil, 0
	limit := s.limit
	if s.through != 0 {
		limit = int(min(uint64(limit), uint64(s.through-s.after)))
	}
	page, err := s.View.Scan(ctx, s.after, limit)
	if err != nil {
		s.err, s.ended = err, true
		return
	}
	s.broken = pageBreaks(page, s.after, limit)
	s.ended = !page.HasMore || s.broken != "" || page.Next == s.through
	s.page, s.after = page.Transactions, page.Next
	s.limit = rowsFor(largest(page.Transactions), walkBytes)
	s.askReceipts(ctx, page.Transactions)
}

// pageBreaks names the rule that a page breaks by itself, or nothing.
func pageBreaks(page authority.Page, after authority.Cursor, limit int) string {
	rows := page.Transactions
	switch {
	case len(rows) > limit:
		return "page_too_long"
	case len(rows) == 0 && page.Next != after, len(rows) > 0 && page.Next != rows[len(rows)-1].Cursor:
		return "next_cursor_wrong"
	case page.HasMore && len(rows) < limit:
		return "page_too_short"
	}
	return ""
}

func largest(rows []authority.Transaction) int {
	most := 0
	for _, row := range rows {
		most = max(most, len(row.Events)+len(row.Projection)+len(row.Receipts))
	}
	return most
}

// fillAll fetches the pages that are due side by side: replaying one arm's
// deltas takes as long as reading the other.
func fillAll(ctx context.Context, streams []*stream) {
	var due sync.WaitGroup
	for _, s := range streams {
		due.Go(func() { s.fill(ctx) })
	}
	due.Wait()
}

// lowest is the cursor of the next row of any stream; false when all have ended.
func lowest(streams []*stream) (authority.Cursor, bool) {
	var cursor authority.Cursor
	found := false
	for _, s := range streams {
		if row := s.peek(); row != nil && (!found || row.Cursor < cursor) {
			cursor, found = row.Cursor, true
		}
	}
	return cursor, found
}

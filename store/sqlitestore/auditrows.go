package sqlitestore

import (
	"bytes"
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// rebuilt is a row whose state was replayed and proved, on its way to the commit digest
// and the visitor. Its error is the end of the stream.
type rebuilt struct {
	record
	projection []byte
	sum        authority.Digest
	findings   authority.Findings
	err        error
}

// ahead is how many rows the replay may be ahead of the proof; it bounds the memory.
const ahead = 2

// stream replays the rows behind start and shows them. Two goroutines share the hashing:
// one replays and takes the state digest, the caller's takes the commit digest, the
// logical digest and the visitor.
func (a *audit) stream(ctx context.Context, s *session, start *replayer, end ending) error {
	rows, free, done := make(chan rebuilt, ahead), make(chan []byte, ahead+4), make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer close(rows)
		if err := s.rebuild(ctx, start, end.cursor, rows, free, done); err != nil {
			send(rows, done, rebuilt{err: err})
		}
	}()
	err := a.prove(start.identity, rows, free)
	close(done)
	<-finished // the connection is free again
	return err
}

// send reports whether somebody still listens.
func send(rows chan<- rebuilt, done <-chan struct{}, row rebuilt) bool {
	select {
	case rows <- row:
		return true
	case <-done:
		return false
	}
}

// prove takes the rows in order and gives their buffers back.
func (a *audit) prove(id authority.Identity, rows <-chan rebuilt, free chan<- []byte) error {
	proof := replayer{identity: id}
	for row := range rows {
		if row.err != nil {
			return row.err
		}
		if err := proof.prove(row.record, row.projection); err != nil {
			return err
		}
		if err := a.show(id, row); err != nil {
			return err
		}
		select {
		case free <- row.projection:
		default:
		}
	}
	return nil
}

func (a *audit) show(id authority.Identity, row rebuilt) error {
	shown := authority.Row{
		Transaction: authority.Transaction{
			Cursor: authority.Cursor(row.cursor), Revision: revision(id, row.cursor), OperationID: row.operationID,
			Events: row.events, Projection: row.projection, Receipts: row.receipts,
		},
		StateDigest: row.sum,
	}
	if a.visit != nil {
		if err := a.visit(shown); err != nil {
			return &visitError{err}
		}
	}
	a.logical.Add(shown)
	a.last = authority.Bookmark{Cursor: shown.Cursor, Revision: shown.Revision, StateDigest: row.sum}
	a.lineage.Events += elements(row.events)
	a.lineage.Receipts += elements(row.receipts)
	for _, finding := range row.findings {
		a.note(finding)
	}
	return nil
}

func elements(list []byte) (n uint64) {
	for range canonical.Elements(list) {
		n++
	}
	return n
}

// rebuild replays the rows behind p to the end and sends them.
func (s *session) rebuild(ctx context.Context, p *replayer, end uint64,
	to chan<- rebuilt, free <-chan []byte, done <-chan struct{}) (err error) {
	rows, err := s.query("SELECT "+commitColumns+" FROM commits WHERE cursor > ? ORDER BY cursor", int64(p.cursor))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := scanRecord(rows)
		if err != nil {
			return err
		}
		select {
		case p.spare = <-free:
		default:
			p.spare = nil
		}
		row, err := s.rebuildRow(p, r)
		if err != nil {
			return err
		}
		if !send(to, done, row) {
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if p.cursor != end {
		return violation(notContiguous).Field("commits.cursor").At(p.cursor + 1)
	}
	return nil
}

func (s *session) rebuildRow(p *replayer, r record) (rebuilt, error) {
	row := rebuilt{record: r}
	next, err := p.follow(r)
	if err != nil {
		return row, err
	}
	if row.sum = authority.DigestOf(next); !equals(row.sum, r.state) {
		return row, wrongState(r)
	}
	row.projection = next
	row.findings, err = oddities(r, p.delta)
	if err != nil {
		return row, err
	}
	if covering(r.cursor) == r.cursor {
		respelled, err := s.matchCheckpoint(r, next)
		if err != nil {
			return row, err
		}
		if respelled {
			row.findings = append(row.findings, finding(r, authority.FindingSpelling, "checkpoints.projection"))
		}
	}
	p.advance(r, next)
	return row, nil
}

// matchCheckpoint proves that a checkpoint holds the state that was replayed.
func (s *session) matchCheckpoint(r record, state []byte) (respelled bool, err error) {
	projection, digest, respelled, err := s.checkpoint(r.cursor)
	if err != nil {
		return false, err
	}
	if digest != r.state || !bytes.Equal(projection, state) {
		return false, violation(checkpointDigest).Field("checkpoints.projection").At(r.cursor)
	}
	return respelled, nil
}

func finding(r record, code, field string) authority.Finding {
	return authority.Finding{Code: code, Cursor: authority.Cursor(r.cursor), OperationID: r.operationID, Field: field}
}

// oddities looks at what the row brought: its events, its receipts, and the delta, which
// holds every value that is new in the projection. A delta may be spelled otherwise than
// LoopX builds it, since its text enters no digest.
func oddities(r record, delta canonical.Delta) (found authority.Findings, err error) {
	for _, column := range []struct {
		name string
		text []byte
	}{{"commits.delta", r.delta}, {"commits.events", r.events}, {"commits.receipts", r.receipts}} {
		odd, err := canonical.Inspect(column.text)
		if err != nil {
			return nil, notJSON(spoken(column.name), err).Field(column.name).At(r.cursor).Operation(r.operationID)
		}
		if odd.DuplicateKey {
			found = append(found, finding(r, authority.FindingDuplicateKey, column.name))
		}
		if odd.InexactInteger {
			found = append(found, finding(r, authority.FindingInexactInteger, column.name))
		}
	}
	for _, column := range r.respelledColumns() {
		found = append(found, finding(r, authority.FindingSpelling, "commits."+column))
	}
	if !bytes.Equal(delta.AppendBuilt(nil), r.delta) {
		found = append(found, finding(r, authority.FindingSpelling, "commits.delta"))
	}
	return found, nil
}

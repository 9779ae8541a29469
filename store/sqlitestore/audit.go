package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Audit proves the history from an empty root: every delta replayed, every digest,
// parent and checkpoint, canonical form, the file's own integrity and its objects. What
// LoopX's audit reports has LoopX's reason and sentence; what only this one sees is
// ReasonDefect, a version-1 database ReasonFormatUnsupported, nesting beyond what LoopX
// reads back ReasonDepth. Oddities that change no answer are findings.
//
// From a bookmark, the row it names is proved from its covering checkpoint (at most 63
// rows are read again) and the audit goes on behind it; the file as a whole is not checked
// again, and the findings of the Lineage speak of the rows read. Its counts are those of
// the whole history.
//
// When an Untouched database is written meanwhile, the audit goes on behind the last row
// shown, on the database as it is then.
func (s *Store) Audit(ctx context.Context, from *authority.Bookmark,
	visit func(authority.Row) error) (authority.Lineage, error) {
	a, err := newAudit(from, visit)
	if err == nil {
		err = s.auditUntilSteady(ctx, a)
	}
	var visitors *visitError
	if errors.As(err, &visitors) {
		return authority.Lineage{}, visitors.err
	}
	if err != nil {
		return authority.Lineage{}, s.answer("audit", auditReason(err), unreadable)
	}
	return a.lineage, nil
}

func (s *Store) auditUntilSteady(ctx context.Context, a *audit) error {
	deadline := time.Now().Add(s.options.BusyWait)
	for {
		l, err := s.aim(ctx)
		if err != nil {
			return err
		}
		if l == nil {
			return a.absent()
		}
		err = l.reading(ctx, func() error { return a.run(ctx, l.session) })
		steady := l.steady()
		err = errors.Join(err, l.close())
		var visitors *visitError
		if steady || errors.As(err, &visitors) {
			return err
		}
		if err := pause(ctx, settling, deadline); err != nil {
			return err
		}
	}
}

// auditReason gives depth a reason of its own: for LoopX such a store is merely unreadable.
func auditReason(err error) error {
	var depth *canonical.DepthError
	var said *refusal
	if errors.As(err, &depth) && errors.As(err, &said) {
		said.Made.Class, said.Made.Reason = authority.ClassFailed, authority.ReasonDepth
		said.Made.Detail = "nested deeper than LoopX reads back"
	}
	return err
}

// visitError carries an error of the caller's visit through to the caller.
type visitError struct{ err error }

// Error is that of the visit.
func (v *visitError) Error() string { return v.err.Error() }

// audit is one audit and how far it has come. last and logical always stand behind the
// last row that was proved and shown.
type audit struct {
	whole    bool // from the beginning: the file itself is checked too
	last     authority.Bookmark
	logical  *authority.LogicalHash
	visit    func(authority.Row) error
	lineage  authority.Lineage
	findings map[string]int // how many of each code
}

func newAudit(from *authority.Bookmark, visit func(authority.Row) error) (*audit, error) {
	a := &audit{whole: from == nil, visit: visit, findings: map[string]int{}}
	if from != nil {
		a.last = *from
	}
	var err error
	if a.lineage.Events, a.lineage.Receipts, err = parsePosition(a.last.Position); err != nil {
		return nil, rewritten("the bookmark is not one of this store").Because(err)
	}
	if a.logical, err = authority.ResumeLogicalHash(a.last.Logical); err != nil {
		return nil, rewritten("the bookmark is not one of this store").Because(err)
	}
	return a, nil
}

// A bookmark's position is how many events and receipts the rows up to it have.

func position(l authority.Lineage) string {
	return fmt.Sprintf("%d events, %d receipts", l.Events, l.Receipts)
}

func parsePosition(text string) (events, receipts uint64, err error) {
	if text != "" {
		_, err = fmt.Sscanf(text, "%d events, %d receipts", &events, &receipts)
	}
	return events, receipts, err
}

func rewritten(detail string) *refusal {
	return refuse(authority.ClassFailed, authority.ReasonRewritten, detail)
}

// absent is an audit of a file that is not there.
func (a *audit) absent() error {
	if a.last.Cursor != 0 {
		return rewritten("the database is gone").At(uint64(a.last.Cursor))
	}
	a.lineage = authority.Lineage{Format: authority.FormatSQLiteV2, Logical: a.logical.Digest()}
	return nil
}

// run audits what the session shows, from a.last to the head.
func (a *audit) run(ctx context.Context, s *session) error {
	if err := s.admit(); err != nil {
		return newerFormatWanted(err)
	}
	a.lineage.Format, a.lineage.Identity = authority.FormatSQLiteV2, s.identity
	end, err := s.ending()
	if err != nil {
		return err
	}
	if a.whole {
		if err := a.inspect(s); err != nil {
			return err
		}
	}
	start, err := a.start(ctx, s, end)
	if err != nil {
		return err
	}
	if err := a.stream(ctx, s, start, end); err != nil {
		return err
	}
	return a.finish(s, end)
}

// newerFormatWanted tells a database that LoopX can migrate from one that is broken.
func newerFormatWanted(err error) error {
	var said *refusal
	if errors.As(err, &said) && said.Made.Detail == versionOne {
		said.Made.Reason = authority.ReasonFormatUnsupported
	}
	return err
}

// start is the replayer that stands on the last row proved, which must stand there still.
func (a *audit) start(ctx context.Context, s *session, end ending) (*replayer, error) {
	p := &replayer{identity: s.identity}
	at := uint64(a.last.Cursor)
	if at == 0 {
		return p, p.stand(0, "", emptyState)
	}
	if a.last.Revision != revision(s.identity, at) || at > end.cursor {
		return nil, rewritten("the remembered row does not stand in this history").At(at)
	}
	err := s.window(ctx, at, at, func(r record, state []byte) error {
		if !equals(a.last.StateDigest, r.state) {
			return rewritten("the remembered state is not the one that stands there").At(at).Operation(r.operationID)
		}
		return p.stand(at, r.state, state)
	})
	return p, err
}

// finish closes the lineage when the last row is the head.
func (a *audit) finish(s *session, end ending) error {
	if uint64(a.last.Cursor) != end.cursor {
		return violation(notContiguous).Field("commits.cursor").At(uint64(a.last.Cursor) + 1)
	}
	if end.cursor != 0 && !equals(a.last.StateDigest, end.digest) {
		return violation(headDigestMismatch).Field("head.state_digest").At(end.cursor)
	}
	if end.respelled {
		a.note(authority.Finding{Code: authority.FindingSpelling, Field: "head.projection"})
	}
	if member := readModelFault(end.projection); member != "" {
		a.note(authority.Finding{Code: authority.FindingReadModel, Cursor: authority.Cursor(end.cursor),
			OperationID: end.last.operationID, Field: "head.projection.todo_read_model." + member})
	}
	var pages, size int64
	if err := s.row([]any{&pages}, "PRAGMA page_count"); err != nil {
		return err
	}
	if err := s.row([]any{&size}, "PRAGMA page_size"); err != nil {
		return err
	}
	a.last.Logical, a.last.Position = a.logical.State(), position(a.lineage)
	a.lineage.Transactions, a.lineage.Bytes = end.cursor, pages*size
	a.lineage.Logical, a.lineage.End = a.logical.Digest(), a.last
	return nil
}

// manyFindings is how many findings of one code are kept; the rest says nothing new.
const manyFindings = 100

func (a *audit) note(finding authority.Finding) {
	if a.findings[finding.Code]++; a.findings[finding.Code] <= manyFindings {
		a.lineage.Findings = append(a.lineage.Findings, finding)
	}
}

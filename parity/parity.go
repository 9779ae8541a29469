package parity

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Arm is one side of a comparison: a View, or a Head alone.
type Arm struct {
	Name string
	View authority.View
	// CheckCommit asks the live store what a commit would be refused for, without
	// writing. Nil where there is no store to ask; the report says so.
	CheckCommit func(context.Context, authority.CommitRequest) error
	// Digest hashes what the arm keeps durably; it is taken before and after.
	// Nil for an arm that need not stay untouched. Arms are hashed side by side.
	Digest func(context.Context) (authority.Digest, error)
	// Before is the digest before, where it was taken when the view was made; zero
	// lets Compare take it.
	Before authority.Digest

	// Head gives the head of an arm without a journal (View is nil): the legacy files.
	Head func(context.Context) (authority.Canonical, error)
	// Compatible makes of this arm's head what is compared, where an arm without a journal
	// is one of the others; Projection is its name. Nil compares the head itself.
	Compatible func(authority.Canonical) authority.Canonical
	Projection string
}

// Options bound and deepen a comparison. The zero value compares everything.
type Options struct {
	// After and Through restrict the rows to a window: a prefix verdict of a live
	// source, or the tail that joins it. Zero means no bound.
	After, Through authority.Cursor
	// PageSizes are tried besides the large page of the walk; nil means 1, 2, 7 and 64.
	// Sizes that would not fit in memory are left out, and the report notes it.
	PageSizes []int
	// MinimumOperations and RequireEventKinds are the coverage gate.
	MinimumOperations uint64
	RequireEventKinds []string
}

// listed is how many differences of a check a report lists; all are counted.
const listed = 20

// ErrArms: a comparison needs two or three arms, at least one with a View, with different names.
var ErrArms = errors.New("a comparison needs two or three arms with different names, each with a view or a head")

// Compare proves that the arms say the same thing, check by check. Differences
// are in the report and are no error, and neither is an arm that refuses as broken
// (its check is Failed). The error tells that an arm could not be reached (the
// report is Drifted then, too), that the context ended, or that the arms make no
// comparison.
func Compare(ctx context.Context, arms []Arm, options Options) (Report, error) {
	c, err := newComparison(arms, options)
	if err != nil {
		return Report{}, err
	}
	for _, step := range []func(context.Context){
		c.hashBefore, c.load, c.compareHeads, c.walkRows, c.askAbsent,
		c.tryPages, c.tryRefusals, c.offerKnownIDs, c.compareLineages, c.compareConsumers, c.hashAfter,
	} {
		if ctx.Err() != nil {
			c.cutShort()
			break
		}
		step(ctx)
	}
	return c.report(), errors.Join(ctx.Err(), errors.Join(c.unreadable...))
}

// side is an arm and what was learnt of it.
type side struct {
	Arm
	tip        authority.Head // of its history, whatever the window
	head       authority.Head // at the end of the window
	described  bool           // its read model is that of its records
	lineage    authority.Lineage
	end        authority.Cursor // the tip's
	before     authority.Digest
	operations chainedIDs                   // ids as the walk met them
	receipts   map[string]authority.Receipt // what the view said about the page at hand, by operation
}

func (s *side) journal() bool { return s.View != nil }

// comparison is one run of Compare.
type comparison struct {
	options    Options
	sides      []*side
	checks     map[CheckName]*Check
	coverage   CoverageFacts
	readable   string
	unreadable []error
	broken     bool // an arm cannot be walked; later checks would only repeat it
	rowsAlike  bool // the walk met no difference, so that a row which differs in a small page is news
}

func newComparison(arms []Arm, options Options) (*comparison, error) {
	c := &comparison{options: options, checks: map[CheckName]*Check{}}
	names, journals := map[string]bool{}, 0
	for _, arm := range arms {
		if arm.View == nil && arm.Head == nil {
			return nil, fmt.Errorf("%w: %q has neither", ErrArms, arm.Name)
		}
		if arm.View != nil {
			journals++
		}
		names[arm.Name] = true
		c.sides = append(c.sides, &side{Arm: arm, before: arm.Before})
	}
	if len(arms) < 2 || len(arms) > 3 || len(names) != len(arms) || journals == 0 {
		return nil, ErrArms
	}
	for _, name := range checkOrder {
		c.checks[name] = &Check{Name: name, Outcome: Equal}
	}
	c.coverage = CoverageFacts{MinimumOperations: options.MinimumOperations, EventKinds: map[string]uint64{}}
	return c, nil
}

// journals are the sides that have a history.
func (c *comparison) journals() []*side {
	var with []*side
	for _, s := range c.sides {
		if s.journal() {
			with = append(with, s)
		}
	}
	return with
}

// load takes the head of every arm. An arm without one is a failure: an empty
// answer can stand for a tenant that was not set.
func (c *comparison) load(ctx context.Context) {
	for _, s := range c.sides {
		if !s.journal() {
			projection, err := s.Head(ctx)
			s.head.Projection = projection
			if !c.unread(CheckHead, s, err) {
				s.project()
			}
			continue
		}
		s.lineage = s.View.Lineage()
		head, err := s.View.Load(ctx)
		s.tip, s.end = head, head.Cursor
		if errors.Is(err, authority.ErrMissing) {
			c.differs(CheckHead, Difference{Code: "arm_empty", Arm: s.Name})
			c.broken = true
			continue
		}
		if err == nil && c.options.Through != 0 {
			head, err = headAt(ctx, s, c.options.Through)
		}
		s.head = head
		if !c.unread(CheckHead, s, err) {
			s.project()
		}
	}
}

// project brings a head into the form in which it is compared. Its read model is judged
// before: what is compared through legacy files has fewer fields, and no read model.
func (s *side) project() {
	s.described = describesRecords(s.head.Projection)
	if s.Compatible != nil {
		s.head.Projection = s.Compatible(s.head.Projection)
	}
}

// headAt is the state at the end of the window, which stands in for the head of
// a source that went on.
func headAt(ctx context.Context, s *side, cursor authority.Cursor) (authority.Head, error) {
	page, err := s.View.Scan(ctx, cursor-1, 1)
	if err != nil {
		return authority.Head{}, err
	}
	if len(page.Transactions) != 1 {
		return authority.Head{}, &authority.Error{Verb: "scan", Kind: s.View.Kind(), Goal: s.View.GoalID(), Cursor: cursor,
			Class: authority.ClassFailed, Reason: authority.ReasonScanRange, Detail: "the history ends before the window"}
	}
	row := page.Transactions[0]
	return authority.Head{Cursor: row.Cursor, Revision: row.Revision, Projection: row.Projection}, nil
}

// unread records that an arm refused to be read for a check. It says whether it did.
func (c *comparison) unread(name CheckName, s *side, err error) bool {
	if err == nil {
		return false
	}
	check := c.checks[name]
	check.Outcome = Failed
	c.add(check, Difference{Code: "arm_unreadable", Arm: s.Name, Values: map[string]string{s.Name: answerOf(err)}})
	c.broken = true
	if class, _ := authority.ReasonOf(err); class != authority.ClassFailed {
		c.unreadable = append(c.unreadable, fmt.Errorf("arm %s: %w", s.Name, err))
	}
	return true
}

func (c *comparison) differs(name CheckName, d Difference) {
	check := c.checks[name]
	if check.Outcome != Failed {
		check.Outcome = Differs
	}
	c.add(check, d)
}

// add counts a difference once: several small pages meet the same row.
func (c *comparison) add(check *Check, d Difference) {
	for _, known := range check.Differences {
		if known.Code == d.Code && known.Arm == d.Arm && known.Cursor == d.Cursor && known.Field == d.Field && known.OperationID == d.OperationID {
			return
		}
	}
	check.Total++
	if len(check.Differences) < listed {
		check.Differences = append(check.Differences, d)
	}
}

// wanted says whether another difference of the check would still be listed, so
// that the costly parts of one are not worked out for nothing.
func (c *comparison) wanted(name CheckName) bool { return len(c.checks[name].Differences) < listed }

func (c *comparison) note(name CheckName, text string) {
	check := c.checks[name]
	check.Notes = append(check.Notes, text)
}

// skip says that a check was not made, unless it found something already.
func (c *comparison) skip(name CheckName, why string) {
	c.note(name, why)
	if c.checks[name].Outcome == Equal {
		c.checks[name].Outcome = NotCompared
	}
}

// cutShort takes back every verdict that a comparison which did not end would give.
func (c *comparison) cutShort() {
	for name := range c.checks {
		c.skip(name, "the comparison was interrupted")
	}
	c.broken = true
}

// answerOf names a refusal without its text, which may hold a path.
func answerOf(err error) string {
	if err == nil {
		return "ok"
	}
	class, reason := authority.ReasonOf(err)
	switch {
	case class == "":
		return "error"
	case reason == authority.ReasonNone:
		return string(class)
	}
	return string(class) + "/" + string(reason)
}

func (c *comparison) report() Report {
	r := Report{SchemaVersion: ReportSchema, After: c.options.After, Through: c.options.Through,
		Verdict: Qualified, Coverage: c.gate(), Readable: c.readable}
	for _, s := range c.sides {
		r.Arms = append(r.Arms, s.facts())
	}
	if c.coverage.Operations < c.options.MinimumOperations || len(r.Coverage.MissingEventKinds) > 0 {
		r.Verdict = InsufficientEvidence
	}
	for _, name := range checkOrder {
		check := *c.checks[name]
		if check.Outcome == Differs || check.Outcome == Failed {
			r.Verdict = Drifted
		}
		if c.broken && r.Verdict == Qualified {
			r.Verdict = InsufficientEvidence
		}
		r.Checks = append(r.Checks, check)
	}
	return r
}

func (s *side) facts() ArmFacts {
	facts := ArmFacts{Name: s.Name, Kind: authority.KindLegacy, Projection: s.Projection}
	if len(s.head.Projection) > 0 {
		facts.Head = digest(s.head.Projection)
	}
	if !s.journal() {
		return facts
	}
	facts.Kind, facts.Format, facts.Identity = s.View.Kind(), s.lineage.Format, s.lineage.Identity
	facts.Cursor, facts.Revision = s.head.Cursor, s.head.Revision
	facts.Transactions = s.lineage.Transactions
	facts.Logical = &s.lineage.Logical
	return facts
}

func digest(text []byte) *authority.Digest {
	d := authority.DigestOf(text)
	return &d
}

package parity

import (
	"context"
	"crypto/sha256"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
)

// compareLineages holds what each view proved against what it answers, and the
// histories against each other.
func (c *comparison) compareLineages(ctx context.Context) {
	journals := c.journals()
	if c.broken {
		c.skip(CheckLineage, "an arm could not be read to its end")
		return
	}
	for _, s := range journals {
		c.ownLineage(ctx, s)
	}
	if len(journals) < 2 {
		c.note(CheckLineage, "one journal; there is no other to compare it with")
		return
	}
	if !c.whole() {
		c.note(CheckLineage, "the rows compared are a window; counts and logical digests of whole histories are not compared")
		return
	}
	for _, fact := range lineageFacts {
		c.sameAnswers("lineage_differs", fact.field, journals, fact.of)
	}
	for _, s := range journals {
		c.ownOperations(ctx, s)
	}
}

// lineageFacts are what a whole history is counted by.
var lineageFacts = []struct {
	field string
	of    func(*side) string
}{
	{"cursor", func(s *side) string { return s.end.String() }},
	{"transactions", func(s *side) string { return strconv.FormatUint(s.lineage.Transactions, 10) }},
	{"events", func(s *side) string { return strconv.FormatUint(s.lineage.Events, 10) }},
	{"receipts", func(s *side) string { return strconv.FormatUint(s.lineage.Receipts, 10) }},
	{"logical_sha256", func(s *side) string { return s.lineage.Logical.String() }},
}

// whole says whether the walk went from the first row to the head of every arm.
func (c *comparison) whole() bool {
	if c.options.After != 0 {
		return false
	}
	for _, s := range c.journals() {
		if c.options.Through != 0 && s.end != c.options.Through {
			return false
		}
	}
	return true
}

// ownLineage: one incarnation, and a head that is the end of what was proved.
func (c *comparison) ownLineage(ctx context.Context, s *side) {
	c.checks[CheckLineage].Compared++
	identity, err := s.View.Identity(ctx)
	if c.unread(CheckLineage, s, err) {
		return
	}
	proved := s.lineage.End
	var code, field string
	switch {
	case identity != s.lineage.Identity || !identity.Valid(s.View.Kind()):
		code, field = "identity_differs", "store_identity"
	case proved.Cursor != s.tip.Cursor || uint64(proved.Cursor) != s.lineage.Transactions:
		code, field = "head_not_the_end", "cursor"
	case proved.Revision != s.tip.Revision:
		code, field = "head_not_the_end", "provider_revision"
	case proved.StateDigest != authority.DigestOf(s.tip.Projection):
		code, field = "head_not_the_end", "projection"
	default:
		return
	}
	c.differs(CheckLineage, Difference{Code: code, Arm: s.Name, Cursor: s.tip.Cursor, Field: field})
}

// ownOperations: the view's list of operations is that of its rows.
func (c *comparison) ownOperations(ctx context.Context, s *side) {
	c.checks[CheckLineage].Compared++
	ids, err := s.View.Operations(ctx)
	if c.unread(CheckLineage, s, err) {
		return
	}
	listed := chainedIDs{sum: sha256.New()}
	for _, id := range ids {
		listed.add(id)
	}
	if listed.String() != s.operations.String() {
		c.differs(CheckLineage, Difference{Code: "operations_differ", Arm: s.Name, Field: "operation_id",
			Values: map[string]string{"listed": listed.String(), "rows": s.operations.String()}})
	}
}

// sameAnswers compares one short answer over the arms.
func (c *comparison) sameAnswers(code, field string, sides []*side, of func(*side) string) {
	c.checks[CheckLineage].Compared++
	values := make([][]byte, len(sides))
	answers := map[string]string{}
	for i, s := range sides {
		values[i] = []byte(of(s))
		answers[s.Name] = of(s)
	}
	if left, _ := apart(values); left >= 0 {
		c.differs(CheckLineage, Difference{Code: code, Arm: oddOf(sides, values), Field: field, Values: answers})
	}
}

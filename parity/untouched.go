package parity

import (
	"context"
	"iter"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
)

// hashBefore and hashAfter prove that the comparison changed nothing on the arms
// that gave a Digest.

func (c *comparison) hashBefore(ctx context.Context) {
	for s, digest := range c.hashed(ctx, func(s *side) bool { return s.before.IsZero() }) {
		s.before = digest
	}
}

func (c *comparison) hashAfter(ctx context.Context) {
	check := c.checks[CheckSourceUntouched]
	for s, after := range c.hashed(ctx, func(s *side) bool { return !s.before.IsZero() }) {
		check.Compared++
		if after != s.before {
			c.differs(CheckSourceUntouched, Difference{Code: "arm_changed", Arm: s.Name,
				Values: map[string]string{"before": s.before.String(), "after": after.String()}})
		}
	}
	if check.Compared == 0 {
		c.skip(CheckSourceUntouched, "no arm gave a digest of what it keeps")
	}
}

// hashed takes the digests of the arms that are wanted, side by side, and yields
// those that could be had, in the order of the arms.
func (c *comparison) hashed(ctx context.Context, wanted func(*side) bool) iter.Seq2[*side, authority.Digest] {
	digests, errs := make([]authority.Digest, len(c.sides)), make([]error, len(c.sides))
	var hashing sync.WaitGroup
	for i, s := range c.sides {
		if s.Digest != nil && wanted(s) {
			hashing.Go(func() { digests[i], errs[i] = s.Digest(ctx) })
		}
	}
	hashing.Wait()
	return func(yield func(*side, authority.Digest) bool) {
		for i, s := range c.sides {
			if s.Digest == nil || !wanted(s) || c.unread(CheckSourceUntouched, s, errs[i]) {
				continue
			}
			if !yield(s, digests[i]) {
				return
			}
		}
	}
}

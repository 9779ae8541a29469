package parity

import "context"

// hashBefore and hashAfter prove that the comparison changed nothing on the arms
// that gave a Digest.

func (c *comparison) hashBefore(ctx context.Context) {
	for _, s := range c.sides {
		if s.Digest == nil {
			continue
		}
		digest, err := s.Digest(ctx)
		c.unread(CheckSourceUntouched, s, err)
		s.before = digest
	}
}

func (c *comparison) hashAfter(ctx context.Context) {
	check := c.checks[CheckSourceUntouched]
	for _, s := range c.sides {
		if s.Digest == nil || s.before.IsZero() {
			continue
		}
		after, err := s.Digest(ctx)
		if c.unread(CheckSourceUntouched, s, err) {
			continue
		}
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

package parity

import (
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// eventKindLimit bounds the kinds a report lists.
const eventKindLimit = 256

// lived counts an operation that all arms hold alike, and the kinds of its
// events. An event has the kinds it names in schema_version, kind, event_kind
// and mutation_kinds, each counted once.
func (c *comparison) lived(row *authority.Transaction) {
	c.coverage.Operations++
	for event := range canonical.Elements(row.Events) {
		kinds := []string{text(event, "schema_version"), text(event, "kind"), text(event, "event_kind")}
		for kind := range canonical.Elements(member(event, "mutation_kinds")) {
			if name, err := canonical.ParseString(kind); err == nil {
				kinds = append(kinds, name)
			}
		}
		slices.Sort(kinds)
		for _, kind := range slices.Compact(kinds) {
			c.count(kind)
		}
	}
}

func (c *comparison) count(kind string) {
	if kind == "" {
		return
	}
	kind = segment(kind)
	if _, known := c.coverage.EventKinds[kind]; known || len(c.coverage.EventKinds) < eventKindLimit {
		c.coverage.EventKinds[kind]++
	}
}

// gate says which of the kinds asked for were not met.
func (c *comparison) gate() CoverageFacts {
	facts := c.coverage
	for _, kind := range c.options.RequireEventKinds {
		if facts.EventKinds[segment(kind)] == 0 && !slices.Contains(facts.MissingEventKinds, kind) {
			facts.MissingEventKinds = append(facts.MissingEventKinds, kind)
		}
	}
	slices.Sort(facts.MissingEventKinds)
	return facts
}

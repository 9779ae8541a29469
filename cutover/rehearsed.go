package cutover

import (
	"context"
	"slices"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Holds about rehearsals. A missing rehearsal may be accepted by name; one that is named
// and is not of this promotion may not.
const (
	HoldRehearsalMissing  = "rehearsal_missing"
	HoldRehearsalOutdated = "rehearsal_outdated"
)

// RehearsalMaxAge is how old a rehearsal may be where nobody says.
const RehearsalMaxAge = 24 * time.Hour

// Rehearsed is the result of a rehearsal, as far as a promotion depends on it.
type Rehearsed struct {
	Digest     authority.Digest // of the result's text
	Passed     bool
	FinishedAt time.Time
	Program    string // program and version that rehearsed
	GoalID     string
	Kind       authority.Kind // of the source
	Identity   authority.Identity
	Cursor     authority.Cursor // where the source stood
	Revision   authority.Revision
	Targets    []authority.Kind
}

// RehearsalDemand is what a promotion asks of a rehearsal.
type RehearsalDemand struct {
	// Given is the result that was named, nil for none; File is how it was named.
	Given *Rehearsed
	File  string
	// Required holds a promotion without one whatever its target, and nobody may accept
	// that. Into a database server one is asked for anyway.
	Required bool
	// MaxAge is how old it may be; zero is RehearsalMaxAge.
	MaxAge time.Duration
}

// arguments are what of the demand belongs to a command's content.
func (d RehearsalDemand) arguments() map[string]string {
	a := map[string]string{}
	if d.Given != nil {
		a["rehearsal"] = d.Given.Digest.String()
	}
	if d.Required {
		a["require_rehearsal"] = "true"
	}
	if d.MaxAge != 0 {
		a["rehearsal_max_age"] = d.MaxAge.String()
	}
	return a
}

// limits adds the rehearsal to what a plan binds.
func (d RehearsalDemand) limits(limits map[string]string) map[string]string {
	if d.Given == nil {
		return limits
	}
	if limits == nil {
		limits = map[string]string{}
	}
	limits["rehearsal"] = d.Given.Digest.String()
	return limits
}

// line is the demand as a command line names it.
func (d RehearsalDemand) line() []string {
	var line []string
	if d.File != "" {
		line = append(line, "--rehearsal", d.File)
	}
	if d.Required {
		line = append(line, "--require-rehearsal")
	}
	if d.MaxAge != 0 {
		line = append(line, "--rehearsal-max-age", d.MaxAge.String())
	}
	return line
}

// holdsAgainst are the holds against a plan over a live source; one that promotes has to
// have been rehearsed.
func (f *Flow) holdsAgainst(ctx context.Context, p Plan, r Request, found liveSource) ([]Hold, error) {
	holds, err := f.holds(ctx, p, found)
	if err != nil || p.Command != CommandCutover {
		return holds, err
	}
	live := f.side(&manifest.Manifest{}, manifest.Binding{Kind: p.Source.Kind, Identity: p.Source.Identity, Tenant: p.Source.Tenant}).home(AccessLive)
	rehearsal, err := f.rehearsalHolds(ctx, p, r.Rehearsal, live)
	holds = append(holds, rehearsal...)
	sortHolds(holds)
	return holds, err
}

// rehearsalHolds are what stands against a promotion for want of a rehearsal of it.
func (f *Flow) rehearsalHolds(ctx context.Context, p Plan, d RehearsalDemand, source Ref) ([]Hold, error) {
	if d.Given == nil {
		if !d.Required && p.Target.Kind != authority.KindPostgreSQL {
			return nil, nil
		}
		return []Hold{{Code: HoldRehearsalMissing, Record: string(p.Target.Kind), Acceptable: !d.Required,
			Detail: "nothing shows that this promotion was rehearsed; name the result of rehearse with --rehearsal"}}, nil
	}
	outdated := f.outdated(p, d)
	if outdated == "" && source.Kind != authority.KindLegacy {
		passes, err := f.passesThrough(ctx, source, d.Given)
		if err != nil {
			return nil, err
		}
		if !passes {
			outdated = "another_history"
		}
	}
	if outdated == "" {
		return nil, nil
	}
	return []Hold{{Code: HoldRehearsalOutdated, Record: outdated, Detail: outdatedWords[outdated] + "; rehearse again"}}, nil
}

// outdatedWords say what a rehearsal is not.
var outdatedWords = map[string]string{
	"not_passed":      "the rehearsal did not pass",
	"another_goal":    "the rehearsal was of another goal",
	"another_source":  "the rehearsal was of another store than the one that is the source",
	"another_target":  "the rehearsal was not of this kind of target",
	"another_program": "the rehearsal was made by another build of this program",
	"too_old":         "the rehearsal is older than it may be",
	"not_yet":         "the rehearsal ends in the future: a clock is wrong",
	"another_history": "the source's history does not pass through the place that was rehearsed",
}

// outdated says why a rehearsal is not one of this plan, as far as it can be told without
// reading the source; empty for one that is.
func (f *Flow) outdated(p Plan, d RehearsalDemand) string {
	g, age := d.Given, d.MaxAge
	if age == 0 {
		age = RehearsalMaxAge
	}
	switch now := f.now(); {
	case !g.Passed:
		return "not_passed"
	case g.GoalID != p.GoalID:
		return "another_goal"
	case g.Kind != p.Source.Kind || g.Identity != p.Source.Identity:
		return "another_source"
	case !slices.Contains(g.Targets, p.Target.Kind):
		return "another_target"
	case g.Program != f.Program:
		return "another_program"
	case g.FinishedAt.After(now):
		return "not_yet"
	case now.Sub(g.FinishedAt) > age:
		return "too_old"
	}
	return ""
}

// passesThrough reports whether a source has the revision that was rehearsed where it
// was. The history was proved in full by this command or at the freeze.
func (f *Flow) passesThrough(ctx context.Context, source Ref, g *Rehearsed) (_ bool, err error) {
	store, err := f.Stores.Open(ctx, source)
	if err != nil {
		return false, err
	}
	defer closing(store, &err)
	head, err := store.Load(ctx)
	if err != nil || g.Cursor == 0 || head.Cursor < g.Cursor {
		return false, err
	}
	page, err := store.Scan(ctx, g.Cursor-1, 1)
	return err == nil && len(page.Transactions) == 1 && page.Transactions[0].Revision == g.Revision, err
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
)

// How a claim stands.
const (
	rungPass       = "pass"
	rungFail       = "fail"
	rungUnverified = "unverified" // its environment is missing, or the probe was a model
	rungPending    = "pending"    // not built
)

// rung is one claim of the README or of docs/, and the probe that holds this program to it.
type rung struct {
	id     string
	claim  string
	source string // where it is claimed
	// probe says how the claim stands. Without one it is unverified, for the reason in untried.
	probe   func(*climber) standing
	untried string
	// command and flag are what the claim is about; not built, the claim is pending.
	command, flag string
}

// standing is how a claim stands, and why.
type standing struct{ state, why string }

// stood is a claim with its standing.
type stood struct {
	ID     string `json:"id"`
	Claim  string `json:"claim"`
	Source string `json:"source"`
	State  string `json:"state"`
	Why    string `json:"why,omitempty"`
	Millis int64  `json:"milliseconds"`
}

func (e *env) ladderCommand() *cli.Command {
	return &cli.Command{
		Name: "ladder", Usage: "what this program claims, claim by claim, tried through its own command line",
		Description: "Each claim is pass, fail, unverified (its environment is missing, or a model stood in for\n" +
			"LoopX) or pending (not built). Works on disposable copies; exits with 0 only if all pass.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "only", Usage: "claims whose id begins with this `ID` (may stand more than once)"},
			&cli.StringFlag{Name: "with-loopx", Usage: "LoopX's own program `PATH`, to be the writer behind the fence"},
			&cli.BoolFlag{Name: "allow-unverified", Usage: "claims that could not be tried here do not count"},
			&cli.BoolFlag{Name: "allow-pending", Usage: "claims that are not built do not count"},
		},
		Action: e.action(e.ladder),
	}
}

func (e *env) ladder(ctx context.Context, c *cli.Context, _ globals) (*answer, error) {
	selected, err := selectRungs(c.StringSlice("only"))
	if err != nil {
		return nil, err
	}
	climb := newClimber(ctx, e, c.String("with-loopx"))
	var all []stood
	for _, r := range selected {
		began := e.now()
		s := climb.stand(r)
		all = append(all, stood{r.id, r.claim, r.source, s.state, s.why, e.now().Sub(began).Milliseconds()})
		if ctx.Err() != nil {
			break
		}
	}
	private, err := climb.private()
	if err := errors.Join(err, ctx.Err(), climb.clean()); err != nil {
		return nil, err
	}
	return laddered(all, private, c.Bool("allow-unverified"), c.Bool("allow-pending"))
}

// selectRungs are all, or those whose ids begin with what was asked for.
func selectRungs(only []string) ([]rung, error) {
	var selected []rung
	for _, prefix := range only {
		if !slices.ContainsFunc(rungs, func(r rung) bool { return strings.HasPrefix(r.id, prefix) }) {
			return nil, usage("unknown_claim", "no claim's id begins with %q; loopx-migrate ladder lists them all", prefix)
		}
	}
	for _, r := range rungs {
		if len(only) == 0 || slices.ContainsFunc(only, func(prefix string) bool { return strings.HasPrefix(r.id, prefix) }) {
			selected = append(selected, r)
		}
	}
	return selected, nil
}

// laddered is the answer. What would be printed is searched like evidence: no flag relaxes that.
func laddered(all []stood, private evidence.Private, allowUnverified, allowPending bool) (*answer, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	if err := private.Scan("ladder.json", text); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	b := block{title: "LADDER", head: []string{"claim", "state", "what is claimed", "why"}}
	for _, s := range all {
		counts[s.State]++
		b.rows = append(b.rows, row{failing: s.State == rungFail, cells: []string{s.ID, s.State, s.Claim, s.Why}})
	}
	a := &answer{Status: statusDone, Sentence: fmt.Sprintf("%d claims: %d pass, %d fail, %d unverified, %d pending.",
		len(all), counts[rungPass], counts[rungFail], counts[rungUnverified], counts[rungPending])}
	a.fact("claims", all)
	a.fact("counts", counts)
	a.show(b)
	switch {
	case counts[rungFail] > 0:
		return a, &cutover.Refusal{Kind: cutover.KindOther, Reason: "claim_failed", Sentence: a.Sentence}
	case counts[rungUnverified] > 0 && !allowUnverified:
		return a, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "claims_unverified", Sentence: a.Sentence + " --allow-unverified leaves out what cannot be tried here."}
	case counts[rungPending] > 0 && !allowPending:
		return a, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "claims_pending", Sentence: a.Sentence + " --allow-pending leaves out what is not built."}
	}
	return a, nil
}

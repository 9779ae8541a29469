package cutover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// PlanSchema of a plan.
const PlanSchema = "loopx_migrate_plan_v1"

// Target is where a migration goes.
type Target struct {
	Kind authority.Kind `json:"kind"`
	// Path is a store elsewhere, absolute, or a server's URL without a password; empty
	// for LoopX's own place. It is never part of a plan or a manifest.
	Path string `json:"-"`
	// Tenant is the tenant in a database server.
	Tenant string `json:"tenant_id,omitempty"`
}

// url is the target as --to names it.
func (t Target) url() string {
	if t.Kind == authority.KindPostgreSQL {
		return t.Path
	}
	return string(t.Kind) + ":" + t.Path
}

// elsewhere reports whether the target is outside the places LoopX looks at.
func (t Target) elsewhere() bool { return t.Path != "" && t.Kind != authority.KindPostgreSQL }

// Plan is what a command would do. The preview shows it, the execution does it, and
// its digest is its name. Over a live source it binds the place (N, r) that the
// history must still pass through; over a frozen one, the exact manifest.
type Plan struct {
	SchemaVersion string              `json:"schema_version"`
	Command       string              `json:"command"`
	GoalID        string              `json:"goal_id"`
	OperationID   string              `json:"operation_id"`
	MigrationID   string              `json:"migration_id"`
	Phase         manifest.Phase      `json:"phase"`
	Manifest      authority.Digest    `json:"manifest"` // zero while the source is live
	Source        PlanSide            `json:"source"`
	Target        PlanSide            `json:"target"`
	Limits        map[string]string   `json:"limits,omitempty"`
	Holds         []Hold              `json:"holds,omitempty"`
	Accepted      []manifest.Accepted `json:"accepted,omitempty"`
	// Principal is whose grant a plan changes, and Grants what is granted before it.
	Principal string           `json:"principal,omitempty"`
	Grants    authority.Digest `json:"grants,omitzero"`
	Effects   []string         `json:"effects"`

	retained *manifest.Archive // what the history of legacy files begins with
	source   *proof            // what was proved of the source while the plan was made
	report   any               // the comparison, where the plan is one
}

// PlanSide is one side as a plan binds it.
type PlanSide struct {
	Kind      authority.Kind     `json:"kind"`
	Identity  authority.Identity `json:"store_identity"`
	Tenant    string             `json:"tenant_id,omitempty"`
	Elsewhere bool               `json:"elsewhere,omitempty"`
	Place     string             `json:"place_sha256,omitempty"` // of a path or URL that is not said
	Cursor    authority.Cursor   `json:"cursor,omitempty"`
	Revision  authority.Revision `json:"revision,omitempty"`
}

// bound is the cursor N that a plan over a live store binds.
func (p Plan) bound() authority.Cursor {
	if p.Command == CommandRollback {
		return p.Target.Cursor
	}
	return p.Source.Cursor
}

// Digest names the plan: sha256: and 64 hexadecimal digits.
func (p Plan) Digest() (string, error) {
	d, err := manifest.DigestOf(p)
	return "sha256:" + d.String(), err
}

// Hold is a named reason why a step may not run now.
type Hold = manifest.Hold

// sortHolds brings holds into one order, so that equal holds give equal plans. Those that
// nobody may accept come first: a refusal is named after the first hold, and to accept
// another one would not lead on.
func sortHolds(holds []Hold) {
	slices.SortFunc(holds, func(a, b Hold) int {
		if a.Acceptable != b.Acceptable {
			return map[bool]int{true: 1, false: -1}[a.Acceptable]
		}
		return cmp.Or(strings.Compare(a.Code, b.Code), strings.Compare(a.Record, b.Record))
	})
}

// accept marks the holds that were accepted by name, and refuses an acceptance that
// meets no hold or one that nobody may accept.
func accept(holds []Hold, accepted []manifest.Accepted) error {
	for _, a := range accepted {
		i := slices.IndexFunc(holds, func(h Hold) bool { return h.Code == a.Hold && h.Record == a.Record })
		if i < 0 {
			return refuse(KindUsage, "acceptance_without_hold", "--accept names %s:%s, and there is no such hold", a.Hold, a.Record)
		}
		if !holds[i].Acceptable {
			return refuse(KindUsage, "hold_not_acceptable", "the hold %s cannot be accepted", a.Hold)
		}
		holds[i].Accepted = true
	}
	return nil
}

// standing returns the holds that nobody accepted.
func standing(holds []Hold) []Hold {
	var left []Hold
	for _, h := range holds {
		if !h.Accepted {
			left = append(left, h)
		}
	}
	return left
}

// held refuses a plan with standing holds.
func held(p Plan) error {
	left := standing(p.Holds)
	if len(left) == 0 {
		return nil
	}
	r := refuse(KindRefused, left[0].Code, "%d hold(s) stand against %s; nothing was changed", len(left), p.Command)
	r.Holds = left
	return r
}

// mint derives the id of a migration from the operation that opens it, and the
// identity of its target from that: the same command means the same migration.
func mint(goal, operationID string) string {
	sum := authority.DigestOf(fmt.Appendf(nil, "loopx-migrate migration\n%d:%s\n%s", len(goal), goal, operationID))
	return "mig-" + sum.String()[:16]
}

// freshID mints the id of a migration that begins. An operation id that opened one under
// another principal is another operation here, and gets an id of its own.
func (f *Flow) freshID(now seen, operationID string) string {
	id := mint(f.Place.GoalID(), operationID)
	if m := now.snap.Manifest; slices.Contains(now.closed, id) || m != nil && m.MigrationID == id {
		return mint(f.Place.GoalID(), operationID+"\n"+f.Principal)
	}
	return id
}

func mintIdentity(kind authority.Kind, goal, migration string) authority.Identity {
	sum := authority.DigestOf(fmt.Appendf(nil, "loopx-migrate target\n%d:%s\n%s\n%s", len(goal), goal, kind, migration))
	return authority.Identity(string(kind) + ":" + sum.String()[:32])
}

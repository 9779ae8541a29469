package cutover

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// CommandProject renders what a promoted Goal's state file shows.
const CommandProject = "project"

// display is a state file as it is, and as the authority's head would have it.
type display struct {
	before legacy.Files
	head   authority.Head
	from   Ref
	shown  legacy.Shown
	// kept is where the state file as it is goes before another replaces it, named after
	// its bytes.
	kept string
}

// Project renders the Todo sections of a promoted Goal once, as LoopX's projection does:
// watermark and all, prose untouched. It is previewed first; the plan binds the head and
// the file. What it writes is never read for a decision, and no record is made of it.
func (f *Flow) Project(ctx context.Context, r Request) (Result, error) {
	r.Command = CommandProject
	if err := f.Permitted(ctx, r); err != nil {
		return Result{}, err
	}
	d, err := f.display(ctx)
	if err != nil {
		return Result{}, err
	}
	plan := f.planProject(r, d)
	digest, err := plan.Digest()
	if err != nil {
		return Result{}, err
	}
	result := Result{Command: r.Command, Status: "preview", OperationID: r.OperationID, Plan: &plan, PlanDigest: digest}
	switch {
	case !r.Execute && !d.shown.Changed:
		result.Status, result.Plan = "nothing_to_do", nil
		result.Facts = displayFacts(d)
		return result, nil
	case !r.Execute:
		result.Next = []string{r.Command, "--operation-id", r.OperationID, "--plan-digest", digest, "--execute"}
		return result, nil
	case digest != r.PlanDigest && d.shown.Changed:
		return Result{}, refuse(KindConflict, "plan_changed", "the plan is now %s, not the one that was previewed; nothing was changed", digest)
	}
	if !d.shown.Changed {
		return Result{Command: r.Command, Status: "replayed", OperationID: r.OperationID, Facts: displayFacts(d)}, nil
	}
	return f.writeDisplay(ctx, r, d)
}

// display reads head and file and renders.
func (f *Flow) display(ctx context.Context) (d display, err error) {
	now, err := f.look(ctx)
	if err != nil {
		return d, err
	}
	if now.verdict.Blocked || now.verdict.Kind == authority.KindLegacy {
		refusal := refuse(KindRefused, "no_store_is_authority", "only a goal in a store has a display: %s; nothing was changed", now.verdict.Row)
		refusal.Next = []string{"status"}
		return d, refusal
	}
	if d.before, err = f.loadFiles(); err != nil {
		return d, err
	}
	d.kept = f.beforeProject(now, d.before)
	d.from = f.liveRef(now)
	store, err := f.Stores.Open(ctx, d.from)
	if err != nil {
		return d, err
	}
	defer closing(store, &err)
	if d.head, err = store.Load(ctx); err != nil {
		return d, err
	}
	d.shown, err = legacy.Display(d.before.State, d.head.Projection, d.head.Revision, d.before.Declarations())
	return d, undisplayed(err)
}

// undisplayed words why there is no display. LoopX leaves the file alone then, too.
func undisplayed(err error) error {
	var render *legacy.RenderError
	var syntax *legacy.SyntaxError
	switch {
	case errors.As(err, &render):
		return &Refusal{Kind: KindRefused, Reason: render.Reason, Sentence: "the head cannot be shown in this file; nothing was changed", Err: err}
	case errors.As(err, &syntax):
		return &Refusal{Kind: KindRefused, Reason: legacy.CodeStateUnreadable, Sentence: "the state file cannot be read; nothing was changed", Err: err}
	}
	return err
}

// beforeProject names the copy of a state file. A Goal that LoopX promoted has no
// migration, and a folder of its own.
func (f *Flow) beforeProject(now seen, files legacy.Files) string {
	migration := "no-migration"
	if m := now.snap.Manifest; m != nil {
		migration = m.MigrationID
	}
	return filepath.Join(f.Folder.Frozen(migration), "before-project-"+authority.DigestOf(files.State).String()[:16]+".json")
}

func (f *Flow) liveRef(now seen) Ref {
	return f.side(&manifest.Manifest{}, f.liveSide(now)).home(AccessUntouched)
}

func (f *Flow) planProject(r Request, d display) Plan {
	p := Plan{SchemaVersion: PlanSchema, Command: r.Command, GoalID: f.Place.GoalID(), OperationID: r.OperationID,
		Source: PlanSide{Kind: d.from.Kind, Identity: d.from.Identity, Cursor: d.head.Cursor, Revision: d.head.Revision},
		Limits: map[string]string{"state_file": authority.DigestOf(d.before.State).String(), "shown": authority.DigestOf(d.shown.State).String()}}
	p.Effects = []string{"render the Todo sections of the state file at cursor " + d.head.Cursor.String() + "; the display there is " + staleness(d)}
	for _, row := range d.shown.Vanished {
		p.Effects = append(p.Effects, vanishes(row))
	}
	p.Effects = append(p.Effects, "keep the state file as it is now in "+f.Place.Rel(d.kept))
	p.Effects = append(p.Effects, "every byte outside the sections stays; the store is not touched")
	return p
}

// vanishes names a row that the display will not have. A line that was added by hand has
// no id, and its text is nobody's business here: the number of its line names it.
func vanishes(row legacy.Row) string {
	todo := row.TodoID
	if todo == "" {
		todo = "a Todo without an id"
	}
	return "drop " + todo + " from the file, which the head does not have (line " + strconv.Itoa(row.Line) + ")"
}

// staleness says what the file shows now. A display whose watermark is the one of this
// head and that still differs was edited by hand.
func staleness(d display) string {
	marks, err := legacy.Watermarks(d.before.State)
	switch {
	case err != nil || len(marks) == 0:
		return "missing"
	case !d.shown.Changed:
		return "current"
	}
	for _, mark := range marks {
		if mark.Revision != d.head.Revision || mark.Records != d.shown.Sections[mark.Role] {
			return "stale"
		}
	}
	return "edited by hand"
}

func displayFacts(d display) map[string]string {
	return map[string]string{"cursor": d.head.Cursor.String(), "provider_revision": string(d.head.Revision),
		"todos": strconv.Itoa(d.shown.Todos), "display": staleness(d), "prose_sha256": d.shown.Narrative.String()}
}

// writeDisplay writes the file under the locks of LoopX's Todo writers, if it is still the
// one that was rendered over, and reads it back.
func (f *Flow) writeDisplay(ctx context.Context, r Request, d display) (_ Result, err error) {
	held, err := fence.Lock(ctx, f.Place, fence.LockRequest{StateFile: f.Registration.StateFile, Wait: f.LockWait, Operation: "loopx-migrate " + r.Command})
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	again, err := f.display(ctx)
	if err != nil {
		return Result{}, err
	}
	if string(again.before.State) != string(d.before.State) || again.head.Revision != d.head.Revision {
		return Result{}, refuse(KindConflict, "plan_changed", "head or state file changed meanwhile; nothing was changed")
	}
	if err := f.replaceDisplay(r, d); err != nil {
		return Result{}, err
	}
	if again, err = f.display(ctx); err != nil {
		return Result{}, err
	}
	if again.shown.Changed || again.shown.Narrative != d.shown.Narrative {
		return Result{}, refuse(KindUnproved, "read_back_differs", "the state file does not read back as it was rendered")
	}
	facts := displayFacts(again)
	facts["kept"] = f.Place.Rel(d.kept)
	return Result{Command: r.Command, Status: "done", OperationID: r.OperationID, Facts: facts}, nil
}

// replaceDisplay keeps the state file first: what people wrote inside the sections would
// be nowhere else.
func (f *Flow) replaceDisplay(r Request, d display) error {
	before := legacy.Files{Goal: f.Place.GoalID(), State: d.before.State}
	if _, err := f.writeKept(d.kept, legacy.Kept{Files: before, OperationID: r.OperationID}); err != nil {
		return err
	}
	return putFile(f.Registration.StateFile, d.shown.State)
}

package cutover

import (
	"context"
	"slices"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// newPlan begins a plan from what was seen.
func (f *Flow) newPlan(now seen, r Request) Plan {
	p := Plan{SchemaVersion: PlanSchema, Command: r.Command, GoalID: f.Place.GoalID(), OperationID: r.OperationID,
		Phase: now.snap.Phase(), Accepted: r.Accept}
	if m := now.snap.Manifest; m != nil && !opens(r.Command, m.Phase) {
		p.MigrationID, p.Manifest = m.MigrationID, now.snap.Digest
		p.Source = planSide(m.Source)
		p.Target = planSide(m.Target)
		return p
	}
	p.Phase = manifest.PhaseNone
	p.MigrationID = f.freshID(now, r.OperationID)
	p.Source = PlanSide{Kind: now.verdict.Kind}
	p.Target = PlanSide{Kind: r.To.Kind, Identity: mintIdentity(r.To.Kind, p.GoalID, p.MigrationID), Tenant: r.To.Tenant, Elsewhere: r.To.elsewhere(), Place: placeDigest(r.To)}
	return p
}

func planSide(b manifest.Binding) PlanSide {
	return PlanSide{Kind: b.Kind, Identity: b.Identity, Tenant: b.Tenant, Elsewhere: b.Elsewhere, Cursor: b.Cursor, Revision: b.Revision}
}

// planLive plans over a source that is still live: it must be the authority, verify
// in full, and pass through the bound cursor.
func (f *Flow) planLive(ctx context.Context, now seen, r Request) (Plan, error) {
	p := f.newPlan(now, r)
	p.Manifest = authority.Digest{}
	if err := supported(now, p); err != nil {
		return p, err
	}
	if r.WritersStopped && now.verdict.Kind != authority.KindLegacy {
		return p, refuse(KindUsage, "flag_without_effect", "--writers-stopped goes with a goal in the legacy files only; LoopX's own locks keep the writers of a store out, and nothing was done")
	}
	p, err := f.targetIdentity(ctx, now, r.To, p)
	if err != nil {
		return p, err
	}
	if now.verdict.Kind == authority.KindLegacy {
		return f.planFiles(ctx, now, r, p)
	}
	target := p.Target
	target.Cursor = 0 // a candidate may hold a part already; the target is to hold all
	found, err := f.proveLive(ctx, f.side(&manifest.Manifest{}, f.liveSide(now)), target, r.Through)
	if err != nil {
		return p, err
	}
	p.source = &found.proof
	p.Source = PlanSide{Kind: now.verdict.Kind, Identity: found.lineage.Identity, Tenant: f.liveSide(now).Tenant, Cursor: found.at.Cursor, Revision: found.at.Revision}
	holds, err := f.holdsAgainst(ctx, p, r, found)
	if err != nil {
		return p, err
	}
	p.Holds = holds
	return p, accept(p.Holds, r.Accept)
}

// supported refuses a pair of stores that no migration goes between.
func supported(now seen, p Plan) error {
	switch {
	case now.lost != nil:
		return now.lost
	case now.verdict.Blocked:
		refusal := refuse(KindUnproved, now.verdict.Reason, "no store is the authority now: %s", now.verdict.Detail)
		refusal.Next = []string{"status"}
		return refusal
	case p.Target.Kind == "":
		return refuse(KindUsage, "target_required", "%s needs --to (for example --to sqlite:)", p.Command)
	case now.verdict.Kind == p.Target.Kind:
		return refuse(KindRefused, "already_authority", "the %s store is the authority already", p.Target.Kind)
	case p.Target.Elsewhere && p.Command == CommandFreeze:
		return refuse(KindRefused, "target_not_promotable", "a selector carries no path: only LoopX's own place can be promoted; use --to sqlite:")
	}
	return nil
}

// liveSide is the authority as it stands.
func (f *Flow) liveSide(now seen) manifest.Binding {
	live := manifest.Binding{Kind: now.verdict.Kind, Identity: now.verdict.Identity}
	if s := now.observation.Selector.Selection; s != nil {
		live.Tenant = s.TenantID
	}
	return live
}

// targetIdentity asks a database server, or the folder of a journal, for its identity,
// which all its Goals share. Where there is none yet the target brings the one that the
// plan minted.
func (f *Flow) targetIdentity(ctx context.Context, now seen, to Target, p Plan) (_ Plan, err error) {
	switch p.Target.Kind {
	case authority.KindFile:
		return f.journalIdentity(ctx, now, to, p)
	case authority.KindPostgreSQL:
	default:
		return p, nil
	}
	if p.Target.Tenant == "" {
		return p, refuse(KindUsage, "tenant_required", "a PostgreSQL target needs --tenant: without one every table looks empty")
	}
	ref := f.side(&manifest.Manifest{}, manifest.Binding{Kind: p.Target.Kind, Tenant: p.Target.Tenant}).home(AccessUntouched)
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return p, err
	}
	defer closing(store, &err)
	p.Target.Identity, err = store.Identity(ctx)
	return p, err
}

// liveSource is a source that was proved while it is live.
type liveSource struct {
	proof
	at        authority.Bookmark // the bound cursor and its revision
	oversized []Hold             // records the target cannot hold
	longest   int64              // what the rows after the target's cursor take in a journal, at most
}

// proveLive audits the source and finds the revision at the bound cursor, which is
// the end of the history when none is bound yet.
func (f *Flow) proveLive(ctx context.Context, live side, target PlanSide, through authority.Cursor) (liveSource, error) {
	home := live.home(AccessUntouched)
	found, err := f.proveLiveAs(ctx, home, target, through)
	if busy(home, err) && ctx.Err() == nil {
		home.Access = AccessLive
		return f.proveLiveAs(ctx, home, target, through)
	}
	return found, err
}

func (f *Flow) proveLiveAs(ctx context.Context, home Ref, target PlanSide, through authority.Cursor) (found liveSource, err error) {
	store, err := f.Stores.Open(ctx, home)
	if err != nil {
		return found, err
	}
	defer closing(store, &err)
	found.lineage, err = f.audit(ctx, store, nil, func(row authority.Row) error {
		if row.Cursor == through {
			found.at = authority.Bookmark{Cursor: row.Cursor, Revision: row.Revision}
		}
		found.oversized = append(found.oversized, f.unholdable(target, row)...)
		if row.Cursor > target.Cursor {
			found.longest += longestPrint(row)
		}
		found.head = append(found.head[:0], row.Projection...)
		return nil
	})
	if err != nil {
		return found, err
	}
	if through == 0 {
		found.at = authority.Bookmark{Cursor: found.lineage.End.Cursor, Revision: found.lineage.End.Revision}
	}
	if found.at.Cursor != through && through != 0 {
		return found, refuse(KindConflict, "plan_changed", "the history ends at cursor %s, before the bound cursor %s", found.lineage.End.Cursor, through)
	}
	if found.lineage.End.Cursor == 0 {
		return found, refuse(KindRefused, "source_empty", "the source holds no transaction")
	}
	found.fields = fieldManifest(found.head)
	return found, nil
}

func (f *Flow) planFreeze(ctx context.Context, now seen, r Request) (Plan, error) {
	if err := f.sameTarget(now, r); err != nil {
		return Plan{}, err
	}
	p, err := f.planLive(ctx, now, r)
	p.Effects = []string{
		"hold LoopX's locks of this goal, both families",
		"publish a frozen selector at " + f.Place.Rel(f.Place.Selector()) + " (it was: " + string(now.observation.Selector.State) + ")",
		"read the source again behind it and bind its lineage",
		"try to write as a LoopX writer would, which must fail",
		"while frozen, LoopX refuses reads as well as writes of this goal",
	}
	if now.verdict.Kind == authority.KindLegacy {
		p.Effects = slices.Insert(p.Effects, 2, "keep a copy of the legacy files, engage LoopX's writer fence and compare the files again")
	}
	return p, err
}

func (f *Flow) planImport(ctx context.Context, now seen, r Request) (Plan, error) {
	var p Plan
	var err error
	switch m := now.snap.Manifest; {
	case m == nil || opens(CommandImport, m.Phase) || m.Phase == manifest.PhasePlanned:
		if err := f.sameTarget(now, r); err != nil {
			return Plan{}, err
		}
		p, err = f.planLive(ctx, now, r)
		p.Effects = []string{"the source stays live and the authority; its history is copied as far as it has come"}
	default:
		p = f.newPlan(now, r)
		if err := frozenAs(now, m); err != nil {
			return p, err
		}
	}
	where := "authority-transition/loopx-migrate/…/staging/" + p.MigrationID
	if p.Target.Elsewhere {
		where = "the path given by --to"
	}
	p.Effects = append(p.Effects, "copy every transaction into a candidate at "+where, "audit the candidate in full and compare the logical digests")
	return p, err
}

func (f *Flow) planPromote(ctx context.Context, now seen, r Request) (Plan, error) {
	p := f.newPlan(now, r)
	m := now.snap.Manifest
	if m.Target.Elsewhere {
		return p, refuse(KindRefused, "target_not_promotable", "the candidate stands outside LoopX's place; it serves import, compare and verify")
	}
	if err := frozenAs(now, m); err != nil {
		return p, err
	}
	taken, err := f.target(m).taken(ctx)
	if err != nil {
		return p, err
	}
	if taken != "" {
		p.Holds = append(p.Holds, Hold{Code: "target_in_the_way", Record: taken, Detail: "a store stands at the target's place"})
	}
	trips, err := f.tripped(ctx, m)
	if err != nil {
		return p, err
	}
	for _, t := range trips {
		p.Holds = append(p.Holds, Hold{Code: "source_written", Record: t.Where, Cursor: t.Cursor,
			Detail: t.Detail + " (operation " + t.OperationID + "); abort keeps it, then migrate again"})
	}
	if !probed(m.Fence) {
		p.Holds = append(p.Holds, Hold{Code: "fence_not_probed", Record: m.Fence.ID, Detail: "no writer was seen to be refused behind this fence"})
	}
	source := "take the source out of LoopX's place; it is kept"
	if m.Source.Kind == authority.KindLegacy {
		source = "leave the legacy files where they are: LoopX only displays them from now on"
	}
	p.Effects = []string{
		"bring the candidate to LoopX's place: " + f.where(f.target(m).home(AccessUntouched)),
		source,
		"read both back",
		"publish the selector: provider " + string(m.Target.Kind) + ", " + string(m.Target.Identity),
		"read both whole histories again",
	}
	if m.Previous != "" {
		p.Effects = append(p.Effects, lastWayBack(m.Previous, m.Source.Kind))
	}
	rehearsal, err := f.rehearsalHolds(ctx, p, r.Rehearsal, f.source(m).home(AccessUntouched))
	if err != nil {
		return p, err
	}
	p.Holds, p.Limits = append(p.Holds, rehearsal...), r.Rehearsal.limits(p.Limits)
	return p, accept(p.Holds, r.Accept)
}

func probed(fence *manifest.Fence) bool {
	for _, p := range fence.Probes {
		if p.Refused {
			return true
		}
	}
	return false
}

func (f *Flow) planAbort(_ context.Context, now seen, r Request) (Plan, error) {
	p := f.newPlan(now, r)
	m := now.snap.Manifest
	if m.Promotion != nil {
		p.Effects = []string{"put the target back and lift the fence inside it", "set the export aside in quarantine (it is kept)",
			"publish the target's selector again", "the target stays the authority, with every commit it had"}
		if onlyFenceLeft(now, m) {
			now.verdict.Blocked, now.verdict.Kind = false, authority.KindLegacy
		}
		return p, f.refusePublished(now, now.verdict.Kind == m.Source.Kind, "already_restored", "the source is the authority again already")
	}
	restore := "the selector is as it was; it stays"
	if m.Fence != nil {
		restore = "restore the selector: " + originalState(m.Selector)
	}
	source := "put the journal back if a promotion had moved it"
	if m.Source.Kind == authority.KindLegacy {
		source = "lift the writer fence that this migration engaged, last of all"
	}
	p.Effects = []string{source, "set the candidate aside in quarantine (it is kept)", restore,
		"the source stays the authority"}
	return p, f.refusePublished(now, now.verdict.Identity == m.Target.Identity, "already_published", "the target is the authority already; after resume, rollback is the way back")
}

// onlyFenceLeft reports whether a rollback to legacy files has only its writer fence left
// to lift: the target is out of its place and the selector is what it was.
func onlyFenceLeft(now seen, m *manifest.Manifest) bool {
	return m.Source.Kind == authority.KindLegacy && m.Phase == manifest.PhaseExported &&
		original(now.observation.Selector, m) && now.verdict.Reason == "authority_missing"
}

// refusePublished refuses to undo what was published: LoopX may be working on it.
func (f *Flow) refusePublished(now seen, published bool, reason, sentence string) error {
	if now.verdict.Blocked || !published {
		return nil
	}
	refusal := refuse(KindRefused, reason, "%s; nothing was changed", sentence)
	refusal.Next = []string{CommandResume}
	return refusal
}

func originalState(s manifest.Selector) string {
	if s.Present {
		return "the selection that stood there"
	}
	return "absent"
}

// executeLine is the command line that does a previewed plan, after the program's name.
func (f *Flow) executeLine(r Request, p Plan, digest string) []string {
	line := []string{r.Command}
	if r.To.Kind != "" {
		line = append(line, "--to", r.To.url())
	}
	if r.WritersStopped {
		line = append(line, "--writers-stopped")
	}
	for _, a := range r.Accept {
		line = append(line, "--accept", a.Hold+":"+a.Record)
	}
	if len(r.Accept) > 0 { // one owner and one reason stand for all that a line accepts
		line = append(line, "--owner", r.Accept[0].Owner, "--reason", r.Accept[0].Reason)
	}
	if r.MaxStall != 0 {
		line = append(line, "--max-stall", r.MaxStall.String())
	}
	line = append(line, r.Rehearsal.line()...)
	if r.Parity.MinimumOperations != 0 {
		line = append(line, "--minimum-operations", strconv.FormatUint(r.Parity.MinimumOperations, 10))
	}
	for _, size := range r.Parity.PageSizes {
		line = append(line, "--page", strconv.Itoa(size))
	}
	for _, kind := range r.Parity.RequireEventKinds {
		line = append(line, "--require-event-kind", kind)
	}
	if bound := p.bound(); p.Manifest.IsZero() && bound != 0 {
		line = append(line, "--through", bound.String())
	}
	return append(line, "--operation-id", r.OperationID, "--plan-digest", digest, "--execute")
}

// sameTarget refuses a --to that is not where the migration goes that was begun.
func (f *Flow) sameTarget(now seen, r Request) error {
	m := now.snap.Manifest
	if m == nil || m.Phase != manifest.PhasePlanned || r.To.Kind == "" {
		return nil
	}
	host, err := f.Folder.LoadHost()
	if err != nil {
		return err
	}
	same := m.Target.Kind == r.To.Kind && (r.To.Tenant == "" || r.To.Tenant == m.Target.Tenant)
	if r.To.Kind != authority.KindPostgreSQL {
		same = same && host.Targets[m.MigrationID] == r.To.Path
	}
	if same {
		return nil
	}
	refusal := refuse(KindRefused, "target_differs", "migration %s goes to another target than --to says; give it up first, or leave --to out", m.MigrationID)
	refusal.Next = []string{CommandAbort}
	return refusal
}

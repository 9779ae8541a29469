package cutover

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
)

const (
	holdWritersRunning = "writers_not_stopped"
	holdOldRelease     = "loopx_0_5_1_seen"
)

// planFiles plans over the live legacy files. They are no chain with a place to bind: the
// plan binds what stands against the step, and takes the files as they are behind the
// fence. A write since the preview is therefore in the import, and a new hold refuses it.
func (f *Flow) planFiles(ctx context.Context, now seen, r Request, p Plan) (Plan, error) {
	if r.Command == CommandImport {
		refusal := refuse(KindRefused, "source_not_frozen", "legacy files have no history to follow while they are live: freeze them first; nothing was changed")
		refusal.Next = []string{CommandFreeze, "--to", r.To.url()}
		return p, refusal
	}
	files, err := f.loadFiles()
	if err != nil {
		return p, err
	}
	if p.retained, err = f.retained(ctx, now.snap.Manifest); err != nil {
		return p, err
	}
	goal := legacy.Inspect(files, f.now())
	holds, err := f.liveFileHolds(now, goal)
	if err != nil {
		return p, err
	}
	for _, finding := range now.verdict.Findings {
		holds = append(holds, Hold{Code: finding, Record: f.Place.GoalID(), Detail: "it would become the authority for a moment on the way back; move it away yourself"})
	}
	p.Source = PlanSide{Kind: authority.KindLegacy}
	var found liveSource
	if _, err := goal.Projection(); err == nil {
		found, err = f.proveLive(ctx, f.liveFiles(p.retained), p.Target, r.Through)
		if err != nil {
			return p, err
		}
		p.Source.Identity, p.Source.Cursor = found.lineage.Identity, found.at.Cursor
	}
	others, err := f.holdsAgainst(ctx, p, r, found)
	if err != nil {
		return p, err
	}
	attested := Hold{Code: holdWritersRunning, Record: "operator", Detail: "LoopX 0.5.1, editors and scripts heed no fence: stop every writer and say so with --writers-stopped"}
	if r.WritersStopped {
		attested.Accepted, attested.Detail = true, "attested with --writers-stopped"
		p.Accepted = append(slices.Clone(p.Accepted), manifest.Accepted{Hold: attested.Code, Record: attested.Record, Owner: f.Principal, Reason: attested.Detail})
	}
	p.Holds = append(oncePerRecord(append(holds, others...)), attested)
	sortHolds(p.Holds)
	return p, accept(p.Holds, r.Accept)
}

func (f *Flow) liveFiles(retained *manifest.Archive) side {
	return f.side(&manifest.Manifest{Retained: retained}, manifest.Binding{Kind: authority.KindLegacy})
}

// fileHolds are the findings in legacy files that stand against a migration.
func fileHolds(goal *legacy.Goal, id string) []Hold {
	var holds []Hold
	for _, finding := range goal.Holds() {
		holds = append(holds, holdOf(finding, id))
	}
	if oldRelease(goal.Files) {
		holds = append(holds, Hold{Code: holdOldRelease, Record: id, Acceptable: true,
			Detail: "the lock's last holder was LoopX 0.5.1, which heeds no fence: stop or upgrade every installation of it"})
	}
	return oncePerRecord(holds)
}

// liveFileHolds are fileHolds, and that of an old release also where the record of it was
// overwritten by the locks of an earlier migration: what was accepted then was accepted for
// that migration alone. A later LoopX that held the lock since ends it.
func (f *Flow) liveFileHolds(now seen, goal *legacy.Goal) ([]Hold, error) {
	id := f.Place.GoalID()
	holds := fileHolds(goal, id)
	if len(goal.Files.LockHolder) > 0 {
		return holds, nil
	}
	earlier := []*manifest.Manifest{now.snap.Manifest}
	for _, closed := range now.closed {
		snap, err := f.Folder.LoadClosed(closed)
		if err != nil {
			return nil, err
		}
		earlier = append(earlier, snap.Manifest)
	}
	for _, m := range earlier {
		if m != nil && slices.ContainsFunc(m.Accepted, func(a manifest.Accepted) bool { return a.Hold == holdOldRelease }) {
			holds = append(holds, Hold{Code: holdOldRelease, Record: id, Acceptable: true,
				Detail: "LoopX 0.5.1, which heeds no fence, held the lock before an earlier migration: stop or upgrade every installation of it"})
		}
	}
	return oncePerRecord(holds), nil
}

// holdOf words a finding as it may be shared: without values of the file, and for one that
// can be accepted without the clock, which would make each preview another plan.
func holdOf(finding legacy.Finding, id string) Hold {
	record := finding.TodoID
	switch {
	case record != "":
	case finding.File != "":
		record = finding.File
	case finding.Line > 0:
		record = "line " + strconv.Itoa(finding.Line)
	default:
		record = id
	}
	if finding.Key != "" {
		record += "." + finding.Key
	}
	h := Hold{Code: finding.Code, Record: record, Detail: finding.Detail, Acceptable: finding.Weight == legacy.Acceptable}
	if h.Acceptable {
		h.Detail, _, _ = strings.Cut(h.Detail, ", clock ")
	}
	return h
}

// oldRelease reports whether LoopX 0.5.1 wrote last: its lock record names no host.
func oldRelease(files legacy.Files) bool {
	records := [][]byte{files.LockHolder}
	if lock, there := files.Lease(".task-leases.lock"); there {
		records = append(records, foreignHolder(lock.Bytes))
	}
	for _, record := range records {
		var holder struct {
			Schema string `json:"schema_version"`
			Host   string `json:"host"`
			PID    int    `json:"pid"`
		}
		if json.Unmarshal(record, &holder) == nil && holder.PID != 0 && holder.Host == "" {
			return true
		}
	}
	return false
}

// oncePerRecord keeps the first hold of each code and record.
func oncePerRecord(holds []Hold) []Hold {
	var kept []Hold
	for _, h := range holds {
		if !slices.ContainsFunc(kept, func(k Hold) bool { return k.Code == h.Code && k.Record == h.Record }) {
			kept = append(kept, h)
		}
	}
	return kept
}

// filesStill reads the live files again, under the locks, and refuses unless everything
// that stands against them was accepted.
func (f *Flow) filesStill(accepted []manifest.Accepted) (legacy.Files, error) {
	files, err := f.loadFiles()
	if err != nil {
		return files, err
	}
	goal := legacy.Inspect(files, f.now())
	holds := fileHolds(goal, f.Place.GoalID())
	if head, err := goal.Projection(); err == nil {
		holds = oncePerRecord(append(holds, headHolds(head, f.Place.GoalID(), "", f.now())...))
	}
	holds = slices.DeleteFunc(holds, func(h Hold) bool {
		return slices.ContainsFunc(accepted, func(a manifest.Accepted) bool { return a.Hold == h.Code && a.Record == h.Record })
	})
	if len(holds) == 0 {
		return files, nil
	}
	refusal := refuse(KindRefused, holds[0].Code, "the legacy files were written since the preview, and %d hold(s) stand against them now; nothing was fenced", len(holds))
	refusal.Holds = holds
	return files, refusal
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/evidence/page"
	"github.com/loopx-project/loopx-migrate/legacy"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/rehearsal"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

func (e *env) reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write the evidence of a migration or a rehearsal into a folder, to be shared and checked offline",
		Description: "The folder must be empty or not there. Nothing else is written, and nothing at all when\n" +
			"any of it would hold a record's text, an absolute path or a credential.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "the `DIR` of the bundle"},
			&cli.StringFlag{Name: "rehearsal", Usage: "the result `FILE` that a rehearsal wrote"},
		},
		Action: e.action(e.report),
	}
}

func (e *env) evidenceCommand() *cli.Command {
	return &cli.Command{
		Name: "evidence", Usage: "check evidence that somebody gave you", ArgsUsage: "verify",
		Subcommands: []*cli.Command{{
			Name: "verify", Usage: "check a bundle to the byte, without any database", ArgsUsage: "DIR",
			Flags:  []cli.Flag{&cli.StringFlag{Name: "seal", Usage: "the `SHA256` that report printed: the bundle must be that one"}},
			Action: e.action(e.evidenceVerify),
		}},
	}
}

func (e *env) report(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	dir := c.String("to")
	if dir == "" {
		return nil, usage("target_required", "report needs --to DIR, a folder that is empty or not there")
	}
	flow, meter, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	if err := besideRoot(flow.Place.Root(), dir); err != nil {
		return nil, err
	}
	contents, err := e.gathered(flow, g, c.String("rehearsal"))
	if err != nil {
		return nil, err
	}
	private, err := whatIsPrivate(ctx, flow)
	meter.done()
	if err != nil {
		return nil, err
	}
	files, err := contents.Files()
	if err != nil {
		return nil, err
	}
	text, err := page.Render(contents)
	if err != nil {
		return nil, err
	}
	files = append(files, evidence.File{Name: evidence.FilePage, Content: text})
	index, err := evidence.Write(dir, contents.GoalID, contents.MadeAt, files, private)
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, next: []string{"evidence", "verify", dir, "--seal", index.Seal.String()},
		Sentence: "The bundle is written and was checked to the byte. Keep its seal elsewhere: it tells this bundle from one made anew."}
	a.fact("files", len(index.Entries)+1)
	a.fact("seal", index.Seal)
	a.show(pairs("EVIDENCE of "+contents.GoalID, "files", fmt.Sprint(len(index.Entries)+1), "page", evidence.FilePage, "seal", index.Seal.String()))
	return a, nil
}

// besideRoot refuses a bundle inside the runtime root: whoever shares it would share a
// folder of LoopX, and what stands there is taken for the Goal's own.
func besideRoot(root, dir string) error {
	guard := rehearsal.Guard{Paths: []string{root}}
	var inside *rehearsal.GuardError
	if err := guard.Folder(dir); errors.As(err, &inside) {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "report_in_runtime_root", Err: err,
			Sentence: "--to is a folder in LoopX's runtime root: a bundle goes beside it; nothing was written"}
	} else if err != nil {
		return err
	}
	return nil
}

// gathered reads the record of the Goal and the result of a rehearsal. One of them is needed.
func (e *env) gathered(flow *cutover.Flow, g globals, result string) (evidence.Contents, error) {
	c := evidence.Contents{GoalID: g.goalID, MadeAt: e.now().UTC(), Environment: environment()}
	snap, err := flow.Folder.Load()
	if err != nil {
		return c, err
	}
	c.Manifest = snap.Manifest
	if c.Manifest == nil && result == "" {
		return c, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "manifest_missing", Next: []string{"status"},
			Sentence: "this goal was never migrated by this tool and no --rehearsal was given: there is nothing to report"}
	}
	if c.Outcomes, err = flow.Folder.Outcomes(); err != nil {
		return c, err
	}
	if c.Earlier, err = earlier(flow.Folder); err != nil {
		return c, err
	}
	if result != "" {
		err = rehearsed(&c, result)
	}
	return c, err
}

func earlier(folder *manifest.Folder) ([]*manifest.Manifest, error) {
	ids, err := folder.Closed()
	if err != nil {
		return nil, err
	}
	var all []*manifest.Manifest
	for _, id := range ids {
		snap, err := folder.LoadClosed(id)
		if err != nil {
			return nil, err
		}
		all = append(all, snap.Manifest)
	}
	return all, nil
}

func rehearsed(c *evidence.Contents, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return notReachable("rehearsal_unreachable", "--rehearsal cannot be read", err)
	}
	if c.Rehearsal, err = evidence.DecodeRehearsal(text); err != nil {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "rehearsal_invalid", Sentence: err.Error(), Err: err}
	}
	if c.Rehearsal.GoalID != c.GoalID {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "rehearsal_of_another_goal", Sentence: "the rehearsal is of goal " + c.Rehearsal.GoalID}
	}
	return nil
}

// whatIsPrivate are the texts of the Goal's states and the paths of this host. Without
// any state there would be nothing to look for, and not looking is no proof.
func whatIsPrivate(ctx context.Context, flow *cutover.Flow) (evidence.Private, error) {
	var private evidence.Private
	seen, err := flow.Inspect(ctx)
	if err != nil {
		return private, err
	}
	read := 0
	for _, s := range seen.Stores {
		if len(s.Head.Projection) > 0 {
			private.Texts = append(private.Texts, evidence.TextsOf(s.Head.Projection)...)
			read++
		}
	}
	if read == 0 {
		if private.Texts, err = textsOfFiles(flow, seen.Legacy); err != nil {
			return private, err
		}
	}
	host, err := flow.Folder.LoadHost()
	if err != nil {
		return private, err
	}
	private.Paths = []string{flow.Place.Root(), host.RuntimeRoot, host.Registry, host.Postgres, flow.Registration.StateFile}
	for _, path := range host.Targets {
		private.Paths = append(private.Paths, path)
	}
	return private, nil
}

// textsOfFiles are the texts of the legacy files, of a Goal without a store: also behind a
// writer fence, when nobody is the authority. A state file in which no Todo can be read
// is no proof.
func textsOfFiles(flow *cutover.Flow, goal *legacy.Goal) ([]string, error) {
	if known := flow.Registration.StateFile; goal == nil && known != "" {
		files, err := legacy.Load(flow.Place, known, flow.Registration.EventLogs)
		if err != nil {
			return nil, notReachable("privacy_scan_incomplete", "the legacy files cannot be read, so their texts cannot be looked for", err)
		}
		goal = legacy.Inspect(files, flow.Clock())
	}
	if goal == nil || goal.Listing == nil {
		return nil, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "privacy_scan_incomplete", Next: []string{"inspect"},
			Sentence: "neither a store nor legacy files of this goal can be read, so its texts cannot be looked for: nothing was written"}
	}
	var texts []string
	for i := range goal.Listing.Rows {
		row := &goal.Listing.Rows[i]
		texts = append(texts, evidence.TextsOf(row.Record())...)
		for _, value := range row.Fields { // those that stay on their host as well
			texts = append(texts, evidence.TextsOf(value)...)
		}
	}
	for _, lease := range goal.Files.Leases {
		texts = append(texts, evidence.TextsOf(lease.Bytes)...)
	}
	return texts, nil
}

// environment is where this program runs.
func environment() evidence.Environment {
	version, revision := built()
	return evidence.Environment{Program: strings.TrimSpace("loopx-migrate " + version), Revision: revision, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), SQLite: sqlitestore.Version().Version}
}

func (e *env) evidenceVerify(_ context.Context, c *cli.Context, _ globals) (*answer, error) {
	checked, err := evidence.Verify(c.Args().First())
	if err != nil {
		return nil, err
	}
	seal := checked.Index.Seal.String()
	if want := strings.TrimPrefix(c.String("seal"), "sha256:"); want != "" && want != seal {
		return nil, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "evidence_of_another_seal",
			Sentence: "the bundle is whole, but it is not the one with that seal: its own begins with " + seal[:12]}
	}
	a := &answer{Status: statusDone, Sentence: "Every byte of every file is what was written, and what the files say agrees. No database was asked."}
	a.fact("goal_id", checked.Index.GoalID)
	a.fact("files", len(checked.Index.Entries)+1)
	a.fact("steps_proved", checked.Steps)
	a.fact("rehearsal", string(checked.Rehearsal))
	a.fact("seal", seal)
	a.show(pairs("EVIDENCE of "+checked.Index.GoalID, "folder", filepath.Base(c.Args().First()), "made", checked.Index.MadeAt.Format("2006-01-02 15:04:05 MST"),
		"files", fmt.Sprintf("%d, %d bytes", len(checked.Index.Entries)+1, checked.Bytes), "steps proved", fmt.Sprint(checked.Steps),
		"rehearsal", string(checked.Rehearsal), "seal", seal))
	return a, nil
}

// evidenceRefusal sorts the errors of package evidence; nil for others.
func evidenceRefusal(err error) *cutover.Refusal {
	var bundle *evidence.BundleError
	var private *evidence.PrivateError
	var full *evidence.NotEmptyError
	var accepted *evidence.AcceptanceError
	var reason string
	switch {
	case errors.As(err, &bundle):
		reason = "evidence_altered"
	case errors.As(err, &private):
		reason = "evidence_private"
	case errors.As(err, &full):
		reason = "folder_not_empty"
	case errors.As(err, &accepted):
		reason = accepted.Reason
	default:
		return nil
	}
	return &cutover.Refusal{Kind: cutover.KindRefused, Reason: reason, Sentence: err.Error()}
}

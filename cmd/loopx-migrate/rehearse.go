package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/rehearsal"
)

func (e *env) rehearseCommand() *cli.Command {
	return &cli.Command{
		Name:  "rehearse",
		Usage: "the whole migration and its way back on disposable copies, several arms side by side",
		Description: "The source is only read. Copies that would be production under another name are\n" +
			"refused. The result is what cutover and promote take as --rehearsal.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "arms", Value: "sqlite", Usage: "`KINDS` to rehearse beside the source's own: file, sqlite, postgresql (legacy is the source or nothing)"},
			&cli.StringFlag{Name: "server", Usage: "a disposable `URL` for the postgresql arm; without it a private server is started"},
			&cli.StringSliceFlag{Name: "production", Usage: "a `PATH|URL` that no copy may be (may stand more than once)"},
			&cli.StringFlag{Name: "workload", Usage: "`FILE` of operations, or recorded: the end of the source's own history"},
			&cli.IntFlag{Name: "operations", Value: rehearsal.DefaultOperations, Usage: "length `N` of the built-in or the recorded workload"},
			&cli.BoolFlag{Name: "release-leases", Usage: "on the copies, release the leases that are active in the source"},
			&cli.DurationFlag{Name: "max-stall", Value: time.Minute, Usage: "the longest write stall `TIME` that the promotion may cause"},
			&cli.StringFlag{Name: "work-dir", Usage: "make the copies in this `DIR` instead of the system's folder for temporary files"},
			&cli.StringFlag{Name: "out", Usage: "write the result to `FILE`, which must not be there yet"},
			&cli.BoolFlag{Name: "keep", Usage: "keep the copies and say where they are"},
		},
		Action: e.action(e.rehearse),
	}
}

func (e *env) rehearse(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	config, stop, err := e.rehearsalConfig(ctx, c, g)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	meter := e.meter(g)
	config.Watch = meter.watch
	report, kept, err := rehearsal.Run(ctx, config)
	meter.done()
	if err := errors.Join(err, stop()); errors.Is(err, context.Canceled) {
		return nil, &cutover.Refusal{Kind: cutover.KindInterrupted, Reason: "interrupted", Err: err,
			Sentence: "the rehearsal was stopped and gives no result; the source was only read, and the copies are gone unless they were to be kept"}
	} else if err != nil {
		return nil, err
	}
	return e.rehearsed(report, c.String("out"), kept)
}

// rehearsed writes the result and words it.
func (e *env) rehearsed(report *evidence.Rehearsal, out, kept string) (*answer, error) {
	a := &answer{Status: statusDone, Sentence: "The rehearsal passed: every arm did the same, and the way back is proved. The source was left alone."}
	a.fact("rehearsal", report)
	a.show(rehearsalBlocks(report)...)
	if out != "" {
		text, err := report.Encode()
		if err != nil {
			return nil, err
		}
		if err := atomicfile.Create(out, 0o600, text); errors.Is(err, fs.ErrExist) {
			return a, outTaken()
		} else if err != nil {
			return nil, err
		}
		a.show(pairs("result", "written to", out))
	}
	if kept != "" {
		a.show(pairs("copies", "kept in", kept)) // on the terminal only: facts carry no path
	}
	switch report.Result {
	case evidence.Passed:
		return a, nil
	case evidence.Incomplete:
		return a, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "rehearsal_incomplete", Sentence: "nothing differs, but it did not come to its end: " + strings.Join(report.Reasons, "; ")}
	}
	return a, &cutover.Refusal{Kind: cutover.KindDiffers, Reason: "rehearsal_failed", Sentence: strings.Join(report.Reasons, "; ")}
}

// rehearsalConfig reads the flags. stop takes back what was started for it.
func (e *env) rehearsalConfig(ctx context.Context, c *cli.Context, g globals) (config rehearsal.Config, stop func() error, err error) {
	stop = func() error { return nil }
	h, err := g.home()
	if err != nil {
		return config, stop, err
	}
	config = rehearsal.Config{Place: h.place, Registration: h.registration, Stores: e.stores, Clock: e.now, Guard: &rehearsal.Guard{},
		MaxStall: c.Duration("max-stall"), ReleaseLeases: c.Bool("release-leases"), Keep: c.Bool("keep"), Output: c.String("out"), Witness: rehearsalWitness{e}, Environment: environment()}
	if g.loopx != "" {
		config.LoopX = &rehearsal.Program{Path: g.loopx, Registry: g.registry, Search: os.Getenv("PATH")}
	}
	if config.Arms, err = armsOf(c.String("arms")); err != nil {
		return config, stop, err
	}
	if config.Workload, err = workloadOf(c, e.now); err != nil {
		return config, stop, err
	}
	if config.Parent, err = workParent(c); err != nil {
		return config, stop, err
	}
	if err := vacantOut(config.Output); err != nil {
		return config, stop, err
	}
	operation, err := e.mintOperation()
	if err != nil {
		return config, stop, err
	}
	config.ID = "reh-" + strings.TrimPrefix(operation, "op-")
	if err := e.production(ctx, c, g, h, config.Guard); err != nil {
		return config, stop, err
	}
	if stop, err = e.rehearsalServer(ctx, c.String("server"), &config); err != nil {
		return config, stop, err
	}
	own := g
	own.registry, own.loopx, own.stateFile, own.actor, own.postgres, own.tenant = "", "", "", "rehearsal", "", ""
	if own.who, err = e.principal(); err != nil { // whoever makes the copies owns them
		return config, stop, err
	}
	if config.Server != nil {
		own.postgres, own.tenant = config.Server.URL, config.Server.Tenant
	}
	config.Flow = func(place authority.Place, registration fence.Registration) (*cutover.Flow, error) {
		flow, _, err := e.flowAt(own, home{place: place, registration: registration})
		return flow, err
	}
	return config, stop, err
}

// workParent is the folder to make the copies in, as an absolute path: the copies name
// their places by it, and the programs that work on them need not start where this one did.
func workParent(c *cli.Context) (string, error) {
	if named := c.String("work-dir"); named != "" {
		return filepath.Abs(named)
	}
	return filepath.Abs(os.TempDir())
}

// vacantOut refuses a place for the result that is taken, or in no folder, before the
// work: at its end the result would be lost, or an older one with it.
func vacantOut(out string) error {
	if out == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(out)); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "folder_missing", Err: err,
			Sentence: "--out names a file in a folder that is not there; nothing was done"}
	} else if err != nil {
		return err
	}
	if _, err := os.Lstat(out); err == nil {
		return outTaken()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func outTaken() error {
	return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "place_taken",
		Sentence: "something stands already where --out names the result; no file is ever replaced"}
}

var armKinds = map[string]authority.Kind{"legacy": authority.KindLegacy, "file": authority.KindFile, "sqlite": authority.KindSQLite,
	"postgresql": authority.KindPostgreSQL, "postgres": authority.KindPostgreSQL}

func armsOf(text string) (arms []authority.Kind, err error) {
	for name := range strings.SplitSeq(text, ",") {
		kind, known := armKinds[strings.TrimSpace(name)]
		if !known {
			return nil, usage("flag_value", "--arms names %q and may name legacy, file, sqlite and postgresql", name)
		}
		arms = append(arms, kind)
	}
	return arms, nil
}

// workloadOf chooses the workload. A file is read at once, so that a bad one is refused first.
func workloadOf(c *cli.Context, now func() time.Time) (func(context.Context, authority.Reader) (rehearsal.Workload, error), error) {
	named, n := c.String("workload"), c.Int("operations")
	if n < 1 {
		return nil, usage("flag_value", "--operations must be at least 1")
	}
	switch {
	case named == "recorded":
		return func(ctx context.Context, source authority.Reader) (rehearsal.Workload, error) {
			if source.Kind() == authority.KindLegacy {
				return rehearsal.Workload{}, usage("workload_not_recorded", "legacy files keep no history of which the end could be recorded")
			}
			return rehearsal.Recorded(ctx, source, n, now())
		}, nil
	case named != "" && c.IsSet("operations"):
		return nil, usage("flag_without_effect", "--operations goes with the built-in and the recorded workload only; nothing was done")
	case named != "":
		return workloadFile(named)
	}
	return func(ctx context.Context, source authority.Reader) (rehearsal.Workload, error) {
		head, err := source.Load(ctx)
		return rehearsal.BuiltIn(head.Projection, n, now()), err
	}, nil
}

func workloadFile(path string) (func(context.Context, authority.Reader) (rehearsal.Workload, error), error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, notReachable("workload_unreachable", "the workload file cannot be read", err)
	}
	w, err := rehearsal.ReadWorkload(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, usage("workload_invalid", "%s (%s)", err, filepath.Base(path))
	}
	return func(context.Context, authority.Reader) (rehearsal.Workload, error) { return w, nil }, nil
}

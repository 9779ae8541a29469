package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/cutover"
)

// app is the whole command line. Arguments come to it arranged (see arrange).
func (e *env) app() *cli.App {
	return &cli.App{
		Name:  "loopx-migrate",
		Usage: "move a LoopX Goal from one store to another, proved step by step",
		Description: "Commands that change something print a preview and change nothing until they get\n" +
			"--execute with the digest of that preview. Begin with: loopx-migrate demo",
		Flags:       globalFlags(),
		Commands:    e.commands(),
		HideVersion: true,
		Writer:      e.stdout,
		ErrWriter:   io.Discard, // errors are printed once, by deliver
		Action: func(*cli.Context) error {
			return usage("command_required", "no command was given; see loopx-migrate --help")
		},
		// The library would call os.Exit here, before deferred unlocks have run.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usage("usage", "%s", err) },
	}
}

// commands in the order an operator meets them.
func (e *env) commands() []*cli.Command {
	all := []*cli.Command{
		e.demoCommand(), e.inspectCommand(), e.freezeCommand(), e.importCommand(), e.compareCommand(), e.promoteCommand(),
		e.cutoverCommand(), e.statusCommand(), e.resumeCommand(), e.abortCommand(), e.rollbackCommand(), e.projectCommand(), e.exportCommand(),
		e.verifyCommand(), e.manifestCommand(), e.upgradeHeadCommand(), e.rebindCommand(), e.grantCommand(), e.revokeCommand(), e.grantsCommand(), e.pgCommand(),
		e.rehearseCommand(), e.reportCommand(), e.evidenceCommand(), e.ladderCommand(), e.canaryCommand(),
		e.versionCommand(), e.completionCommand(), e.probeWriterCommand(), e.canaryAgentCommand(),
	}
	for _, command := range all {
		command.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usage("usage", "%s", err) }
	}
	return all
}

// action runs a command under its time limit and keeps its answer. A command may
// answer and fail: then both are printed.
func (e *env) action(run func(ctx context.Context, c *cli.Context, g globals) (*answer, error)) cli.ActionFunc {
	return func(c *cli.Context) error {
		g, err := readGlobals(c)
		if err != nil {
			return err
		}
		e.globals = g
		ctx, cancel := c.Context, context.CancelFunc(func() {})
		if g.timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, g.timeout)
		}
		defer cancel()
		if g.who, err = e.who(ctx, g); err != nil {
			return err
		}
		log, began := e.logger(g), e.now()
		e.stores = loggedStores{e.stores, log}
		log.Info("begins", "command", commandPath(c), "goal", g.goalID)
		a, err := run(ctx, c, g)
		log.Info("ends", "command", commandPath(c), "milliseconds", e.now().Sub(began).Milliseconds(), "error", err)
		if a != nil {
			a.Command = commandPath(c)
			a.goal, a.color = g.goalID, g.color
		}
		e.answer = a
		return err
	}
}

// commandPath is the command as it is typed: "manifest verify".
func commandPath(c *cli.Context) string {
	name := c.Command.Name
	for _, parent := range c.Lineage()[1:] {
		if parent.Command != nil && parent.Command.Name != "" && parent.Command.Name != "loopx-migrate" && parent.Command.Name != name {
			name = parent.Command.Name + " " + name
		}
	}
	return name
}

// globalFlags may stand anywhere on the line. Each has an environment variable.
func globalFlags() []cli.Flag {
	text := func(name, value, meaning string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: value, Usage: meaning, EnvVars: []string{variable(name)}}
	}
	return []cli.Flag{
		text("runtime-root", "", "LoopX's runtime root `DIR`"),
		text("goal-id", "", "the Goal `ID`"),
		text("postgres", "", "the database server's `URL`, without a password (PGPASSFILE, service files and PGPASSWORD are read)"),
		text("tenant", "", "the `ID` of the tenant in a database server"),
		text("registry", "", "LoopX's registry `FILE`; its common_runtime_root is then the runtime root"),
		text("state-file", "", "legacy state `FILE`, when the registry does not name it"),
		text("actor", "", "a label `NAME` beside the operating-system user in the record"),
		text("principal", principalUser, "who holds the grant: the operating-system user, or the role that --postgres authenticates, `os|role`"),
		text("loopx", "", "LoopX's own program `PATH`, to be the writer whose try must fail, or with rehearse the driver of the legacy arm (needs --registry)"),
		text("output", "table", "`table|json`"),
		text("color", "auto", "`auto|always|never`"),
		text("progress", "auto", "`auto|bar|plain|none`"),
		text("log-level", "warn", "`debug|info|warn|error`"),
		&cli.DurationFlag{Name: "timeout", Usage: "give up after this `TIME`; 0 is never", EnvVars: []string{variable("timeout")}},
		&cli.DurationFlag{Name: "lock-timeout", Value: 30 * time.Second, Usage: "wait this `TIME` for a lock", EnvVars: []string{variable("lock-timeout")}},
	}
}

// usage is the refusal of a command line that makes no sense.
func usage(reason, format string, args ...any) error {
	return &cutover.Refusal{Kind: cutover.KindUsage, Reason: reason, Sentence: fmt.Sprintf(format, args...)}
}

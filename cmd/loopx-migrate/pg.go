package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

func (e *env) pgCommand() *cli.Command {
	return &cli.Command{
		Name: "pg", Usage: "PostgreSQL administration, previewed as SQL", ArgsUsage: "install|doctor|rotate-identity",
		Description: "The server is named by --postgres, without a password: PGPASSFILE, a service file\nor PGPASSWORD holds it.",
		Subcommands: []*cli.Command{
			{Name: "install", Usage: "LoopX's schema, this tool's fence and seals beside it, roles, grants, row-level security", Action: e.action(e.pgInstall),
				Flags: append([]cli.Flag{
					&cli.StringSliceFlag{Name: "runtime-role", Usage: "a `ROLE` LoopX connects as (may stand more than once)"},
					&cli.StringSliceFlag{Name: "operator-role", Usage: "a `ROLE` this tool connects as (may stand more than once)"},
					&cli.StringFlag{Name: "identity", Usage: "with --execute: the store `IDENTITY` of the preview"},
				}, executeFlags()...)},
			{Name: "doctor", Usage: "what would break LoopX's or this tool's promises on that server", Action: e.action(e.pgDoctor),
				Flags: []cli.Flag{&cli.StringFlag{Name: "runtime-role", Usage: "the `ROLE` LoopX connects as"}}},
			{Name: "rotate-identity", Usage: "give a restored database an identity of its own", Action: e.action(e.pgRotate),
				Flags: append([]cli.Flag{&cli.StringFlag{Name: "identity", Usage: "with --execute: the new store `IDENTITY` of the preview"}}, executeFlags()...)},
		},
	}
}

// pgServer is the server of the flags.
func pgServer(g globals) (pgstore.Server, error) {
	if g.postgres == "" {
		return pgstore.Server{}, usage("server_required", "which server? give --postgres postgres://HOST/DATABASE, without a password")
	}
	return pgstore.Server{DSN: g.postgres, LockWait: g.lockTimeout}, nil
}

func (e *env) pgInstall(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	server, err := pgServer(g)
	if err != nil {
		return nil, err
	}
	if err := e.permitted(ctx, g, r); err != nil {
		return nil, err
	}
	options := pgstore.InstallOptions{Identity: authority.Identity(c.String("identity")), Runtime: c.StringSlice("runtime-role"), Operators: c.StringSlice("operator-role")}
	if options.Identity == "" {
		if options.Identity, err = pgstore.InstalledIdentity(ctx, server); err != nil {
			return nil, err
		}
	}
	if options.Identity == "" {
		options.Identity = pgstore.NewIdentity()
	}
	plan, err := pgstore.InstallPlan(options)
	if err != nil {
		return nil, err
	}
	again := []string{"pg", "install", "--identity", string(options.Identity)}
	for _, role := range options.Runtime {
		again = append(again, "--runtime-role", role)
	}
	for _, role := range options.Operators {
		again = append(again, "--operator-role", role)
	}
	return e.administer(r, plan, again, func() error {
		_, err := pgstore.Install(ctx, server, options)
		return err
	})
}

// administer previews SQL, or runs it when it is the SQL that was previewed.
func (e *env) administer(r cutover.Request, plan pgstore.Plan, again []string, run func() error) (*answer, error) {
	digest := "sha256:" + plan.Digest().String()
	a := &answer{Status: "preview", Sentence: "This was a preview. Nothing was changed."}
	a.fact("operation_id", r.OperationID)
	a.fact("plan_digest", digest)
	if !r.Execute {
		a.fact("sql", plan.Text())
		a.show(block{title: "SQL of " + plan.Title, rows: []row{{cells: []string{plan.Text()}}}})
		a.next = append(again, "--operation-id", r.OperationID, "--plan-digest", digest, "--execute")
		return a, nil
	}
	if r.PlanDigest != digest {
		return nil, &cutover.Refusal{Kind: cutover.KindConflict, Reason: "plan_changed", Next: again[:2],
			Sentence: "the SQL is now " + digest + ", not the one that was previewed; nothing was changed"}
	}
	if err := run(); err != nil {
		return nil, err
	}
	a.Status, a.Sentence = statusDone, plan.Title+" is done; it may be run again and then changes nothing."
	return a, nil
}

func (e *env) pgDoctor(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	server, err := pgServer(g)
	if err != nil {
		return nil, err
	}
	found, err := pgstore.Doctor(ctx, server, pgstore.DoctorOptions{Runtime: c.String("runtime-role"), Now: e.now})
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, Sentence: "Every check holds. Nothing was changed."}
	a.fact("checks", found)
	b := block{title: "DOCTOR", head: []string{"check", "holds", "found", "what to do"}}
	for _, check := range found {
		holds := "yes"
		if !check.OK {
			holds = "NO"
		}
		b.rows = append(b.rows, row{cells: []string{check.Name, holds, check.Detail, check.Fix}, failing: !check.OK})
	}
	a.show(b)
	if !found.OK() {
		return a, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "server_unsuitable", Sentence: "the server fails a check; see the first rows", Next: []string{"pg", "install"}}
	}
	return a, nil
}

func (e *env) pgRotate(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	server, err := pgServer(g)
	if err != nil {
		return nil, err
	}
	if err := e.permitted(ctx, g, r); err != nil {
		return nil, err
	}
	now, err := pgstore.InstalledIdentity(ctx, server)
	if err != nil {
		return nil, err
	}
	next := authority.Identity(c.String("identity"))
	if r.Execute && next != "" && next == now {
		a := &answer{Status: "replayed", Sentence: "The database has that identity already. Nothing was changed."}
		a.fact("operation_id", r.OperationID)
		a.fact("store_identity", string(now))
		a.fact("replayed", true)
		return a, nil
	}
	if next == "" {
		next = pgstore.NewIdentity()
	}
	plan, err := pgstore.RotatePlan(now, next)
	if err != nil {
		return nil, err
	}
	return e.administer(r, plan, []string{"pg", "rotate-identity", "--identity", string(next)},
		func() error { return pgstore.RotateIdentity(ctx, server, now, next) })
}

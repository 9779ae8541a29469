package main

import (
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/pgserver"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

const demoTenant = "harbour"

// chooseTarget gives the story its target: SQLite, or a private PostgreSQL server that
// is started for it and that stop removes.
func (s *story) chooseTarget(ctx context.Context, to string) (stop func() error, err error) {
	switch to {
	case "sqlite":
		s.to, s.toName = cutover.Target{Kind: authority.KindSQLite}, "SQLite"
		return func() error { return nil }, nil
	case "postgres":
		return s.startServer(ctx)
	}
	return nil, usage("flag_value", "--to is %q and must be sqlite or postgres", to)
}

func (s *story) startServer(ctx context.Context) (func() error, error) {
	programs := pgserver.Programs()
	if programs == "" {
		return nil, &cutover.Refusal{Kind: cutover.KindUnreachable, Reason: "server_programs_missing",
			Sentence: "no PostgreSQL server programs were found (Debian: apt-get install postgresql); nothing was changed"}
	}
	cluster, err := pgserver.New(programs)
	if err != nil {
		return nil, err
	}
	s.flow.Server = cluster.URL("postgres", pgserver.Admin)
	s.to, s.toName = cutover.Target{Kind: authority.KindPostgreSQL, Path: s.flow.Server, Tenant: demoTenant}, "PostgreSQL"
	_, err = pgstore.Install(ctx, pgstore.Server{DSN: s.flow.Server}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
	if err != nil {
		return nil, errors.Join(err, cluster.Remove())
	}
	return cluster.Remove, nil
}

// accepted is what the story accepts by name: nobody opens its goal with LoopX.
func (s *story) accepted() []manifest.Accepted {
	if s.to.Kind != authority.KindPostgreSQL {
		return nil
	}
	return []manifest.Accepted{{Hold: "needs_service_runtime", Record: demoTenant, Owner: "demo", Reason: "the goal is disposable"}}
}

// unrehearsed is what the story accepts at the promotion: it is a rehearsal itself.
func (s *story) unrehearsed() []manifest.Accepted {
	if s.to.Kind != authority.KindPostgreSQL {
		return nil
	}
	return []manifest.Accepted{{Hold: cutover.HoldRehearsalMissing, Record: string(s.to.Kind), Owner: "demo", Reason: "the goal is disposable"}}
}

// targetRef is the target's store at LoopX's own place.
func (s *story) targetRef() cutover.Ref {
	ref := ownRef(s.flow.Place, s.to.Kind)
	ref.Server, ref.Tenant, ref.Access = s.flow.Server, s.to.Tenant, cutover.AccessWrite
	return ref
}

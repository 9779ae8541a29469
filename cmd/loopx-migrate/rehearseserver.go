package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/pgserver"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/rehearsal"
	"github.com/loopx-project/loopx-migrate/store"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// production tells the guard what no copy may be: what --production names, the server of
// the global flags, and the one that an earlier migration of this goal remembered.
func (e *env) production(ctx context.Context, c *cli.Context, g globals, h home, guard *rehearsal.Guard) error {
	if h.registration.Path != "" {
		guard.Paths = append(guard.Paths, h.registration.Path)
	}
	servers := []string{g.postgres}
	for _, named := range c.StringSlice("production") {
		if !strings.Contains(named, ":") || strings.HasPrefix(named, "/") {
			guard.Paths = append(guard.Paths, named)
			continue
		}
		at, err := store.Parse(named)
		if err != nil {
			return err
		}
		if at.Server == "" {
			guard.Paths = append(guard.Paths, at.Path)
			continue
		}
		servers = append(servers, at.Server)
	}
	host, err := manifest.Open(h.place).LoadHost()
	if err != nil {
		return err
	}
	servers = append(servers, host.Postgres)
	if c.String("server") == "" {
		return nil // a private server is nobody's production
	}
	return locateAll(ctx, guard, servers)
}

// locateAll asks each production server who it is. One that cannot be asked cannot be
// told from a server for copies.
func locateAll(ctx context.Context, guard *rehearsal.Guard, servers []string) error {
	for _, server := range servers {
		if server == "" {
			continue
		}
		at, err := pgstore.Locate(ctx, pgstore.Server{DSN: server})
		if err != nil {
			return &cutover.Refusal{Kind: cutover.KindUnreachable, Reason: "production_unreachable", Err: err,
				Sentence: "a server that is production cannot be asked who it is, so that --server cannot be told from it; nothing was changed"}
		}
		guard.Servers = append(guard.Servers, rehearsal.Whereabouts{System: at.System, Database: at.Database})
	}
	return nil
}

// rehearsalServer finds a server for the postgresql arm: the one that was given, or a
// private one that stop removes.
func (e *env) rehearsalServer(ctx context.Context, given string, config *rehearsal.Config) (stop func() error, err error) {
	stop = func() error { return nil }
	wanted := false
	for _, kind := range config.Arms {
		wanted = wanted || kind == authority.KindPostgreSQL
	}
	switch {
	case !wanted && given != "":
		return stop, usage("flag_without_effect", "--server goes with --arms postgresql only; nothing was done")
	case !wanted:
		return stop, nil
	}
	config.Server = &rehearsal.Server{URL: given, Tenant: config.ID}
	if given == "" {
		if config.Server.URL, stop, err = privateServer(ctx); err != nil {
			return stop, err
		}
	} else if at, err := store.Parse(given); err != nil {
		return stop, err
	} else if at.Server == "" {
		return stop, usage("flag_value", "--server names a server: postgres://HOST/DATABASE")
	}
	at, err := pgstore.Locate(ctx, pgstore.Server{DSN: config.Server.URL})
	config.Server.At = rehearsal.Whereabouts{System: at.System, Database: at.Database, Tenant: config.Server.Tenant}
	return stop, err
}

// privateServer starts a server of its own with the schema in it. It removes nothing of
// another server and is gone after stop.
func privateServer(ctx context.Context) (url string, stop func() error, err error) {
	stop = func() error { return nil }
	programs := pgserver.Programs()
	if programs == "" {
		return "", stop, &cutover.Refusal{Kind: cutover.KindUnreachable, Reason: "server_programs_missing",
			Sentence: "no PostgreSQL server programs were found (Debian: apt-get install postgresql); nothing was changed"}
	}
	cluster, err := pgserver.New(programs)
	if err != nil {
		return "", stop, err
	}
	url = cluster.URL("postgres", pgserver.Admin)
	_, err = pgstore.Install(ctx, pgstore.Server{DSN: url}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
	return url, cluster.Remove, err
}

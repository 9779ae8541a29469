package main

import (
	"context"
	"log/slog"

	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/cutover"
)

// logger writes to stderr what --log-level asks for. The answer of a command is
// printed and not logged; at the default level nothing comes here.
func (e *env) logger(g globals) *slog.Logger {
	return slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: g.logLevel}))
}

// loggedStores logs each store that is opened.
type loggedStores struct {
	cutover.Stores
	log *slog.Logger
}

// Open opens a store as the stores below do.
func (s loggedStores) Open(ctx context.Context, ref cutover.Ref) (cutover.History, error) {
	s.log.Debug("opens", "store", ref.Kind, "path", ref.Path, "access", ref.Access)
	return s.Stores.Open(ctx, ref)
}

// Candidate opens a candidate as the stores below do.
func (s loggedStores) Candidate(ctx context.Context, ref cutover.Ref) (bootstrap.Candidate, error) {
	s.log.Debug("opens candidate", "store", ref.Kind, "path", ref.Path)
	return s.Stores.Candidate(ctx, ref)
}

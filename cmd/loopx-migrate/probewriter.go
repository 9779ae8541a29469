package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

func (e *env) probeWriterCommand() *cli.Command {
	return &cli.Command{
		Name: "probe-writer", Hidden: true,
		Usage:  "FOR PROBES ONLY: try to write one transaction as a LoopX writer would, and do it if nothing stops it",
		Action: e.action(e.probeWriter),
	}
}

// probeWriter is the model of a LoopX writer: it resolves the authority afresh under
// the maintenance lock and commits one transaction that changes no Todo. Behind a
// fence it must be refused, and says with which reason. Where it is not refused it
// does write: that is the only way to know.
func (e *env) probeWriter(ctx context.Context, _ *cli.Context, g globals) (*answer, error) {
	h, err := g.home()
	if err != nil {
		return nil, err
	}
	// A first look without the lock: a writer that is stopped leaves nothing behind.
	if _, err := e.writable(ctx, h.place); err != nil {
		return nil, err
	}
	lock, err := lockfile.AcquireMarker(ctx, h.place.MaintenanceLock(), g.lockTimeout)
	if err != nil {
		return nil, err
	}
	a, err := e.writeProbe(ctx, h.place)
	return a, errors.Join(err, lock.Release())
}

func (e *env) writeProbe(ctx context.Context, place authority.Place) (*answer, error) {
	v, err := e.writable(ctx, place)
	if err != nil {
		return nil, err
	}
	operation, err := e.mintOperation()
	if err != nil {
		return nil, err
	}
	ref := ownRef(place, v.Kind)
	ref.Access = cutover.AccessWrite
	applied, err := e.commitMark(ctx, ref, operation, "loopx_migrate_probe_event_v1")
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, Sentence: "NOT refused: one transaction was written."}
	a.fact("operation_id", operation)
	a.fact("cursor", applied.Cursor.String())
	return a, nil
}

// writable resolves who takes writes, as a LoopX writer does, or says why nobody does.
func (e *env) writable(ctx context.Context, place authority.Place) (fence.Verdict, error) {
	o, err := fence.Observe(ctx, place, func(ctx context.Context, selected fence.Selection) (authority.Identity, error) {
		store, err := e.stores.Open(ctx, ownRef(place, selected.Provider))
		if err != nil {
			return "", err
		}
		identity, err := store.Identity(ctx)
		return identity, errors.Join(err, store.Close())
	})
	if err != nil {
		return fence.Verdict{}, err
	}
	v := o.Authority()
	if v.Blocked {
		return v, &cutover.Refusal{Kind: cutover.KindRefused, Reason: v.Reason, Sentence: "no writer may write: " + v.Detail}
	}
	if v.Kind != authority.KindFile && v.Kind != authority.KindSQLite {
		return v, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "canonical_authority_required",
			Sentence: "the goal has no writer fence, so that no store takes writes"}
	}
	return v, nil
}

func ownRef(place authority.Place, kind authority.Kind) cutover.Ref {
	ref := cutover.Ref{Kind: kind, Goal: place.GoalID()}
	switch kind {
	case authority.KindFile:
		ref.Path, ref.IdentityFile = place.Journal(), place.StoreIdentity()
	case authority.KindSQLite:
		ref.Path = place.Database()
	}
	return ref
}

// commitMark commits a transaction that leaves the state as it is and carries one
// event and one receipt.
func (e *env) commitMark(ctx context.Context, ref cutover.Ref, operation, schema string) (applied authority.Applied, err error) {
	store, err := e.stores.Open(ctx, ref)
	if err != nil {
		return applied, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	head, err := store.Load(ctx)
	if err != nil {
		return applied, err
	}
	mark, err := json.Marshal([]map[string]string{{"schema_version": schema, "operation_id": operation, "goal_id": ref.Goal}})
	if err != nil {
		return applied, err
	}
	return store.Commit(ctx, authority.CommitRequest{Expected: head.Revision, OperationID: operation,
		Events: mark, Projection: head.Projection, Receipts: mark})
}

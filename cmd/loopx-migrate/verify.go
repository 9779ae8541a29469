package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
)

func (e *env) verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "audit one store in full, every row and every link", ArgsUsage: "STORE",
		Description: "STORE is a URL: file: or sqlite: for LoopX's own place, file:DIR, file:FILE.json,\nsqlite:DIR, sqlite:FILE, archive:FILE.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "anchor", Usage: "what an earlier verify printed as its anchor, `CURSOR:DIGEST`: the rows through that cursor must still be those"},
		},
		Action: e.action(e.verify),
	}
}

func (e *env) verify(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	if path, named := strings.CutPrefix(c.Args().First(), archiveScheme); named {
		return e.verifyArchive(ctx, path)
	}
	ref, err := e.named(g, c.Args().First())
	if err != nil {
		return nil, err
	}
	held, err := parseAnchor(c.String("anchor"))
	if err != nil {
		return nil, err
	}
	store, err := e.stores.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	meter := e.meter(g)
	lineage, err := store.Audit(ctx, nil, func(row authority.Row) error {
		const everyRows = 256
		held.add(row)
		if row.Cursor%everyRows == 0 {
			meter.watch(cutover.Progress{Act: "verify", Arm: string(ref.Kind), Done: uint64(row.Cursor)})
		}
		return nil
	})
	meter.done()
	if err := errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	if lineage.End.Cursor == 0 {
		return nil, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "store_missing",
			Sentence: "there is no transaction of this goal in that store: nothing was verified"}
	}
	if err := held.check(); err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, Sentence: "Every row and every link was read and holds. Nothing was changed."}
	facts := map[string]any{"kind": ref.Kind, "verified": true}
	lineageFacts(facts, lineage)
	now := anchorText(lineage.End.Cursor, lineage.Logical)
	a.fact("store", facts)
	a.fact("anchor", now)
	a.show(lineageBlock("STORE "+string(ref.Kind), filepath.Base(ref.Path), lineage), pairs("ANCHOR", "keep it elsewhere", now))
	return a, nil
}

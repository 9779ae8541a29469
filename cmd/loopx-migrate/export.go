package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/export"
)

// archiveScheme names an archive where a store's URL is asked for.
const archiveScheme = "archive:"

func (e *env) exportCommand() *cli.Command {
	return &cli.Command{
		Name:  "export",
		Usage: "write a history out, as LoopX's portable archive or to another store, without switching",
		Description: "--to DIR writes DIR/GOAL-CURSOR.archive.jsonl; --to archive:FILE names the file;\n" +
			"--to sqlite:FILE copies into another store. --from is the authority when it is not given.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "a folder, archive:FILE or a store's `URL`", Required: false},
			&cli.StringFlag{Name: "from", Usage: "the store's `URL`; the authority by itself"},
			&cli.StringFlag{Name: "through", Usage: "with --execute and a store as target: the `CURSOR` that the preview bound"},
		}, executeFlags()...),
		Action: e.action(e.export),
	}
}

func (e *env) export(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	to := c.String("to")
	if to == "" {
		return nil, usage("target_required", "export needs --to: a folder, archive:FILE or a store's URL")
	}
	from, err := e.exported(ctx, g, c.String("from"))
	if err != nil {
		return nil, err
	}
	if isStoreURL(to) {
		return e.importAlone(ctx, g, r, string(from.Kind)+":"+from.Path, to)
	}
	meter := e.meter(g)
	flow := &cutover.Flow{Stores: e.stores, Clock: e.now, Watch: meter.watch}
	path, err := archivePath(ctx, flow, from, to)
	if err != nil {
		return nil, err
	}
	if err := e.permitted(ctx, g, r); err != nil {
		return nil, err
	}
	result, err := flow.ExportArchive(ctx, r, from, path)
	meter.done()
	if result.Status == "preview" {
		result.Next = append([]string{result.Next[0], "--to", archiveScheme + path}, result.Next[1:]...)
		if url := c.String("from"); url != "" {
			result.Next = append([]string{result.Next[0], "--from", url}, result.Next[1:]...)
		}
	}
	a := resultAnswer(r, result)
	if a.Status == statusDone {
		a.Sentence = "The archive is written, durable, and was read back to its last line."
	}
	return a, err
}

func isStoreURL(to string) bool {
	scheme, _, found := strings.Cut(to, ":")
	return found && scheme != "archive" && !strings.ContainsAny(scheme, "/.")
}

// exported is the store a URL names, or the authority.
func (e *env) exported(ctx context.Context, g globals, url string) (cutover.Ref, error) {
	if url != "" {
		return e.named(g, url)
	}
	flow, _, err := e.flow(g)
	if err != nil {
		return cutover.Ref{}, err
	}
	status, err := flow.Status(ctx)
	if err != nil {
		return cutover.Ref{}, err
	}
	if status.Verdict.Blocked || status.Verdict.Kind == authority.KindLegacy {
		return cutover.Ref{}, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "no_store_is_authority", Next: []string{"status"},
			Sentence: "no store is the authority now: " + status.Verdict.Row + "; name one with --from"}
	}
	return e.named(g, string(status.Verdict.Kind)+":")
}

// archivePath is the file an archive goes to. In a folder it is named after the Goal
// and the cursor it goes through.
func archivePath(ctx context.Context, flow *cutover.Flow, from cutover.Ref, to string) (string, error) {
	path, named := strings.CutPrefix(to, archiveScheme)
	path, err := filepath.Abs(path)
	if err != nil || named {
		return path, err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", &cutover.Refusal{Kind: cutover.KindRefused, Reason: "folder_missing", Err: err,
			Sentence: "--to names no folder that is there; an archive's own name is given as archive:FILE"}
	}
	store, err := flow.Stores.Open(ctx, from)
	if err != nil {
		return "", err
	}
	head, err := store.Load(ctx)
	if err = errors.Join(err, store.Close()); err != nil {
		return "", err
	}
	return filepath.Join(path, from.Goal+"-"+head.Cursor.String()+".archive.jsonl"), nil
}

// verifyArchive proves an archive, which names its Goal itself.
func (e *env) verifyArchive(ctx context.Context, path string) (a *answer, err error) {
	archive, err := export.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	seal, err := archive.Prove(ctx)
	if err != nil {
		return nil, err
	}
	a = &answer{Status: statusDone, Sentence: "Every line was read and follows from the one before. Nothing was changed."}
	facts := map[string]any{"kind": "archive", "verified": true, "goal_id": archive.Header().Goal, "archive_sha256": seal.SHA256.String()}
	lineageFacts(facts, seal.Lineage)
	a.fact("store", facts)
	a.show(lineageBlock("ARCHIVE of goal "+archive.Header().Goal, filepath.Base(path), seal.Lineage), pairs("SEAL", "archive sha256", seal.SHA256.String()))
	return a, nil
}

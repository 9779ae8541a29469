package cutover

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/export"
)

// ExportArchive writes a store's whole history as LoopX's portable archive, beside
// whatever is the authority. It is previewed first; the plan binds the head, and a
// history that goes on meanwhile is exported as far as the plan says it went. An
// archive that stands there already and is the same one is only proved again.
func (f *Flow) ExportArchive(ctx context.Context, r Request, from Ref, path string) (_ Result, err error) {
	store, err := f.Stores.Open(ctx, from)
	if err != nil {
		return Result{}, err
	}
	defer closing(store, &err)
	lineage, err := f.audit(ctx, store, nil, nil)
	if err != nil {
		return Result{}, err
	}
	if lineage.End.Cursor == 0 {
		return Result{}, refuse(KindRefused, "source_empty", "the source holds no transaction")
	}
	p := Plan{SchemaVersion: PlanSchema, Command: r.Command, GoalID: from.Goal, OperationID: r.OperationID,
		Source:  PlanSide{Kind: from.Kind, Identity: lineage.Identity, Cursor: lineage.End.Cursor, Revision: lineage.End.Revision},
		Target:  PlanSide{Kind: "archive", Elsewhere: true, Place: placeDigest(Target{Kind: "archive", Path: path})},
		Effects: []string{"write every transaction as one line of an archive, and read all of it back", "no authority, fence or record is touched"}}
	digest, err := p.Digest()
	if err != nil {
		return Result{}, err
	}
	if !r.Execute {
		return Result{Command: r.Command, Status: "preview", OperationID: r.OperationID, Plan: &p, PlanDigest: digest,
			Next: []string{r.Command, "--operation-id", r.OperationID, "--plan-digest", digest, "--execute"}}, nil
	}
	if digest != r.PlanDigest {
		return Result{}, refuse(KindConflict, "plan_changed", "the plan is now %s, not the one that was previewed; nothing was changed", digest)
	}
	return f.writeArchive(ctx, r, store, lineage, path)
}

func (f *Flow) writeArchive(ctx context.Context, r Request, store History, lineage authority.Lineage, path string) (Result, error) {
	status := "done"
	seal, err := export.WriteArchive(ctx, path, store)
	if errors.Is(err, fs.ErrExist) {
		status = "replayed"
		seal, err = provedArchive(ctx, path)
		if err == nil && (seal.Lineage.End.Revision != lineage.End.Revision || seal.Lineage.Logical != lineage.Logical) {
			err = refuse(KindConflict, "archive_exists", "another archive stands there; nothing is ever overwritten")
		}
	}
	if err != nil {
		return Result{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Result{}, err
	}
	return Result{Command: r.Command, Status: status, OperationID: r.OperationID, Facts: map[string]string{
		"archive_sha256": seal.SHA256.String(), "cursor": seal.Lineage.End.Cursor.String(), "logical_digest": seal.Lineage.Logical.String(),
		"bytes": sizeText(info)}}, nil
}

func provedArchive(ctx context.Context, path string) (_ export.Seal, err error) {
	archive, err := export.OpenArchive(path)
	if err != nil {
		return export.Seal{}, err
	}
	defer closing(archive, &err)
	return archive.Prove(ctx)
}

func sizeText(info fs.FileInfo) string { return strconv.FormatInt(info.Size(), 10) }

package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/google/uuid"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// Source is what an archive is written from: every store of this tool is one.
type Source interface {
	authority.Auditor
	Kind() authority.Kind
	GoalID() string
	Identity(ctx context.Context) (authority.Identity, error)
	Load(ctx context.Context) (authority.Head, error)
}

// WriteArchive writes the source's history, up to the head it has when called, to a
// new file at path (mode 0600, in a folder that exists) and returns its seal. The
// bytes are those that LoopX's authority-archive export writes. Memory holds two
// states, one line and, while it is read back, the operation ids.
//
// The source is audited on the way, commits behind the head it had are left out, and
// the file appears under its name only when it was read back and proved; it is then
// durable. A file that is there already is never touched: ReasonExists, fs.ErrExist.
// Something that no archive can hold, such as a state that does not name the Goal or a
// line over 64 MiB, is refused with its cursor. Refusals of the source come as they are.
// After an error the file is not there, except after atomicfile.ErrUnsettled, when it
// is there and whole but may not survive a power loss. A killed process can leave a
// file PATH.partial-PID-UUID behind.
func WriteArchive(ctx context.Context, path string, source Source) (Seal, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return Seal{}, unwritten(source, err)
	}
	header, err := capture(ctx, source)
	if err != nil {
		return Seal{}, err
	}
	staged := fmt.Sprintf("%s.partial-%d-%s", path, os.Getpid(), uuid.NewString())
	seal, err := stage(ctx, staged, source, header)
	if err != nil {
		err = errors.Join(err, discard(staged))
		if ctx.Err() != nil {
			return Seal{}, err
		}
		return Seal{}, unwritten(source, err)
	}
	if err := atomicfile.Move(staged, path); err != nil {
		return Seal{}, unwritten(source, errors.Join(err, discard(staged)))
	}
	return seal, nil
}

// stage writes the archive beside its place and reads it back.
func stage(ctx context.Context, path string, source Source, header Header) (Seal, error) {
	t := &transcript{header: header, projection: authority.Canonical("{}")}
	err := atomicfile.ReplaceFrom(path, 0o600, func(out io.Writer) error { return t.write(ctx, out, source) })
	if errors.Is(err, atomicfile.ErrUnsettled) {
		// To the caller it would mean that the archive itself is in place.
		return Seal{}, errors.New("stage: " + err.Error())
	}
	if err != nil {
		return Seal{}, err
	}
	seal, err := prove(ctx, path)
	if err != nil {
		return Seal{}, fmt.Errorf("read back: %w", err)
	}
	if seal.SHA256 != t.digest {
		return Seal{}, fmt.Errorf("read back: the seal is %s, written was %s", seal.SHA256, t.digest)
	}
	return seal, nil
}

// capture pins the head.
func capture(ctx context.Context, source Source) (Header, error) {
	head, err := source.Load(ctx)
	if err != nil {
		return Header{}, err
	}
	identity, err := source.Identity(ctx)
	return Header{
		Goal: source.GoalID(), Kind: source.Kind(), Identity: identity,
		Cursor: head.Cursor, Revision: head.Revision, Projection: authority.DigestOf(head.Projection),
	}, err
}

// discard removes what was staged; a move that succeeded left nothing.
func discard(staged string) error {
	if _, err := os.Lstat(staged); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return faultio.Remove(staged)
}

// unwritten is the refusal for an archive that could not be written. Refusals of the
// source and of a record keep their own words.
func unwritten(source Source, err error) error {
	var refusal *authority.Error
	if errors.As(err, &refusal) {
		return err
	}
	refusal = &authority.Error{
		Verb: "export", Kind: KindArchive, Goal: source.GoalID(), Class: authority.ClassFailed,
		Reason: authority.ReasonWriteUnavailable, Detail: "the archive could not be written", Err: err,
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		refusal.Class, refusal.Reason, refusal.Detail = authority.ClassConflict, ReasonExists, "something stands at the archive's place"
	case errors.Is(err, atomicfile.ErrUnsettled):
		refusal.Class, refusal.Reason, refusal.Detail = authority.ClassAmbiguous, authority.ReasonOutcomeUnknown, "the archive stands there whole"
	}
	return refusal
}

// transcript is an archive in the making.
type transcript struct {
	header     Header
	out        io.Writer
	lines      int
	digest     authority.Digest // of the line before
	cursor     authority.Cursor
	revision   authority.Revision
	state      authority.Digest
	projection authority.Canonical
	record     record
}

func (t *transcript) write(ctx context.Context, out io.Writer, source Source) error {
	t.out = out
	t.digest = t.record.header(t.header)
	if err := t.put(); err != nil {
		return err
	}
	if _, err := source.Audit(ctx, nil, t.row); err != nil {
		return err
	}
	identity, err := source.Identity(ctx)
	if err != nil {
		return err
	}
	if identity != t.header.Identity || t.revision != t.header.Revision || t.state != t.header.Projection {
		d := violation("", "the source's history changed while it was read")
		d.Reason = authority.ReasonRewritten
		return t.refuse(d, t.header.Cursor, "")
	}
	t.digest = t.record.seal(t.header, t.digest)
	return t.put()
}

// row writes one transaction.
func (t *transcript) row(row authority.Row) error {
	if row.Cursor > t.header.Cursor {
		return nil
	}
	if row.Cursor != t.cursor+1 {
		return t.refuse(violation("cursor", fmt.Sprintf("cursor %s after %s", row.Cursor, t.cursor)), row.Cursor, row.OperationID)
	}
	if !belongsTo(row.Projection, t.header.Goal) {
		d := violation("projection.goal_id", "the state does not name this Goal, and LoopX then takes no archive")
		return t.refuse(d, row.Cursor, row.OperationID)
	}
	delta, err := canonical.Diff(t.projection, row.Projection)
	if err != nil {
		return t.refuse(ofJSON("projection", err), row.Cursor, row.OperationID)
	}
	t.digest = t.record.transaction(row, delta, t.digest)
	if len(t.record.text) > maxLine {
		d := violation("", fmt.Sprintf("the line would be longer than %d bytes", maxLine))
		d.Reason = authority.ReasonCapacity
		return t.refuse(d, row.Cursor, row.OperationID)
	}
	t.cursor, t.revision, t.state = row.Cursor, row.Revision, row.StateDigest
	t.projection = append(t.projection[:0], row.Projection...)
	return t.put()
}

func (t *transcript) put() error {
	t.lines++
	_, err := t.out.Write(t.record.text)
	return err
}

func (t *transcript) refuse(d *defect, cursor authority.Cursor, operation string) error {
	return d.at("export", t.header.Goal, t.lines+1, cursor, operation)
}

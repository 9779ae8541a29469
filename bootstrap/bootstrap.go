// Package bootstrap performs the first load of a target: the history of a source,
// row by row, into a candidate that nobody takes for an authority yet.
package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Candidate is a store under construction.
type Candidate interface {
	// Head returns the newest durable row, the zero values when there is none.
	Head(ctx context.Context) (authority.Cursor, authority.Digest, error)
	// Append takes the next row in cursor order. It may become durable only with Flush.
	Append(ctx context.Context, row authority.Row) error
	// Flush makes every appended row durable.
	Flush(ctx context.Context) error
	// Seal flushes and leaves one file that can be moved: nothing stands beside it.
	Seal(ctx context.Context) error
	Close() error
}

// DivergedError says that a candidate holds another history than the source.
type DivergedError struct {
	Cursor authority.Cursor
	Detail string
}

// Error names the cursor.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the candidate holds another history at cursor %s: %s", e.Cursor, e.Detail)
}

// Watch is told of each row as it passes; rows the candidate had already come too.
type Watch func(row authority.Row)

// Copy brings the candidate to the end of the source and seals it. Rows that the
// candidate has already are read and proved again, and not written again, so that a
// copy that died goes on where it stood. From is a bookmark of an earlier copy; it is
// used only if the candidate has at least come that far.
//
// When ctx ends, the rows taken so far are made durable and ctx's error is returned.
func Copy(ctx context.Context, source authority.Auditor, from *authority.Bookmark, to Candidate, watch Watch) (authority.Lineage, error) {
	source = seen(source)
	have, digest, err := to.Head(ctx)
	if err != nil {
		return authority.Lineage{}, err
	}
	if from != nil && from.Cursor > have {
		from = nil
	}
	if from != nil && from.Cursor == have && from.StateDigest != digest {
		return authority.Lineage{}, &DivergedError{Cursor: have, Detail: "its head is not the source's state there"}
	}
	lineage, err := source.Audit(ctx, from, func(row authority.Row) error {
		if watch != nil {
			watch(row)
		}
		switch {
		case row.Cursor < have:
			return nil
		case row.Cursor == have && row.StateDigest != digest:
			return &DivergedError{Cursor: have, Detail: "its head is not the source's state there"}
		case row.Cursor == have:
			return nil
		}
		return to.Append(ctx, row)
	})
	if err != nil {
		if ctx.Err() != nil {
			return lineage, errors.Join(ctx.Err(), to.Flush(context.WithoutCancel(ctx)))
		}
		return lineage, err
	}
	if lineage.End.Cursor < have {
		return lineage, &DivergedError{Cursor: have, Detail: "the source ends before it"}
	}
	return lineage, to.Seal(ctx)
}

// Done reports whether a candidate, audited in full, holds exactly the source's history.
func Done(source, candidate authority.Lineage) error {
	if candidate.End.Cursor != source.End.Cursor {
		return &DivergedError{Cursor: candidate.End.Cursor,
			Detail: fmt.Sprintf("it ends there, the source at %s", source.End.Cursor)}
	}
	if candidate.Logical != source.Logical {
		return &DivergedError{Cursor: candidate.End.Cursor, Detail: "the logical digests differ"}
	}
	return nil
}

package export

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// KindArchive stands in refusals for the kind of store: what is refused is the
// archive, whatever kind of store it was written from.
const KindArchive authority.Kind = "archive"

// FormatArchive is loopx_authority_archive_v0.
const FormatArchive authority.Format = "archive-v0"

// ReasonExists: the place of a new archive is taken. The error is fs.ErrExist too.
const ReasonExists authority.Reason = "archive_exists"

// LineError is a refusal of an archive, or of a history that no archive can hold. The
// *authority.Error inside names cursor, operation and field as far as known.
type LineError struct {
	Line    int // counted from 1; 0 when the file as a whole is meant
	Refusal *authority.Error
}

// Error is the refusal with the line in front.
func (e *LineError) Error() string {
	if e.Line == 0 {
		return e.Refusal.Error()
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Refusal)
}

// Unwrap returns the *authority.Error.
func (e *LineError) Unwrap() error { return e.Refusal }

// defect is a refusal under construction: the place is filled in by the walk or the
// transcript that meets it.
type defect authority.Error

// Error is that of the error under construction.
func (d *defect) Error() string { return (*authority.Error)(d).Error() }

// violation is what a line that breaks the rules of the format comes to.
func violation(field, detail string) *defect {
	return &defect{Class: authority.ClassFailed, Reason: authority.ReasonProtocolViolation, Field: field, Detail: detail}
}

func (d *defect) because(err error) *defect {
	d.Err = err
	return d
}

// ofJSON says what an error of the canonical package means for a field, empty for a whole line.
func ofJSON(field string, err error) *defect {
	var depth *canonical.DepthError
	var delta *canonical.DeltaError
	switch {
	case errors.As(err, &depth):
		d := violation(field, "JSON is nested deeper than LoopX can read back").because(err)
		d.Reason = authority.ReasonDepth
		return d
	case errors.As(err, &delta):
		return violation(field, "the delta does not lead to a state").because(err)
	}
	return violation(field, "the line is not JSON that LoopX reads").because(err)
}

// at makes the refusal of a line.
func (d *defect) at(verb, goal string, line int, cursor authority.Cursor, operation string) error {
	refusal := authority.Error(*d)
	refusal.Verb, refusal.Kind, refusal.Goal = verb, KindArchive, goal
	refusal.Cursor, refusal.OperationID = cursor, operation
	return &LineError{Line: line, Refusal: &refusal}
}

// unreadable is an archive whose file gives no answer.
func unreadable(verb, goal string, err error) error {
	refusal := &authority.Error{
		Verb: verb, Kind: KindArchive, Goal: goal, Class: authority.ClassUnavailable,
		Reason: authority.ReasonReadUnavailable, Detail: "the archive could not be read", Err: err,
	}
	if errors.Is(err, fs.ErrNotExist) {
		refusal.Class, refusal.Reason, refusal.Detail = authority.ClassMissing, authority.ReasonNone, ""
	}
	return &LineError{Refusal: refusal}
}

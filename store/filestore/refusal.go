package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// refusal is an *authority.Error under construction: the verb, which may change
// its class, is filled in where the answer leaves the package.
type refusal authority.Error

// Error is the text of the answer as far as it is made.
func (r *refusal) Error() string { return (*authority.Error)(r).Error() }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.Err }

// at names the record and the field.
func (r *refusal) at(cursor authority.Cursor, field string) *refusal {
	r.Cursor, r.Field = cursor, field
	return r
}

func (r *refusal) because(err error) *refusal {
	r.Err = err
	return r
}

func failed(reason authority.Reason, detail string) *refusal {
	return &refusal{Class: authority.ClassFailed, Reason: reason, Detail: detail}
}

// violation is what a document that breaks its own rules comes to; detail is
// LoopX's reason.
func violation(detail string) *refusal { return failed(authority.ReasonProtocolViolation, detail) }

func missing() *refusal { return &refusal{Class: authority.ClassMissing} }

func unreadable(err error) *refusal {
	return &refusal{
		Class: authority.ClassUnavailable, Reason: authority.ReasonReadUnavailable,
		Detail: "the journal could not be read", Err: err,
	}
}

func isMissing(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.Class == authority.ClassMissing
}

// ofJSON says what an error of the canonical package means for a value inside a
// document whose syntax was proved before.
func ofJSON(err error) *refusal {
	var syntax *canonical.SyntaxError
	var depth *canonical.DepthError
	switch {
	case errors.As(err, &syntax):
		return violation("file authority store JSON is invalid: " + syntax.Reason).because(err)
	case errors.As(err, &depth):
		// LoopX overflows its stack here, which it reports as unavailable.
		r := unreadable(err)
		r.Detail = "JSON is nested deeper than LoopX can read back"
		return r
	case errors.Is(err, canonical.ErrNumberRange):
		return violation("JSON numbers must be finite").because(err)
	}
	return violation("file authority store JSON is invalid: " + err.Error()).because(err)
}

// refuse makes the answer of a verb. Errors that are not ours, such as the error
// of a visit, pass.
func (s *Store) refuse(verb string, err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		r = unreadable(err)
		r.Detail = "the caller's time is over"
	}
	answer := authority.Error(*r)
	answer.Verb, answer.Kind, answer.Goal = verb, authority.KindFile, s.options.GoalID
	if answer.Err != nil {
		answer.Err = &cause{answer.Err}
	}
	var depth *canonical.DepthError
	switch {
	case verb == "audit" && errors.As(answer.Err, &depth):
		answer.Class, answer.Reason = authority.ClassFailed, authority.ReasonDepth
	case verb == "commit" && answer.Class == authority.ClassUnavailable:
		answer.Class = authority.ClassFailed // a commit never answers unavailable
	}
	return &answer
}

// cause is an error as it may be shared: what failed and why, and not where on
// this host. The error itself stays within reach of errors.Is and errors.As.
type cause struct{ err error }

// Error leaves out paths.
func (c *cause) Error() string {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(c.err, &path):
		return fmt.Sprintf("%s: %v", path.Op, path.Err)
	case errors.As(c.err, &link):
		return fmt.Sprintf("%s: %v", link.Op, link.Err)
	}
	return c.err.Error()
}

// Unwrap returns the error itself.
func (c *cause) Unwrap() error { return c.err }

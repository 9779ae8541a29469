package pgstore

import (
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
)

// LoopX's fixed sentences, as observed.
const (
	sentenceUnavailable = "PostgreSQL authority store is unavailable"
	sentenceTransaction = "PostgreSQL transaction failed before COMMIT"
	sentenceMetadata    = "PostgreSQL store metadata is not initialized"
	sentenceHeadObject  = "PostgreSQL authority head must be an object"
	sentenceScanHead    = "committed scan head lineage is invalid"
	sentenceScanCover   = "committed scan does not cover its retained snapshot interval"
	sentenceScanCursor  = "committed scan cursor lineage is invalid"
	sentenceScanAhead   = "scan cursor is ahead of the provider head"
	sentenceScanLimit   = "scan limit must be a positive safe integer"
	sentenceOperation   = "operation_id must be a non-empty trimmed string"
	sentenceReceiptID   = "operation id must be a non-empty trimmed string"
	sentenceExpected    = "expected PostgreSQL provider revision is invalid"
	sentenceUnknown     = "PostgreSQL COMMIT outcome is unknown; read the operation receipt before any retry"
)

// refusal is what the inner layers return; answerAs makes it the error of a verb.
type refusal = authority.Draft

func refuse(class authority.Class, reason authority.Reason, detail string) *refusal {
	return authority.Refuse(class, reason, detail)
}

func violation(detail string) *refusal { return authority.Violation(detail) }

func missing() *refusal { return refuse(authority.ClassMissing, authority.ReasonNone, "") }

// unreadable and unwritten are what an error of the driver comes to.
var (
	unreadable = authority.Error{Class: authority.ClassUnavailable, Reason: authority.ReasonReadUnavailable,
		Detail: sentenceUnavailable}
	unwritten = authority.Error{Class: authority.ClassFailed, Reason: authority.ReasonTransactionFailed,
		Detail: sentenceTransaction}
	readOnly = authority.Error{Class: authority.ClassFailed, Reason: authority.ReasonWriteUnavailable,
		Detail: "the store was opened for reading only"}
)

func (s *Store) answer(verb string, err error, otherwise authority.Error) error {
	return answerAs(verb, s.options.GoalID, err, otherwise)
}

// answerAs turns an error into the *authority.Error of a verb; otherwise is what an
// error that is no refusal comes to. Nil stays nil. Causes pass through redacted first:
// what a driver says may hold a password or a Todo's text.
func answerAs(verb, goal string, err error, otherwise authority.Error) error {
	if err == nil {
		return nil
	}
	answer := otherwise
	var r *refusal
	var said *authority.Error
	var connecting *connectError
	switch {
	case errors.As(err, &r):
		answer = r.Made
		if answer.Err != nil {
			answer.Err = redacted(answer.Err)
		}
	case errors.As(err, &said):
		return said
	case errors.As(err, &connecting) && otherwise.Class == authority.ClassFailed:
		answer.Reason, answer.Detail = authority.ReasonConnectionUnavailable, "PostgreSQL connection is unavailable"
		answer.Err = redacted(err)
	default:
		answer.Err = redacted(err)
	}
	answer.Verb, answer.Kind, answer.Goal = verb, authority.KindPostgreSQL, goal
	return &answer
}

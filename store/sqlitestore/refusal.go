package sqlitestore

import (
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// LoopX's fixed sentences, as observed.
const (
	sentenceUnreadable  = "SQLite authority store could not be read; check database availability and lock contention"
	sentenceTransaction = "SQLite transaction failed before COMMIT"
	metadataInvalid     = "SQLite authority metadata or goal identity is invalid"
	versionUnsupported  = "Unsupported SQLite authority schema version; explicit migration is required"
	versionOne          = "SQLite authority store needs the explicit V1 to V2 authority migration"
	notEmptyAuthority   = "SQLite database is not an empty LoopX authority database"
	notContiguous       = "SQLite authority store is not a contiguous committed lineage"
	headMissing         = "SQLite authority head is missing for retained transactions"
	headDigestInvalid   = "SQLite head state digest is invalid"
	headDigestMismatch  = "SQLite authority head digest mismatch"
	headParent          = "SQLite authority head parent lineage is invalid"
	checkpointMissing   = "SQLite authority checkpoint is missing for the live window"
	checkpointDigest    = "SQLite authority checkpoint digest mismatch"
	rowParent           = "SQLite authority state log parent lineage is invalid"
	rowState            = "SQLite authority state log digest mismatch"
	rowDigest           = "SQLite committed row digest mismatch"
	scanAhead           = "scan cursor is ahead of the provider head"
)

// refusal is what the inner layers return; answerAs makes it the error of a verb.
type refusal = authority.Draft

func refuse(class authority.Class, reason authority.Reason, detail string) *refusal {
	return authority.Refuse(class, reason, detail)
}

func violation(detail string) *refusal { return authority.Violation(detail) }

// unreadable and unwritten are what an error of the driver comes to.
var (
	unreadable = authority.Error{Class: authority.ClassUnavailable, Reason: authority.ReasonReadUnavailable,
		Detail: sentenceUnreadable}
	unwritten = authority.Error{Class: authority.ClassFailed, Reason: authority.ReasonTransactionFailed,
		Detail: sentenceTransaction}
)

// answer turns an error into the *authority.Error of a verb; otherwise is what an
// error that is no refusal comes to. Nil stays nil.
func (s *Store) answer(verb string, err error, otherwise authority.Error) error {
	return answerAs(verb, s.options.GoalID, err, otherwise)
}

func answerAs(verb, goal string, err error, otherwise authority.Error) error {
	if err == nil {
		return nil
	}
	answer := otherwise
	var r *refusal
	var said *authority.Error
	switch {
	case errors.As(err, &r):
		answer = r.Made
	case errors.As(err, &said):
		return said
	default:
		answer.Err = err
	}
	answer.Verb, answer.Kind, answer.Goal = verb, authority.KindSQLite, goal
	return &answer
}

// notJSON is the refusal of stored text that does not parse. LoopX gives its
// parser's message here; text nested too deep exhausts its stack, which it reports
// as a store that cannot be read.
func notJSON(name string, err error) *refusal {
	var depth *canonical.DepthError
	if errors.As(err, &depth) {
		return refuse(authority.ClassUnavailable, authority.ReasonReadUnavailable, sentenceUnreadable).
			Field(name).Because(err)
	}
	return violation("SQLite " + name + " is not JSON").Field(name).Because(err)
}

package authority

import (
	"errors"
	"fmt"
	"strings"
)

// Class is the kind of answer a store gives when it does not do what was asked.
type Class string

// The classes, as LoopX names them. Missing is an answer ("there is none") and
// never stands in for unavailable ("it could not be looked up").
const (
	ClassMissing     Class = "missing"
	ClassConflict    Class = "conflict"
	ClassAmbiguous   Class = "ambiguous"
	ClassFailed      Class = "failed"
	ClassUnavailable Class = "unavailable"
)

// Sentinels for errors.Is: an *Error is the sentinel of its class.
var (
	ErrMissing     = errors.New("missing")
	ErrConflict    = errors.New("conflict")
	ErrAmbiguous   = errors.New("ambiguous")
	ErrFailed      = errors.New("failed")
	ErrUnavailable = errors.New("unavailable")
)

var sentinels = map[Class]error{
	ClassMissing:     ErrMissing,
	ClassConflict:    ErrConflict,
	ClassAmbiguous:   ErrAmbiguous,
	ClassFailed:      ErrFailed,
	ClassUnavailable: ErrUnavailable,
}

// Reason is a stable code within a class.
type Reason string

// Reasons any store may give. Spelling and meaning are LoopX's.
const (
	// ReasonNone goes with ClassMissing, which needs no reason.
	ReasonNone Reason = ""
	// ReasonProtocolViolation: what the store holds breaks its own rules.
	ReasonProtocolViolation Reason = "provider_protocol_violation"
	// ReasonReadUnavailable: the store could not be read; it says nothing about what it holds.
	ReasonReadUnavailable Reason = "provider_read_unavailable"
	// ReasonWriteUnavailable: the store could not be written; nothing was.
	ReasonWriteUnavailable Reason = "provider_write_unavailable"
	// ReasonLockTimeout: another writer held the store's lock for too long.
	ReasonLockTimeout Reason = "provider_lock_timeout"
	// ReasonTransactionFailed: the database refused before COMMIT; nothing was written.
	ReasonTransactionFailed Reason = "provider_transaction_failed"
	// ReasonConnectionUnavailable: no connection to the server.
	ReasonConnectionUnavailable Reason = "provider_connection_unavailable"
	// ReasonInvalidCommit: the request breaks the rules of a commit.
	ReasonInvalidCommit Reason = "invalid_commit_request"
	// ReasonCapacity: the request is larger than the store accepts.
	ReasonCapacity Reason = "store_capacity_exhausted"
	// ReasonAuthorityMissing: a store that must exist already does not.
	ReasonAuthorityMissing Reason = "existing_authority_missing"
	// ReasonOutcomeUnknown: the commit may or may not have happened; read the receipt.
	ReasonOutcomeUnknown Reason = "commit_outcome_unknown"
	// ReasonInvalidScan: the cursor or limit of a scan is not one.
	ReasonInvalidScan Reason = "invalid_scan_request"
	// ReasonScanRange: the scan starts beyond the head.
	ReasonScanRange Reason = "scan_cursor_out_of_range"
	// ReasonInvalidOperationID: the operation id is not a trimmed non-empty string.
	ReasonInvalidOperationID Reason = "invalid_operation_id"
	// ReasonIdentityInvalid: the store's identity is malformed.
	ReasonIdentityInvalid Reason = "store_identity_invalid"
	// ReasonIdentityUnavailable: the store's identity could not be read.
	ReasonIdentityUnavailable Reason = "store_identity_unavailable"
	// ReasonIdentityLockTimeout: another process held the identity's lock for too long.
	ReasonIdentityLockTimeout Reason = "store_identity_lock_timeout"
	// ReasonRevisionMismatch: the head moved since the caller looked.
	ReasonRevisionMismatch Reason = "provider_revision_mismatch"
	// ReasonOperationExists: the operation id is committed already.
	ReasonOperationExists Reason = "operation_id_exists"
)

// Reasons that only this tool gives, where LoopX looks away or has no word.
const (
	// ReasonDefect: a full audit found what LoopX's own reads pass over.
	ReasonDefect Reason = "history_defect"
	// ReasonDepth: JSON nested deeper than LoopX can read back.
	ReasonDepth Reason = "nesting_too_deep"
	// ReasonRewritten: what was remembered of a history no longer stands there.
	ReasonRewritten Reason = "history_rewritten"
	// ReasonFormatUnsupported: a physical format that must be upgraded by LoopX first, or is unknown.
	ReasonFormatUnsupported Reason = "format_unsupported"
	// ReasonFileSystem: the file system lacks what durability needs.
	ReasonFileSystem Reason = "file_system_unsuitable"
	// ReasonForeignStore: the place is taken by something that is not this Goal's store.
	ReasonForeignStore Reason = "foreign_store"
)

// Error is every refusal of a store. Which record it speaks of is in Cursor,
// OperationID and Field as far as known; none of them holds Todo text, and
// Detail names no path.
type Error struct {
	Verb        string // load, receipt, scan, commit, identity, audit, bulk_load
	Kind        Kind
	Goal        string
	Class       Class
	Reason      Reason
	Detail      string // one clause for a person
	Cursor      Cursor // the record at fault, 0 when it is none in particular
	OperationID string
	Field       string   // JSON path or column at fault
	Current     Applied  // with ClassConflict: the head the store has
	Findings    Findings // with ReasonDefect: every defect found, worst first
	Err         error    // the cause, when another error is one
}

// Error says act, object, place and cause in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s store of goal %q: %s", e.Verb, e.Kind, e.Goal, e.Class)
	if e.Reason != ReasonNone {
		fmt.Fprintf(&b, "/%s", e.Reason)
	}
	if e.Cursor != 0 {
		fmt.Fprintf(&b, " at cursor %s", e.Cursor)
	}
	if e.OperationID != "" {
		fmt.Fprintf(&b, " operation %q", e.OperationID)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, " field %s", e.Field)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of this error's class.
func (e *Error) Is(target error) bool { return sentinels[e.Class] == target }

// ReasonOf returns class and reason of a store's refusal, or two empty strings
// for any other error.
func ReasonOf(err error) (Class, Reason) {
	var e *Error
	if errors.As(err, &e) {
		return e.Class, e.Reason
	}
	return "", ReasonNone
}

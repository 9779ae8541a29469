package authority

import "errors"

// Draft is an *Error in the making, which the inner layers of a store return: the verb, the
// kind and the Goal are added where it leaves the store.
type Draft struct{ Made Error }

// Refuse begins one.
func Refuse(class Class, reason Reason, detail string) *Draft {
	return &Draft{Error{Class: class, Reason: reason, Detail: detail}}
}

// Violation is what a store that breaks its own rules is refused with.
func Violation(detail string) *Draft { return Refuse(ClassFailed, ReasonProtocolViolation, detail) }

// Error is that of the error in the making.
func (d *Draft) Error() string { return d.Made.Error() }

// Unwrap returns the cause.
func (d *Draft) Unwrap() error { return d.Made.Err }

// Field names the JSON path or column at fault.
func (d *Draft) Field(name string) *Draft { d.Made.Field = name; return d }

// At names the cursor of the record at fault.
func (d *Draft) At(cursor uint64) *Draft { d.Made.Cursor = Cursor(cursor); return d }

// Operation names the operation of the record at fault.
func (d *Draft) Operation(id string) *Draft { d.Made.OperationID = id; return d }

// Because keeps the cause.
func (d *Draft) Because(err error) *Draft { d.Made.Err = err; return d }

// DraftReason returns class and reason of an error in the making, empty for other errors.
func DraftReason(err error) (Class, Reason) {
	var d *Draft
	if errors.As(err, &d) {
		return d.Made.Class, d.Made.Reason
	}
	return "", ReasonNone
}

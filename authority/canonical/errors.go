package canonical

import (
	"errors"
	"fmt"
)

// MaxDepth is the deepest nesting of arrays and objects accepted. LoopX itself
// fails to read its own documents back somewhere beyond 1,600 levels.
const MaxDepth = 1500

// ErrNumberRange is a number that overflows an IEEE double, such as 1e400.
// JSON.parse takes it as infinity and LoopX then refuses the value. It comes
// wrapped with the place of the first such number.
var ErrNumberRange = errors.New("JSON numbers must be finite")

// ErrNotCanonical is legal JSON spelled otherwise than LoopX spells it. It
// comes wrapped with the byte offset up to which the spelling was right.
var ErrNotCanonical = errors.New("JSON is not in canonical form")

// SyntaxError is text that JSON.parse refuses.
type SyntaxError struct {
	Offset int    // in bytes, from 0
	Reason string // a clause for a person
}

// Error says what is wrong and where.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("JSON is invalid at byte %d: %s", e.Offset, e.Reason)
}

// DepthError is nesting beyond MaxDepth.
type DepthError struct {
	Offset int // of the bracket that opens the level too many, in bytes from 0
}

// Error names the limit and the place.
func (e *DepthError) Error() string {
	return fmt.Sprintf("JSON is nested deeper than %d levels at byte %d", MaxDepth, e.Offset)
}

// DeltaError is a delta that breaks the rules of authority_state_delta_v0, or
// that does not fit the state it is replayed on.
type DeltaError struct {
	Operation int    // index in the list of operations, -1 for the delta as a whole
	Reason    string // LoopX's wording where it was observed
}

// Error is the reason, which names the operation where LoopX does.
func (e *DeltaError) Error() string { return e.Reason }

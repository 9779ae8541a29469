package legacy

// Weight says what a finding means for a migration.
type Weight uint8

// The weights, lightest first.
const (
	// Note: worth knowing; nothing is lost.
	Note Weight = iota
	// Acceptable: holds a migration until the operator accepts it by name.
	Acceptable
	// Blocking: holds a migration until it is gone.
	Blocking
)

// String names the weight.
func (w Weight) String() string { return [...]string{"note", "acceptable", "blocking"}[w] }

// Finding is one remark about the legacy files of a Goal. Code, TodoID, File, Line,
// Key and Detail may be shared; Value is text of the file and stays on its host.
type Finding struct {
	Code   string
	Weight Weight
	TodoID string // "" when it is about none in particular or about one without an id
	File   string // name of a lease file; "" is the state file
	Line   int    // of the state file, counted from 1; 0 for none
	Offset int    // byte of the state file, with codes that speak of one
	Key    string // metadata key or field
	Value  string
	Detail string // one clause for a person
}

// Codes of findings in the state file.
const (
	CodeStateMissing       = "state_file_missing"
	CodeStateEmpty         = "state_file_empty"          // what a killed writer of 0.5.1 leaves
	CodeStateUnreadable    = "state_file_unreadable"     // a *SyntaxError; Key is its reason
	CodeWriterDied         = "state_writer_died"         // lock holder without released_at, process gone
	CodeSectionMissing     = "agent_section_missing"     // a truncated file looks like a Goal without work
	CodeSectionRepeated    = "section_repeated"          // editors and projection know only one of a role
	CodeByteOrderMark      = "byte_order_mark"           // hides the first line from LoopX
	CodeModeInvalid        = "invalid_handoff_mode"      // LoopX refuses the value
	CodeModeDiffers        = "handoff_mode_ambiguous"    // the two readings get different modes
	CodeCarriageReturns    = "crlf_line_ends"            // 0.5.1 rewrites the file to LF
	CodeTodoIDTwice        = "todo_id_twice"             //
	CodeTodoIDMissing      = "todo_id_missing"           // an active Todo has only a derived id
	CodeArchivedIdentity   = "archived_without_identity" // stays outside the head
	CodeArchivedRole       = "archived_without_role"     // stays outside the head
	CodeArchivedDecision   = "archived_decision_without_role"
	CodeRoleContradicts    = "role_contradicts_section"
	CodeTextEmpty          = "todo_text_empty"
	CodeTextOver500        = "text_over_500"
	CodeTextCut            = "text_cut_at_line_break" // Offset is that of the break
	CodeTextBroken         = "line_break_in_text"
	CodeLookAlike          = "look_alike"             // a check box in a fence, comment, front matter or outside sections
	CodeHiddenTodo         = "todo_hidden"            // 0.5.1 works on it, later releases cannot see it
	CodeOpenFence          = "fence_never_closed"     // hides Todos to the end of the file
	CodeReadingsDiffer     = "readings_differ"        // one Todo, two values; Key is the field
	CodeKeyUnknown         = "metadata_key_unknown"   //
	CodeKeyRepeated        = "metadata_key_repeated"  // the later one counts
	CodeValueInvalid       = "metadata_value_invalid" // LoopX ignores it
	CodeValueAltered       = "metadata_value_altered" // LoopX normalises it
	CodeValueDropped       = "metadata_value_dropped" // items of a list that LoopX leaves out
	CodeMetadataIsText     = "metadata_comment_is_text"
	CodeMetadataUnindented = "metadata_unindented"
	CodeLabelUnusual       = "priority_label_not_ascii" // capitals of other scripts differ between languages
	CodeClassUnstated      = "task_class_unstated"      // LoopX guesses it from the text; an import does not
	CodeEventLog           = "event_log_overrides"
)

// Codes of findings in the lease folder.
const (
	CodeLeaseActive        = "lease_active"
	CodeLeaseExpired       = "lease_expired_still_active"
	CodeLeaseExpiry        = "lease_expiry_unreadable"
	CodeLeaseMalformed     = "lease_malformed"
	CodeLeaseNumber        = "lease_number_unsafe"
	CodeLeaseSchema        = "lease_schema_unknown"
	CodeLeaseStatus        = "lease_status_unknown"
	CodeLeaseName          = "lease_name_foreign"
	CodeLeaseNotRegular    = "lease_not_regular"
	CodeLeaseTodoDiffers   = "lease_todo_differs"
	CodeLeaseGoalDiffers   = "lease_goal_differs"
	CodeLeaseOutside       = "lease_stays_outside" // its Todo is archived or gone; the file stays
	CodeLeaseOverlap       = "lease_scopes_overlap"
	CodeLeaseResidue       = "lease_residue" // what a crashed writer left; ignored by LoopX
	CodeLeaseStranger      = "lease_stranger"
	CodeLeaseFenceHeld     = "lifecycle_fence_held"
	CodeLeaseFenceReadable = "lifecycle_fence_unreadable"
)

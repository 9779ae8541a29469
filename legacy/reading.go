package legacy

// Reading is one of the two grammars that LoopX has had for a state file.
type Reading uint8

// The readings. Later is the one to follow; Release051 is read beside it because
// its writers may have worked on the file.
const (
	// Later: LoopX of September 2026 to 2.1.1. Front matter, code fences and
	// comments of several lines are invisible; marked regions are strict.
	Later Reading = iota
	// Release051: LoopX 0.5.1, which sees a Todo in every line that looks like one.
	Release051
)

// String names the reading as findings do.
func (r Reading) String() string {
	if r == Release051 {
		return "loopx-0.5.1"
	}
	return "loopx-later"
}

// Role says whose Todo it is.
type Role string

// The roles. RoleUnknown is that of an archived Todo whose line does not say.
const (
	RoleUser    Role = "user"
	RoleAgent   Role = "agent"
	RoleArchive Role = "archive" // of a section, never of a Todo
	RoleUnknown Role = ""
)

// The canonical headings, without "## ".
const (
	HeadingUser    = "User Todo / Owner Review Reading Queue"
	HeadingAgent   = "Agent Todo"
	HeadingArchive = "Completed Work Archive"
)

func headingOf(role Role) string {
	switch role {
	case RoleUser:
		return HeadingUser
	case RoleAgent:
		return HeadingAgent
	}
	return HeadingArchive
}

// SyntaxError refuses a state file whose Todos cannot be told: nothing of it is used.
type SyntaxError struct {
	// Reason is not_utf8, front_matter_unterminated, region_unterminated,
	// region_mismatched, region_orphan or region_foreign_content.
	Reason string
	Line   int // counted from 1, as Python counts lines; 0 for the whole file
}

var syntaxTexts = map[string]string{
	"not_utf8":                  "the state file is not UTF-8",
	"front_matter_unterminated": "the front matter is unterminated",
	"region_unterminated":       "a marked Todo region is unterminated",
	"region_mismatched":         "a marker inside a Todo region is nested or mismatched",
	"region_orphan":             "a Todo region marker stands where no region can begin",
	"region_foreign_content":    "a marked Todo region holds non-generated content",
}

// Error says what and where.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return syntaxTexts[e.Reason] + " (" + e.Reason + ")"
	}
	return "line " + decimal(e.Line) + ": " + syntaxTexts[e.Reason] + " (" + e.Reason + ")"
}

package legacy

import "strings"

// The machine text of LoopX's projection (docs/formats.md names the release).
const (
	regionPrefix    = "<!-- loopx:todo-region-v0 "
	watermarkPrefix = "<!-- loopx:todo-section-projection-v0 "
)

func regionMarker(role Role, edge string) string {
	return regionPrefix + "role=" + string(role) + " " + edge + " -->"
}

// section is a run of lines that may hold Todos. Lines count from 0; end and bodyEnd
// are exclusive, and bodyEnd leaves out the end marker.
type section struct {
	role         Role
	heading      string
	start        int
	bodyEnd, end int
	marked       bool
}

// sections finds the Todo sections of a reading, in file order.
func (d *Document) sections(reading Reading) ([]section, error) {
	if reading == Later {
		regions, err := d.regions()
		if err != nil {
			return nil, err
		}
		for _, r := range regions {
			if r.marked {
				return regions, nil
			}
		}
	}
	var found []section
	for i := range d.lines {
		text := d.text(i)
		if !d.visible(reading, i) || !hasPrefix(text, "## ") {
			continue
		}
		if n := len(found); n > 0 && found[n-1].end == 0 {
			found[n-1].end, found[n-1].bodyEnd = i, i
		}
		heading := strip(text[3:])
		if role := roleOfHeading(heading); role != RoleUnknown {
			found = append(found, section{role: role, heading: heading, start: i})
		}
	}
	if n := len(found); n > 0 && found[n-1].end == 0 {
		found[n-1].end, found[n-1].bodyEnd = len(d.lines), len(d.lines)
	}
	return found, nil
}

var headingMarks = []struct {
	role  Role
	marks []string
}{
	{RoleArchive, []string{"todo archive", "work archive", "completed archive", "completed work", "完成归档", "待办归档"}},
	{RoleUser, []string{"user todo", "owner review reading queue", "owner reading queue"}},
	{RoleAgent, []string{"agent todo", "codex todo", "project agent todo"}},
}

// roleOfHeading looks for LoopX's marks in a heading; an archive is looked for first.
func roleOfHeading(heading string) Role {
	heading = lower(heading)
	for _, m := range headingMarks {
		for _, mark := range m.marks {
			if strings.Contains(heading, mark) {
				return m.role
			}
		}
	}
	return RoleUnknown
}

// exactHeadings are those that a generated region may have, in lower case.
var exactHeadings = map[string]Role{
	"user todo": RoleUser, "user todo / owner review reading queue": RoleUser,
	"owner review reading queue": RoleUser, "owner reading queue": RoleUser,
	"agent todo": RoleAgent, "codex todo": RoleAgent, "project agent todo": RoleAgent,
	"completed work archive": RoleArchive,
}

// regions finds what LoopX's projection may replace: sections with an exact heading,
// up to their end marker or, without markers, up to the first line that is none of
// its own. A marker anywhere else is an error: somebody edited a generated region.
func (d *Document) regions() ([]section, error) {
	var found []section
	for i := 0; i < len(d.lines); i++ {
		text := d.text(i)
		if !d.visible(Later, i) {
			continue
		}
		if strings.Contains(text, regionPrefix) {
			return nil, &SyntaxError{Reason: "region_orphan", Line: i + 1}
		}
		if !hasPrefix(text, "## ") {
			continue
		}
		heading := strip(text[3:])
		role, known := exactHeadings[lower(heading)]
		if !known {
			continue
		}
		r, err := d.region(i, role)
		if err != nil {
			return nil, err
		}
		r.heading = heading
		found = append(found, r)
		i = r.end - 1
	}
	return found, nil
}

// region measures the region whose heading is line start.
func (d *Document) region(start int, role Role) (section, error) {
	r := section{role: role, start: start}
	i := start + 1
	if i < len(d.lines) && d.text(i) == regionMarker(role, "begin") {
		r.marked = true
		i++
	}
	folding := false // a Todo may still go on, as LoopX 0.5.1 folded them
	for ; i < len(d.lines); i++ {
		text := d.text(i)
		if r.marked && text == regionMarker(role, "end") {
			r.bodyEnd, r.end = i, i+1
			return r, nil
		}
		if strings.Contains(text, regionPrefix) {
			return r, &SyntaxError{Reason: "region_mismatched", Line: i + 1}
		}
		if !d.generated(i, !r.marked && folding) {
			break
		}
		switch {
		case strip(text) == "":
			folding = false
		case isTask(text):
			folding = true
		}
	}
	if r.marked && i == len(d.lines) {
		return r, &SyntaxError{Reason: "region_unterminated", Line: start + 1}
	}
	if r.marked {
		return r, &SyntaxError{Reason: "region_foreign_content", Line: i + 1}
	}
	r.bodyEnd, r.end = i, i
	return r, nil
}

// generated reports whether line i can be LoopX's own inside a region. folded: an
// indented line there continues a Todo.
func (d *Document) generated(i int, folded bool) bool {
	if !d.visible(Later, i) {
		return false
	}
	text := d.text(i)
	if strip(text) == "" || isTask(text) || hasPrefix(text, watermarkPrefix) {
		return true
	}
	return usableMetadata(Later, text) || folded && indented(text)
}

func indented(text string) bool { return hasPrefix(text, " ") || hasPrefix(text, "\t") }

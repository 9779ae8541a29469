package legacy

import (
	"slices"
)

// prove reads the new files: the Todos are the head's, every other row and all prose
// are what they were, and nothing blocks that did not block before.
func (e *editor) prove(r Returned) error {
	after := e.kept
	after.State, after.Leases = r.State, overlay(e.kept.Leases, r.Leases)
	g := Inspect(after, e.now)
	if g.Listing == nil {
		return &RenderError{Reason: "parity_mismatch", Field: "state"}
	}
	if err := sameTodos(g.Listing, e.head["todos"]); err != nil {
		return err
	}
	before := Inspect(e.kept, e.now).Holds()
	for _, f := range g.Holds() {
		known := slices.ContainsFunc(before, func(b Finding) bool { return b.Code == f.Code && b.TodoID == f.TodoID })
		if f.Weight == Blocking && !leaseLiveness(f.Code) && !known {
			return &RenderError{Reason: "parity_mismatch", TodoID: f.TodoID, Field: f.Code}
		}
	}
	if !sameProse(e.doc, g.Document) {
		return &RenderError{Reason: "prose_changed"}
	}
	return nil
}

// overlay is a folder after some of its files were written.
func overlay(kept, changed []LeaseEntry) []LeaseEntry {
	out := slices.DeleteFunc(slices.Clone(kept), func(k LeaseEntry) bool {
		return slices.ContainsFunc(changed, func(c LeaseEntry) bool { return c.Name == k.Name })
	})
	return append(out, changed...)
}

// sameProse reports whether every line of a file that is no Todo of a head and no
// watermark stands in another file too, in order, with nothing between but Todos, blank
// lines and canonical headings.
func sameProse(before, after *Document) bool {
	old, now := before.prose(), after.prose()
	i := 0
	for _, l := range now {
		switch {
		case i < len(old) && l.text == old[i].text && (l.end == old[i].end || old[i].end == ""):
			i++
		case strip(l.text) == "", l.text == "## "+HeadingUser, l.text == "## "+HeadingAgent, l.text == "## "+HeadingArchive:
		default:
			return false
		}
	}
	return i == len(old)
}

// proseLine is a line with its terminator.
type proseLine struct{ text, end string }

// prose are the lines that are neither of a Todo that can be in a head nor a watermark.
func (d *Document) prose() []proseLine {
	machine := map[int]bool{}
	if listing, err := d.Read(Later); err == nil {
		for i := range listing.Rows {
			row := &listing.Rows[i]
			for _, p := range row.parts {
				machine[p.line] = row.enters()
			}
		}
	}
	var lines []proseLine
	for i, l := range d.lines {
		if !machine[i] && !(d.visible(Later, i) && hasPrefix(d.text(i), watermarkPrefix)) {
			lines = append(lines, proseLine{d.text(i), string(d.src[l.end:l.next])})
		}
	}
	return lines
}

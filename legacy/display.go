package legacy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Shown is a state file with the Todo sections of a promoted Goal.
type Shown struct {
	State []byte
	// Changed: State differs from what was given.
	Changed bool
	// Narrative is the SHA-256 of everything outside the sections, the same before and after.
	Narrative authority.Digest
	Todos     int
	Sections  map[Role]string // records_sha256 of each, as its watermark says
	// Vanished are the Todos of the sections before that the head does not have, which
	// LoopX's projection drops from the file; archived ones of old mostly.
	Vanished []Row
}

var revisionPattern = pattern(`^[A-Za-z0-9_.:-]+$`)

// Display renders the Todo sections of a head into a state file as LoopX's projection
// does after promotion, byte for byte: canonical heading, markers, watermark with the
// provider revision and the digest of the section's records, one Todo and one metadata
// line a record. Everything outside the sections keeps its bytes. The result is parsed
// back and compared. Errors: *SyntaxError for the file, *RenderError for the head.
//
// What was derived for LoopX is shown, never read for a decision. known are the private
// declarations of this host, beside those in the file.
func Display(state []byte, head authority.Canonical, revision authority.Revision, known []Validation) (Shown, error) {
	if !revisionPattern.MatchString(string(revision)) {
		return Shown{}, &RenderError{Reason: "revision_invalid"}
	}
	d := Parse(state)
	if err := d.readable(Later); err != nil {
		return Shown{}, err
	}
	regions, err := d.regions()
	if err != nil {
		return Shown{}, err
	}
	if err := oncePerRole(regions); err != nil {
		return Shown{}, err
	}
	before := d.rowsIn(regions)
	r := renderer{revision: string(revision), newline: d.newline(), known: append(validations(before), known...), digests: map[Role]string{}}
	sections, err := r.sections(head, hasRole(regions, RoleArchive))
	if err != nil {
		return Shown{}, err
	}
	out := replace(d.src, d.spansOf(regions), sections)
	shown := Shown{State: out, Changed: !bytes.Equal(out, state), Narrative: d.narrative(regions), Todos: len(elements(members(head)["todos"])),
		Sections: r.digests, Vanished: vanished(before, head)}
	if err := provenDisplay(shown, head, sections); err != nil {
		return Shown{}, err
	}
	return shown, nil
}

func oncePerRole(regions []section) error {
	seen := map[Role]bool{}
	for _, r := range regions {
		if seen[r.role] {
			return &RenderError{Reason: "section_repeated", Field: string(r.role)}
		}
		seen[r.role] = true
	}
	if len(regions) == 0 {
		return &RenderError{Reason: "section_missing"}
	}
	return nil
}

func hasRole(regions []section, role Role) bool {
	return slices.ContainsFunc(regions, func(r section) bool { return r.role == role })
}

// rowsIn reads the Todos of regions, without their place.
func (d *Document) rowsIn(regions []section) []Row {
	l := &Listing{Reading: Later, sections: regions}
	for i := range regions {
		d.rows(l, i)
	}
	for i := range l.Rows {
		l.Rows[i].TodoID = text(l.Rows[i].Fields["todo_id"])
	}
	return l.Rows
}

// validations are the private declarations of rows.
func validations(rows []Row) []Validation {
	var known []Validation
	for i := range rows {
		if v := rows[i].Validation(); v != (Validation{}) {
			known = append(known, v)
		}
	}
	return known
}

func vanished(rows []Row, head []byte) []Row {
	kept := map[string]bool{}
	for _, record := range elements(members(head)["todos"]) {
		kept[text(members(record)["todo_id"])] = true
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return kept[r.TodoID] })
}

// extent is a stretch of bytes that a section takes.
type extent struct {
	role       Role
	start, end int
}

func (d *Document) spansOf(regions []section) []extent {
	var spans []extent
	for _, r := range regions {
		end := len(d.src)
		if r.end < len(d.lines) {
			end = d.lines[r.end].start
		}
		spans = append(spans, extent{r.role, d.lines[r.start].start, end})
	}
	return spans
}

// narrative is the digest of what stands outside sections.
func (d *Document) narrative(regions []section) authority.Digest {
	var prose []byte
	at := 0
	for _, s := range d.spansOf(regions) {
		prose = append(prose, d.src[at:s.start]...)
		at = s.end
	}
	return authority.DigestOf(append(prose, d.src[at:]...))
}

// replace puts sections into the places of the old ones. A section that had none goes
// to its neighbour: user before the first, agent behind user, archive behind the last.
func replace(src []byte, spans []extent, sections map[Role][]byte) []byte {
	texts, placed := make([][]byte, len(spans)), map[Role]int{}
	for i, s := range spans {
		texts[i], placed[s.role] = sections[s.role], i
	}
	var prefix []byte
	user, hasUser := placed[RoleUser]
	if !hasUser {
		prefix = slices.Clone(sections[RoleUser])
	}
	if _, has := placed[RoleAgent]; !has && hasUser {
		texts[user] = slices.Concat(texts[user], sections[RoleAgent])
	} else if !has {
		prefix = append(prefix, sections[RoleAgent]...)
	}
	if _, has := placed[RoleArchive]; !has {
		last := len(spans) - 1
		texts[last] = slices.Concat(texts[last], sections[RoleArchive])
	}
	texts[0] = slices.Concat(prefix, texts[0])
	var out []byte
	at := 0
	for i, s := range spans {
		out = append(append(out, src[at:s.start]...), texts[i]...)
		at = s.end
	}
	return append(out, src[at:]...)
}

// renderer makes the text of sections.
type renderer struct {
	revision, newline string
	known             []Validation
	digests           map[Role]string
}

func (r *renderer) sections(head []byte, archive bool) (map[Role][]byte, error) {
	byRole := map[Role][][]byte{}
	for _, record := range elements(members(head)["todos"]) {
		m := members(record)
		role := Role(text(m["role"]))
		if role != RoleUser && role != RoleAgent {
			return nil, &RenderError{Reason: "role_unknown", TodoID: text(m["todo_id"]), Field: "role"}
		}
		if text(m["archive_state"]) == "archive" {
			role = RoleArchive
		}
		byRole[role] = append(byRole[role], record)
	}
	sections := map[Role][]byte{}
	for _, role := range []Role{RoleUser, RoleAgent, RoleArchive} {
		if role == RoleArchive && !archive && len(byRole[role]) == 0 {
			continue
		}
		rendered, err := r.section(role, inDisplayOrder(byRole[role]))
		if err != nil {
			return nil, err
		}
		sections[role] = rendered
	}
	return sections, nil
}

func (r *renderer) section(role Role, records [][]byte) ([]byte, error) {
	sum := sha256.Sum256(array(withoutNulls(records)))
	digest := hex.EncodeToString(sum[:])
	r.digests[role] = digest
	out := []string{"## " + headingOf(role), regionMarker(role, "begin"),
		watermarkPrefix + "role=" + string(role) + " provider_revision=" + r.revision + " records_sha256=" + digest + " -->", ""}
	for _, record := range records {
		private, err := declaration(members(record), r.known)
		if err != nil {
			return nil, err
		}
		rendered, err := lines(record, private.spelled(), nil)
		if err != nil {
			return nil, err
		}
		out = append(out, rendered...)
	}
	out = append(out, regionMarker(role, "end"), "")
	return []byte(strings.Join(out, r.newline)), nil
}

// withoutNulls drops the fields that are null, as LoopX does before it hashes.
func withoutNulls(records [][]byte) [][]byte {
	var kept [][]byte
	for _, record := range records {
		m := members(record)
		for key, value := range m {
			if string(value) == "null" {
				delete(m, key)
			}
		}
		kept = append(kept, object(m))
	}
	return kept
}

// inDisplayOrder sorts records by index, those without one last, and then by id.
func inDisplayOrder(records [][]byte) [][]byte {
	type ordered struct {
		index  int
		id     string
		record []byte
	}
	all := make([]ordered, len(records))
	for i, record := range records {
		m := members(record)
		all[i] = ordered{math.MaxInt32, text(m["todo_id"]), record}
		if n, err := strconv.Atoi(string(m["index"])); err == nil {
			all[i].index = n
		}
	}
	slices.SortFunc(all, func(a, b ordered) int {
		return cmp.Or(cmp.Compare(a.index, b.index), canonical.CompareKeys(a.id, b.id))
	})
	sorted := make([][]byte, len(all))
	for i := range all {
		sorted[i] = all[i].record
	}
	return sorted
}

// provenDisplay reads the result again: the Todos are those of the head, the prose is
// what it was, and rendering once more changes nothing.
func provenDisplay(shown Shown, head []byte, sections map[Role][]byte) error {
	d := Parse(shown.State)
	regions, err := d.regions()
	if err != nil {
		return err
	}
	if d.narrative(regions) != shown.Narrative || !bytes.Equal(replace(d.src, d.spansOf(regions), sections), shown.State) {
		return &RenderError{Reason: "prose_changed"}
	}
	listing, err := d.Read(Later)
	if err != nil {
		return err
	}
	return sameTodos(listing, members(head)["todos"])
}

// sameTodos compares rows that were read with the records of a head, as Markdown can
// show them, each way.
func sameTodos(listing *Listing, todos []byte) error {
	read := map[string][]byte{}
	for i := range listing.Rows {
		if row := &listing.Rows[i]; row.enters() {
			read[row.TodoID] = carried(row.Record())
		}
	}
	for _, record := range elements(todos) {
		id := text(members(record)["todo_id"])
		if field := differingField(read[id], carried(record)); field != "" {
			return &RenderError{Reason: "parity_mismatch", TodoID: id, Field: field}
		}
		delete(read, id)
	}
	for id := range read {
		return &RenderError{Reason: "parity_mismatch", TodoID: id}
	}
	return nil
}

// differingField is a field in which two canonical objects differ, "" for none.
func differingField(a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	x, y := members(a), members(b)
	for key := range y {
		if !bytes.Equal(x[key], y[key]) {
			return key
		}
	}
	for key := range x {
		if y[key] == nil {
			return key
		}
	}
	return "todo_id"
}

// Watermark is what a displayed section says of itself.
type Watermark struct {
	Role     Role
	Revision authority.Revision
	Records  string // SHA-256 of its records in canonical form
}

var watermarkPattern = pattern(`^<!-- loopx:todo-section-projection-v0 role=(user|agent|archive) provider_revision=([A-Za-z0-9_.:-]+) records_sha256=([a-f0-9]{64}) -->$`)

// Watermarks reads what the displayed sections of a state file say of themselves. Whether
// a display is missing, stale or edited is then a comparison with what Display makes.
// The error is a *SyntaxError.
func Watermarks(state []byte) ([]Watermark, error) {
	d := Parse(state)
	if err := d.readable(Later); err != nil {
		return nil, err
	}
	regions, err := d.regions()
	if err != nil {
		return nil, err
	}
	var marks []Watermark
	for _, r := range regions {
		for i := r.start; i < r.bodyEnd; i++ {
			if m := watermarkPattern.FindStringSubmatch(d.text(i)); m != nil && Role(m[1]) == r.role {
				marks = append(marks, Watermark{Role: r.role, Revision: authority.Revision(m[2]), Records: m[3]})
			}
		}
	}
	return marks, nil
}

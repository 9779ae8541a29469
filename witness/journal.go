package witness

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
)

// The file journal: one JSON document of seven members (docs/formats.md).
const (
	journalV0 = "loopx_file_authority_store_v0"
	journalV1 = "loopx_file_authority_store_v1"
	// checkpointEvery is the distance of checkpoints: rows 1, 65, 129 ...
	checkpointEvery = 64
)

// journal is a document in memory.
type journal struct {
	document string
	identity string // of the file beside it
}

// FileJournal is a file store's document and the identity file beside it. It must not
// change while it is read.
func FileJournal(name, document, identityFile string) (*History, error) {
	content, err := os.ReadFile(document)
	if err != nil {
		return nil, err
	}
	identity, err := os.ReadFile(identityFile)
	if err != nil {
		return nil, err
	}
	return journal{string(content), string(identity)}.history(name), nil
}

func (j journal) history(name string) *History {
	return &History{Name: name, Kind: authority.KindFile, read: j.read, plant: plantJournal}
}

func (j journal) read(ctx context.Context, h *header, visit func(*row) error) error {
	v1, err := j.top(h)
	if err != nil {
		return err
	}
	p := &parser{in: j.document, known: map[string]*value{}, met: map[string]*value{}}
	w := journalWalk{header: h, v1: v1}
	return p.committed(func(entry *value) error {
		p.known, p.met = p.met, map[string]*value{}
		t, err := w.next(entry)
		if err != nil {
			return err
		}
		if err := visit(t); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// top reads the document without keeping its rows.
func (j journal) top(h *header) (v1 bool, err error) {
	members := map[string]*value{}
	p := &parser{in: j.document}
	if err := p.topMembers(members, nil); err != nil {
		return false, &Defect{Check: "format", Detail: err.Error()}
	}
	doc := newObject(members)
	schema := doc.string("schema_version")
	if !doc.only("schema_version", "goal_id", "store_identity", "provider_revision", "cursor", "head", "committed") || schema != journalV0 && schema != journalV1 {
		return false, &Defect{Check: "format", Field: "schema_version", Detail: "it is no journal of format v0 or v1"}
	}
	h.format, h.bytes = authority.Format("file-v0"), int64(len(j.document))
	if schema == journalV1 {
		h.format = "file-v1"
	}
	h.goal, h.identity, h.revision, h.head = doc.string("goal_id"), doc.string("store_identity"), doc.string("provider_revision"), doc.member("head")
	if h.cursor, err = cursorText(doc.string("cursor")); err != nil {
		return false, &Defect{Check: "format", Field: "cursor", Detail: err.Error()}
	}
	if h.identity != j.identity {
		return false, &Defect{Check: "chain", Field: "store_identity", Detail: "the identity file beside the document holds another"}
	}
	return schema == journalV1, nil
}

// committed visits the rows of the document, one in memory at a time.
func (p *parser) committed(visit func(*value) error) error {
	return p.topMembers(map[string]*value{}, visit)
}

// topMembers reads an object and hands out the elements of its list "committed", or
// goes over them.
func (p *parser) topMembers(members map[string]*value, visit func(*value) error) (err error) {
	defer p.caught(&err)
	p.must(p.take('{'), "no object")
	for first := true; !p.take('}'); first = false {
		p.must(first || p.take(','), "no comma")
		p.must(p.take('"'), "no key")
		key := p.text()
		p.must(p.take(':'), "no colon")
		if key != "committed" {
			members[key] = p.value()
			continue
		}
		members[key] = newList(nil)
		if err := p.entries(visit); err != nil {
			return err
		}
	}
	p.blanks()
	p.must(p.pos == len(p.in), "text behind the document")
	return nil
}

// entries goes through the list of rows.
func (p *parser) entries(visit func(*value) error) error {
	p.must(p.take('['), "no list")
	for n := 0; !p.take(']'); n++ {
		p.must(n == 0 || p.take(','), "no comma")
		if visit == nil {
			p.skip()
		} else if err := visit(p.value()); err != nil {
			return err
		}
	}
	return nil
}

// journalWalk goes from row to row.
type journalWalk struct {
	header   *header
	v1       bool
	count    uint64
	previous string // revision
	state    *value
}

func (w *journalWalk) next(entry *value) (*row, error) {
	w.count++
	t := &row{cursor: w.count, revision: entry.string("provider_revision"), operation: entry.string("operation_id"),
		events: entry.member("events"), receipts: entry.member("receipts")}
	if entry.string("cursor") != strconv.FormatUint(w.count, 10) {
		return nil, t.defect("order", "cursor", "it is %q", entry.string("cursor"))
	}
	var err error
	if t.projection, err = w.stateOf(entry, t); err != nil {
		return nil, err
	}
	if err := t.shaped(); err != nil {
		return nil, err
	}
	if want := journalRevision(w.header, w.previous, t); t.revision != want {
		return nil, t.defect("chain", "provider_revision", "it is not the one that follows from the row and the one before")
	}
	w.previous, w.state = t.revision, t.projection
	return t, nil
}

// stateOf is the projection: given whole, or by a delta from the one before.
func (w *journalWalk) stateOf(entry *value, t *row) (*value, error) {
	if !w.v1 {
		if !entry.only("cursor", "provider_revision", "operation_id", "events", "receipts", "projection") {
			return nil, t.defect("format", "", "the row has other members")
		}
		return entry.member("projection"), nil
	}
	state := entry.member("state")
	if !entry.only("cursor", "provider_revision", "operation_id", "events", "receipts", "state") {
		return nil, t.defect("format", "", "the row has other members")
	}
	whole := (t.cursor-1)%checkpointEvery == 0
	if whole && state.only("kind", "projection") && state.string("kind") == "checkpoint" {
		return state.member("projection"), nil
	}
	if whole || !state.only("kind", "delta") || state.string("kind") != "delta" {
		return nil, t.defect("format", "state", "it is not of the kind that belongs here")
	}
	next, err := apply(w.state, state.member("delta"))
	if err != nil {
		return nil, t.defect("chain", "state.delta", "%v", err)
	}
	return next, nil
}

// journalRevision is file:CURSOR:DIGEST over the row, the revision before and the lineage.
func journalRevision(h *header, previous string, t *row) string {
	cursor := strconv.FormatUint(t.cursor, 10)
	over := pairs("goal_id", newText(h.goal), "previous_provider_revision", textOrNull(previous), "store_identity", newText(h.identity),
		"transaction", pairs("cursor", newText(cursor), "events", t.events, "operation_id", newText(t.operation),
			"projection", t.projection, "receipts", t.receipts))
	return fmt.Sprintf("file:%s:%s", cursor, digest(over.canonical())[:24])
}

// plantJournal writes the rows as a journal of the same format, in memory. The digest
// of row edited is changed afterwards.
func plantJournal(_ context.Context, h header, rows []*row, edited uint64) (*History, error) {
	var entries []string
	previous, state := "", newObject(nil)
	for i, t := range rows {
		copied := *t
		copied.cursor = uint64(i) + 1
		revision := journalRevision(&h, previous, &copied)
		entry := pairs("cursor", newText(strconv.Itoa(i+1)), "provider_revision", newText(revision), "operation_id", newText(t.operation),
			"events", t.events, "receipts", t.receipts)
		entries = append(entries, journalState(h, entry, i, state, t.projection).canonical())
		previous, state = revision, t.projection
	}
	document := pairs("cursor", newText(strconv.Itoa(len(rows))), "goal_id", newText(h.goal), "head", state,
		"provider_revision", newText(previous), "schema_version", newText(journalV0), "store_identity", newText(h.identity)).canonical()
	if h.format == "file-v1" {
		document = strings.Replace(document, journalV0, journalV1, 1)
	}
	if edited > 0 {
		entries[edited-1] = editRevision(entries[edited-1])
	}
	document = `{"committed":[` + strings.Join(entries, ",") + `],` + document[1:]
	return journal{document, h.identity}.history("copy of " + h.identity), nil
}

func journalState(h header, entry *value, i int, before, now *value) *value {
	switch {
	case h.format == "file-v0":
		return entry.with("projection", now)
	case i%checkpointEvery == 0:
		return entry.with("state", pairs("kind", newText("checkpoint"), "projection", now))
	}
	return entry.with("state", pairs("kind", newText("delta"), "delta", difference(before, now)))
}

// editRevision changes the last digit of the row's revision.
func editRevision(entry string) string {
	key := `"provider_revision":"`
	from := strings.LastIndex(entry, key) + len(key)
	end := from + strings.IndexByte(entry[from:], '"')
	return entry[:end-1] + string(flipped(entry[end-1])) + entry[end:]
}

// flipped is another hexadecimal digit.
func flipped(digit byte) byte {
	if digit == '0' {
		return '1'
	}
	return '0'
}

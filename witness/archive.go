package witness

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
)

const archiveSchema = "loopx_authority_archive_v0"

// The members of the three kinds of line.
var (
	archiveHeader = []string{"kind", "schema_version", "goal_id", "source_provider", "store_identity", "cursor", "provider_revision", "projection_sha256", "sha256"}
	archiveRow    = []string{"kind", "cursor", "provider_revision", "operation_id", "events", "receipts", "delta", "projection_sha256", "previous_sha256", "sha256"}
	archiveSeal   = []string{"kind", "cursor", "projection_sha256", "previous_sha256", "sha256"}
)

// archive is LoopX's portable archive in memory: one JSON object a line.
type archive struct{ lines string }

// Archive is LoopX's portable archive. Its kind is that of the store it came from.
func Archive(name, path string) (*History, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return archive{string(content)}.history(name), nil
}

func (a archive) history(name string) *History {
	return &History{Name: name, read: a.read, plant: plantArchive}
}

// archiveWalk goes from line to line.
type archiveWalk struct {
	header   *header
	previous string // sha256 of the line before
	state    *value
	count    uint64
	sealed   bool
	promised string // projection_sha256 of the header
}

func (a archive) read(ctx context.Context, h *header, visit func(*row) error) error {
	if !strings.HasSuffix(a.lines, "\n") {
		return &Defect{Check: "format", Detail: "the last line has no end"}
	}
	h.format, h.bytes = "archive-v0", int64(len(a.lines))
	w := archiveWalk{header: h, state: newObject(nil)}
	for line := range strings.Lines(a.lines) {
		v, err := w.line(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return err
		}
		t, err := w.take(v)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		if err := visit(t); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if !w.sealed {
		return &Defect{Check: "format", Cursor: authority.Cursor(w.count), Detail: "the seal is missing"}
	}
	return nil
}

// line proves a line by its own digest and the link to the one before.
func (w *archiveWalk) line(s string) (*value, error) {
	at := authority.Cursor(w.count + 1)
	v, err := parse(s)
	if err != nil {
		return nil, &Defect{Check: "format", Cursor: at, Detail: err.Error()}
	}
	if w.sealed {
		return nil, &Defect{Check: "format", Cursor: at, Detail: "a line behind the seal"}
	}
	if v.kind != object || digest(v.with("sha256", nil).canonical()) != v.string("sha256") {
		return nil, &Defect{Check: "chain", Cursor: at, Field: "sha256", Detail: "it is not that of the line"}
	}
	if w.previous != "" && v.string("previous_sha256") != w.previous {
		return nil, &Defect{Check: "chain", Cursor: at, Field: "previous_sha256", Detail: "it is not that of the line before"}
	}
	w.previous = v.string("sha256")
	return v, nil
}

// take returns the transaction of a line, nil for header and seal.
func (w *archiveWalk) take(v *value) (*row, error) {
	h := w.header
	switch kind := v.string("kind"); {
	case kind == "header" && w.promised == "" && v.string("schema_version") == archiveSchema && v.only(archiveHeader...) && strings.HasPrefix(v.string("store_identity"), v.string("source_provider")+":"):
		h.goal, h.identity, h.revision, w.promised = v.string("goal_id"), v.string("store_identity"), v.string("provider_revision"), v.string("projection_sha256")
		var err error
		if h.cursor, err = cursorText(v.string("cursor")); err != nil {
			return nil, &Defect{Check: "format", Field: "cursor", Detail: err.Error()}
		}
		return nil, nil
	case kind == "transaction" && w.promised != "" && v.only(archiveRow...):
		return w.transaction(v)
	case kind == "seal" && w.promised != "" && v.only(archiveSeal...):
		w.sealed, h.head = true, w.state
		if v.string("cursor") != strconv.FormatUint(w.count, 10) || v.string("projection_sha256") != w.promised || digest(w.state.canonical()) != w.promised {
			return nil, &Defect{Check: "head", Cursor: authority.Cursor(w.count), Field: "projection_sha256", Detail: "the seal, the header and the last state do not agree"}
		}
		return nil, nil
	}
	return nil, &Defect{Check: "format", Cursor: authority.Cursor(w.count + 1), Field: "kind", Detail: "the line is none that belongs here"}
}

func (w *archiveWalk) transaction(v *value) (*row, error) {
	w.count++
	t := &row{cursor: w.count, revision: v.string("provider_revision"), operation: v.string("operation_id"), events: v.member("events"), receipts: v.member("receipts")}
	if v.string("cursor") != strconv.FormatUint(w.count, 10) {
		return nil, t.defect("order", "cursor", "it is %q", v.string("cursor"))
	}
	next, err := apply(w.state, v.member("delta"))
	if err != nil {
		return nil, t.defect("chain", "delta", "%v", err)
	}
	if digest(next.canonical()) != v.string("projection_sha256") {
		return nil, t.defect("chain", "projection_sha256", "it is not that of the replayed state")
	}
	if next.string("goal_id") != w.header.goal {
		return nil, t.defect("format", "goal_id", "the state is of another goal")
	}
	w.state, t.projection = next, next
	return t, nil
}

// plantArchive writes the rows as an archive, in memory, every digest right but one.
func plantArchive(_ context.Context, h header, rows []*row, edited uint64) (*History, error) {
	last := rows[len(rows)-1]
	count := newText(strconv.Itoa(len(rows)))
	var lines strings.Builder
	previous := ""
	add := func(v *value) {
		if previous != "" {
			v = v.with("previous_sha256", newText(previous))
		}
		previous = digest(v.canonical())
		printed := v.with("sha256", newText(previous)).canonical()
		if edited > 0 && v.string("cursor") == strconv.FormatUint(edited, 10) && v.string("kind") == "transaction" {
			at := strings.LastIndex(printed, `"sha256":"`) + len(`"sha256":"`)
			printed = printed[:at] + string(flipped(printed[at])) + printed[at+1:]
		}
		fmt.Fprintln(&lines, printed)
	}
	end := newText(digest(last.projection.canonical()))
	add(pairs("kind", newText("header"), "schema_version", newText(archiveSchema), "goal_id", newText(h.goal), "store_identity", newText(h.identity),
		"source_provider", newText(strings.SplitN(h.identity, ":", 2)[0]), "cursor", count, "provider_revision", newText(last.revision), "projection_sha256", end))
	state := newObject(nil)
	for i, t := range rows {
		add(pairs("kind", newText("transaction"), "cursor", newText(strconv.Itoa(i+1)), "provider_revision", newText(t.revision), "operation_id", newText(t.operation),
			"events", t.events, "receipts", t.receipts, "delta", difference(state, t.projection), "projection_sha256", newText(digest(t.projection.canonical()))))
		state = t.projection
	}
	add(pairs("kind", newText("seal"), "cursor", count, "projection_sha256", end))
	return archive{lines.String()}.history("copy of " + h.identity), nil
}

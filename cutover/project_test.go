package cutover_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// A Todo that somebody added by hand to a displayed section is named by its line, and the
// file that had it is kept before the display replaces it. Where that copy cannot be
// written, the file stays.
func TestProjectKeepsWhatItReplaces(t *testing.T) {
	r := newFilesRig(t)
	r.forward()
	project := func() (preview, done cutover.Result, err error) {
		t.Helper()
		if preview, err = r.flow.Project(context.Background(), cutover.Request{OperationID: "show"}); err != nil {
			t.Fatal(err)
		}
		done, err = r.flow.Project(context.Background(), cutover.Request{OperationID: "show", Execute: true, PlanDigest: preview.PlanDigest})
		return preview, done, err
	}
	if _, _, err := project(); err != nil {
		t.Fatal(err)
	}
	const end, added = "<!-- loopx:todo-region-v0 role=agent end -->", "- [ ] Added by hand\n"
	r.edit(r.state(), end, added+end)
	edited := r.read(r.state())
	line := 1 + strings.Count(string(edited[:strings.Index(string(edited), added)]), "\n")

	preview, err := r.flow.Project(context.Background(), cutover.Request{OperationID: "look"})
	if err != nil {
		t.Fatal(err)
	}
	effects := strings.Join(preview.Plan.Effects, "\n")
	if want := fmt.Sprintf("drop a Todo without an id from the file, which the head does not have (line %d)\n", line); !strings.Contains(effects, want) {
		t.Errorf("the preview says\n%s", effects)
	}
	_, where, _ := strings.Cut(effects, "keep the state file as it is now in ")
	where, _, _ = strings.Cut(where, "\n")
	kept := filepath.Join(r.flow.Place.Root(), filepath.FromSlash(where))
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := project(); err == nil || string(r.read(r.state())) != string(edited) {
		t.Errorf("without a copy: %v", err)
	}
	r.remove(kept)

	_, done, err := project()
	if err != nil || done.Facts["kept"] != where {
		t.Errorf("%v, facts %v, not kept in %s", err, done.Facts, where)
	}
	if strings.Contains(string(r.read(r.state())), added) {
		t.Error("the display has the line still")
	}
	copied, err := legacy.DecodeKept(r.read(kept))
	if err != nil || string(copied.Files.State) != string(edited) || copied.OperationID != "show" {
		t.Errorf("%v, kept is\n%s", err, copied.Files.State)
	}
	if path.Dir(where) != path.Dir(r.manifest().Kept.Where) {
		t.Errorf("%s is not beside what the freeze kept", where)
	}
}

package rehearsal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/cutover"
)

func made(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func laid(t *testing.T, path string) string {
	t.Helper()
	made(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte("journal"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refusedAs fails unless the guard refused in that way; an empty way is no refusal.
func refusedAs(t *testing.T, name, way string, err error) {
	t.Helper()
	var guarded *GuardError
	found := ""
	if errors.As(err, &guarded) {
		found = guarded.Way
	}
	if found != way || err != nil && cutover.AsRefusal(err).Reason != "rehearsal_on_production" {
		t.Errorf("%s: refused as %q (%v), want %q", name, found, err, way)
	}
}

// Each way in which a folder to work in can be production by mistake.
func TestFoldersThatAreProduction(t *testing.T) {
	dir := t.TempDir()
	root := made(t, filepath.Join(dir, "srv", "loopx"))
	journal := laid(t, filepath.Join(root, "authority", "file-v0", "journal.json"))
	for name, to := range map[string]string{"link": root, "link-inside": filepath.Dir(journal), "link-above": filepath.Dir(root)} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	for name, c := range map[string]struct{ path, way string }{
		"the runtime root":           {root, "path"},
		"it spelled otherwise":       {root + "/authority/../", "path"},
		"it from the working folder": {".", "path"},
		"a link to it":               {filepath.Join(dir, "link"), "path"},
		"a folder in it":             {filepath.Dir(journal), "nested_path"},
		"a folder to be made in it":  {filepath.Join(root, "new", "one"), "nested_path"},
		"a link to a folder in it":   {filepath.Join(dir, "link-inside"), "nested_path"},
		"through a link to above":    {filepath.Join(dir, "link-above", "loopx", "x"), "nested_path"},
		"the folder above":           {filepath.Dir(root), ""},
		"a neighbour by name":        {made(t, root+"-copies"), ""},
	} {
		refusedAs(t, name, c.way, (&Guard{Paths: []string{root}}).Folder(c.path))
	}
	refusedAs(t, "production named by a link", "path", (&Guard{Paths: []string{filepath.Join(dir, "link")}}).Folder(root))
	refusedAs(t, "one of several", "path", (&Guard{Paths: []string{filepath.Join(dir, "nowhere"), root}}).Folder(root))
}

// A hard link gives a file another path and the same inode. Bind mounts and overlays are
// tried in cmd/loopx-migrate, as they need a mount.
func TestCopiesThatShareInodes(t *testing.T) {
	dir := t.TempDir()
	root := made(t, filepath.Join(dir, "loopx"))
	journal := laid(t, filepath.Join(root, "journal.json"))
	fresh := made(t, filepath.Join(dir, "fresh"))
	laid(t, filepath.Join(fresh, "journal.json"))
	refusedAs(t, "a copy", "", (&Guard{Paths: []string{root}}).Copy(fresh))

	hard := made(t, filepath.Join(dir, "hard"))
	if err := os.Link(journal, filepath.Join(hard, "journal.json")); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, "a hard link", "inode", (&Guard{Paths: []string{root}}).Copy(hard))
	refusedAs(t, "production is one file", "inode", (&Guard{Paths: []string{journal}}).Copy(hard))
	soft := made(t, filepath.Join(dir, "soft"))
	if err := os.Symlink(journal, filepath.Join(soft, "journal.json")); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, "a link in the copy", "inode", (&Guard{Paths: []string{root}}).Copy(soft))
	outward := made(t, filepath.Join(dir, "outward"))
	production := made(t, filepath.Join(dir, "outside"))
	if err := os.Symlink(filepath.Join(outward, "file"), filepath.Join(production, "link")); err != nil {
		t.Fatal(err)
	}
	laid(t, filepath.Join(outward, "file"))
	refusedAs(t, "production links into it", "inode", (&Guard{Paths: []string{production}}).Copy(outward))
}

func TestOutputsInProduction(t *testing.T) {
	dir := t.TempDir()
	root := made(t, filepath.Join(dir, "loopx"))
	journal := laid(t, filepath.Join(root, "journal.json"))
	hard := filepath.Join(dir, "result.json")
	if err := os.Link(journal, hard); err != nil {
		t.Fatal(err)
	}
	g := &Guard{Paths: []string{root}}
	refusedAs(t, "a file in it", "path", g.Output(filepath.Join(root, "result.json")))
	refusedAs(t, "a hard link to one", "inode", g.Output(hard))
	refusedAs(t, "a file beside it", "", g.Output(filepath.Join(dir, "other.json")))
	refusedAs(t, "none", "", g.Output(""))
}

func TestServersThatAreProduction(t *testing.T) {
	g := &Guard{Servers: []Whereabouts{{System: "7412", Database: "16384:loopx"}}}
	refusedAs(t, "the same by another name and tenant", "database", g.Server(Whereabouts{System: "7412", Database: "16384:loopx", Tenant: "other"}))
	refusedAs(t, "another database", "", g.Server(Whereabouts{System: "7412", Database: "16390:copies"}))
	refusedAs(t, "another cluster", "", g.Server(Whereabouts{System: "9999", Database: "16384:loopx"}))
}

// Tables as Linux writes them; what is expected is from proc(5).
func TestWhereAnOverlayWritesTo(t *testing.T) {
	const table = "21 1 0:20 / / rw - ext4 /dev/vda rw\n" +
		"40 21 0:39 / /work rw,relatime shared:7 - overlay overlay rw,lowerdir=/l,upperdir=/srv/loop\\040x,workdir=/w\n" +
		"41 21 0:39 /in /bound rw - overlay overlay rw,lowerdir=/l,upperdir=/srv/loop\\040x,workdir=/w\n" +
		"42 40 0:50 / /work/plain rw - tmpfs tmpfs rw\n43 21 0:51 / /ro rw - overlay overlay ro,lowerdir=/a:/b\n" +
		"44 21 0:52 / /twice rw - overlay overlay rw,upperdir=/hidden\n45 44 0:53 / /twice rw - tmpfs tmpfs rw\n"
	for path, want := range map[string]string{"/work": "/srv/loop x", "/work/a/b": "/srv/loop x/a/b", "/bound/a": "/srv/loop x/in/a",
		"/work/plain/a": "", "/worker": "", "/ro/a": "", "/twice/a": "", "/elsewhere": ""} {
		if got := upperIn(table, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

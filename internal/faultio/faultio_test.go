package faultio_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

func TestEachCallDoesWhatItIsNamedAfter(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, faultio.MkdirAll(at("d/e"), 0o700))
	must(t, faultio.Mkdir(at("d/f"), 0o700))
	file, err := faultio.OpenFile(at("a"), os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	_, err = file.WriteString("hello world")
	must(t, err)
	_, err = file.WriteAt([]byte("J"), 0)
	must(t, err)
	must(t, file.Truncate(5))
	must(t, file.Chmod(0o640))
	must(t, file.Sync())
	must(t, file.Close())
	must(t, faultio.Link(at("a"), at("b")))
	must(t, faultio.Truncate(at("b"), 4))
	must(t, faultio.Rename(at("b"), at("c")))
	must(t, faultio.SyncDir(dir))
	must(t, faultio.Chmod(at("c"), 0o600))
	must(t, faultio.Remove(at("a")))
	must(t, faultio.RemoveAll(at("d")))
	must(t, faultio.Commit("label", func() error { return nil }))

	content, err := os.ReadFile(at("c"))
	must(t, err)
	info, err := os.Stat(at("c"))
	must(t, err)
	if string(content) != "Jell" || info.Mode() != 0o600 {
		t.Errorf("content %q mode %v", content, info.Mode())
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestRenameNoReplaceRefusesToOverwrite(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	must(t, os.WriteFile(from, []byte("new"), 0o600))
	must(t, os.WriteFile(to, []byte("old"), 0o600))
	if err := faultio.RenameNoReplace(from, to); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("error = %v, want fs.ErrExist", err)
	}
	if content, err := os.ReadFile(to); err != nil || string(content) != "old" {
		t.Errorf("destination holds %q, %v", content, err)
	}
}

func TestCommitReturnsTheErrorOfTheDatabase(t *testing.T) {
	want := errors.New("refused")
	if err := faultio.Commit("label", func() error { return want }); !errors.Is(err, want) {
		t.Errorf("error = %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

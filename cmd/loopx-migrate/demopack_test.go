package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/testdata/fixtures"
)

// TestPackedGoal: the Goal that demo unpacks is fixture goal-file-v0, byte for byte.
// With -update it is packed anew.
func TestPackedGoal(t *testing.T) {
	folder := os.DirFS(fixture.Path(t, "goal-file-v0"))
	if *update {
		if err := os.WriteFile(fixture.Path(t, "goal-file-v0.zip"), packed(t, folder), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	inside, err := fixtures.GoalFileV0()
	if err != nil {
		t.Fatal(err)
	}
	want, got := contents(t, folder), contents(t, inside)
	for name, text := range want {
		if !bytes.Equal(got[name], text) {
			t.Errorf("%s is not the file of the fixture: %d bytes of %d", name, len(got[name]), len(text))
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d files are packed, the fixture has %d", len(got), len(want))
	}
}

// contents are the files of the Goal by name. Answers that only tests need are left out.
func contents(t *testing.T, folder fs.FS) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "expected.json" {
			return err
		}
		found[filepath.ToSlash(name)], err = fs.ReadFile(folder, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func packed(t *testing.T, folder fs.FS) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "expected.json" {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		file, err := archive.Create(name) // without a time: the same folder gives the same archive
		if err == nil {
			_, err = file.Write(text)
		}
		return err
	})
	if err := errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

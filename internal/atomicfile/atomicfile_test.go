package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
)

func TestReplaceNewAndOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"", "first", strings.Repeat("x", 1<<20)} {
		must(t, atomicfile.Replace(path, 0o600, []byte(content)))
		expect(t, path, content)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	expectNames(t, filepath.Dir(path), "f")
}

func TestReplaceFromKeepsTheOldWhenTheSourceFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, atomicfile.Replace(path, 0o600, []byte("old")))
	broken := errors.New("source broke")
	err := atomicfile.ReplaceFrom(path, 0o600, func(w io.Writer) error {
		_, writeErr := io.WriteString(w, strings.Repeat("half", 1<<18))
		return errors.Join(writeErr, broken)
	})
	if !errors.Is(err, broken) || errors.Is(err, atomicfile.ErrUnsettled) {
		t.Errorf("error = %v", err)
	}
	expect(t, path, "old")
	expectNames(t, filepath.Dir(path), "f")

	must(t, atomicfile.ReplaceFrom(path, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, strings.NewReader("new"))
		return err
	}))
	expect(t, path, "new")
}

func TestReplaceWhereItCannot(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	if err := atomicfile.Replace(filepath.Join(dir, "d"), 0o600, nil); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if err := atomicfile.Replace(filepath.Join(dir, "missing", "f"), 0o600, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v", err)
	}
	expectNames(t, dir, "d")
}

func TestCreateRefusesWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, atomicfile.Create(path, 0o600, []byte("first")))
	if err := atomicfile.Create(path, 0o600, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error = %v", err)
	}
	expect(t, path, "first")
	expectNames(t, filepath.Dir(path), "f")
}

func TestCreateHasOneWinner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	const contenders = 8
	results := make(chan error, contenders)
	for range contenders {
		go func() { results <- atomicfile.Create(path, 0o600, []byte("mine")) }()
	}
	won := 0
	for range contenders {
		err := <-results
		if err == nil {
			won++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d winners", won)
	}
}

func TestMoveRefusesToOverwrite(t *testing.T) {
	dir := t.TempDir()
	must(t, atomicfile.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "a", "b", "to")
	must(t, atomicfile.Replace(from, 0o600, []byte("content")))
	must(t, atomicfile.Move(from, to))
	expect(t, to, "content")
	expectNames(t, dir, "a")

	must(t, atomicfile.Replace(from, 0o600, []byte("other")))
	if err := atomicfile.Move(from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error = %v", err)
	}
	expect(t, to, "content")
	expect(t, from, "other")
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "c")
	must(t, atomicfile.MkdirAll(path, 0o700))
	must(t, atomicfile.MkdirAll(path, 0o700))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	file := filepath.Join(dir, "f")
	must(t, os.WriteFile(file, nil, 0o600))
	if err := atomicfile.MkdirAll(file, 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if err := atomicfile.MkdirAll(filepath.Join(file, "sub"), 0o700); err == nil {
		t.Error("below a file: no error")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, path, content string) {
	t.Helper()
	got, err := os.ReadFile(path)
	must(t, err)
	if string(got) != content {
		t.Errorf("%s holds %d bytes %.20q, want %d bytes %.20q", filepath.Base(path), len(got), got, len(content), content)
	}
}

func expectNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("directory holds %v, want %v", got, want)
	}
}

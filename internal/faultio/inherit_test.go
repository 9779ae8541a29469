package faultio

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is made takes the access of its folder, and never more than that.
func TestNewFilesTakeTheAccessOfTheirFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	const owner, group = 54321, 54322
	for name, c := range map[string]struct {
		mode       fs.FileMode
		uid, gid   uint32 // of what is made
		file, made fs.FileMode
	}{
		"private":         {0o700, owner, group, 0o600, 0o700},
		"readable":        {0o755, owner, group, 0o600, 0o700},
		"group":           {0o770, owner, group, 0o660, 0o770},
		"group, set":      {0o770 | fs.ModeSetgid, owner, group, 0o660, 0o770 | fs.ModeSetgid},
		"anybody":         {0o707, owner, group, 0o606, 0o707},
		"guarded, sticky": {0o777 | fs.ModeSticky, 0, 0, 0o600, 0o700},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "folder")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(folder, owner, group); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(folder, c.mode); err != nil {
				t.Fatal(err)
			}
			file, err := OpenFile(filepath.Join(folder, "file"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			if err := Mkdir(filepath.Join(folder, "one"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := MkdirAll(filepath.Join(folder, "two", "three"), 0o700); err != nil {
				t.Fatal(err)
			}
			has(t, filepath.Join(folder, "file"), c.uid, c.gid, c.file)
			for _, made := range []string{"one", "two", "two/three"} {
				has(t, filepath.Join(folder, made), c.uid, c.gid, c.made|fs.ModeDir)
			}
		})
	}
}

func has(t *testing.T, path string, uid, gid uint32, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Uid != uid || stat.Gid != gid || info.Mode() != mode {
		t.Errorf("%s: %d:%d %v, want %d:%d %v", filepath.Base(path), stat.Uid, stat.Gid, info.Mode(), uid, gid, mode)
	}
}

// What stands there already keeps the access it has.
func TestFilesThatStandThereKeepTheirAccess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 54321, 54322); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	has(t, path, 54321, 54322, 0o600)
	if err := MkdirAll(path, 0o700); err == nil {
		t.Error("a folder was made where a file stands")
	}
}

//go:build !faultinject

package faultio_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// An operator's environment must not be able to break a build for use.
func TestEnvironmentIsIgnored(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	t.Setenv("LM_FAULT", "error:1:EIO")
	t.Setenv("LM_FAULT_TRACE", trace)
	t.Setenv("LM_PAUSE", "1:"+filepath.Join(dir, "never"))
	t.Setenv("LM_TEST_FSTYPE", "1")
	if faultio.Enabled {
		t.Fatal("Enabled in a build without the tag")
	}
	file, err := faultio.OpenFile(filepath.Join(dir, "f"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(trace); !os.IsNotExist(err) {
		t.Fatalf("a trace was written: %v", err)
	}
	if kind, err := faultio.FSType(dir); err != nil || kind == 1 {
		t.Fatalf("FSType = %#x, %v", kind, err)
	}
}

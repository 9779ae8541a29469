//go:build faultinject

package lockfile_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// TestBrokenAtEveryEffect: wherever a process dies or fails over a lock, the next
// one gets it, at the latest once an unwritten file is ten seconds old.
func TestBrokenAtEveryEffect(t *testing.T) {
	dead := reaped(t)
	for name, planted := range map[string]string{
		"free": "", "stale": fmt.Sprintf(`{"pid":%d,"token":"a"}`, dead),
	} {
		for _, family := range families {
			for _, fault := range []string{"kill:%d", "kill-after:%d", "torn:%d", "error:%d:EIO"} {
				t.Run(fmt.Sprint(family, "/", name, "/", fault), func(t *testing.T) {
					breakEach(t, family, planted, fault)
				})
			}
		}
	}
}

func breakEach(t *testing.T, family lockfile.Family, planted, fault string) {
	t.Helper()
	for n := 1; ; n++ {
		target := filepath.Join(t.TempDir(), "t")
		if planted != "" {
			plant(t, target+marker, planted, 0)
		}
		if !breakAt(t, family, target, fmt.Sprintf(fault, n), n) {
			if n < 4 {
				t.Errorf("only %d effects", n-1)
			}
			return
		}
		makeOld(t, filepath.Dir(target))
		lock, err := acquire(family, target, 0)
		if err != nil {
			t.Fatalf("after %s at effect %d: %v", fault, n, err)
		}
		must(t, lock.Release())
	}
}

// breakAt reports whether a process that takes and releases the lock has an n-th
// effect, at which it broke and of which it did not say that all went well.
func breakAt(t *testing.T, family lockfile.Family, target, fault string, n int) bool {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	p := start(t, family, target, "LM_FAULT="+fault, "LM_FAULT_TRACE="+trace)
	said := p.try()
	must(t, p.input.Close())
	rest, err := io.ReadAll(p.output)
	must(t, err)
	failed := p.command.Wait() != nil || strings.Contains(said+string(rest), "error")
	text, err := os.ReadFile(trace)
	must(t, err)
	happened := strings.Count(string(text), "\n") >= n
	if failed != happened {
		t.Errorf("%s: failed %v, the effect happened %v", fault, failed, happened)
	}
	return happened
}

func makeOld(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	then := time.Now().Add(-11 * time.Second)
	for _, entry := range entries {
		must(t, os.Chtimes(filepath.Join(dir, entry.Name()), then, then))
	}
}

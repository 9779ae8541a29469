package lockfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

var families = []lockfile.Family{lockfile.Marker, lockfile.Kernel}

func eachFamily(t *testing.T, check func(t *testing.T, family lockfile.Family, target string)) {
	for _, family := range families {
		t.Run(string(family), func(t *testing.T) {
			check(t, family, filepath.Join(t.TempDir(), "goals", "STATE.md"))
		})
	}
}

func TestLiveHolderIsNamedAndLeftAlone(t *testing.T) {
	eachFamily(t, func(t *testing.T, family lockfile.Family, target string) {
		holder := start(t, family, target)
		if got := holder.try(); got != "held" {
			t.Fatal(got)
		}
		before := snapshot(t, target)
		const wait = 60 * time.Millisecond
		_, err := acquire(family, target, wait)
		var busy *lockfile.BusyError
		if !errors.As(err, &busy) {
			t.Fatalf("error = %v", err)
		}
		if busy.Target != "STATE.md" || busy.Family != family || busy.PID != holder.pid() || busy.Waited < wait {
			t.Errorf("%+v, holder %d", busy, holder.pid())
		}
		if text := err.Error(); !strings.Contains(text, fmt.Sprint("process ", holder.pid())) || strings.Contains(text, filepath.Dir(target)) {
			t.Errorf("message %q", text)
		}
		if after := snapshot(t, target); after != before {
			t.Errorf("files changed:\n%s\n%s", before, after)
		}
		if got := holder.finish(); got != "" {
			t.Error(got)
		}
		lock, err := acquire(family, target, 0)
		must(t, err)
		must(t, lock.Release())
	})
}

func TestKilledHolderCostsNoTime(t *testing.T) {
	eachFamily(t, func(t *testing.T, family lockfile.Family, target string) {
		holder := start(t, family, target)
		if got := holder.try(); got != "held" {
			t.Fatal(got)
		}
		holder.kill()
		lock, err := acquire(family, target, 0)
		must(t, err)
		if family == lockfile.Kernel && (lock.Abandoned() == nil || lock.Abandoned().PID != holder.pid()) {
			t.Errorf("abandoned = %+v, want process %d", lock.Abandoned(), holder.pid())
		}
		must(t, lock.Release())
		expectLitter(t, family, target)
	})
}

func TestOneOfManyProcessesWinsAnAbandonedLock(t *testing.T) {
	eachFamily(t, func(t *testing.T, family lockfile.Family, target string) {
		for range 10 {
			dead := start(t, family, target)
			if got := dead.try(); got != "held" {
				t.Fatal(got)
			}
			contenders := []*process{start(t, family, target), start(t, family, target), start(t, family, target)}
			dead.kill()
			oneWins(t, contenders)
		}
		expectLitter(t, family, target)
	})
}

// oneWins starts all contenders at once; the winner holds on until all have asked.
func oneWins(t *testing.T, contenders []*process) {
	t.Helper()
	for _, p := range contenders {
		_, err := p.input.Write([]byte("\n"))
		must(t, err)
	}
	held := 0
	for _, p := range contenders {
		switch got := p.answer(); {
		case got == "held":
			held++
		case !strings.HasPrefix(got, "busy "):
			t.Error(got)
		}
	}
	if held != 1 {
		t.Errorf("%d processes hold the lock", held)
	}
	for _, p := range contenders {
		if got := p.finish(); got != "" {
			t.Error(got)
		}
	}
}

func TestGoroutinesExcludeEachOther(t *testing.T) {
	eachFamily(t, func(t *testing.T, family lockfile.Family, target string) {
		const contenders, turns = 4, 5
		inside := 0 // guarded by the lock alone; the race detector would see two inside
		done := make(chan error)
		for range contenders {
			go func() {
				var failure error
				for range turns {
					lock, err := acquire(family, target, time.Minute)
					if err != nil {
						failure = err
						break
					}
					inside++
					failure = errors.Join(failure, lock.Release())
				}
				done <- failure
			}()
		}
		for range contenders {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if inside != contenders*turns {
			t.Errorf("%d turns, want %d: two were inside at once", inside, contenders*turns)
		}
	})
}

func TestContextEndsTheWait(t *testing.T) {
	eachFamily(t, func(t *testing.T, family lockfile.Family, target string) {
		lock, err := acquire(family, target, 0)
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if family == lockfile.Kernel {
			_, err = lockfile.AcquireKernel(ctx, target, time.Hour, "test")
		} else {
			_, err = lockfile.AcquireMarker(ctx, target, time.Hour)
		}
		var busy *lockfile.BusyError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &busy) || busy.PID != os.Getpid() {
			t.Errorf("error = %v", err)
		}
		must(t, lock.Release())
		// A context that ended before is refused even when the lock is free.
		if _, err := lockfile.AcquireMarker(ctx, target, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
	})
}

func TestWhatIsNoLockFileIsLeftAlone(t *testing.T) {
	suffix := map[lockfile.Family]string{lockfile.Marker: ".ts-effect.lock", lockfile.Kernel: ".lock"}
	eachFamily(t, func(t *testing.T, family lockfile.Family, target string) {
		must(t, os.MkdirAll(filepath.Dir(target), 0o700))
		path := target + suffix[family]
		elsewhere := filepath.Join(filepath.Dir(target), "elsewhere")
		must(t, os.WriteFile(elsewhere, []byte("precious"), 0o600))
		places := map[string]func() error{
			"symbolic link": func() error { return os.Symlink(elsewhere, path) },
			"named pipe":    func() error { return syscall.Mkfifo(path, 0o600) },
			"directory":     func() error { return os.Mkdir(path, 0o700) },
			"second name":   func() error { return os.Link(elsewhere, path) },
		}
		for name, take := range places {
			if name == "second name" && family == lockfile.Marker {
				continue // LoopX sets no such rule for markers
			}
			must(t, take())
			before, err := os.Lstat(path)
			must(t, err)
			if _, err := acquire(family, target, 0); err == nil {
				t.Errorf("%s: locked", name)
			}
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("%s: not left alone: %v", name, err)
			}
			must(t, os.Remove(path))
		}
		content, err := os.ReadFile(elsewhere)
		if err != nil || string(content) != "precious" {
			t.Errorf("written through: %q %v", content, err)
		}
	})
}

// snapshot lists names and contents of the folder of target.
func snapshot(t *testing.T, target string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(target))
	must(t, err)
	var b strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(target), entry.Name()))
		must(t, err)
		fmt.Fprintf(&b, "%s %s\n", entry.Name(), content)
	}
	return b.String()
}

// expectLitter allows nothing but a kernel lock's file, which must stay.
func expectLitter(t *testing.T, family lockfile.Family, target string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(target))
	must(t, err)
	want := 0
	if family == lockfile.Kernel {
		want = 1
	}
	if len(entries) != want {
		t.Errorf("left behind: %v", entries)
	}
}

package lockfile_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

const marker = ".ts-effect.lock"

func TestMarkerContentIsLoopXs(t *testing.T) {
	target := filepath.Join(t.TempDir(), "new", "maintenance")
	lock, err := acquire(lockfile.Marker, target, 0)
	must(t, err)
	content, err := os.ReadFile(target + marker)
	must(t, err)
	want := fmt.Sprintf(`^\{"pid":%d,"token":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"\}$`, os.Getpid())
	if !regexp.MustCompile(want).Match(content) {
		t.Errorf("content %q", content)
	}
	for path, mode := range map[string]os.FileMode{target + marker: 0o600, filepath.Dir(target): 0o700 | os.ModeDir} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != mode {
			t.Errorf("%s: mode %v", filepath.Base(path), info.Mode())
		}
	}
	must(t, lock.Release())
	expectLitter(t, lockfile.Marker, target)
}

// reaped is the process id of a process that has ended.
func reaped(t *testing.T) int {
	t.Helper()
	p := start(t, lockfile.Kernel, filepath.Join(t.TempDir(), "x"))
	p.finish()
	return p.pid()
}

// TestMarkerStaleness: who counts as gone, after stores.md section 3. A lock is as
// old as its modification time says.
func TestMarkerStaleness(t *testing.T) {
	dead, live := reaped(t), os.Getpid()
	long := strings.Repeat("x", 257)
	cases := []struct {
		name, content string
		age           time.Duration
		stale         bool
	}{
		{"dead", fmt.Sprintf(`{"pid":%d,"token":"a"}`, dead), 0, true},
		{"dead, other keys and spelling", fmt.Sprintf(`{ "x":[1], "token":"a", "pid":%d.0 }`, dead), 0, true},
		{"dead by number", `{"pid":0,"token":"a"}`, 0, true},
		{"dead by sign", `{"pid":-1,"token":"a"}`, 0, true},
		{"beyond any process id", `{"pid":9007199254740991,"token":"a"}`, 0, true},
		{"live and old", fmt.Sprintf(`{"pid":%d,"token":"case-28"}`, live), time.Hour, false},
		{"init, which we may not signal or may", `{"pid":1,"token":"a"}`, time.Hour, false},
		{"empty and young", ``, 9 * time.Second, false},
		{"empty and old", ``, 11 * time.Second, true},
		{"garbage and young", "\x00\x01", 0, false},
		{"garbage and old", "\x00\x01", 11 * time.Second, true},
		{"unsafe integer, young", `{"pid":9007199254740992,"token":"a"}`, 0, false},
		{"fraction, young", fmt.Sprintf(`{"pid":%d.5,"token":"a"}`, dead), 0, false},
		{"text for a pid, young", fmt.Sprintf(`{"pid":"%d","token":"a"}`, dead), 0, false},
		{"other case of the key, young", fmt.Sprintf(`{"PID":%d,"token":"a"}`, dead), 0, false},
		{"blank token, young", fmt.Sprintf(`{"pid":%d,"token":" \ufeff\u00a0"}`, dead), 0, false},
		{"token of U+0085, which is no blank", fmt.Sprintf(`{"pid":%d,"token":"\u0085"}`, dead), 0, true},
		{"long token, young", fmt.Sprintf(`{"pid":%d,"token":"%s"}`, dead, long), 0, false},
		{"longest token", fmt.Sprintf(`{"pid":%d,"token":"%s"}`, dead, long[1:]), 0, true},
		{"longest token in UTF-16 units, young", fmt.Sprintf(`{"pid":%d,"token":"%s"}`, dead, strings.Repeat("😀", 129)), 0, false},
		{"no token, old", fmt.Sprintf(`{"pid":%d}`, live), 11 * time.Second, true},
		{"null token, young", fmt.Sprintf(`{"pid":%d,"token":null}`, dead), 0, false},
		{"a list, young", `[1]`, 0, false},
		{"null, young", `null`, 0, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "t")
			plant(t, target+marker, c.content, c.age)
			lock, err := acquire(lockfile.Marker, target, 0)
			var busy *lockfile.BusyError
			switch {
			case c.stale && err == nil:
				must(t, lock.Release())
				expectLitter(t, lockfile.Marker, target)
			case !c.stale && errors.As(err, &busy):
				content, err := os.ReadFile(target + marker)
				if err != nil || string(content) != c.content {
					t.Errorf("not left alone: %q %v", content, err)
				}
			default:
				t.Errorf("error = %v, want stale %v", err, c.stale)
			}
		})
	}
}

func plant(t *testing.T, path, content string, age time.Duration) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
	then := time.Now().Add(-age)
	must(t, os.Chtimes(path, then, then))
}

// TestMarkerClaim: whoever holds the claim for a stale lock's token clears it away,
// and nobody else, unless he died over it.
func TestMarkerClaim(t *testing.T) {
	dead := reaped(t)
	cases := []struct {
		name, claim string
		age         time.Duration
		free        bool
	}{
		{"by a live process", fmt.Sprintf(`{"pid":%d,"token":"b"}`, os.Getpid()), time.Hour, false},
		{"by a dead process", fmt.Sprintf(`{"pid":%d,"token":"b"}`, dead), 0, true},
		{"unreadable and young", ``, 0, false},
		{"unreadable and old", ``, 11 * time.Second, true},
	}
	locks := map[string]struct {
		content, token string
		age            time.Duration
	}{
		"readable":   {fmt.Sprintf(`{"pid":%d,"token":"the token"}`, dead), "the token", 0},
		"unreadable": {`?`, "__invalid_lock_reclaim__", 11 * time.Second},
	}
	for kind, l := range locks {
		for _, c := range cases {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				target := filepath.Join(t.TempDir(), "t")
				plant(t, target+marker, l.content, l.age)
				claim := fmt.Sprintf("%s%s.claim.%x", target, marker, sha256.Sum256([]byte(l.token)))
				plant(t, claim, c.claim, c.age)
				lock, err := acquire(lockfile.Marker, target, 0)
				if (err == nil) != c.free {
					t.Fatalf("error = %v, want free %v", err, c.free)
				}
				if c.free {
					must(t, lock.Release())
					expectLitter(t, lockfile.Marker, target)
					return
				}
				if content, err := os.ReadFile(claim); err != nil || string(content) != c.claim {
					t.Errorf("claim not left alone: %q %v", content, err)
				}
			})
		}
	}
}

func TestMarkerReleaseByNonOwnerDoesNothing(t *testing.T) {
	usurpations := map[string]func(t *testing.T, path string){
		"another file": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			plant(t, path, fmt.Sprintf(`{"pid":%d,"token":"successor"}`, os.Getpid()), 0)
		},
		"another owner": func(t *testing.T, path string) {
			plant(t, path, fmt.Sprintf(`{"pid":%d,"token":"successor"}`, os.Getpid()), 0)
		},
	}
	for name, usurp := range usurpations {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "t")
			lock, err := acquire(lockfile.Marker, target, 0)
			must(t, err)
			usurp(t, target+marker)
			before := snapshot(t, target)
			for range 2 {
				if err := lock.Release(); !errors.Is(err, lockfile.ErrLost) {
					t.Errorf("error = %v", err)
				}
			}
			if after := snapshot(t, target); after != before {
				t.Errorf("changed:\n%s\n%s", before, after)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		target := filepath.Join(t.TempDir(), "t")
		lock, err := acquire(lockfile.Marker, target, 0)
		must(t, err)
		must(t, os.Remove(target+marker))
		if err := lock.Release(); !errors.Is(err, lockfile.ErrLost) {
			t.Errorf("error = %v", err)
		}
	})
}

func TestMarkerWaitsForItsHolderToRelease(t *testing.T) {
	target := filepath.Join(t.TempDir(), "t")
	first, err := acquire(lockfile.Marker, target, 0)
	must(t, err)
	second := make(chan error)
	go func() {
		lock, err := acquire(lockfile.Marker, target, time.Minute)
		if err == nil {
			err = lock.Release()
		}
		second <- err
	}()
	must(t, first.Release())
	must(t, <-second)
	expectLitter(t, lockfile.Marker, target)
}

// A marker's owner must be readable for LoopX, whose reader is JSON.parse.
func TestMarkerIsJSON(t *testing.T) {
	target := filepath.Join(t.TempDir(), "t")
	lock, err := acquire(lockfile.Marker, target, 0)
	must(t, err)
	content, err := os.ReadFile(target + marker)
	must(t, err)
	var owner map[string]any
	must(t, json.Unmarshal(content, &owner))
	if len(owner) != 2 || owner["pid"] != float64(os.Getpid()) {
		t.Errorf("owner %v", owner)
	}
	must(t, lock.Release())
}

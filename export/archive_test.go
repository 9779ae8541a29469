package export_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/export"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

const journal = "goal-file-v1/runtime/authority/file-v0/authority-store-090edaf83a75669a.json"

// TestSameBytesAsLoopX writes each history again and compares with LoopX's archive.
func TestSameBytesAsLoopX(t *testing.T) {
	for name, s := range map[string]*source{
		"archive-goal-file-v1": replayed(t, journal),
		"archive-traps-file":   scanned(t, "archive-traps-file", "goal-traps-～😀", authority.KindFile, "file:99aa8302c78b4339b162253303119a61"),
		"archive-traps-sqlite": trapsSQLite(t),
		"archive-tampered":     tiny(t),
	} {
		t.Run(name, func(t *testing.T) {
			want := fixture.Read(t, name, "archive.jsonl")
			path := filepath.Join(t.TempDir(), "archive.jsonl")
			seal, err := export.WriteArchive(t.Context(), path, s)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, LoopX has %d; first difference at byte %d", len(got), len(want), differs(got, want))
			}
			if !bytes.HasSuffix(got, []byte(`,"sha256":"`+seal.SHA256.String()+"\"}\n")) {
				t.Errorf("the seal's digest is not %s", seal.SHA256)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			alone(t, path)
		})
	}
}

func differs(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// alone fails when anything but the file is in its folder.
func alone(t *testing.T, path string) {
	t.Helper()
	if names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(names) != 1 || names[0] != path {
		t.Errorf("the folder holds %v, %v", names, err)
	}
}

// TestLoopXArchivesProve reads LoopX's archives and compares each row with the
// history they were made of.
func TestLoopXArchivesProve(t *testing.T) {
	for name, s := range map[string]*source{"archive-goal-file-v1": replayed(t, journal), "archive-traps-sqlite": trapsSQLite(t)} {
		t.Run(name, func(t *testing.T) {
			path := fixture.Path(t, name, "archive.jsonl")
			archive := open(t, path)
			n := 0
			lineage, err := archive.Audit(t.Context(), nil, func(row authority.Row) error {
				if got, want := fmt.Sprintf("%+q", row), fmt.Sprintf("%+q", s.rows[n]); got != want {
					t.Fatalf("row %d:\n%s\nwant\n%s", n+1, got, want)
				}
				n++
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			want, err := s.Audit(t.Context(), nil, func(authority.Row) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if n != len(s.rows) || lineage.Logical != want.Logical || lineage.Identity != s.identity || lineage.Format != export.FormatArchive {
				t.Errorf("%d rows, lineage %+v, want %d rows, %+v", n, lineage, len(s.rows), want)
			}
			if size := int64(len(fixture.Read(t, name, "archive.jsonl"))); lineage.Bytes != size {
				t.Errorf("%d bytes, want %d", lineage.Bytes, size)
			}
			if events, receipts := lengths(t, s); lineage.Events != events || lineage.Receipts != receipts {
				t.Errorf("%d events, %d receipts, want %d, %d", lineage.Events, lineage.Receipts, events, receipts)
			}
			if verified, err := export.VerifyArchive(t.Context(), path); err != nil || verified.Logical != lineage.Logical {
				t.Errorf("VerifyArchive: %+v, %v", verified, err)
			}
		})
	}
}

func lengths(t *testing.T, s *source) (events, receipts uint64) {
	t.Helper()
	for _, row := range s.rows {
		var list [2][]json.RawMessage
		if err := errors.Join(json.Unmarshal(row.Events, &list[0]), json.Unmarshal(row.Receipts, &list[1])); err != nil {
			t.Fatal(err)
		}
		events, receipts = events+uint64(len(list[0])), receipts+uint64(len(list[1]))
	}
	return events, receipts
}

func open(t *testing.T, path string) *export.Archive {
	t.Helper()
	archive, err := export.OpenArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	})
	return archive
}

type tampered struct {
	Case, Status, Reason string
	Exit                 int
	Archive              string
	Base64               string `json:"archive_base64"`
}

func (c tampered) bytes(t *testing.T) []byte {
	t.Helper()
	if c.Base64 == "" {
		return []byte(c.Archive)
	}
	data, err := base64.StdEncoding.DecodeString(c.Base64)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestTamperedArchives: whatever LoopX's verify refuses is refused, and so is what
// it lets pass, at the line and field listed. One case changes no row and no promise:
// a delta with two operations that cancel out.
func TestTamperedArchives(t *testing.T) {
	for _, c := range fixture.Lines[tampered](t, "archive-tampered", "cases.jsonl") {
		t.Run(c.Case, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "archive.jsonl")
			if err := os.WriteFile(path, c.bytes(t), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := export.VerifyArchive(t.Context(), path)
			if c.Case == "resigned-tx-delta-longer" {
				if err != nil || c.Status != "verified" {
					t.Fatalf("%v, LoopX %s", err, c.Status)
				}
				return
			}
			var line *export.LineError
			if !errors.As(err, &line) || !errors.Is(err, authority.ErrFailed) {
				t.Fatalf("got %v, LoopX said %s %s", err, c.Status, c.Reason)
			}
			got := fmt.Sprintf("%d %s %s", line.Line, line.Refusal.Cursor, line.Refusal.Field)
			if want, listed := places[c.Case]; !listed || got != want {
				t.Errorf("%q: %q, want %q: %v", c.Case, got, want, err)
			}
		})
	}
}

// TestEveryChangedByteIsRefused flips bits of each byte of a small archive, drops
// and doubles each, and cuts the file at each; of a large one a sample.
func TestEveryChangedByteIsRefused(t *testing.T) {
	small := fixture.Read(t, "archive-tampered", "archive.jsonl")
	refuse := func(what string, at int, text []byte) {
		t.Helper()
		var line *export.LineError
		if _, err := export.ProveBytes(t.Context(), text); !errors.As(err, &line) {
			t.Fatalf("byte %d %s: %v", at, what, err)
		}
	}
	for i := range small {
		for _, flip := range []byte{1, 4, 32, 128} {
			changed := bytes.Clone(small)
			changed[i] ^= flip
			refuse("changed", i, changed)
		}
		refuse("cut", i, small[:i])
		refuse("dropped", i, append(bytes.Clone(small[:i]), small[i+1:]...))
		refuse("doubled", i, append(bytes.Clone(small[:i+1]), small[i:]...))
	}
	for _, name := range []string{"archive-goal-file-v1", "archive-traps-sqlite"} {
		large := fixture.Read(t, name, "archive.jsonl")
		for i := 0; i < len(large); i += len(large)/60 + 1 {
			changed := bytes.Clone(large)
			changed[i] ^= byte(1 + i%7)
			refuse("of "+name+" changed", i, changed)
		}
	}
}

// TestNoArchive: what is not there, or is no file, or holds a line without end.
func TestNoArchive(t *testing.T) {
	dir := t.TempDir()
	_, err := export.OpenArchive(filepath.Join(dir, "none"))
	if !errors.Is(err, authority.ErrMissing) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := export.OpenArchive(dir); !errors.Is(err, authority.ErrUnavailable) {
		t.Errorf("a folder: %v", err)
	}
	path := filepath.Join(dir, "long")
	for size, detail := range map[int]string{64<<20 + 1: "longer than 67108864 bytes", 64 << 20: "not JSON"} {
		if err := os.WriteFile(path, append(bytes.Repeat([]byte{'x'}, size), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := export.OpenArchive(path); !errors.Is(err, authority.ErrFailed) || !strings.Contains(err.Error(), detail) {
			t.Errorf("a line of %d bytes: %v, want %s", size, err, detail)
		}
	}
}

// TestBookmarks: a bookmark of the store the archive came from is one in the archive.
func TestBookmarks(t *testing.T) {
	s := trapsSQLite(t)
	archive := open(t, fixture.Path(t, "archive-traps-sqlite", "archive.jsonl"))
	whole, err := archive.Audit(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := s.rows
	for _, n := range []int{0, 1, 17, 64, 65, 70} {
		s.rows = rows[:n]
		before, err := s.Audit(t.Context(), nil, func(authority.Row) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		mark, next := before.End, authority.Cursor(n)
		lineage, err := archive.Audit(t.Context(), &mark, func(row authority.Row) error {
			next++
			if row.Cursor != next {
				return fmt.Errorf("cursor %s, want %s", row.Cursor, next)
			}
			return nil
		})
		if err != nil || next != 70 || lineage.Logical != whole.Logical {
			t.Fatalf("from cursor %d: %v, up to %s", n, err, next)
		}
		if n == 0 {
			continue
		}
		for name, change := range map[string]func(*authority.Bookmark){
			"revision": func(b *authority.Bookmark) { b.Revision += "0" },
			"state":    func(b *authority.Bookmark) { b.StateDigest = authority.DigestOf([]byte("{}")) },
			"prefix":   func(b *authority.Bookmark) { b.Logical = authority.NewLogicalHash().State() },
			"cursor":   func(b *authority.Bookmark) { b.Cursor += 70 },
		} {
			other := mark
			change(&other)
			_, err := archive.Audit(t.Context(), &other, nil)
			if class, reason := authority.ReasonOf(err); class != authority.ClassFailed || reason != authority.ReasonRewritten {
				t.Errorf("cursor %d, another %s: %v", n, name, err)
			}
		}
	}
}

// TestAuditEnds with the error of its visit and of its context.
func TestAuditEnds(t *testing.T) {
	archive := open(t, fixture.Path(t, "archive-tampered", "archive.jsonl"))
	stop := errors.New("stop")
	_, err := archive.Audit(t.Context(), nil, func(authority.Row) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("visit: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := archive.Audit(ended, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
}

// TestReplacedContentIsNoticed: an archive overwritten in place after it was opened.
func TestReplacedContentIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	write := func(name string) {
		if err := os.WriteFile(path, fixture.Read(t, name, "archive.jsonl"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("archive-tampered")
	archive := open(t, path)
	write("archive-traps-file")
	if _, reason := authority.ReasonOf(second(archive.Prove(t.Context()))); reason != authority.ReasonRewritten {
		t.Errorf("reason %q", reason)
	}
}

func second(_ export.Seal, err error) error { return err }

package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// grown is a store with the first part of a fixture's rows, the bookmark there,
// and the rest of the rows.
func grown(t *testing.T, name string, format authority.Format, first int) (*filestore.Store, authority.Bookmark) {
	t.Helper()
	want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
	store := emptyStore(t, name, want, format)
	revisions, err := store.Append(context.Background(), authority.Applied{}, transactions(commits[:first]))
	must(t, err)
	lineage, err := store.Audit(context.Background(), nil, nil)
	must(t, err)
	head := authority.Applied{Cursor: authority.Cursor(first), Revision: revisions[first-1]}
	_, err = store.Append(context.Background(), head, skip(first, transactions(commits)))
	must(t, err)
	return store, lineage.End
}

func eachFormat(t *testing.T, check func(t *testing.T, format authority.Format)) {
	for _, format := range []authority.Format{authority.FormatFileV0, authority.FormatFileV1} {
		t.Run(string(format), func(t *testing.T) { check(t, format) })
	}
}

func TestResumeShowsTheTailOnly(t *testing.T) {
	eachFormat(t, func(t *testing.T, format authority.Format) {
		for _, first := range []int{1, 64, 65, 100, 199, 200} {
			store, mark := grown(t, "file-v0-mixed", format, first)
			whole, err := store.Audit(context.Background(), nil, nil)
			must(t, err)
			next := authority.Cursor(first)
			tail, err := store.Audit(context.Background(), &mark, func(row authority.Row) error {
				if next++; row.Cursor != next {
					t.Errorf("row %s in place of %s", row.Cursor, next)
				}
				return nil
			})
			must(t, err)
			if tail.Logical != whole.Logical || tail.End.Position != whole.End.Position || tail.Transactions != 200 || tail.Events != whole.Events || next != 200 {
				t.Errorf("from %d: %+v\nwhole: %+v", first, tail, whole)
			}
		}
	})
}

// What stands before the remembered row is not read again; what follows is.
func TestResumeReadsTheTailOnly(t *testing.T) {
	eachFormat(t, func(t *testing.T, format authority.Format) {
		store, mark := grown(t, "file-v0-mixed", format, 150)
		text, err := os.ReadFile(store.Path())
		must(t, err)
		before := bytes.Replace(text, []byte(`"operation_id":"op-0020"`), []byte(`"operation_id":"op-0X20"`), 1)
		must(t, os.WriteFile(store.Path(), before, 0o600))
		_, err = store.Audit(context.Background(), &mark, nil)
		must(t, err)
		if _, err = store.Audit(context.Background(), nil, nil); err == nil {
			t.Error("a whole audit passes over the edited row")
		}
		after := bytes.Replace(text, []byte(`"operation_id":"op-0180"`), []byte(`"operation_id":"op-0X80"`), 1)
		must(t, os.WriteFile(store.Path(), after, 0o600))
		_, err = store.Audit(context.Background(), &mark, nil)
		var e *authority.Error
		if !errors.As(err, &e) || e.Cursor != 180 || e.Field != "committed[179].provider_revision" || e.Class != authority.ClassFailed {
			t.Errorf("an edited tail: %v", err)
		}
	})
}

func TestResumeNoticesRewriting(t *testing.T) {
	eachFormat(t, func(t *testing.T, format authority.Format) {
		store, mark := grown(t, "file-v0-mixed", format, 100)
		text, err := os.ReadFile(store.Path())
		must(t, err)
		other, _ := grown(t, "file-v0-mixed", map[authority.Format]authority.Format{
			authority.FormatFileV0: authority.FormatFileV1, authority.FormatFileV1: authority.FormatFileV0,
		}[format], 100)
		upgraded, err := os.ReadFile(other.Path())
		must(t, err)
		for what, document := range map[string][]byte{
			"moved by one byte": bytes.Replace(text, []byte(`{"committed":[`), []byte(`{"committed":[ `), 1),
			"remembered row":    bytes.Replace(text, []byte(`"cursor":"100"`), []byte(`"cursor":"101"`), 1),
			"another format":    upgraded,
			"cut off":           text[:len(text)/8],
			"empty":             nil,
		} {
			must(t, os.WriteFile(store.Path(), document, 0o600))
			_, err := store.Audit(context.Background(), &mark, nil)
			if class, reason := authority.ReasonOf(err); class != authority.ClassFailed || reason != authority.ReasonRewritten {
				t.Errorf("%s: %v", what, err)
			}
		}
		must(t, os.Remove(store.Path()))
		_, err = store.Audit(context.Background(), &mark, nil)
		if _, reason := authority.ReasonOf(err); reason != authority.ReasonRewritten {
			t.Errorf("no document: %v", err)
		}
		garbled := mark
		garbled.Position = "somewhere"
		_, err = store.Audit(context.Background(), &garbled, nil)
		if _, reason := authority.ReasonOf(err); reason != authority.ReasonRewritten {
			t.Errorf("another store's bookmark: %v", err)
		}
	})
}

// A journal that was moved away with its identity is read where it is.
func TestMovedJournal(t *testing.T) {
	store, _ := grown(t, "file-v0-mixed", authority.FormatFileV1, 100)
	want, err := store.Audit(context.Background(), nil, nil)
	must(t, err)
	dir := t.TempDir()
	path, identity := filepath.Join(dir, "retired.json"), filepath.Join(dir, "identity")
	must(t, os.Rename(store.Path(), path))
	must(t, os.Rename(filestore.IdentityPath(filepath.Dir(store.Path())), identity))
	moved, err := filestore.OpenDocument(path, identity, filestore.Options{GoalID: store.GoalID(), Access: filestore.ReadOnly})
	must(t, err)
	got, err := moved.Audit(context.Background(), nil, nil)
	must(t, err)
	if got.Logical != want.Logical {
		t.Errorf("logical digest %s, want %s", got.Logical, want.Logical)
	}
}

// A view of a file that is written to in place refuses to answer.
func TestViewNoticesWritingInPlace(t *testing.T) {
	store, _ := grown(t, "file-v0-mixed", authority.FormatFileV0, 100)
	view, err := store.View(context.Background())
	must(t, err)
	file, err := os.OpenFile(store.Path(), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = file.WriteString(" ")
	must(t, err)
	must(t, file.Close())
	_, err = view.Scan(context.Background(), 0, 1)
	if class, _ := authority.ReasonOf(err); class != authority.ClassUnavailable {
		t.Errorf("scan of a file written in place: %v", err)
	}
	must(t, view.Close())
}

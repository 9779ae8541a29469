package filestore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/store/filestore"
)

// speller prints canonical JSON in another way each time: members in any order,
// blanks anywhere, characters escaped that need not be, a key given twice.
type speller struct {
	random *rand.Rand
	out    []byte
	twice  bool
}

func (s *speller) blank() {
	for s.random.IntN(8) == 0 {
		s.out = append(s.out, " \t\r\n"[s.random.IntN(4)])
	}
}

func (s *speller) value(text []byte) {
	s.blank()
	switch canonical.Kind(text) {
	case canonical.Object:
		s.object(text)
	case canonical.Array:
		s.out = append(s.out, '[')
		for element := range canonical.Elements(text) {
			s.value(element)
			s.out = append(s.out, ',')
		}
		s.out = append(bytes.TrimSuffix(s.out, []byte{','}), ']')
	case canonical.String:
		s.text(text)
	default:
		s.out = append(s.out, text...)
	}
	s.blank()
}

func (s *speller) object(text []byte) {
	type member struct {
		key   string
		value []byte
	}
	var members []member
	for key, value := range canonical.Members(text) {
		members = append(members, member{key, value})
	}
	s.random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	if s.twice && len(members) > 0 && s.random.IntN(50) == 0 {
		members = slices.Insert(members, 0, member{members[len(members)-1].key, []byte(`{"wrong":[1,2]}`)})
	}
	s.out = append(s.out, '{')
	for _, m := range members {
		s.blank()
		s.text(canonical.AppendString(nil, m.key))
		s.blank()
		s.out = append(s.out, ':')
		s.value(m.value)
		s.out = append(s.out, ',')
	}
	s.out = append(bytes.TrimSuffix(s.out, []byte{','}), '}')
}

func (s *speller) text(literal []byte) {
	for len(literal) > 0 {
		r, size := utf8.DecodeRune(literal)
		if literal[0] == '\\' {
			if size = 2; literal[1] == 'u' {
				size = 6
			}
			s.out = append(s.out, literal[:size]...)
		} else if r > 0x7f && r < 0x10000 && r != utf8.RuneError || r >= 'a' && r <= 'c' && s.random.IntN(9) == 0 {
			s.out = fmt.Appendf(s.out, `\u%04X`, r)
		} else {
			s.out = append(s.out, literal[:size]...)
		}
		literal = literal[size:]
	}
}

// A document means the same in whatever way it is spelled.
func TestSpellings(t *testing.T) {
	for _, name := range histories {
		t.Run(name, func(t *testing.T) {
			store := openFixture(t, name)
			want, err := store.Audit(context.Background(), nil, nil)
			must(t, err)
			text, err := os.ReadFile(store.Path())
			must(t, err)
			for seed := range uint64(4) {
				s := &speller{random: rand.New(rand.NewPCG(seed, 1)), twice: seed > 1}
				s.value(text)
				auditSpelling(t, name, s.out, want, s.twice)
			}
		})
	}
}

func auditSpelling(t *testing.T, name string, text []byte, want authority.Lineage, twice bool) {
	t.Helper()
	dir := filepath.Join(fixture.Copy(t, name), "store")
	store := open(t, filestore.Options{Dir: dir, GoalID: string(fixture.Expected(t, name).Goal)})
	must(t, os.WriteFile(store.Path(), text, 0o600))
	got, err := store.Audit(context.Background(), nil, nil)
	must(t, err)
	if got.Logical != want.Logical || got.End.Revision != want.End.Revision || got.Events != want.Events {
		t.Errorf("another spelling has logical digest %s, %s", got.Logical, got.End.Revision)
	}
	codes := map[string]bool{}
	for _, finding := range got.Findings {
		codes[finding.Code] = true
	}
	if !codes[authority.FindingSpelling] || twice && want.Transactions > 100 && !codes[authority.FindingDuplicateKey] {
		t.Errorf("findings %+v", got.Findings)
	}
	resumed, err := store.Audit(context.Background(), &got.End, nil)
	must(t, err)
	if resumed.Logical != want.Logical {
		t.Errorf("resumed on another spelling: %s", resumed.Logical)
	}
	view, err := store.View(context.Background())
	must(t, err)
	rows, operations := scanAll(t, view), must1(view.Operations(context.Background()))
	if len(rows) != int(want.Transactions) || len(operations) != len(rows) || operations[len(rows)-1] != rows[len(rows)-1].OperationID {
		t.Errorf("%d rows, %d operations", len(rows), len(operations))
	}
	must(t, view.Close())
}

func must1[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Of two lists of rows in one document the last one counts. Rows of the first
// may have been shown by then: such an audit never succeeds.
func TestLastCommittedCounts(t *testing.T) {
	const name = "file-v0-small"
	want, commits := fixture.Expected(t, name), fixture.Commits(t, name)
	store := emptyStore(t, name, want, authority.FormatFileV0)
	document := func(n int) []byte {
		_, err := store.Append(context.Background(), authority.Applied{}, transactions(commits[:n]))
		must(t, err)
		text, err := os.ReadFile(store.Path())
		must(t, err)
		must(t, os.Remove(store.Path()))
		return text
	}
	longer, shorter := document(12), document(11)
	edited := bytes.Replace(longer, []byte("bootstrap-1"), []byte("bootstrap-2"), 1)
	rows := func(text []byte) []byte { return text[:bytes.LastIndex(text, []byte(`],"cursor":"`))+1] }
	for _, c := range []struct {
		what        string
		first, last []byte
		head        authority.Cursor // of a load, 0 when it is refused
		shown       bool             // an audit with a visit succeeds
	}{
		{"same rows", longer, longer, 12, true},
		{"first too long", longer, shorter, 11, false},
		{"first a prefix", shorter, longer, 12, true},
		{"first edited", edited, longer, 12, true},
		{"last edited", longer, edited, 0, false},
	} {
		must(t, os.WriteFile(store.Path(), slices.Concat(rows(c.first), []byte(","), c.last[1:]), 0o600))
		head, err := store.Load(context.Background())
		if head.Cursor != c.head || (err == nil) != (c.head > 0) {
			t.Errorf("%s: head at %s, %v", c.what, head.Cursor, err)
		}
		seen := authority.Cursor(0)
		_, err = store.Audit(context.Background(), nil, func(row authority.Row) error {
			if seen++; row.OperationID == "bootstrap-2" {
				t.Errorf("%s: an edited row was shown", c.what)
			}
			return nil
		})
		if (err == nil) != c.shown || c.shown && seen != c.head {
			t.Errorf("%s: %s rows shown, %v", c.what, seen, err)
		}
	}
}

package canonical

import "sort"

// Tracker checks a sequence of texts that resemble each other, such as the
// states of one history in order. It compares each text with the last one that
// was canonical and scans only what differs. The zero Tracker is ready for use;
// it keeps a copy of one text and is not for concurrent use.
//
// It works from marks: every so many bytes, behind a comma, it notes what the
// scanner knew there. The same bytes scanned from the same knowledge lead to the
// same verdict, so wherever the new text agrees with the old one from a mark on,
// the scan goes on behind the agreement.
type Tracker struct {
	text   []byte // the last canonical text
	old    marks  // of text
	fresh  marks  // of the text being checked; they replace old if it is canonical
	stride int    // bytes between marks; 0 stands for defaultStride
	watch  int    // offset in the new text of the next mark to set
	shifts [2]int // guesses of how far the new text lies behind the old one
}

const (
	// defaultStride weighs the scan of half a stride around each change against
	// the work of carrying the marks along.
	defaultStride = 512
	// maxRoots bounds how many members of the root are marked and tried for an
	// alignment; LoopX's projections have eight.
	maxRoots = 32
	// minAgreement is the number of bytes that must agree behind two members of
	// the root before the texts are taken to be aligned there. It is a guess
	// that saves work; what follows from it is proved.
	minAgreement = 32
)

// marks are ascending by offset. A mark at offset o stands behind a comma at
// o-1; its frames are those of the scanner there, in one slice for all marks.
type marks struct {
	list   []mark
	frames []frame
	roots  []int // indices in list of marks between members of the root
}

type mark struct {
	offset int
	first  int // in frames
	depth  int
}

func (m *marks) framesOf(i int) []frame {
	at := m.list[i]
	return m.frames[at.first : at.first+at.depth]
}

func (m *marks) add(offset int, frames []frame) {
	if len(frames) == 1 && len(m.roots) < maxRoots {
		m.roots = append(m.roots, len(m.list))
	}
	m.list = append(m.list, mark{offset: offset, first: len(m.frames), depth: len(frames)})
	m.frames = append(m.frames, frames...)
}

func (m *marks) clear() { m.list, m.frames, m.roots = m.list[:0], m.frames[:0], m.roots[:0] }

// from returns the index of the first mark at or behind an offset.
func (m *marks) from(offset int) int {
	return sort.Search(len(m.list), func(i int) bool { return m.list[i].offset >= offset })
}

// Check returns exactly what the package's Check returns for next.
func (t *Tracker) Check(next []byte) error {
	prefix := commonPrefix(t.text, next)
	if prefix > 0 && prefix == len(next) && prefix == len(t.text) {
		return nil
	}
	if !t.scan(next, prefix) {
		// The old text and its marks stay; the plain Check finds the words.
		return Check(next)
	}
	t.text = append(t.text[:prefix], next[prefix:]...)
	t.old, t.fresh = t.fresh, t.old
	return nil
}

func (t *Tracker) scan(next []byte, prefix int) bool {
	if t.stride == 0 {
		t.stride = defaultStride
	}
	s := newScanner(next)
	defer s.release()
	s.tracker, s.alert = t, 0
	t.fresh.clear()
	t.shifts = [2]int{0, len(next) - len(t.text)}
	t.watch = t.stride
	known := t.old.from(prefix + 1) // marks within the prefix
	if known == 0 {
		return s.values()
	}
	s.frames = append(s.frames, t.old.framesOf(0)...)
	t.adopt(s, 0, known, 0)
	return s.from(s.follow())
}

// reached is called by the scanner behind each comma. It may move the scanner
// on, to behind another comma; true means that the rest of the text is known to
// be canonical.
func (t *Tracker) reached(s *scanner) bool {
	root := len(s.frames) == 1 && len(t.fresh.roots) < maxRoots
	if s.pos < s.alert && !root {
		return false
	}
	if root {
		t.align(s)
	}
	for _, shift := range t.shifts {
		i := t.old.from(s.pos - shift)
		if i == len(t.old.list) || t.old.list[i].offset != s.pos-shift {
			continue
		}
		if moved, whole := t.agree(s, i); moved {
			return whole
		}
	}
	if s.pos >= t.watch || root {
		t.fresh.add(s.pos, s.frames)
		t.watch = s.pos + t.stride
	}
	t.setAlert(s)
	return false
}

// setAlert finds the next offset behind the scanner's at which a mark is to be set or an
// old mark may stand.
func (t *Tracker) setAlert(s *scanner) {
	s.alert = t.watch
	for _, shift := range t.shifts {
		if i := t.old.from(s.pos - shift + 1); i < len(t.old.list) {
			s.alert = min(s.alert, t.old.list[i].offset+shift)
		}
	}
}

// align looks for the place in the old text's root that goes on as the new one
// does here, and makes its distance a guess.
func (t *Tracker) align(s *scanner) {
	rest := s.src[s.pos:]
	for _, i := range t.old.roots {
		old := t.text[t.old.list[i].offset:]
		if len(rest) < minAgreement || len(old) < minAgreement {
			continue
		}
		if string(rest[:minAgreement]) == string(old[:minAgreement]) {
			t.shifts[0] = s.pos - t.old.list[i].offset
			return
		}
	}
}

// agree compares the texts from an old mark and the scanner's place on. If the
// scanner knows here what it knew there, it is moved to the last old mark that
// the agreement covers. whole means that the agreement covers all the rest.
func (t *Tracker) agree(s *scanner, i int) (moved, whole bool) {
	if !t.sameKnowledge(s, t.old.framesOf(i)) {
		return false, false
	}
	offset := t.old.list[i].offset
	old, rest := t.text[offset:], s.src[s.pos:]
	length := commonPrefix(old, rest)
	if length == len(old) && length == len(rest) {
		t.adopt(s, i, len(t.old.list), s.pos-offset)
		return true, true
	}
	end := t.old.from(offset + length + 1)
	if end <= i+1 {
		return false, false
	}
	t.adopt(s, i, end, s.pos-offset)
	return true, false
}

// sameKnowledge reports whether the scanner stands in the same containers as
// then, each behind the same key.
func (t *Tracker) sameKnowledge(s *scanner, then []frame) bool {
	if len(s.frames) != len(then) {
		return false
	}
	for k, f := range s.frames {
		g := then[k]
		if f.object != g.object {
			return false
		}
		if f.object && string(s.src[f.key:f.end]) != string(t.text[g.key:g.end]) {
			return false
		}
	}
	return true
}

// adopt makes the old marks from i to before end marks of the new text, which
// lies shift bytes behind the old one there, and puts the scanner at the last.
// Keys in front of mark i are those the scanner has; the others move along.
func (t *Tracker) adopt(s *scanner, i, end, shift int) {
	offset := t.old.list[i].offset
	for ; i < end; i++ {
		from := len(t.fresh.frames)
		t.fresh.add(t.old.list[i].offset+shift, t.old.framesOf(i))
		for k, f := range t.fresh.frames[from:] {
			switch {
			case f.key >= offset:
				t.fresh.frames[from+k].key += shift
				t.fresh.frames[from+k].end += shift
			case f.key >= 0:
				t.fresh.frames[from+k] = s.frames[k]
			}
		}
	}
	last := len(t.fresh.list) - 1
	s.pos = t.fresh.list[last].offset
	s.frames = append(s.frames[:0], t.fresh.framesOf(last)...)
	t.watch = s.pos + t.stride
	t.setAlert(s)
}

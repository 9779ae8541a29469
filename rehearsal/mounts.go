package rehearsal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mountTable is where Linux says what is mounted where (proc(5), mountinfo).
const mountTable = "/proc/self/mountinfo"

// upper is where writes to a path end when an overlay lies over it: the path in the
// overlay's upper folder, which has another device there, so that no inode tells. It is
// empty for a path on no overlay, and without a mount table.
func upper(real string) (string, error) {
	text, err := os.ReadFile(mountTable)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return upperIn(string(text), real), nil
}

// upperIn reads a mount table: of the mounts above a path the innermost counts, and of
// those at one place the last.
func upperIn(table, real string) string {
	innermost, found := "", ""
	for line := range strings.Lines(table) {
		front, behind, whole := strings.Cut(strings.TrimSpace(line), " - ")
		at, kind := strings.Fields(front), strings.Fields(behind)
		if !whole || len(at) < 5 || len(kind) < 3 {
			continue
		}
		root, point := unescaped(at[3]), unescaped(at[4])
		if point != real && !within(real, point) || len(point) < len(innermost) {
			continue
		}
		innermost, found = point, ""
		for _, option := range strings.Split(kind[2], ",") {
			if dir, is := strings.CutPrefix(option, "upperdir="); is && kind[0] == "overlay" {
				found = filepath.Join(unescaped(dir), root, strings.TrimPrefix(real, point))
			}
		}
	}
	return found
}

// unescaped undoes the octal escapes of a mount table.
func unescaped(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

package parity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/sergi/go-diff/diffmatchpatch"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// place is where two values first differ.
type place struct {
	path        string // JSON path from the values compared
	left, right []byte // what stands there; nil when nothing does
	// recordLeft and recordRight are the innermost records around it that have a
	// Todo id, or the whole values; todo is that id.
	recordLeft, recordRight []byte
	todo                    string
}

// firstDifference walks two different canonical values in printed order.
func firstDifference(left, right []byte) place {
	p := place{left: left, right: right, recordLeft: left, recordRight: right}
	for p.descend() {
	}
	return p
}

// descend goes one level down to the first difference there, and says whether it could.
func (p *place) descend() bool {
	kind := canonical.Kind(p.left)
	if kind != canonical.Kind(p.right) {
		return false
	}
	switch kind {
	case canonical.Object:
		p.intoObject()
	case canonical.Array:
		p.intoArray()
	default:
		return false
	}
	return p.left != nil && p.right != nil
}

func (p *place) intoObject() {
	right := members(p.right)
	for key, left := range canonical.Members(p.left) {
		if other, there := right[key]; !there || !bytes.Equal(left, other) {
			p.step("."+segment(key), left, other)
			return
		}
		delete(right, key)
	}
	for key, other := range canonical.Members(p.right) {
		if _, rest := right[key]; rest {
			p.step("."+segment(key), nil, other)
			return
		}
	}
}

func (p *place) intoArray() {
	left, right := elements(p.left), elements(p.right)
	for i := range max(len(left), len(right)) {
		l, r := at(left, i), at(right, i)
		if bytes.Equal(l, r) {
			continue
		}
		name := fmt.Sprintf("[%d]", i)
		if id := todoID(l); id != "" && id == todoID(r) {
			name = "[" + segment(id) + "]"
			p.todo, p.recordLeft, p.recordRight = id, l, r
		}
		p.step(name, l, r)
		return
	}
}

func (p *place) step(name string, left, right []byte) {
	p.path = strings.TrimPrefix(p.path+name, ".")
	p.left, p.right = left, right
}

var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`) })

// segment names a key, or its digest when it could be text of a person.
func segment(key string) string {
	if plainName().MatchString(key) {
		return key
	}
	return "#" + authority.DigestOf([]byte(key)).String()[:8]
}

// todoID is the Todo id of a record, or empty.
func todoID(record []byte) string { return text(record, "todo_id") }

// text is a string member of an object, or empty.
func text(object []byte, name string) string {
	value := member(object, name)
	if canonical.Kind(value) != canonical.String {
		return ""
	}
	s, err := canonical.ParseString(value)
	if err != nil {
		return ""
	}
	return s
}

// member is the value of a key, or nil.
func member(object []byte, name string) []byte {
	for key, value := range canonical.Members(object) {
		if key == name {
			return value
		}
	}
	return nil
}

func members(object []byte) map[string][]byte {
	all := map[string][]byte{}
	for key, value := range canonical.Members(object) {
		all[key] = value
	}
	return all
}

func elements(array []byte) [][]byte {
	var all [][]byte
	for element := range canonical.Elements(array) {
		all = append(all, element)
	}
	return all
}

func at(list [][]byte, i int) []byte {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// valueOf is what a report says of a value: its digest.
func valueOf(value []byte) string {
	if value == nil {
		return "absent"
	}
	return authority.DigestOf(value).String()
}

// readable is a diff of two records by lines, for the terminal.
func readable(leftName, rightName string, left, right []byte) string {
	engine := diffmatchpatch.New()
	a, b, lines := engine.DiffLinesToChars(indented(left), indented(right))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", leftName, rightName)
	for _, part := range engine.DiffCharsToLines(engine.DiffMain(a, b, false), lines) {
		sign := map[diffmatchpatch.Operation]string{
			diffmatchpatch.DiffDelete: "-", diffmatchpatch.DiffInsert: "+", diffmatchpatch.DiffEqual: " ",
		}[part.Type]
		for line := range strings.Lines(part.Text) {
			out.WriteString(sign + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return out.String()
}

func indented(value []byte) string {
	var out bytes.Buffer
	if value == nil {
		return ""
	}
	if err := json.Indent(&out, value, "", "  "); err != nil {
		return string(value)
	}
	return out.String() + "\n"
}

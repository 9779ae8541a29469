package witness

import "testing"

// What stood in the text before is not read again, and what did not is.
func TestMemorySharesWhatStoodBefore(t *testing.T) {
	m := memory{}
	var lists [3][]*value
	for i, text := range []string{`{"todos":[{"a": 1},{"b":"x"}]}`, `{"todos": [{"b":"x"}, {"a": 1},{"b":"y"}]}`, `{"todos":[{"a":1}]}`} {
		v, err := m.parse(text)
		if err != nil {
			t.Fatal(err)
		}
		lists[i] = v.elements("todos")
	}
	if lists[1][1] != lists[0][0] || lists[1][0] != lists[0][1] {
		t.Error("an element with the same spelling was read again")
	}
	if got := lists[1][2].canonical(); got != `{"b":"y"}` {
		t.Errorf("another element became %s", got)
	}
	if lists[2][0] == lists[0][0] || lists[2][0].canonical() != lists[0][0].canonical() {
		t.Error("another spelling is read by itself and says the same")
	}
}

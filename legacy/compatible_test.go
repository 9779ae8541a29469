package legacy

import (
	"strings"
	"testing"
)

// A lease of an archived Todo stays in its file and outside of any head: it is no
// difference. One of an active Todo is, and so is everything else of a lease.
func TestLeasesOfArchivedTodosAreNotCompared(t *testing.T) {
	const head = `{"goal_id":"g","handoff_mode":"hard_lease","leases":[{"status":"released","todo_id":"todo_a"},{"status":"released","todo_id":"todo_b"}],` +
		`"todos":[{"archive_state":"archive","text":"x","todo_id":"todo_a"},{"archive_state":"active","text":"y","todo_id":"todo_b"}]}`
	without := func(lease string) string { return strings.Replace(head, lease, "", 1) }
	compared := string(Compatible([]byte(head)))
	if got := string(Compatible([]byte(without(`{"status":"released","todo_id":"todo_a"},`)))); got != compared {
		t.Errorf("without the archived todo's lease:\n%s\n%s", got, compared)
	}
	for name, other := range map[string]string{
		"an active todo's lease gone": without(`,{"status":"released","todo_id":"todo_b"}`),
		"it says something else":      strings.Replace(head, `"released","todo_id":"todo_b"`, `"active","todo_id":"todo_b"`, 1),
		"the todo is not archived":    strings.Replace(head, `"archive_state":"archive"`, `"archive_state":"active"`, 1),
	} {
		if other == head || string(Compatible([]byte(other))) == compared {
			t.Errorf("%s: it makes no difference", name)
		}
	}
}

//go:build !race

// The race detector allocates by itself.

package canonical

import "testing"

func TestCheckAllocatesNothing(t *testing.T) {
	_, next := projections(t, 16<<10)
	if n := testing.AllocsPerRun(100, func() { _ = Check(next) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

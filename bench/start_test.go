package bench

import (
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/internal/perf"
)

var empty = sync.OnceValues(func() (string, error) {
	return build("empty", "./testdata/empty", "-trimpath", "-ldflags", "-s -w")
})

// BenchmarkVersion compares the start of `version` with that of a program that does
// nothing, by their medians. The target is 2.5.
func BenchmarkVersion(b *testing.B) {
	ours, least := program(b, released), program(b, empty)
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, path := range []string{ours, least} {
			cost, err := perf.Run(exec.Command(path, "version"))
			must(b, err)
			took[path] = append(took[path], cost.Wall)
		}
	}
	median := func(path string) float64 {
		slices.Sort(took[path])
		return took[path][len(took[path])/2].Seconds()
	}
	b.ReportMetric(median(ours)/median(least), "x-empty")
}

// BenchmarkBinarySize reports how long the program is, stripped. The target is 25 MB.
func BenchmarkBinarySize(b *testing.B) {
	info, err := os.Stat(program(b, released))
	must(b, err)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(info.Size())/1e6, "MB")
}

// Package perf measures work as ratios, for benchmarks. Machines are shared and
// noisy: a time says little, and a ratio of two times of the same run says more.
//
// Each ratio is taken twice: by the clock, and by the time of all processors,
// which other programs disturb less. On two cores the clock's ratio of work that
// uses both is at best half the processors' ratio.
package perf

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Cost is what work took.
type Cost struct {
	Wall, CPU time.Duration
	Peak      int64 // of a process of its own: the most memory it had resident, in bytes
}

func (c *Cost) add(other Cost) {
	c.Wall, c.CPU, c.Peak = c.Wall+other.Wall, c.CPU+other.CPU, max(c.Peak, other.Peak)
}

// Measure does work in this process.
func Measure(work func() error) (Cost, error) {
	start, before := time.Now(), spent()
	err := work()
	return Cost{Wall: time.Since(start), CPU: spent() - before}, err
}

func spent() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic("perf: getrusage of this process: " + err.Error()) // it has no way to fail
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Run runs a process to its end. The error holds what it said on its standard error.
func Run(process *exec.Cmd) (Cost, error) {
	var said bytes.Buffer
	process.Stderr = &said
	start := time.Now()
	if err := process.Start(); err != nil {
		return Cost{}, err
	}
	peak, ended := make(chan int64), make(chan struct{})
	go func() { peak <- watchPeak(process.Process.Pid, ended) }()
	err := process.Wait()
	cost := Cost{Wall: time.Since(start), CPU: process.ProcessState.UserTime() + process.ProcessState.SystemTime()}
	close(ended)
	cost.Peak = <-peak
	if err != nil {
		err = fmt.Errorf("%v: %w\n%s", process.Args, err, said.String())
	}
	return cost, err
}

var peakLine = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// watchPeak reads the most memory a process has had resident, until it has ended. What
// the kernel tells at the end of a process is no use: it begins with the peak of the
// process that started it.
func watchPeak(pid int, ended <-chan struct{}) (peak int64) {
	const often = 5 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if found := peakLine.FindSubmatch(status); err == nil && found != nil {
			if kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64); err == nil {
				peak = max(peak, kilobytes<<10)
			}
		}
		select {
		case <-ended:
			return peak
		case <-tick.C:
		}
	}
}

// Hash is the yardstick: Go's SHA-256 over a file, reading included.
func Hash(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{sha256.New()}, struct{ io.Reader }{file}, make([]byte, 1<<20))
	return errors.Join(err, file.Close())
}

// Ratio adds up work and yardstick of one benchmark, which are to be measured in turns.
type Ratio struct{ work, yardstick Cost }

// Work measures work in this process.
func (r *Ratio) Work(b *testing.B, work func() error) {
	b.Helper()
	r.work.add(must(b)(Measure(work)))
}

// Yardstick measures what the work is compared with.
func (r *Ratio) Yardstick(b *testing.B, work func() error) {
	b.Helper()
	r.yardstick.add(must(b)(Measure(work)))
}

// Add adds work that was measured already.
func (r *Ratio) Add(cost Cost) { r.work.add(cost) }

func must(b *testing.B) func(Cost, error) Cost {
	b.Helper()
	return func(cost Cost, err error) Cost {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return cost
	}
}

// Report reports the ratios as x-<name> and x-<name>-cpu, and the peak where there is one.
func (r *Ratio) Report(b *testing.B, name string) {
	b.ReportMetric(r.work.Wall.Seconds()/r.yardstick.Wall.Seconds(), "x-"+name)
	b.ReportMetric(r.work.CPU.Seconds()/r.yardstick.CPU.Seconds(), "x-"+name+"-cpu")
	if r.work.Peak > 0 {
		b.ReportMetric(float64(r.work.Peak)/(1<<20), "MiB-peak")
	}
}

package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/loopx-project/loopx-migrate/cutover"
)

// meter shows signs of life of long work on stderr.
type meter struct {
	mu      sync.Mutex
	out     io.Writer
	now     func() time.Time
	mode    string
	act     string
	began   time.Time
	spoke   time.Time
	longest uint64 // rows of the longest act so far: what the next one will have
	bar     *progressbar.ProgressBar
}

// quiet is how long plain progress says nothing, so that short work stays silent.
const quiet = 3 * time.Second

// meter chooses how progress is shown: a bar on a terminal, a line every few
// seconds otherwise, nothing with JSON.
func (e *env) meter(g globals) *meter {
	m := &meter{out: e.stderr, now: e.now, mode: g.progress}
	if m.mode == "auto" {
		switch {
		case g.output == outputJSON:
			m.mode = "none"
		case terminal(e.stderr):
			m.mode = "bar"
		default:
			m.mode = "plain"
		}
	}
	return m
}

// watch takes one sign of life. Rows of one Goal are as many in every store, so an
// act without a total of its own borrows the longest one's.
func (m *meter) watch(p cutover.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mode == "none" {
		return
	}
	if name := p.Act + " " + p.Arm; name != m.act {
		m.end()
		m.act, m.began, m.spoke = name, m.now(), m.now()
	}
	m.longest = max(m.longest, p.Done, p.Total)
	total := p.Total
	if total == 0 && m.longest > p.Done {
		total = m.longest
	}
	if m.mode == "bar" {
		m.draw(p.Done, total)
		return
	}
	if m.now().Sub(m.spoke) < quiet {
		return
	}
	m.spoke = m.now()
	_, _ = io.WriteString(m.out, m.plain(p.Done, total)+"\n") // progress that cannot be shown must not stop the work
}

func (m *meter) plain(done, total uint64) string {
	elapsed := m.now().Sub(m.began).Seconds()
	rate := float64(done) / max(elapsed, 0.001)
	if total == 0 {
		return fmt.Sprintf("%s: %d rows, %.0f rows/s", m.act, done, rate)
	}
	left := time.Duration(float64(total-min(done, total)) / max(rate, 0.001) * float64(time.Second))
	return fmt.Sprintf("%s: %d of %d rows, %.0f rows/s, %s left", m.act, done, total, rate, left.Round(time.Second))
}

func (m *meter) draw(done, total uint64) {
	limit := int64(total)
	if total == 0 {
		limit = -1
	}
	if m.bar == nil {
		m.bar = progressbar.NewOptions64(limit, progressbar.OptionSetWriter(m.out), progressbar.OptionSetDescription(m.act),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("rows"), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(true))
	}
	if m.bar.GetMax64() != limit && limit > 0 {
		m.bar.ChangeMax64(limit)
	}
	_ = m.bar.Set64(int64(done)) // see watch
}

// end takes the bar away.
func (m *meter) end() {
	if m.bar != nil {
		_ = m.bar.Finish() // see watch
		m.bar = nil
	}
}

// done ends the display before an answer is printed.
func (m *meter) done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
}

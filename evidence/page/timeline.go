package page

import (
	"fmt"
	"html/template"
	"slices"
)

// style is the page's own style sheet, which is trusted.
type style = template.CSS

// lane is the timeline of one arm.
type lane struct {
	Arm         string
	Bars        []bar
	Description string
}

// bar is a phase. X and Width are thousandths of the whole timeline.
type bar struct {
	Name            string
	Start, Duration int64 // milliseconds
	X, Width        string
	Tone            int    // of phases of this name
	State           string // empty, failed or stall
}

func (v *view) bar(arm, name string, start, duration int64, state string) {
	for i := range v.Lanes {
		if v.Lanes[i].Arm == arm {
			v.Lanes[i].add(name, start, duration, state, v.tone(name))
			return
		}
	}
	v.Lanes = append(v.Lanes, lane{Arm: arm})
	v.Lanes[len(v.Lanes)-1].add(name, start, duration, state, v.tone(name))
}

func (l *lane) add(name string, start, duration int64, state string, tone int) {
	l.Bars = append(l.Bars, bar{Name: name, Start: start, Duration: duration, Tone: tone, State: state})
}

// tone is the colour of a phase: the same in every lane.
func (v *view) tone(name string) int {
	at := slices.Index(v.phases, name)
	if at < 0 {
		at = len(v.phases)
		v.phases = append(v.phases, name)
	}
	return at % tones
}

// tones is how many colours the phases take in turn.
const tones = 6

// layOut works out where bars begin and how wide they are.
func (v *view) layOut() {
	for _, l := range v.Lanes {
		for _, b := range l.Bars {
			v.Total = max(v.Total, b.Start+b.Duration)
		}
	}
	whole := float64(max(v.Total, 1))
	const narrowest = 2 // thousandths: a phase of no time is still seen
	for i := range v.Lanes {
		l := &v.Lanes[i]
		l.Description = "Phases of " + l.Arm + ":"
		for j := range l.Bars {
			b := &l.Bars[j]
			width := max(narrowest, float64(b.Duration)/whole*1000)
			b.X = fmt.Sprintf("%.1f", min(float64(b.Start)/whole*1000, 1000-width))
			b.Width = fmt.Sprintf("%.1f", width)
			l.Description += fmt.Sprintf(" %s from %s for %s;", b.Name, millis(b.Start), millis(b.Duration))
		}
	}
}

// Quarters are the marks below the timeline.
func (v view) Quarters() []string {
	var marks []string
	for i := range int64(5) {
		marks = append(marks, millis(v.Total*i/4))
	}
	return marks
}

package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/go-analyze/charts"

	"github.com/loopx-project/loopx-migrate/evidence"
)

// plot is a drawing with its legend and the numbers it was drawn from.
type plot struct {
	Title, Unit string
	Drawing     template.HTML // an SVG that this package made
	Description string
	Legend      []legend
	Head        []string
	Rows        [][]string
}

// legend names a curve. Tone is its colour in the style sheet.
type legend struct {
	Name string
	Tone int
}

// inks are the colours of the curves, each readable on white; page.css has them again.
var inks = []charts.Color{{R: 0x1f, G: 0x5f, B: 0xbf, A: 255}, {R: 0xb3, G: 0x59, B: 0x00, A: 255}, {R: 0x1b, G: 0x7a, B: 0x43, A: 255}, {R: 0x7a, G: 0x3f, B: 0xb0, A: 255}}

// Size of a drawing in its own units, large type, since a phone shows it at half the size.
const (
	plotWidth, plotHeight = 640, 340
	plotType              = 17
	// plotSteps is how many places of the x axis a curve is drawn at.
	plotSteps = 48
	// listedPoints is how many points of a curve the table beside it shows.
	listedPoints = 12
)

func (v *view) plots(r *evidence.Rehearsal) error {
	v.Unrated = len(byAxes(r.Rates)) == 0
	for _, group := range []struct {
		title  string
		series []evidence.Series
	}{{"Import rate", r.Rates}, {"History growth", r.Growth}} {
		for _, alike := range byAxes(group.series) {
			p, err := curves(group.title, alike)
			if err != nil {
				return err
			}
			v.Plots = append(v.Plots, p)
		}
	}
	if len(r.Latencies) > 0 {
		p, err := latencies(r.Latencies)
		if err != nil {
			return err
		}
		v.Plots = append(v.Plots, p)
	}
	return nil
}

// byAxes groups the curves that can share a drawing.
func byAxes(all []evidence.Series) [][]evidence.Series {
	var groups [][]evidence.Series
	for _, s := range all {
		if len(s.Points) < 2 {
			continue
		}
		at := slices.IndexFunc(groups, func(g []evidence.Series) bool { return g[0].Name == s.Name && g[0].X == s.X && g[0].Y == s.Y })
		if at < 0 {
			groups = append(groups, nil)
			at = len(groups) - 1
		}
		groups[at] = append(groups[at], s)
	}
	return groups
}

func curves(title string, series []evidence.Series) (plot, error) {
	p := plot{Title: title, Unit: series[0].Y + " over " + series[0].X, Head: []string{"arm", series[0].X, series[0].Y}}
	from, to := extent(series)
	step := (to - from) / plotSteps
	lines := make([][]float64, len(series))
	labels := make([]string, plotSteps+1)
	for i := range labels {
		labels[i] = number(from + float64(i)*step)
		for n, s := range series {
			lines[n] = append(lines[n], at(s.Points, from+float64(i)*step))
		}
	}
	for i, s := range series {
		p.Legend = append(p.Legend, legend{s.Arm, i % len(inks)})
		first, last := s.Points[0], s.Points[len(s.Points)-1]
		p.Description += fmt.Sprintf("%s: from %s at %s to %s at %s. ", s.Arm, number(first[1]), number(first[0]), number(last[1]), number(last[0]))
		for _, point := range thinned(s.Points) {
			p.Rows = append(p.Rows, []string{s.Arm, number(point[0]), number(point[1])})
		}
	}
	option := charts.NewLineChartOptionWithData(lines)
	option.Theme, option.Legend.Show, option.ValueFormatter = theme(), charts.Ptr(false), number
	option.XAxis.Labels, option.XAxis.LabelCount = labels, 5
	option.XAxis.LabelFontStyle.FontSize, option.LineStrokeWidth = plotType, 3
	option.XAxis.BoundaryGap = charts.Ptr(false)
	option.YAxis[0].LabelFontStyle.FontSize, option.YAxis[0].Min, option.YAxis[0].LabelCount = plotType, charts.Ptr(0.0), 5
	option.Symbol = charts.Symbol{Shape: charts.SymbolNone}
	painter := newPainter(plotHeight)
	if err := painter.LineChart(option); err != nil {
		return p, fmt.Errorf("plot %s: %w", title, err)
	}
	return p, p.drawn(painter)
}

// apartFromAxis keeps a label off the axis where the reader's type is wider than the
// library's: blanks that are not collapsed.
const apartFromAxis = "\u00a0\u00a0\u00a0\u00a0"

// latencies are bars: a group an operation, a bar an arm. The table has every percentile.
func latencies(all []evidence.Latency) (plot, error) {
	p := plot{Title: "Commit latency", Unit: "milliseconds; 95 of 100 were no longer", Head: []string{"operation and arm", "count", "50 %", "95 %", "99 %", "longest"}}
	var arms, operations []string
	for _, l := range all {
		if !slices.Contains(arms, l.Arm) {
			p.Legend = append(p.Legend, legend{l.Arm, len(arms) % len(inks)})
			arms = append(arms, l.Arm)
		}
		if !slices.Contains(operations, l.Operation) {
			operations = append(operations, l.Operation)
		}
		p.Rows = append(p.Rows, []string{l.Operation + " " + l.Arm, grouped(l.Count), micros(l.P50Micros), micros(l.P95Micros), micros(l.P99Micros), micros(l.MaxMicros)})
		p.Description += fmt.Sprintf("%s on %s: half within %s, 99 of 100 within %s. ", l.Operation, l.Arm, micros(l.P50Micros), micros(l.P99Micros))
	}
	values, labels := make([][]float64, len(arms)), make([]string, len(operations))
	for i := range arms {
		values[i] = make([]float64, len(operations))
	}
	for i, operation := range operations {
		labels[i] = strings.ReplaceAll(operation, "_", " ") + apartFromAxis
	}
	for _, l := range all {
		values[slices.Index(arms, l.Arm)][slices.Index(operations, l.Operation)] = float64(l.P95Micros) / 1000
	}
	option := charts.NewBarChartOptionWithData(values)
	option.Theme, option.Legend.Show, option.ValueFormatter, option.Horizontal = theme(), charts.Ptr(false), number, true
	option.CategoryAxis.Labels, option.CategoryAxis.LabelCount = labels, len(labels)
	option.CategoryAxis.LabelFontStyle.FontSize = plotType - 3
	option.ValueAxis[0].LabelFontStyle.FontSize, option.ValueAxis[0].LabelCount = plotType, 5
	painter := newPainter(max(plotHeight, 60+len(operations)*(20+9*len(arms))))
	if err := painter.BarChart(option); err != nil {
		return p, fmt.Errorf("plot of latencies: %w", err)
	}
	return p, p.drawn(painter)
}

func newPainter(height int) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: plotWidth, Height: height})
}

func theme() charts.ColorPalette {
	ink := charts.Color{R: 0x33, G: 0x3b, B: 0x47, A: 255}
	return charts.MakeTheme(charts.ThemeOption{AxisStrokeColor: ink, TextColor: ink, TextColorXAxis: ink, TextColorYAxis: ink,
		AxisSplitLineColor: charts.Color{R: 0xd8, G: 0xdd, B: 0xe6, A: 255}, BackgroundColor: charts.Color{R: 255, G: 255, B: 255, A: 255}, SeriesColors: inks})
}

// drawn takes the SVG. The description beside it says what it shows, so that it is hidden
// from whoever reads aloud.
func (p *plot) drawn(painter *charts.Painter) error {
	text, err := painter.Bytes()
	if err != nil {
		return fmt.Errorf("plot %s: %w", p.Title, err)
	}
	svg := strings.Replace(string(text), "<svg ", `<svg aria-hidden="true" focusable="false" `, 1)
	p.Drawing = template.HTML(strings.ReplaceAll(svg, ` xmlns:xlink="http://www.w3.org/1999/xlink"`, "")) // #nosec G203 -- made of numbers and escaped labels by the library
	return nil
}

func extent(series []evidence.Series) (from, to float64) {
	from, to = series[0].Points[0][0], series[0].Points[0][0]
	for _, s := range series {
		for _, p := range s.Points {
			from, to = min(from, p[0]), max(to, p[0])
		}
	}
	if from == to {
		to++
	}
	return from, to
}

// at is the curve's value between its points, nothing outside of them.
func at(points [][2]float64, x float64) float64 {
	points = slices.SortedStableFunc(slices.Values(points), func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	const slack = 1e-9
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		if x < a[0]-slack || x > b[0]+slack {
			continue
		}
		if b[0] == a[0] {
			return b[1]
		}
		return a[1] + (b[1]-a[1])*(x-a[0])/(b[0]-a[0])
	}
	return charts.GetNullValue()
}

// thinned are some of the points, the first and the last among them.
func thinned(points [][2]float64) [][2]float64 {
	if len(points) <= listedPoints {
		return points
	}
	var some [][2]float64
	for i := range listedPoints {
		some = append(some, points[i*(len(points)-1)/(listedPoints-1)])
	}
	return some
}

// number prints a value short: 1.2k, 3.4M.
func number(f float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if f >= unit.of {
			of := unit.of
			if unit.name == "k" {
				of = 1e3
			}
			return strings.TrimSuffix(strconv.FormatFloat(f/of, 'f', 1, 64), ".0") + unit.name
		}
	}
	if f == float64(int64(f)) || f >= 100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}
